// Pieces of gradients, and bundles of pieces: what the policies have in common.
#pragma once

#include "compiler/schedule/exchange/Policies.h"

#include <functional>

namespace pipec::schedule {

/// A tensor's gradient, or a piece of it.
struct Piece {
  int32_t stage = 0, layer = 0;
  Bytes begin = 0, end = 0; // byte range in the stage's gradients, laid end to end
  Time ready = 0;
  Bytes bytes() const { return end - begin; }
};

/// The gradients of a rank by tensor, in the order in which they become ready: the last tensor of the last layer first.
std::vector<Piece> tensorsOf(const ExchangeInput &input, size_t rank);

/// Makes an all-reduce for each bundle of pieces. The caller decides where a bundle ends, by close(). Bundles never
/// cross stages.
class Bundler {
public:
  explicit Bundler(std::vector<Collective> &into) : into(into) {}
  ~Bundler() { close(); }

  /// Adds a piece to the open bundle, or to a new bundle if the two are not adjacent.
  void add(const Piece &piece);
  void close();
  Bytes bytes() const { return open ? now.bytes() : 0; }

private:
  std::vector<Collective> &into;
  bool open = false;
  Piece now;             // bytes of the bundle so far
  int32_t lastLayer = 0; // last layer of the bundle; `now.layer` is the first
};

/// How a stage's layers are bundled: the first layer of each bundle, ascending, beginning with 0.
struct StageBundles {
  std::vector<int32_t> sums, gathers;
  std::vector<bool> whole; // by sum: it is an all-reduce, and its layers need no gather
  bool operator==(const StageBundles &) const = default;
};

struct Bundling {
  std::vector<StageBundles> stages;
  /// How long a free queue waits for a collective that is needed sooner, in percent of the time of the collective that
  /// could start now.
  int32_t patience = 0;
};

/// The exchange with these bundles. When a rank's queue is free, the collective that the next forward needs first goes
/// next, among those that can begin: ordered by stage, then by layer. O(bundles of a rank squared).
Exchange inOrderOfNeed(const ExchangeInput &input, const Bundling &bundling, bool sharded);
/// The same with one sum and one gather for each layer.
Exchange layerByLayer(const ExchangeInput &input, bool sharded);

} // namespace pipec::schedule
