// The file around the plan: round trips, damage, versions, what is reserved, and writing that leaves nothing behind.
#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/plan_generated.h"
#include "test/plan/MakeBurst.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/Refused.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

namespace pipec::plan {
namespace {

using namespace test;
namespace fs = std::filesystem;

/// A folder that goes with its test.
class PlanFile : public ::testing::Test {
protected:
  fs::path folder = fs::path(::testing::TempDir()) /
                    (std::string("pipec-plan-") + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                     std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  size_t files() const { return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator())); }
};

void refusedBy(const std::vector<uint8_t> &file, const char *label) {
  Plan plan;
  const Status status = decode(file, plan);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_EQ(status.message.substr(0, 2), label) << status.message;
  EXPECT_TRUE(plan.variants.empty());
}

/// Header and checksum around a buffer.
std::vector<uint8_t> wrap(std::span<const uint8_t> buffer) {
  std::vector<uint8_t> bytes(kHeaderBytes + buffer.size());
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  bytes[kMajorAt] = uint8_t(kMajor);
  std::copy(buffer.begin(), buffer.end(), bytes.begin() + kHeaderBytes);
  const uint32_t sum = uint32_t(crc32(0, bytes.data() + kHeaderBytes, uInt(bytes.size() - kHeaderBytes)));
  for (size_t i = 0; i < 4; ++i)
    bytes[kChecksumAt + i] = uint8_t(sum >> (8 * i));
  return bytes;
}

std::vector<uint8_t> wrap(const flatbuffers::FlatBufferBuilder &builder) {
  return wrap(std::span(builder.GetBufferPointer(), builder.GetSize()));
}

TEST_F(PlanFile, RoundTrip) {
  for (const bool rolled : {false, true}) {
    Make make;
    make.rolled = rolled;
    make.deferred = rolled;
    Plan plan = makePlan(make);
    plan.variants.push_back(plan.variants[0]);
    plan.variants[1].name = "another";
    plan.variants[0].certificate = {7, 6, LeastTime::proven(5), LeastTime::proven(4), Bound::Area, Bound::Work};
    const std::vector<uint8_t> bytes = encode(plan);
    EXPECT_EQ(bytes, encode(plan));
    Plan read;
    const Status status = decode(bytes, read);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(read, plan);
    // Wherever the bytes lie.
    std::vector<uint8_t> shifted(bytes.size() + 1);
    std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
    ASSERT_TRUE(decode(std::span(shifted).subspan(1), read).ok());
    EXPECT_EQ(read, plan);
  }
}

TEST_F(PlanFile, RoundTripOfReplicas) {
  const Plan plan = makeReplicas({.norm = true});
  const std::vector<uint8_t> bytes = encode(plan);
  EXPECT_EQ(bytes[kMinorAt], kWithReplicas);
  Plan read;
  const Status status = decode(bytes, read);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(read, plan);
  EXPECT_EQ(read.degree(), 2);
}

TEST_F(PlanFile, RoundTripOfSharedWeights) {
  const Plan plan = makePlan({.shared = 4096});
  const std::vector<uint8_t> bytes = encode(plan);
  EXPECT_EQ(bytes[kMinorAt], kWithSharedWeights);
  EXPECT_EQ(kMinor, kWithSharedWeights);
  Plan read;
  const Status status = decode(bytes, read);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(read, plan);
}

TEST_F(PlanFile, RoundTripOfStagesOnSeveralRanks) {
  const Plan plan = makeBurst({.early = true, .norm = true});
  const std::vector<uint8_t> bytes = encode(plan);
  EXPECT_EQ(bytes[kMinorAt], kWithBoundaries);
  EXPECT_EQ(encode(makeBurst({.boundaries = false}))[kMinorAt], kWithStageGroups);
  Plan read;
  const Status status = decode(bytes, read);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(read, plan);
  EXPECT_EQ(read.variants[0].batch, 9);
  EXPECT_EQ(read.variants[0].stageGroups, (std::vector<int32_t>{0, 1, -1}));
  EXPECT_EQ(read.variants[0].widths(), (std::vector<int32_t>{4, 2, 1}));
  EXPECT_EQ(read.variants[0].boundaries, (std::vector<Bytes>{1 << 20, 1 << 20, 0}));
}

TEST_F(PlanFile, ARegularPlanDoesNotGrowWithItsMicrobatches) {
  Make make;
  make.microbatches = 32;
  const size_t small = encode(makePlan(make)).size();
  make.microbatches = 1024;
  EXPECT_EQ(encode(makePlan(make)).size(), small);
}

TEST_F(PlanFile, NamesMayBeStripped) {
  Plan plan = makePlan({});
  plan.variants[0].schedule = "kfkb";
  Plan named;
  ASSERT_TRUE(decode(encode(plan), named).ok());
  EXPECT_EQ(named, plan);
  plan.variants[0].name.clear();
  ASSERT_TRUE(decode(encode(plan), named).ok());
  EXPECT_EQ(named, plan);
  plan.variants[0].schedule.clear();
  const std::vector<uint8_t> bytes = encode(plan);
  EXPECT_EQ(file::GetPlan(bytes.data() + kHeaderBytes)->names(), nullptr);
  Plan read;
  ASSERT_TRUE(decode(bytes, read).ok());
  EXPECT_EQ(read, plan);
}

TEST_F(PlanFile, P1Magic) {
  refusedBy({}, "P1");
  std::vector<uint8_t> bytes = encode(makePlan({}));
  bytes[0] ^= 1;
  refusedBy(bytes, "P1");
}

TEST_F(PlanFile, P2Version) {
  std::vector<uint8_t> bytes = encode(makePlan({}));
  bytes[kMajorAt] += 1;
  refusedBy(bytes, "P2");
  bytes[kMajorAt] -= 2;
  refusedBy(bytes, "P2");
  bytes[kMajorAt] += 1;
  bytes[kMinorAt] = kMinor + 1;
  refusedBy(bytes, "P2");
}

TEST_F(PlanFile, P3Checksum) {
  std::vector<uint8_t> bytes = encode(makePlan({}));
  bytes.back() ^= 1;
  refusedBy(bytes, "P3");
}

TEST_F(PlanFile, P4Structure) {
  flatbuffers::FlatBufferBuilder builder;
  // One large table of rows that many programs share would take far more memory than the file.
  const std::vector<file::Wait> rows(1000);
  const auto waits = builder.CreateVectorOfStructs(rows);
  file::ProgramBuilder programBuilder(builder);
  programBuilder.add_waits(waits);
  const auto program = programBuilder.Finish();
  const auto programs = builder.CreateVector(std::vector<flatbuffers::Offset<file::Program>>(1000, program));
  const auto variants = builder.CreateVector(std::vector{file::CreateVariant(builder, 1, 1, 0, programs)});
  file::PlanBuilder plan(builder);
  plan.add_variants(variants);
  builder.Finish(plan.Finish());
  refusedBy(wrap(builder), "P4");

  flatbuffers::FlatBufferBuilder names;
  const auto name = names.CreateVector(std::vector{names.CreateString("one"), names.CreateString("too many")});
  names.Finish(file::CreatePlan(names, 0, 0, 0, 0, 0, 0, file::CreateNames(names, name)));
  refusedBy(wrap(names), "P4");

  refusedBy(wrap(std::vector<uint8_t>(64, 0xee)), "P4");
}

/// A plan that says nothing but what the test adds.
template <typename Add> std::vector<uint8_t> fileWith(Add add) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(add(builder));
  return wrap(builder);
}

