// Strangers' plans: cut anywhere, bits flipped, under a right checksum too, numbers replaced. Whatever comes is refused
// with its code, or may run; nothing crashes or takes long or much. Meant for AddressSanitizer and
// UndefinedBehaviorSanitizer too.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Format.h"
#include "runtime/plan/Provider.h"
#include "runtime/simulate/Simulate.h"
#include "test/Rounds.h"
#include "test/plan/MakeBurst.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/MakeShards.h"
#include "test/plan/Refused.h"

#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <sys/resource.h>
#include <utility>
#include <zlib.h>

namespace pipec::plan {
namespace {

using namespace test;
using File = std::vector<uint8_t>;

void setChecksum(File &file) {
  const uint32_t sum = uint32_t(crc32(0, file.data() + kHeaderBytes, uInt(file.size() - kHeaderBytes)));
  for (size_t i = 0; i < 4; ++i)
    file[kChecksumAt + i] = uint8_t(sum >> (8 * i));
}

/// Whether a message begins with the number of a rule.
bool namesARule(const std::string &message) {
  return message.size() > 3 && message[0] == 'P' && std::isdigit(static_cast<unsigned char>(message[1]));
}

/// Reads it like any plan; what passes the tables must survive all that looks at plans.
Code read(const File &file) {
  Plan plan;
  if (const Status status = decode(file, plan); !status.ok()) {
    EXPECT_EQ(status.code, Code::Input) << status.message;
    EXPECT_PRED1(namesARule, status.message);
    return status.code;
  }
  EXPECT_FALSE(disassemble(plan, {}).empty());
  std::string provider;
  (void)jsonOf(plan.provider, provider);
  if (const Status status = verify(plan); !status.ok()) {
    EXPECT_EQ(status.code, Code::Check) << status.message;
    EXPECT_PRED1(namesARule, status.message);
    return status.code;
  }
  Code code = Code::Ok;
  for (const Variant &variant : plan.variants) {
    simulate::Result result;
    if (const Status status = simulate::prove(variant, result); !status.ok()) {
      EXPECT_EQ(status.code, Code::Check) << status.message;
      code = status.code;
      continue;
    }
    Time span = 0;
    EXPECT_TRUE(simulate::span(variant, span, result).ok()) << "what ends once ends again";
  }
  return code;
}

bool survives(const File &file) { return read(file) == Code::Ok; }

/// With the certificate that P37 wants.
File sealed(Plan plan) {
  for (Variant &variant : plan.variants) {
    simulate::Result result;
    EXPECT_TRUE(simulate::simulate(variant, {}, result).ok());
    variant.certificate.makespan = variant.certificate.span = result.makespan;
  }
  return encode(plan);
}

File sample(bool rolled) {
  Make make;
  make.ranks = 3;
  make.microbatches = 6;
  make.rolled = rolled;
  make.deferred = true;
  make.memoryLimit = Bytes(40) << 30;
  return sealed(makePlan(make));
}

File severalVariants() {
  Make make;
  make.ranks = 3;
  make.stagesPerRank = 2;
  make.microbatches = 40;
  Plan plan = makePlan(make);
  make.slots = 4;
  make.split = true;
  plan.variants.push_back(makePlan(make).variants[0]);
  make.microbatches = 9;
  make.deferred = true;
  plan.variants.push_back(makePlan(make).variants[0]);
  EXPECT_TRUE(providerOf(R"({"hidden": 256, "layers": [1, 2.5, "x"]})", plan.provider).ok());
  return sealed(plan);
}

File forEvaluation() {
  Make make;
  make.backward = false;
  make.ranks = 2;
  make.microbatches = 1'000;
  make.slots = 1;
  return sealed(makePlan(make));
}

/// A split in uneven portions, and a limit that the fullest shard nearly reaches.
File ofShards() {
  Sharded how;
  how.make.ranks = 2;
  how.make.microbatches = 6;
  how.make.memoryLimit = Bytes(9) << 30;
  how.shards = 3;
  how.exchange = true;
  how.factors = {2 * Own::kWhole, Own::kWhole, 3 * Own::kWhole};
  Plan plan = makeShards(how);
  plan.variants[0].portions[0].owned = {{0, 1}, {2, 1}};
  plan.variants[0].portions[1].owned = {{1, 1}, {3, 3}};
  plan.variants[0].portions[2].kept = 1;
  plan.variants.push_back(plan.variants[0]);
  return sealed(std::move(plan));
}

/// Stages on three ranks, two and one, and the other way round.
File ofBursts(bool norm) {
  return sealed(makeBurst({.widths = {3, 1, 2}, .early = !norm, .updates = !norm, .norm = norm}));
}

/// Made here, and those that the compiler made (test/fuzz/corpus/plan).
const std::vector<File> &samples() {
  static const std::vector<File> files = [] {
    std::vector<File> made = {sample(true),    sample(false),          severalVariants(),
                              forEvaluation(), sealed(makeReplicas()), sealed(makeReplicas({.norm = true})),
                              ofShards(),      ofBursts(false),        ofBursts(true)};
    for (const auto &entry : std::filesystem::directory_iterator(PIPEC_SOURCE_DIR "/test/fuzz/corpus/plan"))
      EXPECT_TRUE(readFile(entry.path(), made.emplace_back()).ok());
    return made;
  }();
  return files;
}

void flip(File &file, uint64_t bit) { file[bit / 8] ^= uint8_t(1 << (bit % 8)); }

double cpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

/// No single input may cost long, nor all together much.
class PlanFuzz : public ::testing::Test {
protected:
  Code timed(const File &file) {
    const double begin = cpuSeconds();
    const Code code = read(file);
    longest = std::max(longest, cpuSeconds() - begin);
    return code;
  }
  void TearDown() override {
    EXPECT_LT(longest, 60) << "seconds of one plan";
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 1 << 20) << "KiB";
  }

private:
  double longest = 0;
};

TEST_F(PlanFuzz, SamplesAreRight) {
  for (const File &file : samples())
    EXPECT_TRUE(survives(file));
}

TEST_F(PlanFuzz, FlipsAndCuts) {
  std::mt19937_64 random(2);
  for (const File &whole : samples())
    for (int round = 0; round < pipec::test::rounds(1'000); ++round) {
      File damaged = whole;
      if (round % 2 == 0)
        flip(damaged, random() % (8 * whole.size()));
      else
        damaged.resize(random() % whole.size());
      if (damaged.size() == whole.size() && damaged[kMinorAt] != whole[kMinorAt] && damaged[kMinorAt] <= kMinor)
        continue; // another minor version that this build reads is no damage
      EXPECT_EQ(timed(damaged), Code::Input) << round;
    }
}

TEST_F(PlanFuzz, FlipsUnderARightChecksum) {
  std::mt19937_64 random(3);
  std::map<Code, int> codes;
  for (const File &whole : samples())
    for (int round = 0; round < pipec::test::rounds(3'000); ++round) {
      File flipped = whole;
      for (uint64_t flips = random() % 2 + 1; flips > 0; --flips)
        flip(flipped, 8 * kHeaderBytes + random() % (8 * (whole.size() - kHeaderBytes)));
      setChecksum(flipped);
      ++codes[timed(flipped)];
    }
  for (Code code : {Code::Ok, Code::Input, Code::Check})
    EXPECT_GT(codes[code], pipec::test::seen(100)) << int(code);
}

// Of one segment, and of the first of each rank at once: the counts of the whole are compared before anything is
// walked.
TEST_F(PlanFuzz, TripCounts) {
  for (const File &file : samples()) {
    Plan plan;
    ASSERT_TRUE(decode(file, plan).ok());
    for (Variant &variant : plan.variants)
      for (const uint32_t trips : {0u, 1u << 10, 1u << 20, 1u << 24, (1u << 27) - 1, 1u << 30, ~0u}) {
        for (Program &program : variant.programs)
          for (Segment &segment : program.step) {
            const uint32_t before = std::exchange(segment.trips, trips);
            EXPECT_NE(timed(encode(plan)), Code::Ok);
            segment.trips = before;
          }
        const Variant before = variant;
        for (Program &program : variant.programs)
          program.step[0].trips = trips;
        EXPECT_NE(timed(encode(plan)), Code::Ok);
        variant = before;
      }
  }
}

TEST_F(PlanFuzz, CutAtEveryLength) {
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

TEST_F(PlanFuzz, EveryBitFlipped) {
  const size_t every = pipec::test::kSanitized ? 11 : 1; // no multiple of eight: every bit of a byte has its turn
  for (const std::vector<uint8_t> &whole : {sample(true), sealed(makeReplicas()), ofShards(), ofBursts(false)})
    for (size_t bit = kHeaderBytes * 8; bit < whole.size() * 8; bit += every) {
      std::vector<uint8_t> flipped = whole;
      flipped[bit / 8] ^= uint8_t(1 << (bit % 8));
      EXPECT_FALSE(survives(flipped)) << "the checksum sees one bit";
      setChecksum(flipped);
      survives(flipped);
    }
}

TEST_F(PlanFuzz, NumbersReplaced) {
  std::mt19937_64 random(1);
  const uint64_t edges[] = {0,          1,           0x7f,       0xff,       0x7fff,     0xffff,
                            0x7fffffff, 0x80000000u, 0xffffffff, 1ull << 60, 1ull << 63, ~0ull};
  std::map<Code, int> codes;
  for (const std::vector<uint8_t> &whole :
       {sample(false), sample(true), sealed(makeReplicas({.norm = true})), ofShards(), ofBursts(true)}) {
    for (int round = 0; round < pipec::test::rounds(20'000); ++round) {
      std::vector<uint8_t> changed = whole;
      for (uint64_t change = random() % 3 + 1; change > 0; --change) {
        const size_t width = size_t(1) << random() % 4;
        const size_t at = (kHeaderBytes + random() % (whole.size() - kHeaderBytes - width)) / width * width;
        const uint64_t value = edges[random() % std::size(edges)];
        for (size_t i = 0; i < width && at >= kHeaderBytes; ++i)
          changed[at + i] = uint8_t(value >> (8 * i));
      }
      setChecksum(changed);
      ++codes[timed(changed)];
    }
  }
  for (Code code : {Code::Ok, Code::Input, Code::Check})
    EXPECT_GT(codes[code], pipec::test::seen(100)) << int(code);
}

} // namespace
} // namespace pipec::plan
