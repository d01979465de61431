// Escapes text for SVG and HTML, since names come from a stranger's plan.
#pragma once

#include <string>
#include <string_view>

namespace pipec::emit {

/// `text` with what would begin or end a tag, an entity or an attribute's value written as an entity.
std::string markup(std::string_view text);

} // namespace pipec::emit