template <typename Add> std::vector<uint8_t> fileWithProgram(Add add) {
  return fileWith([&](flatbuffers::FlatBufferBuilder &builder) {
    const auto program = add(builder);
    const auto programs = builder.CreateVector(std::vector{program});
    const auto variants = builder.CreateVector(std::vector{file::CreateVariant(builder, 1, 1, 0, programs)});
    return file::CreatePlan(builder, 0, 0, 0, 0, 0, variants);
  });
}

TEST_F(PlanFile, P5Reserved) {
  refusedBy(fileWith([](auto &builder) {
              const auto costs = builder.CreateVectorOfStructs(std::vector<file::CostOverride>(1));
              return file::CreatePlan(builder, 0, 0, 0, costs);
            }),
            "P5");
  refusedBy(fileWithProgram([](auto &builder) {
              const auto enter = builder.CreateVectorOfStructs(std::vector<file::Segment>(1));
              return file::CreateProgram(builder, 0, 0, 0, 0, 0, 0, 0, 0, enter);
            }),
            "P5");
  refusedBy(fileWithProgram([](auto &builder) {
              const auto leave = builder.CreateVectorOfStructs(std::vector<file::Segment>(1));
              return file::CreateProgram(builder, 0, 0, 0, 0, 0, 0, 0, 0, 0, leave);
            }),
            "P5");
  // cost, latency, bytes, activation, context, byte_begin, byte_end, stage, peer, group, first_layer, layers, part
  for (int field = 0; field < 3; ++field) {
    const auto set = [&](int which, int value) { return field == which ? value : 0; };
    const file::Operation operation(0, 0, 0, 0, 0, set(0, 1), set(1, 1), 0, -1, -1, 0, 0, set(2, 1),
                                    file::Kind::Forward, file::Payload::None);
    refusedBy(fileWithProgram([&](auto &builder) {
                const auto operations = builder.CreateVectorOfStructs(std::vector{operation});
                return file::CreateProgram(builder, 0, 0, 0, 0, operations);
              }),
              "P5");
  }
}

