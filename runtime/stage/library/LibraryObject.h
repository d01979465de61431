// A process's object in a stage library, on any kind of device: made, called, saved, destroyed.
#pragma once

#include "runtime/device/ShardGroup.h"
#include "runtime/plan/Place.h"
#include "runtime/stage/LayerTable.h"
#include "runtime/stage/Stage.h"
#include "runtime/stage/library/Library.h"
#include "runtime/stage/library/OwnTime.h"

#include <memory>

namespace pipec::runtime {

/// The shards of a rank, and what measures this one's own time; null without shards.
struct RankShards {
  ShardGroup *group = nullptr;
  OwnTime *time = nullptr;
};

class LibraryObject {
public:
  LibraryObject(const Library &library, const plan::Place &place, const RankShards &shards = {})
      : library(library), own(place), shards(shards) {}
  ~LibraryObject();
  LibraryObject(const LibraryObject &) = delete;

  /// Creates the object. `device`: the CUDA device, with its context current on this thread; -1: the host.
  Status create(const plan::Plan &plan, int32_t device, void *context);

  const plan::Place &place() const { return own; }

  // These functions return the library's message on failure, in one line; empty: success.

  /// `stream`: the CUDA stream on which the slots are valid; null on the host.
  std::string run(const Label &label, Slot in, Slot out, void *stream);
  bool runsPairs() const { return bool(library.forwardBackward); }
  std::string runPair(const PipecCall &forward, const PipecCall &backward);
  /// Does nothing if the library has no such function.
  std::string gradientNorm(const Label &label, Slot number, void *stream);
  std::string setGlobalNorm(const Label &label, Slot number, void *stream);
  PipecCall callOf(const Label &label, Slot in, Slot out, void *stream) const;
  std::span<const LayerMemory> layersOf(int32_t stage) const { return layers.of(stage); }

  Status save(const std::string &path, int64_t steps);
  Status load(const std::string &path, int64_t steps);
  bool savesLayers() const { return bool(library.saveLayer); }
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps);
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps);
  StageMemory memory() const;
  /// Tells the library its portions, unless it has been told the same before.
  Status share(const Portions &portions, int64_t step);

private:
  const Library library;
  const plan::Place own;
  const RankShards shards;
  void openGroup();
  std::string callPortions(const std::vector<PipecPortion> &told);
  Status findLayers();

  PipecGroup group{}; // what the library sees of the shards
  Portions shared;

  PipecStage *object = nullptr;
  LayerTable layers;
};

/// The part of a stage that the library's object implements: Base is HostStage or Stage.
template <typename Base> class OfLibrary : public Base {
public:
  Status save(const std::string &path, int64_t steps) final { return object->save(path, steps); }
  Status load(const std::string &path, int64_t steps) final { return object->load(path, steps); }
  bool savesLayers() const final { return object->savesLayers(); }
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps) final {
    return object->saveLayer(layer, path, steps);
  }
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps) final {
    return object->loadLayer(layer, path, steps);
  }
  StageMemory memory() const final { return object->memory(); }
  std::span<const LayerMemory> layersOf(int32_t stage) const final { return object->layersOf(stage); }
  Status share(const Portions &portions, int64_t step) final { return object->share(portions, step); }

protected:
  template <typename... Given>
  OfLibrary(std::unique_ptr<LibraryObject> object, Given &&...given)
      : Base(std::forward<Given>(given)...), object(std::move(object)) {}

  const std::unique_ptr<LibraryObject> object;
};

} // namespace pipec::runtime
