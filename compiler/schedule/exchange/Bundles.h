// Pieces of gradients, and bundles of them: what policies have in common.
#pragma once

#include "compiler/schedule/exchange/Policies.h"

#include <functional>

namespace pipec::schedule {

/// A tensor's gradient, or a piece of it.
struct Piece {
  int32_t stage = 0, layer = 0;
  Bytes begin = 0, end = 0; // of the stage's gradients end to end
  Time ready = 0;
  Bytes bytes() const { return end - begin; }
};

/// The gradients of a rank by tensor, in the order in which they are ready: the last tensor of the last layer first.
std::vector<Piece> tensorsOf(const ExchangeInput &input, size_t rank);

/// Makes an all-reduce of each bundle of pieces, which its user closes. Bundles never cross stages.
class Bundler {
public:
  explicit Bundler(std::vector<Collective> &into) : into(into) {}
  ~Bundler() { close(); }

  /// Adds a piece to the open bundle, or to a new one where the two do not lie side by side.
  void add(const Piece &piece);
  void close();
  Bytes bytes() const { return open ? now.bytes() : 0; }

private:
  std::vector<Collective> &into;
  bool open = false;
  Piece now;             // what the bundle has
  int32_t lastLayer = 0; // of it; `now.layer` is the first
};

/// How a stage's layers are bundled: the first layers of bundles, ascending, the first of them 0.
struct StageBundles {
  std::vector<int32_t> sums, gathers;
  std::vector<bool> whole; // of each sum: it is an all-reduce, and no gather follows for its layers
  bool operator==(const StageBundles &) const = default;
};

struct Bundling {
  std::vector<StageBundles> stages;
  /// How far a collective gives way: in percent of its own time, how long its queue waits for one that is needed
  /// sooner.
  int32_t patience = 0;
};

/// The exchange of such bundles. On each rank's queue, whenever it is free, of what could begin then what the next
/// forward needs first goes next: by stage, then by layer. O(bundles of a rank squared).
Exchange inOrderOfNeed(const ExchangeInput &input, const Bundling &bundling, bool sharded);
/// The same of each layer by itself, as a sum and a gather.
Exchange layerByLayer(const ExchangeInput &input, bool sharded);

} // namespace pipec::schedule
