// Strangers' plans: cut anywhere, bits flipped under a right checksum, numbers replaced. Whatever comes is refused or
// may run; nothing crashes or takes long. Meant for AddressSanitizer and UndefinedBehaviorSanitizer too.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Format.h"
#include "test/plan/Refused.h"

#include <random>
#include <zlib.h>

namespace pipec::plan {
namespace {

using namespace test;

void setChecksum(std::vector<uint8_t> &file) {
  const uint32_t sum = uint32_t(crc32(0, file.data() + kHeaderBytes, uInt(file.size() - kHeaderBytes)));
  for (size_t i = 0; i < 4; ++i)
    file[kChecksumAt + i] = uint8_t(sum >> (8 * i));
}

/// Reads it like any plan; what passes the tables must survive all that looks at plans.
bool survives(const std::vector<uint8_t> &file) {
  Plan plan;
  const Status status = decode(file, plan);
  if (!status.ok()) {
    EXPECT_EQ(status.code, Code::Input);
    EXPECT_EQ(status.message.front(), 'P');
    return false;
  }
  EXPECT_FALSE(disassemble(plan, {}).empty());
  return verify(plan).ok();
}

std::vector<uint8_t> sample(bool rolled) {
  Make make;
  make.ranks = 3;
  make.microbatches = 6;
  make.rolled = rolled;
  make.deferred = true;
  make.memoryLimit = Bytes(40) << 30;
  return encode(makePlan(make));
}

TEST(PlanFuzz, CutAtEveryLength) {
  const std::vector<uint8_t> whole = sample(true);
  ASSERT_TRUE(survives(whole));
  for (size_t length = 0; length < whole.size(); ++length) {
    std::vector<uint8_t> cut(whole.begin(), whole.begin() + ptrdiff_t(length));
    EXPECT_FALSE(survives(cut)) << length;
    if (length > kHeaderBytes) {
      setChecksum(cut);
      survives(cut); // the end of a FlatBuffer may be padding
    }
  }
}

TEST(PlanFuzz, EveryBitFlipped) {
  const std::vector<uint8_t> whole = sample(true);
  for (size_t bit = kHeaderBytes * 8; bit < whole.size() * 8; ++bit) {
    std::vector<uint8_t> flipped = whole;
    flipped[bit / 8] ^= uint8_t(1 << (bit % 8));
    EXPECT_FALSE(survives(flipped)) << "the checksum sees one bit";
    setChecksum(flipped);
    survives(flipped);
  }
}

TEST(PlanFuzz, NumbersReplaced) {
  std::mt19937_64 random(1);
  const uint64_t edges[] = {0,          1,           0x7f,       0xff,       0x7fff,     0xffff,
                            0x7fffffff, 0x80000000u, 0xffffffff, 1ull << 60, 1ull << 63, ~0ull};
  for (const bool rolled : {false, true}) {
    const std::vector<uint8_t> whole = sample(rolled);
    for (int round = 0; round < 20'000; ++round) {
      std::vector<uint8_t> changed = whole;
      for (uint64_t change = random() % 3 + 1; change > 0; --change) {
        const size_t width = size_t(1) << random() % 4;
        const size_t at = (kHeaderBytes + random() % (whole.size() - kHeaderBytes - width)) / width * width;
        const uint64_t value = edges[random() % std::size(edges)];
        for (size_t i = 0; i < width && at >= kHeaderBytes; ++i)
          changed[at + i] = uint8_t(value >> (8 * i));
      }
      setChecksum(changed);
      survives(changed);
    }
  }
}

} // namespace
} // namespace pipec::plan
