// Sums or gathers the shares of n replicas in a ring. A block is a replica's share, cut into parts; a message is a part
// of a block. In round r of a scatter replica i sends block i - 1 - r and adds what it receives to its own of block i -
// 2 - r, so that after n - 1 rounds block i is summed at replica i, always in the same order: i + 1, i + 2, ..., i. A
// gather goes on from there in the same way for n - 1 more rounds, in which what is received is stored; an all-reduce
// is both.
//
// A message is sent only once the next replica has asked for it, and a replica asks for few messages ahead. Each
// message says when the latest replica known so far was ready, so in the end all know when the last one was. This file
// is the protocol alone, without clock, sockets and memory.
#pragma once

#include "runtime/transport/host/Wire.h"

#include <optional>
#include <vector>

namespace pipec::runtime {

class BlockRing {
public:
  struct Message {
    int32_t block = 0;
    int32_t part = 0;
    bool adds = false;  // for a received message: it is added, not stored
    int64_t number = 0; // number among the messages in its direction, from 0
  };
  /// What the ring lets others do.
  class Carrier {
  public:
    virtual ~Carrier() = default;
    /// Asks the previous replica for `count` more messages.
    virtual void ask(const wire::Tag &tag, int64_t count) = 0;
    /// Sends a message to the next replica, and calls left() once it has been sent.
    virtual void give(const wire::Tag &tag, const Message &message, plan::Time ready) = 0;
  };

  static constexpr int64_t kAhead = 4; // the most messages that are asked for and not dealt with

  BlockRing(int32_t replica, int32_t replicas, Carrier &carrier)
      : replica(replica), replicas(replicas), carrier(carrier) {}

  int32_t before() const { return (replica + replicas - 1) % replicas; }
  int32_t after() const { return (replica + 1) % replicas; }

  // These functions return what is wrong with a neighbour's message; empty: nothing.

  /// To call when this replica comes to a collective, and the one before is done. `parts`: number of parts of each
  /// block, at least one.
  std::string begin(const wire::Tag &tag, plan::Kind kind, std::vector<int32_t> parts, plan::Time ready);
  /// To call when after() asks for `count` more messages of a collective: this one, or the next.
  std::string asked(const wire::Tag &tag, int64_t count);

  /// The message that before() sends next; nothing if none was asked for.
  std::optional<Message> due() const;
  /// To call when that message has come, with the tag of this collective. If it is to be added, add it and then call
  /// dealt(); messages are added in the order in which they come.
  void arrived(plan::Time ready);
  void dealt();
  /// To call when a given message has been sent.
  void left();

  bool under() const { return underWay; }
  bool done() const { return underWay && dealtWith == comes && gone == goes; }
  /// Makes room for the next collective.
  void end() { underWay = false; }
  const wire::Tag &tag() const { return own; }
  /// When the last replica was ready. Valid once the collective is done.
  plan::Time latest() const { return last; }
  /// Whether before() and after() are known to have come to the collective.
  bool heard() const { return come > 0; }
  bool wanted() const { return wants > 0; }

private:
  /// A position in the order of messages of one direction.
  struct Cursor {
    int32_t round = 0;
    int32_t part = 0;
    int64_t number = 0;
  };
  int32_t sentIn(int32_t round) const { return mod(replica - 1 - round); }
  int32_t heardIn(int32_t round) const { return mod(replica - 2 - round); }
  int32_t mod(int32_t block) const { return (block % replicas + replicas) % replicas; }
  int64_t messages(int32_t (BlockRing::*blockOf)(int32_t) const) const;
  void next(Cursor &cursor, int32_t block) const;
  void advance();
  bool canSend() const;
  void ask();

  const int32_t replica, replicas;
  Carrier &carrier;
  bool underWay = false; // whether a collective is under way
  wire::Tag own;
  int32_t first = 0, end_ = 0; // rounds
  std::vector<int32_t> parts;
  plan::Time last = 0;
  int64_t comes = 0, goes = 0; // total messages received and sent
  Cursor coming, dealing, going;
  int64_t come = 0, dealtWith = 0, gone = 0, wants = 0, askedFor = 0;
  int64_t adding = 0;                                 // messages that have come and are not yet added
  std::optional<std::pair<wire::Tag, int64_t>> early; // what after() has asked for of the next collective
};

} // namespace pipec::runtime
