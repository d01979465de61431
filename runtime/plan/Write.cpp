// Writes a plan. The same plan always gives the same bytes: tables are written in one fixed order, nothing is shared
// between them, and they contain neither times of writing nor paths.
#include "runtime/plan/Write.h"

#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/plan_generated.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace pipec::plan {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

/// Writes `rows` as a vector of file structs, each made by `convert`.
template <typename Row, typename Rows, typename Convert>
Offset<flatbuffers::Vector<const Row *>> writeRows(FlatBufferBuilder &builder, const Rows &rows, Convert convert) {
  Row *out = nullptr;
  const auto offset = builder.CreateUninitializedVectorOfStructs(rows.size(), &out);
  for (size_t i = 0; i < rows.size(); ++i)
    out[i] = convert(rows[i]);
  return offset;
}

template <typename File, typename Ours> File same(Ours value) { return File(uint8_t(value)); }

file::Operation writeOperation(const Operation &o) {
  return file::Operation(o.cost, o.latency, o.bytes, o.activation, o.context, o.begin, o.end, o.stage, o.peer, o.group,
                         o.firstLayer, o.layers, /*part=*/0, same<file::Kind>(o.kind), same<file::Payload>(o.of));
}

Offset<file::Program> writeProgram(FlatBufferBuilder &builder, const Program &program) {
  const auto stages = builder.CreateVector(program.stages);
  const auto queues = writeRows<file::Queue>(builder, program.queues, [](const Queue &q) {
    return file::Queue(same<file::QueueKind>(q.kind), same<file::Priority>(q.priority));
  });
  const auto rings = writeRows<file::Ring>(builder, program.rings, [](const Ring &r) {
    return file::Ring(r.slotBytes, r.peer, r.size, same<file::Direction>(r.direction));
  });
  const auto operations = writeRows<file::Operation>(builder, program.operations, writeOperation);
  const auto instructions = writeRows<file::Instruction>(builder, program.instructions, [](const Instruction &i) {
    return file::Instruction(i.operation, i.queue, i.firstWait, i.waits, i.microbatch, i.microbatchStride);
  });
  const auto waits = writeRows<file::Wait>(
      builder, program.waits, [](const Wait &w) { return file::Wait(w.base, w.stride, w.queue, w.previousStep); });
  const auto step = writeRows<file::Segment>(builder, program.step,
                                             [](const Segment &s) { return file::Segment(s.first, s.count, s.trips); });
  const auto windows = program.windows.empty() ? Offset<flatbuffers::Vector<const file::Window *>>()
                                               : writeRows<file::Window>(builder, program.windows, [](const Window &w) {
                                                   return file::Window(w.length, w.from, w.instruction);
                                                 });
  file::ProgramBuilder out(builder);
  out.add_rank(program.rank);
  out.add_stages(stages);
  out.add_queues(queues);
  out.add_rings(rings);
  out.add_operations(operations);
  out.add_instructions(instructions);
  out.add_waits(waits);
  out.add_step(step);
  out.add_static_bytes(program.staticBytes);
  out.add_workspace(program.workspace);
  out.add_memory_limit(program.memoryLimit);
  out.add_job(program.job);
  out.add_piece(program.piece);
  out.add_windows(windows);
  return out.Finish();
}

Offset<file::Job> writeJob(FlatBufferBuilder &builder, const Job &job) {
  const auto name = builder.CreateString(job.name);
  const auto provider =
      job.provider.empty() ? Offset<flatbuffers::Vector<uint8_t>>() : builder.CreateVector(job.provider);
  return file::CreateJob(builder, name, job.samples, job.atoms, job.atom, job.overhead, job.memory, provider);
}

Offset<file::Own> writeOwn(FlatBufferBuilder &builder, const Own &own) {
  const auto operations = writeRows<file::OwnCost>(builder, own.operations, [](const OwnCost &o) {
    return file::OwnCost(o.before, o.between, o.after, o.activation, o.context);
  });
  return file::CreateOwn(builder, own.factor, operations, own.staticBytes, own.workspace);
}

Offset<file::Portion> writePortion(FlatBufferBuilder &builder, const Portion &portion) {
  const auto split = builder.CreateString(portion.split);
  const auto ranges = [&](const std::vector<Range> &rows) {
    return writeRows<file::Range>(builder, rows, [](const Range &r) { return file::Range(r.first, r.count); });
  };
  const auto owned = ranges(portion.owned), worked = ranges(portion.worked);
  return file::CreatePortion(builder, portion.stage, portion.shard, portion.firstLayer, portion.layers, split,
                             portion.units, owned, worked, portion.kept);
}

