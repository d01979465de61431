// A message from a stranger: a byte for its kind, a byte for its way, then its CBOR. It is refused with a reason that
// is ours, or is a struct that comes back as it is once it has been sent again.
#include "runtime/launch/messages/Code.h"
#include "test/fuzz/Mutate.h"

#include <cstdlib>

using namespace pipec;
using namespace pipec::runtime::messages;

namespace {

void require(bool right) {
  if (!right)
    std::abort();
}

struct Again {
  int heard = 0;
  template <typename T> void operator()(T &&message) {
    ++heard;
    const Encoded sent = encode(message);
    require(sent->header.size == sent->bytes.size());
    T back;
    require(decode(sent->bytes, back).empty());
    require(encode(back)->bytes == sent->bytes);
  }
};

template <Way way> void hear(uint32_t kind, std::span<const uint8_t> bytes) {
  Again again;
  const std::string wrong = dispatch<way>(kind, bytes, again);
  require(wrong.empty() == (again.heard == 1));
  require(wrong.find("json") == std::string::npos);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  const std::span<const uint8_t> bytes(data + 2, size - 2);
  switch (data[1] % 5) {
  case 0:
    hear<ToController>(data[0], bytes);
    break;
  case 1:
    hear<ToRank>(data[0], bytes);
    break;
  case 2:
    hear<ToRun>(data[0], bytes);
    break;
  case 3:
    hear<ToClient>(data[0], bytes);
    break;
  default:
    hear<ToPeer>(data[0], bytes);
  }
  return 0;
}

/// Also heads of CBOR: of arrays and objects, of more than there is, of a number's or a float's limit.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  static const std::string kHeads[] = {std::string("\x81"),
                                       std::string("\x9f"),
                                       std::string("\xa1\x61\x61"),
                                       std::string("\x9b\x7f\xff\xff\xff\xff\xff\xff\xff"),
                                       std::string("\xbb\xff\xff\xff\xff\xff\xff\xff\xff"),
                                       std::string("\x5b\x00\x00\x00\x00\xff\xff\xff\xff", 9),
                                       std::string("\x1b\xff\xff\xff\xff\xff\xff\xff\xff"),
                                       std::string("\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
                                       std::string("\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00", 9),
                                       std::string("\xf6"),
                                       std::string("\xc1"),
                                       std::string("\x60"),
                                       std::string("\x40")};
  fuzz::Random random(seed);
  std::string text = fuzz::textOf(data, size);
  if (size < 2 || random.oneIn(2))
    return LLVMFuzzerMutate(data, size, maxSize);
  if (random.oneIn(8))
    text[0] = char(random.below(kKinds.size() + 1));
  const size_t at = 2 + random.below(text.size() - 1);
  const std::string &head = random.of(kHeads);
  if (random.oneIn(2) && at < text.size())
    text.replace(at, 1, head);
  else
    for (size_t times = random.oneIn(4) ? 1 + random.below(1000) : 1; times > 0; --times)
      text.insert(std::min(at, text.size()), head);
  return fuzz::give(text, data, maxSize);
}