TEST_F(PlanFile, TooLargeToEncode) {
  Plan plan = makePlan({});
  plan.variants[0].programs[0].waits.resize((size_t(1) << 30) / sizeof(Wait) + 1);
  EXPECT_TRUE(encode(plan).empty());
}

TEST_F(PlanFile, WriteAndLoad) {
  const Plan plan = makePlan({});
  const std::string path = folder / "a.pipe";
  ASSERT_TRUE(writeFile(path, encode(plan)).ok());
  ASSERT_TRUE(writeFile(path, encode(plan)).ok()) << "over the one before";
  EXPECT_EQ(files(), 1u);
  Plan read;
  const Status status = load(path, read);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(read, plan);
}

TEST_F(PlanFile, LoadNamesTheFile) {
  Plan plan;
  const std::string missing = folder / "missing.pipe";
  Status status = load(missing, plan);
  EXPECT_EQ(status.code, Code::Input);
  EXPECT_EQ(status.message, missing + ": cannot read: No such file or directory");
  status = load(folder, plan);
  EXPECT_EQ(status.message, folder.string() + ": is a directory; expected a file");
  const std::string empty = folder / "empty.pipe";
  std::ofstream(empty).close();
  EXPECT_EQ(load(empty, plan).message, empty + ": P1: not a plan: 0 bytes, a plan has at least 16");
}

TEST_F(PlanFile, WhatIsNoPlanIsNotReadToItsEnd) {
  const std::string path = folder / "zeros";
  std::ofstream(path).close();
  fs::resize_file(path, 100'000'000); // a hole
  std::vector<uint8_t> bytes;
  ASSERT_TRUE(readFile(path, bytes).ok());
  EXPECT_LE(bytes.size(), size_t(1) << 20);
  Plan plan;
  EXPECT_EQ(load(path, plan).message, path + ": P1: not a plan: it does not begin with PIPEPLAN");
}

TEST_F(PlanFile, WhatIsNeitherFileNorPipeIsNotRead) {
  std::vector<uint8_t> bytes{1};
  EXPECT_EQ(readFile("/dev/zero", bytes).message, "/dev/zero: is a device; expected a file");
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(readBytes("/dev/null", 10, bytes).message, "/dev/null: is a device; expected a file");
  const std::string path = folder / "socket";
  const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(::bind(made, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
  EXPECT_EQ(readFile(path, bytes).message, path + ": is a socket; expected a file");
  ::close(made);
}

TEST_F(PlanFile, AFileOverTheLimitIsNotRead) {
  const std::string path = folder / "large";
  std::ofstream(path) << kMagic;
  fs::resize_file(path, uintmax_t(limits::kPlanBytes) + 1);
  std::vector<uint8_t> bytes;
  EXPECT_EQ(readFile(path, bytes).message, path + ": longer than 1073741824 bytes, which is the most");
  EXPECT_TRUE(bytes.empty());
  fs::resize_file(path, kMagic.size());
  EXPECT_TRUE(readBytes(path, kMagic.size(), bytes).ok());
  EXPECT_EQ(bytes, std::vector<uint8_t>(kMagic.begin(), kMagic.end()));
  EXPECT_EQ(readBytes(path, kMagic.size() - 1, bytes).message, path + ": longer than 7 bytes, which is the most");
}

TEST_F(PlanFile, AFailedWriteLeavesNothingBehind) {
  const std::vector<uint8_t> bytes(100, 7);
  const Status status = writeFile(folder / "no" / "such" / "folder.pipe", bytes);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_NE(status.message.find("No such file or directory"), std::string::npos) << status.message;
  // The name is taken by a folder.
  fs::create_directories(folder / "taken" / "inside");
  EXPECT_FALSE(writeFile(folder / "taken", bytes).ok());
  EXPECT_EQ(files(), 1u);
  // The device is full.
  if (!fs::exists("/dev/full"))
    return;
  EXPECT_NE(writeFile("/dev/full", bytes).message.find("No space left on device"), std::string::npos);
}

TEST_F(PlanFile, WhatALinkNamesIsReplacedAndKeepsItsMode) {
  const std::string file = folder / "file", link = folder / "link";
  ASSERT_TRUE(writeFile(file, std::vector<uint8_t>{1}).ok());
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("file", link);
  ASSERT_TRUE(writeFile(link, std::vector<uint8_t>{1, 2, 3}).ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(fs::file_size(file), 3u);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 2u);
}

TEST_F(PlanFile, WhatIsNoFileIsWrittenInPlace) {
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(writeFile(pipe, std::vector<uint8_t>{1, 2, 3}).ok());
  uint8_t bytes[4];
  EXPECT_EQ(::read(reader, bytes, 4), 3);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
}

} // namespace
} // namespace pipec::plan
