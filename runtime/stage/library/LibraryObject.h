// A rank's object in a stage library, whatever kind of device it computes on: made, called, saved, destroyed.
#pragma once

#include "runtime/stage/Stage.h"
#include "runtime/stage/library/Library.h"

#include <memory>

namespace pipec::runtime {

class LibraryObject {
public:
  LibraryObject(const Library &library, int32_t rank) : library(library), rank(rank) {}
  ~LibraryObject();
  LibraryObject(const LibraryObject &) = delete;

  /// Creates it. `device`: CUDA's number, with its context, current on this thread; -1: the host.
  Status create(const plan::Plan &plan, int32_t device, void *context);

  // What the library said where that failed, in one line; else nothing.

  /// `stream`: CUDA's, on which the slots are valid; null on the host.
  std::string run(const Label &label, Slot in, Slot out, void *stream);
  bool runsPairs() const { return bool(library.forwardBackward); }
  std::string runPair(const PipecCall &forward, const PipecCall &backward);
  /// Where the library has no such function, nothing happens.
  std::string gradientNorm(const Label &label, Slot number, void *stream);
  std::string setGlobalNorm(const Label &label, Slot number, void *stream);
  static PipecCall callOf(const Label &label, Slot in, Slot out, void *stream);

  Status save(const std::string &path, int64_t steps);
  Status load(const std::string &path, int64_t steps);
  bool savesLayers() const { return bool(library.saveLayer); }
  Status saveLayer(int32_t layer, const std::string &path, int64_t steps);
  Status loadLayer(int32_t layer, const std::string &path, int64_t steps);
  StageMemory memory() const;

private:
  const Library library;
  const int32_t rank;
  PipecStage *object = nullptr;
};

/// The part of a stage that its library's object does: Base is HostStage or Stage.
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

protected:
  template <typename... Given>
  OfLibrary(std::unique_ptr<LibraryObject> object, Given &&...given)
      : Base(std::forward<Given>(given)...), object(std::move(object)) {}

  const std::unique_ptr<LibraryObject> object;
};

} // namespace pipec::runtime
