// Runs the words without times. A letter runs when its inputs have come and a buffer is free for what it sends; a
// transfer runs when a buffer is free at the receiver. More buffers never stop anything that ran with fewer, so where
// words stop, one more is added and they go on from there.
#include "compiler/schedule/evaluate/Buffers.h"

#include "compiler/schedule/evaluate/Evaluate.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

/// A directed pair of ranks.
struct Pair {
  int32_t from = 0, to = 0;
  int32_t made = 0, moved = 0; // transfers whose producer, who themselves have run
  int32_t sends = 1, receives = 1;
  std::vector<bool> taken; // by transfer
  int32_t oldest = 0;      // of those not taken yet

  void take(int32_t transfer) {
    taken[size_t(transfer)] = true;
    while (size_t(oldest) < taken.size() && taken[size_t(oldest)])
      ++oldest;
  }
  bool canMake(int32_t count) const { return made - moved + count <= sends; }
  /// Buffers are taken in turn, so a transfer waits for the one before it in its buffer.
  void move() { moved = std::max(moved, std::min(made, oldest + receives)); }
};

class Run {
public:
  Run(const Problem &problem, const Words &words, std::vector<__int128> room)
      : problem(problem), words(words), room(std::move(room)), at(words.size(), 0), flows(2 * problem.stages.size()) {
    std::map<std::pair<int32_t, int32_t>, int32_t> numbers;
    for (const auto &[end, bytes] : payloads(problem))
      if (end.sends) {
        numbers[{end.rank, end.peer}] = int32_t(pairs.size());
        Pair &pair = pairs.emplace_back();
        pair.from = end.rank;
        pair.to = end.peer;
        payload.push_back(bytes);
      }
    for (int32_t s = 0; s < int32_t(problem.stages.size()); ++s)
      for (const bool forward : {true, false}) {
        const int32_t before = forward ? problem.before(s) : problem.after(s);
        if (before < 0)
          continue;
        const auto found = numbers.find({problem.rankOf[size_t(before)], problem.rankOf[size_t(s)]});
        if (found != numbers.end())
          flows[flowOf(s, forward)].pair = found->second;
      }
    outOfOrder();
  }

  Buffers run() {
    while (true) {
      while (advanceAll()) {
      }
      if (!grow())
        break;
    }
    Buffers result;
    for (const Pair &pair : pairs) {
      result[{pair.from, pair.to, true}] = pair.sends;
      result[{pair.to, pair.from, false}] = pair.receives;
    }
    return result;
  }

private:
  /// What comes to a stage from one neighbour: its transfers, in the order in which they are made and taken.
  struct Flow {
    int32_t pair = -1; // none: from its own rank
    std::vector<int32_t> transfers;
    size_t taken = 0;
  };

  const Problem &problem;
  const Words &words;
  std::vector<__int128> room;
  std::vector<size_t> at; // a rank each
  std::vector<Flow> flows;
  std::vector<Pair> pairs;
  std::vector<Bytes> payload; // of a pair

  size_t flowOf(int32_t stage, bool forward) const { return 2 * size_t(stage) + forward; }

  Flow *input(Op op) {
    const bool forward = op.letter == Letter::F;
    Flow &flow = flows[flowOf(op.stage, forward)];
    return op.letter == Letter::W || flow.pair < 0 ? nullptr : &flow;
  }
  Flow *output(Op op) {
    const bool forward = op.letter == Letter::F;
    const int32_t next = forward ? problem.after(op.stage) : problem.before(op.stage);
    return op.letter == Letter::W || next < 0 || flows[flowOf(next, forward)].pair < 0 ? nullptr
                                                                                       : &flows[flowOf(next, forward)];
  }

  /// Numbers each pair's transfers in the order in which they are made. A receiver needs room for all from the oldest
  /// that it has not taken up to the one that it takes.
  void outOfOrder() {
    for (const Word &word : words)
      for (const Op &op : word)
        if (Flow *flow = output(op))
          flow->transfers.push_back(pairs[size_t(flow->pair)].made++);
    for (Pair &pair : pairs)
      pair.taken.assign(size_t(pair.made), false);
    for (const Word &word : words)
      for (size_t i = 0; i < word.size(); i += together(word, i)) {
        for (size_t with = i; with != i + together(word, i); ++with)
          if (Flow *flow = input(word[with])) {
            Pair &pair = pairs[size_t(flow->pair)];
            pair.receives = std::max(pair.receives, flow->transfers[flow->taken] - pair.oldest + 1);
          }
        take(word, i);
      }
    for (size_t i = 0; i < pairs.size(); ++i) {
      Pair &pair = pairs[i];
      room[size_t(pair.from)] -= payload[i];
      room[size_t(pair.to)] -= __int128(payload[i]) * pair.receives;
      pair.taken.assign(pair.taken.size(), false);
      pair.made = pair.oldest = 0;
    }
    for (Flow &flow : flows)
      flow.taken = 0;
  }

