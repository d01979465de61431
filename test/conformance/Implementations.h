// What the conformance suite runs on: each implementation of Device, Transport and Stage, wrapped so that a test can
// drive it without knowing its kind. To add one, write its wrapper in a file beside Host.cpp and add it to the lists;
// what it cannot do, it says here, and the tests of that are skipped.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/ShardGroup.h"
#include "runtime/stage/Stage.h"
#include "runtime/transport/Transport.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <ostream>

namespace pipec::test {

using namespace pipec::runtime;

/// What the build has made: where it was made, or in the folder that PIPEC_BUILT names.
inline std::string built(const std::string &path) {
  const char *folder = std::getenv("PIPEC_BUILT");
  return std::string(folder ? folder : PIPEC_BUILD_DIR) + "/" + path;
}

/// What lies in device memory, at rest.
inline std::vector<std::byte> bytesOf(Device &device, const Slot &slot) {
  std::vector<std::byte> bytes(size_t(slot.bytes));
  if (slot.data)
    device.read(slot, bytes.data());
  return bytes;
}
inline void fill(Device &device, const Slot &slot, std::byte value) {
  device.write(slot, std::vector<std::byte>(size_t(slot.bytes), value).data());
}
inline double numberOf(Device &device, const Slot &slot) {
  double number = 0;
  device.read(slot, reinterpret_cast<std::byte *>(&number));
  return number;
}
inline void setNumber(Device &device, const Slot &slot, double number) {
  device.write(slot, reinterpret_cast<const std::byte *>(&number));
}

/// A device that is not running yet.
class DeviceUnderTest {
public:
  virtual ~DeviceUnderTest() = default;
  virtual Device &device() = 0;
  virtual Failure &failure() = 0;
  /// Issues work that calls `body` when it runs (CUDA: cudaLaunchHostFunc).
  virtual void issue(QueueId queue, std::function<void()> body) = 0;
  virtual void start() = 0;
};

struct DeviceImplementation {
  std::string name;
  std::string missing;     // why it cannot run on this machine; empty: it can
  bool priorities = false; // whether the higher of two ready queues always goes first
  bool freesIssuer = true; // whether a failure frees who stands before a full queue
  std::unique_ptr<DeviceUnderTest> (*make)(const plan::Program &program) = nullptr;
};

/// One rank of a running transport, its device queues idle.
class RankUnderTest {
public:
  virtual ~RankUnderTest() = default;
  virtual Device &device() = 0;
  virtual Transport &transport() = 0;
  virtual Failure &failure() = 0;
  /// What the rank brings to an all-reduce, and what it was told, once that is complete.
  virtual Summand &summand(double own) = 0;
  virtual double total() = 0;
  /// What the process brings to collectives of layers: its stage's, in memory of the device. Once, before the first of
  /// them is issued.
  virtual Summand &layers(std::vector<LayerMemory> layers) = 0;
  /// The shards of its rank; null: there is one, or the transport has no calls between them.
  virtual ShardGroup *shards() { return nullptr; }
  /// As if the process had died.
  virtual void vanish() = 0;
};

struct TransportImplementation {
  std::string name;
  std::string missing;
  bool rendezvous = false;   // a send completes only once its receive is posted, however small it is
  bool comparesTags = false; // a transfer that is not the expected one is noticed
  bool noticesLoss = true;   // a peer that dies is noticed; else launch does
  bool knowsAbsent = true;   // who did not come to a sum is known
  bool exchanges = false;    // it has the collectives of layers
  bool shards = false;       // it has the calls between shards
  /// All ranks of the plan's first variant, meeting done. `deadline` in picoseconds, 0: none.
  std::vector<std::unique_ptr<RankUnderTest>> (*make)(const plan::Plan &plan, plan::Time deadline) = nullptr;
};

/// A rank's stage on a running device.
class StageUnderTest {
public:
  virtual ~StageUnderTest() = default;
  virtual Device &device() = 0;
  virtual Stage &stage() = 0;
  virtual Failure &failure() = 0;
  /// What the neighbour would have sent.
  virtual std::vector<std::byte> input(plan::Bytes bytes, const Label &label) = 0;
  /// Until what was put on the queue outside an instruction has ended.
  virtual void settle(QueueId) {}
  void fillInput(const Slot &slot, const Label &label) { device().write(slot, input(slot.bytes, label).data()); }
};

struct StageImplementation {
  std::string name;
  std::string missing;
  bool trains = false;      // outputs follow from weights, which the optimizer changes
  bool checksInput = false; // input that no neighbour can have sent raises the failure
  std::string provider;     // JSON that suits it
  plan::Bytes boundary = 0; // likewise
  std::unique_ptr<StageUnderTest> (*make)(const plan::Plan &plan, int32_t rank) = nullptr;
};

/// What a synthetic neighbour sends.
std::vector<std::byte> syntheticInput(plan::Bytes bytes, const Label &label);
std::vector<std::byte> libraryInput(plan::Bytes bytes, const Label &label);

// GPUs, or what takes their place (Gpu.cpp).
DeviceImplementation cudaDevice();
TransportImplementation ipcTransport();
TransportImplementation ncclTransport();
StageImplementation cudaSynthetic();
StageImplementation cudaLibrary(StageImplementation library); // the same on a GPU

std::vector<DeviceImplementation> deviceImplementations();
std::vector<TransportImplementation> transportImplementations();
std::vector<StageImplementation> stageImplementations();

/// What a test has issued on each queue of a device. It waits for no count beyond that: where counts are events that
/// are recorded when work is issued, there is no other.
class Issued {
public:
  /// Right behind what was issued.
  void add(Device &device, QueueId queue) {
    ++counts[queue];
    device.issued(queue, true);
  }
  void wait(Device &device, QueueId queue, QueueId of, int64_t count) {
    EXPECT_LE(count, counts[of]) << "queue " << of << " was issued no more";
    device.wait(queue, of, count);
  }
  bool synchronize(Device &device, QueueId of, int64_t count) {
    EXPECT_LE(count, counts[of]) << "queue " << of << " was issued no more";
    return device.synchronize(of, count);
  }

private:
  std::map<QueueId, int64_t> counts;
};

/// A suite over the implementations of one interface.
template <typename Implementation> class Conformance : public testing::TestWithParam<Implementation> {
protected:
  void SetUp() override {
    if (!this->GetParam().missing.empty())
      GTEST_SKIP() << this->GetParam().name << ": " << this->GetParam().missing;
  }
};

/// A suite over stages, with an empty folder that is gone after each test.
class StageSuite : public Conformance<StageImplementation> {
protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped())
      return;
    std::string name = testing::TempDir() + "pipec-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder.empty())
      std::filesystem::remove_all(folder, ignored);
  }

  std::filesystem::path folder;
};

inline void PrintTo(const DeviceImplementation &i, std::ostream *out) { *out << i.name; }
inline void PrintTo(const TransportImplementation &i, std::ostream *out) { *out << i.name; }
inline void PrintTo(const StageImplementation &i, std::ostream *out) { *out << i.name; }

} // namespace pipec::test
