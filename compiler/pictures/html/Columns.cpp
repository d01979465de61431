#include "compiler/pictures/html/Columns.h"

#include <zlib.h>

#include <limits>

namespace pipec::emit::page {

namespace {

std::string base64(const std::string &bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t b = 0; b != 3; ++b)
      three = (three << 8) | (i + b < bytes.size() ? uint8_t(bytes[i + b]) : 0);
    for (size_t d = 0; d != 4; ++d)
      text += i + d > bytes.size() ? '=' : kDigits[(three >> (18 - 6 * d)) & 63];
  }
  return text;
}

} // namespace

void Columns::number(uint64_t value) {
  for (; value >= 128; value >>= 7)
    bytes += char((value & 127) | 128);
  bytes += char(value);
}

void Columns::difference(int64_t value) { number((uint64_t(value) << 1) ^ uint64_t(value >> 63)); }

std::string Columns::text() const {
  // The slowest level halves the file of an irregular schedule for a tenth of a second.
  constexpr int kLevel = 9;
  if (bytes.size() > std::numeric_limits<uLong>::max() / 2)
    return {};
  uLongf size = compressBound(uLong(bytes.size()));
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef *>(packed.data()), &size, reinterpret_cast<const Bytef *>(bytes.data()),
                uLong(bytes.size()), kLevel) != Z_OK)
    return {};
  packed.resize(size);
  return base64(packed);
}

} // namespace pipec::emit::page
