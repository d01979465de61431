// dlopen and dlsym, and the trial in a process of its own.
#include "runtime/stage/library/Library.h"

#include "runtime/stage/library/VersionOne.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pipec::runtime {

using plan::Kind;

namespace {

/// Sets `function` to what `name` is in the library; false if it has no such function.
template <typename F> bool find(void *handle, const char *name, std::function<F> &function) {
  function = reinterpret_cast<F *>(dlsym(handle, name)); // null: empty
  return bool(function);
}

constexpr const char *kLayer = "pipec_stage_layer", *kPortions = "pipec_stage_portions";
constexpr const char *kSaveLayer = "pipec_stage_save_layer", *kLoadLayer = "pipec_stage_load_layer";

bool uses(const plan::Plan &plan, Kind kind) {
  for (const plan::Variant &variant : plan.variants)
    for (const plan::Program &program : variant.programs)
      for (const plan::Operation &operation : program.operations)
        if (operation.kind == kind)
          return true;
  return false;
}

/// What of a plan needs to know of the layers of a stage; null: nothing.
const char *needsLayers(const plan::Plan &plan) {
  if (plan.degree() > 1)
    return "replicas";
  for (const plan::Variant &variant : plan.variants)
    for (const plan::Program &program : variant.programs)
      for (const plan::Operation &operation : program.operations)
        if (operation.layers > 0)
          return "passes in parts";
  return nullptr;
}

} // namespace

Status openLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use, Library &library) {
  // dlopen searches for a name without a slash in places that nobody named.
  std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  std::error_code error;
  if (!std::filesystem::exists(place, error))
    return Status::input(path + ": there is no such stage library");
  void *handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status::input(fmt::format("{}: cannot be loaded as a stage library: {}", path, dlerror()));
  Library f;

  if (!find(handle, "pipec_stage_version", f.version))
    return Status::input(path + ": is not a stage library, it has no pipec_stage_version (see pipec_stage.h)");
  const uint32_t version = f.version();
  if (const bool first = version == kVersionOne; version != PIPEC_STAGE_VERSION && (!first || use.onGpu))
    return Status::input(fmt::format("{}: is built for version {} of pipec_stage.h, expected version {}{}; build it "
                                     "again with the header of this piperun",
                                     path, version, PIPEC_STAGE_VERSION,
                                     use.onGpu ? " with --device=cuda" : fmt::format(" or {}", kVersionOne)));
  const char *missing = nullptr;
  auto need = [&](const char *name, auto &function) {
    if (!find(handle, name, function) && !missing)
      missing = name;
  };
  need("pipec_stage_create", f.create);
  need("pipec_stage_destroy", f.destroy);
  for (const Kind kind : {Kind::Forward, Kind::Optimizer})
    need(plan::rowOf(kind).call, f.calls[size_t(kind)]);
  need("pipec_stage_save", f.save);
  need("pipec_stage_load", f.load);
  need("pipec_stage_memory", f.memory);
  if (missing)
    return Status::input(fmt::format("{}: the stage library has no {}", path, missing));
  find(handle, "pipec_stage_forward_backward", f.forwardBackward);
  find(handle, "pipec_stage_gradient_norm", f.gradientNorm);
  find(handle, "pipec_stage_set_global_norm", f.setGlobalNorm);
  if (version != kVersionOne) {
    find(handle, kSaveLayer, f.saveLayer);
    find(handle, kLoadLayer, f.loadLayer);
    find(handle, kLayer, f.layer);
    find(handle, kPortions, f.portions);
  }
  if (!f.saveLayer != !f.loadLayer)
    return Status::input(fmt::format("{}: the stage library has {} and no {}, expected both or neither", path,
                                     f.saveLayer ? kSaveLayer : kLoadLayer, f.saveLayer ? kLoadLayer : kSaveLayer));

  for (const plan::KindRow &row : plan::kKindTable) {
    if (*row.call == 0 || find(handle, row.call, f.calls[size_t(row.kind)]) || !uses(plan, row.kind))
      continue;
    return Status::input(
        fmt::format("{}: the stage library has no {}, and the plan has {} operations", path, row.call, row.name));
  }
  if (const char *what = needsLayers(plan); what && !f.layer)
    return Status::check(fmt::format("{}: the stage library has no {}, and the plan has {}", path, kLayer, what));
  if (plan.shards() > 1 && !f.portions)
    return Status::check(fmt::format("{}: the stage library has no {}, and the plan has shards", path, kPortions));
  if (use.byLayers && !f.saveLayer)
    return Status::input(
        fmt::format("{}: the stage library has no {}, which a new cut of the layers needs", path, kSaveLayer));
  if (version == kVersionOne)
    adaptVersionOne(f);
  library = std::move(f);
  return {};
}

namespace {

[[noreturn]] void tryAndTell(const std::string &path, const plan::Plan &plan, const LibraryUse &use, int pipe) {
  if (int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0)
    dup2(nowhere, STDOUT_FILENO); // what it prints when it is loaded, it prints again when it is meant
  Library library;
  Status status;
  try {
    status = openLibrary(path, plan, use, library);
  } catch (const std::exception &error) {
    status = Status::input(fmt::format("{}: cannot be loaded as a stage library: {}", path, error.what()));
  }
  std::string word = status.message + '\n'; // its end: the word is whole
  ssize_t written = write(pipe, word.data(), word.size());
  _exit(written == ssize_t(word.size()) ? int(status.code) : int(Code::Run));
}

} // namespace

Status tryLibrary(const std::string &path, const plan::Plan &plan, const LibraryUse &use) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Status::run(fmt::format("{}: cannot be tried: {}", path, std::strerror(errno)));
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    tryAndTell(path, plan, use, ends[1]);
  }
  close(ends[1]);
  std::string word;
  std::array<char, 1024> part;
  while (child > 0) {
    ssize_t count = read(ends[0], part.data(), part.size());
    if (count > 0)
      word.append(part.data(), size_t(count));
    else if (count == 0 || errno != EINTR)
      break;
  }
  close(ends[0]);
  int end = 0;
  if (child < 0 || waitpid(child, &end, 0) != child)
    return Status::run(fmt::format("{}: cannot be tried: {}", path, std::strerror(errno)));
  if (WIFSIGNALED(end))
    return Status::input(fmt::format("{}: loading this stage library ends the process with signal {} ({})", path,
                                     WTERMSIG(end), strsignal(WTERMSIG(end))));
  if (word.empty() || word.back() != '\n') // it left by itself, without a word
    return Status::input(
        fmt::format("{}: loading this stage library ends the process with exit code {}", path, WEXITSTATUS(end)));
  word.pop_back();
  return {Code(WEXITSTATUS(end)), word};
}

} // namespace pipec::runtime
