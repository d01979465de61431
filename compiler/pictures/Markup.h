// Escapes text for SVG and HTML, since names may come from an untrusted plan.
#pragma once

#include <string>
#include <string_view>

namespace pipec::emit {

/// `text` with all characters that could begin or end a tag, an entity or an attribute's value written as entities.
std::string markup(std::string_view text);

} // namespace pipec::emit
