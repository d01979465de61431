// The messages between two processes on their connection, little-endian, as they are in memory.
//
// First the handshake: caller: Hello · listener: Hello · caller: Proof · listener: Answer · both, sealed: Terms.
//
// Then frames, which are sealed; the payload behind a Data frame is not. A rank sends a Credit when it posts a receive,
// and the peer sends Data only in answer to a Credit. Here, Sum and Total are messages of SumRing.h, Ask and Block of
// BlockRing.h and SampleExchange.h, Part of ShardExchange.h.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/transport/Seal.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace pipec::runtime::wire {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr uint32_t kProtocol = 9;
inline constexpr std::array<char, 8> kMagic{'P', 'I', 'P', 'E', 'R', 'U', 'N', '\n'};

/// Which end of a connection speaks.
enum class Side : uint32_t { Dials = 1, Accepts = 2 };

/// What each end says about itself; anybody may read it. All versions of the protocol have this size, these first two
/// fields and the rank at this offset.
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
  int32_t stage = 0; // the sender's stage; collective of layers: the stage of the layers; reshard: the stage that the
                     // samples come from
  uint32_t of = 0;   // plan::Payload; collective of layers and reshard: also, from bit 8, the plan::Kind
  int64_t begin = 0; // collective of layers: its first byte
  bool operator==(const Tag &) const = default;
};

enum class Type : uint32_t {
  Credit = 1, // the sender has posted a receive; Frame::start: when that was ready
  Data = 2,   // the times of a transfer; `bytes` of payload follow
  Abort = 3,  // the run ends; `bytes` of text with the reason follow
  Here = 4,   // the sender has come to an all-reduce
  Sum = 5,    // the sum over the ranks up to the sender; Frame::start: when the last of them was ready
  Total = 6,  // the sum over all ranks; Frame::start: when the last of them was ready
  Ask = 7,   // the sender takes `waited` more Blocks of a collective of layers; or has come to a reshard (Frame::start)
  Block = 8, // `bytes` of such a block follow; Frame::start: when the last of the replicas known of was ready
  Part = 9,  // `bytes` follow, of a call between shards (CallTag); Frame::start: when the sender was ready
  Talk = 10, // `bytes` of a message follow, sealed (runtime/transport/Talk.h); Tag::of: its kind
};

/// The calls between shards of a rank.
enum class Call : uint8_t { Meeting = 1, Sum = 2, Scatter = 3, Gather = 4, Exchange = 5 };

/// Says which call between shards a frame is about, within the instruction of its Tag.
struct CallTag {
  Call call = Call::Meeting;
  uint8_t type = 0;  // Number; 0: none
  uint8_t round = 0; // number of the round within the call
  uint8_t reserved = 0;
  uint32_t number = 0; // number of the call in its instruction, from 1
  int64_t count = 0;   // how many numbers
  bool operator==(const CallTag &) const = default;
};
static_assert(sizeof(CallTag) == 16);

struct Frame {
  Type type = Type::Credit;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
  Tag tag;
  plan::Time start = 0;   // when the transfer starts, by the run's clock; else see Type
  plan::Time end = 0;     // when the wire is free
  plan::Time arrival = 0; // when the data are there
  plan::Time waited = 0;  // Data: from the credit until the send was ready, by the sender's clock; else see Type
  double sum = 0;         // for Sum and Total
  CallTag call;           // Part: the call; `tag` is that of the instruction (tagWithin)
};
static_assert(sizeof(Frame) == 112);

inline constexpr uint64_t kAbortBytes = 4096;    // the most bytes of an Abort's text
inline constexpr uint64_t kTalkBytes = 64 << 10; // the most bytes of a message

Tag tagOf(const Label &label);
/// The tag of an instruction with calls between shards. Without an operation: the tag of setting portions before a
/// step.
Tag tagWithin(const Label &label);
/// The group in the tag of a collective. The bytes may come from a stranger. -1: all ranks; -2: no valid group.
inline int32_t groupOf(const Tag &tag) {
  return tag.microbatch < 0 || tag.microbatch > INT32_MAX ? -2 : int32_t(tag.microbatch - 1);
}
/// Whether a tag is that of a reshard.
inline bool isReshard(const Tag &tag) { return tag.of >> 8 == uint32_t(plan::Kind::Reshard); }
std::string describe(const Tag &tag);
/// "sum 2 (1024 float32)"; and "sum 2 (1024 float32) of F stage 0 microbatch 3 in step 5 epoch 0".
std::string describe(const CallTag &call);
std::string describe(const CallTag &call, const Tag &within);
std::string hex(const uint8_t *bytes, size_t count);

} // namespace pipec::runtime::wire