  /// How many letters run at once: the two of an overlapped pair, which hold all that they take and make meanwhile.
  static size_t together(const Word &word, size_t at) { return word[at].overlapped ? 2 : 1; }

  void take(const Word &word, size_t at) {
    for (size_t with = at; with != at + together(word, at); ++with)
      if (Flow *in = input(word[with]))
        pairs[size_t(in->pair)].take(in->transfers[in->taken++]);
  }

  /// Lets all ranks run as far as they can, there and back over the ranks, as passes go.
  bool advanceAll() {
    bool any = false;
    for (size_t r = 0; r < words.size(); ++r)
      any |= advance(r);
    for (size_t r = words.size(); r-- > 0;)
      any |= advance(r);
    return any;
  }

  bool advance(size_t r) {
    const size_t before = at[r];
    while (at[r] < words[r].size() && runs(words[r], at[r]))
      at[r] += together(words[r], at[r]);
    return at[r] > before;
  }

  bool runs(const Word &word, size_t at) {
    for (size_t with = at; with != at + together(word, at); ++with)
      if (Flow *in = input(word[with])) {
        Pair &pair = pairs[size_t(in->pair)];
        pair.move();
        if (in->transfers[in->taken] >= pair.moved)
          return false;
      }
    if (lacks(word, at))
      return false;
    for (size_t with = at; with != at + together(word, at); ++with)
      if (Flow *out = output(word[with]))
        ++pairs[size_t(out->pair)].made;
    take(word, at);
    return true;
  }

  /// The flow for whose transfer the next letter (or pair) has no free buffer; null: it has.
  Flow *lacks(const Word &word, size_t at) {
    const Flow *before = nullptr;
    for (size_t with = at; with != at + together(word, at); ++with)
      if (Flow *out = output(word[with])) {
        Pair &pair = pairs[size_t(out->pair)];
        pair.move();
        if (!pair.canMake(before && before->pair == out->pair ? 2 : 1))
          return out;
        before = out;
      }
    return nullptr;
  }

  /// Adds one buffer where a rank has none for what its next letter makes; false where no rank waits for a buffer.
  bool grow() {
    size_t best = pairs.size();
    for (size_t r = 0; r < words.size(); ++r) {
      const Flow *out = at[r] < words[r].size() ? lacks(words[r], at[r]) : nullptr;
      if (!out)
        continue;
      const auto left = [&](size_t i) { return std::max(room[size_t(pairs[i].from)], room[size_t(pairs[i].to)]); };
      if (best == pairs.size() || left(size_t(out->pair)) > left(best))
        best = size_t(out->pair);
    }
    if (best == pairs.size())
      return false;
    Pair &pair = pairs[best];
    // Both passes of an overlapped pair may send to one rank. That takes two buffers at the sender even if nothing
    // waits there.
    const bool atSender = pair.made == pair.moved || room[size_t(pair.from)] >= room[size_t(pair.to)];
    ++(atSender ? pair.sends : pair.receives);
    room[size_t(atSender ? pair.from : pair.to)] -= payload[best];
    return true;
  }
};

} // namespace

Buffers buffersFor(const Problem &problem, const Words &words, std::vector<__int128> room) {
  return Run(problem, words, std::move(room)).run();
}

std::vector<__int128> bytesOf(const Problem &problem, const Buffers &buffers) {
  std::vector<__int128> result(size_t(problem.ranks), 0);
  for (const auto &[end, bytes] : payloads(problem))
    if (const auto found = buffers.find(end); found != buffers.end())
      result[size_t(end.rank)] += __int128(bytes) * found->second;
  return result;
}

__int128 excessOf(const Problem &problem, const Words &words) {
  std::vector<__int128> room;
  for (const __int128 bytes : heldAlways(problem, 0))
    room.push_back(problem.memoryLimit - bytes);
  for (size_t r = 0; r < words.size(); ++r)
    room[r] -= peakOf(problem, words[r]);
  const std::vector<__int128> buffers = bytesOf(problem, buffersFor(problem, words, room));
  __int128 most = 0;
  for (size_t r = 0; r < words.size(); ++r)
    most = std::max(most, buffers[r] - room[r]);
  return most;
}

} // namespace pipec::schedule
