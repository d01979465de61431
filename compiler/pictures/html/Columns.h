// Numbers for the page's script: columns of variable-length integers, deflated, as text. Regular schedules have regular
// columns, so a million boxes take a few kilobytes.
#pragma once

#include <cstdint>
#include <string>

namespace pipec::emit::page {

class Columns {
public:
  /// LEB128: seven bits per byte, the lowest first; the eighth bit says that more bytes follow.
  void number(uint64_t value);
  /// The same with the sign in the lowest bit.
  void difference(int64_t value);
  /// Base64 of zlib's format; empty if there is no memory for it.
  std::string text() const;

private:
  std::string bytes;
};

} // namespace pipec::emit::page
