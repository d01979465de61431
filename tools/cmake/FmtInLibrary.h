// Declares that libfmt.so holds fmt::detail::vformat_to<char>, which fmt 9 exports and forgets to declare. Only for
// GCC: Clang gives the function another symbol than the library, which GCC built, has.
#pragma once
#include <fmt/format.h>

#ifndef __clang__
FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to<char>(buffer<char> &, basic_string_view<char>,
                                      basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)>, locale_ref);
} // namespace detail
FMT_END_NAMESPACE
#endif
