// From a piece to a call, and from its error to a line.
#include "runtime/job/LibraryJob.h"

#include "runtime/library/LibraryCall.h"
#include "runtime/library/SharedLibrary.h"

#include <fmt/format.h>

namespace pipec::runtime {

namespace {

constexpr LibraryHeader kHeader{"job library", "pipec_job.h", "pipec_job_version"};

template <typename F, typename... Arguments> std::string call(const F &function, Arguments... arguments) {
  return callLibrary<PipecJobError>(kHeader.what, function, arguments...);
}

} // namespace

Status openJobLibrary(const std::string &path, JobLibrary &library) {
  SharedLibrary opened;
  if (Status status = opened.open(path, kHeader); !status.ok())
    return status;
  if (opened.version() != PIPEC_JOB_VERSION)
    return Status::input(fmt::format("{}: is built for version {} of pipec_job.h, expected version {}; build it again "
                                     "with the header of this piperun",
                                     path, opened.version(), PIPEC_JOB_VERSION));
  JobLibrary f;
  opened.need("pipec_job_create", f.create);
  opened.need("pipec_job_destroy", f.destroy);
  opened.need("pipec_job_run", f.run);
  opened.need("pipec_job_memory", f.memory);
  if (Status status = opened.missing(); !status.ok())
    return status;
  const bool saves = opened.find("pipec_job_save", f.save), loads = opened.find("pipec_job_load", f.load);
  if (Status status = opened.together("pipec_job_save", saves, "pipec_job_load", loads); !status.ok())
    return status;
  library = std::move(f);
  return {};
}

Status tryJobLibrary(const std::string &path) {
  return tryApart(path, kHeader.what, [&] {
    JobLibrary library;
    return openJobLibrary(path, library);
  });
}

Status LibraryJob::make(const JobLibrary &library, const JobSetup &own, std::unique_ptr<Job> &job) {
  std::unique_ptr<LibraryJob> made(new LibraryJob(library, nameOf(own)));
  PipecJobSetup setup{};
  setup.size = sizeof setup;
  setup.rank = own.rank;
  setup.world_rank = own.worldRank;
  setup.world = own.world;
  setup.name = own.name.c_str();
  setup.samples = own.samples;
  setup.atoms = own.atoms;
  setup.memory = own.memory;
  setup.provider = own.provider.c_str();
  setup.device = own.device;
  setup.context = own.context;
  std::string error = call(library.create, &setup, &made->object);
  if (error.empty() && !made->object)
    error = "pipec_job_create made no job";
  if (!error.empty()) {
    made->object = nullptr; // none of it is ours to destroy
    return Status::run(fmt::format("{}: {}", made->place, error));
  }
  job = std::move(made);
  return {};
}

LibraryJob::~LibraryJob() {
  if (object)
    library.destroy(object);
}

Status LibraryJob::run(int64_t first, int64_t count, plan::Time, void *stream) {
  const PipecPiece piece{.size = sizeof piece, .first = first, .count = count, .stream = stream};
  const std::string error = call(library.run, object, &piece);
  return error.empty() ? Status{} : Status::run(fmt::format("{}: {}", place, error));
}

Status LibraryJob::save(const std::string &path, int64_t atoms) {
  const std::string error = call(library.save, object, path.c_str(), atoms);
  return error.empty() ? Status{} : Status::run(fmt::format("{}: cannot save: {}", place, error));
}

Status LibraryJob::load(const std::string &path, int64_t atoms) {
  const std::string error = call(library.load, object, path.c_str(), atoms);
  return error.empty() ? Status{} : Status::run(fmt::format("{}: cannot load: {}", place, error));
}

JobMemory LibraryJob::memory() const {
  PipecJobMemory memory{};
  memory.size = sizeof memory;
  library.memory(object, &memory);
  return {memory.held, memory.peak};
}

} // namespace pipec::runtime