Offset<file::SharedWeight> writeSharedWeight(FlatBufferBuilder &builder, const SharedWeight &weight) {
  const auto layers = builder.CreateVector(weight.layers), stages = builder.CreateVector(weight.stages);
  return file::CreateSharedWeight(builder, layers, stages, weight.gradients);
}

/// Writes a vector of tables; absent if there are none.
template <typename Table, typename Ours>
Offset<flatbuffers::Vector<Offset<Table>>> writeTables(FlatBufferBuilder &builder, const std::vector<Ours> &rows,
                                                       Offset<Table> (*write)(FlatBufferBuilder &, const Ours &)) {
  std::vector<Offset<Table>> tables;
  for (const Ours &each : rows)
    tables.push_back(write(builder, each));
  return tables.empty() ? Offset<flatbuffers::Vector<Offset<Table>>>() : builder.CreateVector(tables);
}

Offset<file::Variant> writeVariant(FlatBufferBuilder &builder, const Variant &variant) {
  std::vector<Offset<file::Program>> programs;
  programs.reserve(variant.programs.size());
  for (const Program &program : variant.programs)
    programs.push_back(writeProgram(builder, program));
  const auto programsOffset = builder.CreateVector(programs);
  const Certificate &c = variant.certificate;
  const file::Certificate certificate(c.makespan, c.span, c.lowerBound.picoseconds(), c.spanLowerBound.picoseconds(),
                                      same<file::Bound>(c.bound), same<file::Bound>(c.spanBound));
  const auto cut =
      variant.cut.empty() ? flatbuffers::Offset<flatbuffers::Vector<int32_t>>() : builder.CreateVector(variant.cut);
  const auto layers = variant.layers.empty() ? flatbuffers::Offset<flatbuffers::Vector<const file::Layer *>>()
                                             : writeRows<file::Layer>(builder, variant.layers, [](const Layer &l) {
                                                 return file::Layer(l.gradients, l.weights, l.stage, l.sharded);
                                               });
  const auto own = writeTables<file::Own>(builder, variant.own, writeOwn);
  const auto portions = writeTables<file::Portion>(builder, variant.portions, writePortion);
  const auto balance = variant.balance.empty() ? Offset<flatbuffers::String>() : builder.CreateString(variant.balance);
  const auto jobs = writeTables<file::Job>(builder, variant.jobs, writeJob);
  const auto stageGroups = variant.stageGroups.empty() ? flatbuffers::Offset<flatbuffers::Vector<int32_t>>()
                                                       : builder.CreateVector(variant.stageGroups);
  const auto boundaries = variant.boundaries.empty() ? flatbuffers::Offset<flatbuffers::Vector<int64_t>>()
                                                     : builder.CreateVector(variant.boundaries);
  const auto shared = writeTables<file::SharedWeight>(builder, variant.shared, writeSharedWeight);
  file::VariantBuilder out(builder);
  out.add_stages(variant.stages);
  out.add_microbatches(variant.microbatches);
  out.add_memory_limit(variant.memoryLimit);
  out.add_programs(programsOffset);
  out.add_certificate(&certificate);
  out.add_copies(variant.copies);
  out.add_slices(variant.slices);
  out.add_cut(cut);
  out.add_cut_bound(variant.cutBound.picoseconds());
  out.add_launch_order(variant.launchOrder);
  out.add_layers(layers);
  out.add_shared_port(variant.sharedPort);
  out.add_own(own);
  out.add_portions(portions);
  out.add_balance(balance);
  out.add_jobs(jobs);
  out.add_slow_down(variant.slowDown);
  out.add_delay(c.delay);
  out.add_delay_proven(c.delayProven);
  out.add_batch(variant.batch);
  out.add_stage_groups(stageGroups);
  out.add_boundaries(boundaries);
  out.add_shared(shared);
  return out.Finish();
}

/// Writes the names of all variants; absent if no variant has one.
Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> writeNames(FlatBufferBuilder &builder, const Plan &plan,
                                                                    std::string Variant::*name) {
  std::vector<Offset<flatbuffers::String>> names;
  if (std::all_of(plan.variants.begin(), plan.variants.end(),
                  [name](const Variant &variant) { return (variant.*name).empty(); }))
    return {};
  for (const Variant &variant : plan.variants)
    names.push_back(builder.CreateString(variant.*name));
  return builder.CreateVector(names);
}

Offset<file::Names> writeNames(FlatBufferBuilder &builder, const Plan &plan) {
  const auto variants = writeNames(builder, plan, &Variant::name);
  const auto schedules = writeNames(builder, plan, &Variant::schedule);
  return variants.IsNull() && schedules.IsNull() ? Offset<file::Names>()
                                                 : file::CreateNames(builder, variants, schedules);
}

