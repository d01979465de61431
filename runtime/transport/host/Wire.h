// What two processes say to each other on their connection, little-endian as it stands in memory.
//
// First the handshake: caller: Hello · listener: Hello · caller: Proof · listener: Answer · both, sealed: Terms.
//
// Then frames, which are sealed; the payload behind a Data frame is not. A rank sends a Credit when it posts a receive,
// and the peer sends Data only in answer to a Credit. Here, Sum and Total are messages of SumRing.h.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/transport/Seal.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace pipec::runtime::wire {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr uint32_t kProtocol = 4;
inline constexpr std::array<char, 8> kMagic{'P', 'I', 'P', 'E', 'R', 'U', 'N', '\n'};

/// Which end of a connection speaks.
enum class Side : uint32_t { Dials = 1, Accepts = 2 };

/// What each end says of itself; anybody may read it. All versions of the protocol have this size, these first two
/// fields and the rank in this place.
struct Hello {
  std::array<char, 8> magic = kMagic;
  uint32_t protocol = kProtocol;
  uint32_t guarded = 1; // whether the job has a secret; 0: --no-secret
  uint32_t rank = 0;
  Side side = Side::Dials;
  std::array<uint8_t, 16> job{};
  Key key{}; // public key for this connection alone (Exchange)
  std::array<uint8_t, 32> nonce{};
};
static_assert(sizeof(Hello) == 104);

/// What the caller sends: Agreement::callerProof.
using Proof = Key;

enum class Verdict : uint32_t { Accepted = 1, Refused = 2 };

/// The listener's answer to a proof. It has the listener's own proof only if the caller's was right.
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
  std::array<uint8_t, 32> plan{}; // hash of the plan's file
};
static_assert(sizeof(Terms) == 48);

/// Says which transfer or all-reduce a frame is about. Both ends derive it from their own instruction and compare.
struct Tag {
  int64_t epoch = 0;
  int64_t step = 0;
  int64_t microbatch = 0; // for an all-reduce: 1 + its group; 0: it is of all ranks
  int32_t stage = 0;      // the sender's stage
  uint32_t of = 0;        // plan::Payload
  bool operator==(const Tag &) const = default;
};

enum class Type : uint32_t {
  Credit = 1, // the sender has posted a receive; Frame::start: when that was ready
  Data = 2,   // the times of a transfer; `bytes` of payload follow
  Abort = 3,  // the run ends; `bytes` of text with the reason follow
  Here = 4,   // the sender has come to an all-reduce
  Sum = 5,    // the sum over the ranks up to the sender; Frame::start: when the last of them was ready
  Total = 6,  // the sum over all ranks; Frame::start: when the last of them was ready
};

struct Frame {
  Type type = Type::Credit;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  Tag tag;
  plan::Time start = 0;   // when the transfer starts, by the run's clock; else see Type
  plan::Time end = 0;     // when the wire is free
  plan::Time arrival = 0; // when the data are there
  plan::Time waited = 0;  // of Data: from the credit until the send was ready, by the sender's clock
  double sum = 0;         // for Sum and Total
};
static_assert(sizeof(Frame) == 88);

inline constexpr uint64_t kAbortBytes = 4096; // the most bytes of an Abort's text

Tag tagOf(const Label &label);
/// The group in the tag of an all-reduce, which may be anybody's bytes; -1: all ranks; -2: no group can be meant.
inline int32_t groupOf(const Tag &tag) {
  return tag.microbatch < 0 || tag.microbatch > INT32_MAX ? -2 : int32_t(tag.microbatch - 1);
}
std::string describe(const Tag &tag);
std::string hex(const uint8_t *bytes, size_t count);

} // namespace pipec::runtime::wire
