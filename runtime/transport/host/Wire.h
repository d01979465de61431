// What two host processes say to each other on their connection, little-endian as it stands in memory. First the
// handshake: caller: Hello · listener: Hello · caller: Proof · listener: Answer · both, sealed: Terms. Then frames,
// sealed too, but for the payload behind one of Data. A receive that is posted sends a Credit; only a Credit is
// answered with Data. Here, Sum and Total are those of SumRing.h.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/transport/Seal.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace pipec::runtime::wire {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr uint32_t kProtocol = 3;
inline constexpr std::array<char, 8> kMagic{'P', 'I', 'P', 'E', 'R', 'U', 'N', '\n'};

/// Which end of a connection speaks.
enum class Side : uint32_t { Dials = 1, Accepts = 2 };

/// What anybody may hear. Its size, the first two fields and the rank's place are those of all versions.
struct Hello {
  std::array<char, 8> magic = kMagic;
  uint32_t protocol = kProtocol;
  uint32_t guarded = 1; // 0: by no secret (--no-secret)
  uint32_t rank = 0;
  Side side = Side::Dials;
  std::array<uint8_t, 16> job{};
  Key key{}; // of this connection alone: Exchange
  std::array<uint8_t, 32> nonce{};
};
static_assert(sizeof(Hello) == 104);

/// Agreement::callerProof, from the caller.
using Proof = Key;

enum class Verdict : uint32_t { Accepted = 1, Refused = 2 };

/// The listener's to a proof; its own proof only to who has given a right one.
struct Answer {
  Verdict verdict = Verdict::Refused;
  Proof proof{};
};
static_assert(sizeof(Answer) == 36);

/// What two processes of a job must agree on.
struct Terms {
  int64_t steps = 0;
  uint32_t world = 0;
  uint32_t reserved = 0;
  std::array<uint8_t, 32> plan{}; // its hash
};
static_assert(sizeof(Terms) == 48);

/// Which transfer or all-reduce: both ends derive it from their own instruction and compare.
struct Tag {
  int64_t epoch = 0;
  int64_t step = 0;
  int64_t microbatch = 0; // of an all-reduce: its group's number from 1; 0: it is of all ranks
  int32_t stage = 0;      // the sender's
  uint32_t of = 0;        // plan::Payload
  bool operator==(const Tag &) const = default;
};

enum class Type : uint32_t {
  Credit = 1, // the receive is posted; start: when it was ready
  Data = 2,   // the transfer's times, then `bytes` of payload
  Abort = 3,  // the run ends; then `bytes` of text, the reason
  Here = 4,   // the sender has come to an all-reduce
  Sum = 5,    // over the ranks up to the sender; start: when the last of them was ready
  Total = 6,  // over all, likewise
};

struct Frame {
  Type type = Type::Credit;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  Tag tag;
  plan::Time start = 0;   // on the wire, in the run's clock
  plan::Time end = 0;     // the wire is free
  plan::Time arrival = 0; // of the data
  double sum = 0;         // of an all-reduce
};
static_assert(sizeof(Frame) == 80);

inline constexpr uint64_t kAbortBytes = 4096; // of its text, at most

Tag tagOf(const Label &label);
/// Of the tag of an all-reduce, whoever sent it: its group; -1: all ranks, -2: it can be none's.
inline int32_t groupOf(const Tag &tag) {
  return tag.microbatch < 0 || tag.microbatch > INT32_MAX ? -2 : int32_t(tag.microbatch - 1);
}
std::string describe(const Tag &tag);
std::string hex(const uint8_t *bytes, size_t count);

} // namespace pipec::runtime::wire