Offset<file::Group> writeGroup(FlatBufferBuilder &builder, const Group &group) {
  return file::CreateGroup(builder,
                           builder.CreateVector(std::vector<uint32_t>(group.members.begin(), group.members.end())));
}

/// The oldest minor version of the format that has everything the plan uses.
uint16_t minorOf(const Plan &plan) {
  uint16_t minor = kOldestWritten;
  for (const Variant &variant : plan.variants) {
    if (!variant.cut.empty() || variant.cutBound != LeastTime())
      minor = std::max(minor, kWithCut);
    if (variant.launchOrder)
      minor = std::max(minor, kWithLaunchOrder);
    if (!variant.layers.empty() || variant.sharedPort)
      minor = std::max(minor, kWithReplicas);
    if (!variant.own.empty())
      minor = std::max(minor, kWithShards);
    if (!variant.jobs.empty())
      minor = std::max(minor, kWithJobs);
    if (variant.sharesStages())
      minor = std::max(minor, kWithStageGroups);
    if (!variant.boundaries.empty())
      minor = std::max(minor, kWithBoundaries);
    if (!variant.shared.empty())
      minor = std::max(minor, kWithSharedWeights);
    for (const Program &program : variant.programs)
      for (const Operation &operation : program.operations)
        minor = std::max({minor, uint16_t(rowOf(operation.kind).since),
                          (rowOf(operation.kind).holds & kBackwardContext) != 0 && operation.context != 0
                              ? kWithBackwardContext
                              : uint16_t(0)});
  }
  return minor;
}

/// An upper estimate of the bytes that encode() needs: rows, and a generous allowance for each table.
uint64_t sizeEstimate(const Plan &plan) {
  constexpr uint64_t kTable = 256;
  uint64_t bytes = kTable + plan.processes.size() * sizeof(file::Process) + plan.provider.size();
  for (const Group &group : plan.groups)
    bytes += kTable + group.members.size() * sizeof(uint32_t);
  for (const Variant &variant : plan.variants) {
    bytes += kTable + variant.name.size() + variant.schedule.size() +
             (variant.cut.size() + variant.stageGroups.size()) * sizeof(int32_t) +
             variant.boundaries.size() * sizeof(int64_t) + variant.layers.size() * sizeof(file::Layer) +
             variant.balance.size();
    for (const SharedWeight &weight : variant.shared)
      bytes += kTable + (weight.layers.size() + weight.stages.size()) * sizeof(int32_t);
    for (const Own &own : variant.own)
      bytes += kTable + own.operations.size() * sizeof(file::OwnCost);
    for (const Job &job : variant.jobs)
      bytes += kTable + job.name.size() + job.provider.size();
    for (const Portion &portion : variant.portions)
      bytes += kTable + portion.split.size() + (portion.owned.size() + portion.worked.size()) * sizeof(file::Range);
    for (const Program &p : variant.programs)
      bytes += kTable + p.stages.size() * 4 + p.queues.size() * sizeof(file::Queue) +
               p.rings.size() * sizeof(file::Ring) + p.operations.size() * sizeof(file::Operation) +
               p.instructions.size() * sizeof(file::Instruction) + p.waits.size() * sizeof(file::Wait) +
               p.step.size() * sizeof(file::Segment) + p.windows.size() * sizeof(file::Window);
  }
  return bytes;
}

void putLittle(std::vector<uint8_t> &out, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    out[at + i] = uint8_t(value >> (8 * i));
}

/// The error of a failed write. Code::Input: the path cannot be written to. Code::Run: the device fails or is full.
Status writeError(const std::string &path, int error, Code code = Code::Run) {
  return {code, fmt::format("{}: cannot write: {}", units::escaped(path), std::strerror(error))};
}

/// Writes all bytes. Returns errno, or 0.
int writeAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return errno;
    bytes = bytes.subspan(size_t(written));
  }
  return 0;
}

/// Writes all bytes and closes the file in any case. Returns the errno of the first failure, or 0.
int writeAndClose(int file, std::span<const uint8_t> bytes, bool sync) {
  int error = writeAll(file, bytes);
  if (error == 0 && sync && ::fsync(file) != 0)
    error = errno;
  if (::close(file) != 0 && error == 0)
    error = errno;
  return error;
}

/// While an object lives, signals that would end the process are blocked, so that no temporary file is left.
class SignalsWait {
public:
  SignalsWait() {
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
      ::sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before);
  }
  ~SignalsWait() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  SignalsWait(const SignalsWait &) = delete;

private:
  sigset_t before;
};

/// Creates a new file in the same folder, so that rename is atomic; -1 and errno on failure.
int createBeside(const std::string &path, std::string &temporary) {
  constexpr int kAttempts = 100; // a crashed run may have left some
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary = fmt::format("{}.{}-{}", path, ::getpid(), attempt);
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST)
      return file;
  }
  return -1;
}

} // namespace

std::vector<uint8_t> encode(const Plan &plan) {
  const uint64_t most = sizeEstimate(plan);
  if (most > uint64_t(limits::kPlanBytes))
    return {};
  FlatBufferBuilder builder{size_t(most)}; // allocated at once: growing would copy the buffer again and again
  const auto processes = writeRows<file::Process>(
      builder, plan.processes, [](const Process &p) { return file::Process(p.rank, p.replica, p.shard); });
  const auto groups = writeTables<file::Group>(builder, plan.groups, writeGroup);
  const auto provider =
      plan.provider.empty() ? Offset<flatbuffers::Vector<uint8_t>>() : builder.CreateVector(plan.provider);
  std::vector<Offset<file::Variant>> variants;
  for (const Variant &variant : plan.variants)
    variants.push_back(writeVariant(builder, variant));
  const auto variantsOffset = builder.CreateVector(variants);
  const auto names = writeNames(builder, plan);
  file::PlanBuilder out(builder);
  out.add_spec_hash(plan.specHash);
  out.add_processes(processes);
  out.add_groups(groups);
  out.add_provider(provider);
  out.add_variants(variantsOffset);
  out.add_names(names);
  builder.Finish(out.Finish());

  std::vector<uint8_t> bytes;
  bytes.reserve(kHeaderBytes + builder.GetSize());
  bytes.resize(kHeaderBytes);
  bytes.insert(bytes.end(), builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  putLittle(bytes, kMajorAt, kMajor, 2);
  putLittle(bytes, kMinorAt, minorOf(plan), 2);
  putLittle(bytes, kChecksumAt, crc32(0, bytes.data() + kHeaderBytes, uInt(builder.GetSize())), 4);
  return bytes;
}

int writeInPlace(const std::string &path, std::span<const uint8_t> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return file < 0 ? errno : writeAndClose(file, bytes, /*sync=*/false);
}

Status writeFile(const std::string &path, std::span<const uint8_t> bytes) {
  struct stat found;
  const bool exists = ::stat(path.c_str(), &found) == 0;
  // The file that a link points to is replaced, not the link.
  std::error_code unnamed;
  const std::string target = exists ? std::filesystem::canonical(path, unnamed).string() : path;
  // A pipe, a terminal or an open file whose name is gone (-o /dev/stdout) must be written, not replaced.
  if (exists && (!S_ISREG(found.st_mode) || unnamed)) {
    const int error = writeInPlace(path, bytes);
    return error == 0 ? Status{} : writeError(path, error);
  }
  const SignalsWait signalsWait;
  std::string temporary;
  const int file = createBeside(target, temporary);
  if (file < 0)
    return writeError(path, errno);
  if (exists)
    (void)::fchmod(file, found.st_mode & 07777); // keeps the file's permissions; fails on a file system without modes
  int error = writeAndClose(file, bytes, /*sync=*/true);
  if (error == 0 && ::rename(temporary.c_str(), target.c_str()) != 0)
    error = errno;
  if (error == 0)
    return {};
  ::unlink(temporary.c_str());
  return writeError(path, error);
}

Status canWrite(const std::string &path) {
  struct stat found;
  const bool exists = ::stat(path.c_str(), &found) == 0;
  std::error_code unnamed;
  const std::string target = exists ? std::filesystem::canonical(path, unnamed).string() : path;
  if (path.empty() || unnamed)
    return {};
  if (exists && S_ISDIR(found.st_mode))
    return writeError(path, EISDIR, Code::Input);
  if (exists && !S_ISREG(found.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? Status{} : writeError(path, errno, Code::Input);
  const SignalsWait signalsWait;
  std::string temporary;
  const int file = createBeside(target, temporary);
  if (file < 0)
    return writeError(path, errno, Code::Input);
  ::close(file);
  ::unlink(temporary.c_str());
  return {};
}

Status keepsInputs(const std::string &output, std::initializer_list<std::string> inputs, const std::string &option) {
  std::error_code error; // a file that does not exist cannot be destroyed
  for (const std::string &input : inputs)
    if (!output.empty() && std::filesystem::is_regular_file(output, error) &&
        std::filesystem::equivalent(output, input, error))
      return Status::usage(fmt::format("{} would overwrite {}, which is read; name another file with {}",
                                       units::escaped(output), units::escaped(input), option));
  return {};
}

} // namespace pipec::plan
