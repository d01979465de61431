// Decodes a plan: rules P1 to P5 (rules/RULES.md), which look at the file, and then the rules that look at tables.
// FlatBuffers' verifier proves that every offset stays in the file. This file refuses what the verifier lets pass, and
// what would cost more memory than the file is long (tables that many others point to).
#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/plan_generated.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <cstring>
#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>
#include <map>
#include <utility>
#include <zlib.h>

namespace pipec::plan {
namespace {

uint64_t getLittle(std::span<const uint8_t> file, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i)
    value |= uint64_t(file[at + i]) << (8 * i);
  return value;
}

/// P1: the file is a plan.
Status checkMagic(std::span<const uint8_t> file) {
  if (file.size() < kHeaderBytes)
    return Status::input(fmt::format("P1: not a plan: {} bytes, a plan has at least {}", file.size(), kHeaderBytes));
  if (std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    return Status::input(fmt::format("P1: not a plan: it does not begin with {}", kMagic));
  if (file.size() > size_t(limits::kPlanBytes))
    return Status::input(
        fmt::format("P1: {} bytes are over the limit of a plan, {} bytes", file.size(), limits::kPlanBytes));
  return {};
}

/// P2: this build can read its format version.
Status checkVersion(std::span<const uint8_t> file) {
  const uint64_t major = getLittle(file, kMajorAt, 2), minor = getLittle(file, kMinorAt, 2);
  if (major != kMajor || minor > kMinor)
    return Status::input(fmt::format("P2: the plan has format {}.{}, this build reads {}.0 to {}.{}: compile it again",
                                     major, minor, kMajor, kMajor, kMinor));
  return {};
}

/// P3: nothing has changed since it was written.
Status checkChecksum(std::span<const uint8_t> file) {
  const std::span<const uint8_t> rest = file.subspan(kHeaderBytes);
  const uint64_t expected = getLittle(file, kChecksumAt, 4);
  const uint64_t found = crc32(0, rest.data(), uInt(rest.size()));
  if (expected != found)
    return Status::input(
        fmt::format("P3: the file is damaged: its checksum is {:08x}, its header says {:08x}", found, expected));
  return {};
}

Status unsupported(const char *what) {
  return Status::input(fmt::format("P5: {} not supported yet: a newer pipec is needed", what));
}

/// Turns verified FlatBuffers into structs and keeps the first failure.
class Reader {
public:
  Reader(size_t fileBytes, uint64_t minor) : budget(fileBytes), minor(minor) {}
  Status status;

  void read(const file::Plan &in, Plan &out) {
    if (in.costs() && in.costs()->size() > 0)
      return fail(unsupported("cost overrides are"));
    out.specHash = in.spec_hash();
    rows(in.processes(), out.processes,
         [](const file::Process &p) { return Process{p.rank(), p.replica(), p.shard()}; });
    tables(
        in.groups(), out.groups,
        [this](const file::Group &g, Group &to) {
          if (g.members() && take(uint64_t(g.members()->size()) * 4))
            to.members.assign(g.members()->begin(), g.members()->end());
        },
        12);
    if (in.provider() && take(in.provider()->size()))
      out.provider.assign(in.provider()->begin(), in.provider()->end());
    tables(in.variants(), out.variants, [this](const file::Variant &v, Variant &to) { read(v, to); });
    if (status.ok() && minor < kWithGroups)
      addGroups(out);
    if (status.ok() && in.names())
      readNames(*in.names(), out);
  }

private:
  size_t budget;
  const uint64_t minor;
  static constexpr uint64_t kWithGroups = 3; // the first minor version in which collectives have them

  void fail(Status failure) {
    if (status.ok())
      status = std::move(failure);
  }

  /// P4: reading takes no more memory than the file is long, even if several places point to one part.
  bool take(uint64_t bytes) {
    if (bytes > budget)
      fail(Status::input("P4: the file is damaged: its tables share their rows"));
    else
      budget -= bytes;
    return status.ok();
  }

  /// P4: rows are aligned. FlatBuffers' verifier checks only where a vector begins.
  bool aligned(const void *rows, size_t to) {
    if (reinterpret_cast<uintptr_t>(rows) % to != 0)
      fail(Status::input("P4: the file is damaged: its rows are not aligned"));
    return status.ok();
  }

  template <typename Row, typename Ours, typename Convert>
  void rows(const flatbuffers::Vector<const Row *> *in, std::vector<Ours> &out, Convert convert) {
    if (!in || in->size() == 0 || !take(uint64_t(in->size()) * sizeof(Row)) || !aligned(in->Data(), alignof(Row)))
      return;
    out.reserve(in->size());
    for (const Row *row : *in)
      out.push_back(convert(*row));
  }

  template <typename Table, typename Ours, typename Convert>
  void tables(const flatbuffers::Vector<flatbuffers::Offset<Table>> *in, std::vector<Ours> &out, Convert convert,
              uint64_t least = 32) { // `least`: bytes of the smallest table with content: of a variant or a program
    if (!in || !take(uint64_t(in->size()) * least))
      return;
    out.resize(in->size());
    for (uint32_t i = 0; i < in->size() && status.ok(); ++i)
      convert(*in->Get(i), out[i]);
  }

  void read(const file::Variant &in, Variant &out) {
    out.stages = in.stages();
    out.microbatches = in.microbatches();
    out.memoryLimit = in.memory_limit();
    out.copies = in.copies();
    out.slices = in.slices();
    if (in.cut() && take(uint64_t(in.cut()->size()) * 4))
      out.cut.assign(in.cut()->begin(), in.cut()->end());
    out.cutBound = LeastTime::proven(in.cut_bound());
    out.launchOrder = in.launch_order();
    out.sharedPort = in.shared_port();
    rows(in.layers(), out.layers,
         [](const file::Layer &l) { return Layer{l.stage(), l.gradients(), l.weights(), l.sharded()}; });
    tables(in.own(), out.own, [this](const file::Own &o, Own &to) { read(o, to); }, 24);
    tables(in.portions(), out.portions, [this](const file::Portion &p, Portion &to) { read(p, to); });
    out.balance = text(in.balance());
    tables(in.jobs(), out.jobs, [this](const file::Job &j, Job &to) { read(j, to); });
    out.slowDown = in.slow_down();
    out.batch = in.batch();
    if (in.stage_groups() && take(uint64_t(in.stage_groups()->size()) * 4))
      out.stageGroups.assign(in.stage_groups()->begin(), in.stage_groups()->end());
    if (in.boundaries() && take(uint64_t(in.boundaries()->size()) * 8))
      out.boundaries.assign(in.boundaries()->begin(), in.boundaries()->end());
    tables(
        in.shared(), out.shared,
        [this](const file::SharedWeight &w, SharedWeight &to) {
          if (w.layers() && take(uint64_t(w.layers()->size()) * 4))
            to.layers.assign(w.layers()->begin(), w.layers()->end());
          if (w.stages() && take(uint64_t(w.stages()->size()) * 4))
            to.stages.assign(w.stages()->begin(), w.stages()->end());
          to.gradients = w.gradients();
        },
        16);
    if (const file::Certificate *c = in.certificate(); c && aligned(c, alignof(file::Certificate)))
      out.certificate = {c->makespan(),
                         c->span(),
                         LeastTime::proven(c->lower_bound()),
                         LeastTime::proven(c->span_lower_bound()),
                         Bound(c->bound()),
                         Bound(c->span_bound())};
    out.certificate.delay = in.delay();
    out.certificate.delayProven = in.delay_proven();
    tables(in.programs(), out.programs, [this](const file::Program &p, Program &to) { read(p, to); });
  }

  std::string text(const flatbuffers::String *in) { return in && take(in->size()) ? in->str() : std::string(); }

  void read(const file::Job &in, Job &out) {
    out.name = text(in.name());
    out.samples = in.samples();
    out.atoms = in.atoms();
    out.atom = in.atom();
    out.overhead = in.overhead();
    out.memory = in.memory();
    if (in.provider() && take(in.provider()->size()))
      out.provider.assign(in.provider()->begin(), in.provider()->end());
  }

  void read(const file::Own &in, Own &out) {
    out.factor = in.factor();
    rows(in.operations(), out.operations, [](const file::OwnCost &o) {
      return OwnCost{o.before(), o.between(), o.after(), o.activation(), o.context()};
    });
    out.staticBytes = in.static_bytes();
    out.workspace = in.workspace();
  }

  void read(const file::Portion &in, Portion &out) {
    out.stage = in.stage();
    out.shard = in.shard();
    out.firstLayer = in.first_layer();
    out.layers = in.layers();
    out.split = text(in.split());
    out.units = in.units();
    const auto range = [](const file::Range &r) { return Range{r.first(), r.count()}; };
    rows(in.owned(), out.owned, range);
    rows(in.worked(), out.worked, range);
    out.kept = in.kept();
  }

  void read(const file::Program &in, Program &out) {
    if ((in.enter() && in.enter()->size() > 0) || (in.leave() && in.leave()->size() > 0))
      return fail(unsupported("work that crosses steps (enter, leave) is"));
    out.rank = in.rank();
    if (in.stages() && take(uint64_t(in.stages()->size()) * 4))
      out.stages.assign(in.stages()->begin(), in.stages()->end());
    rows(in.queues(), out.queues,
         [](const file::Queue &q) { return Queue{QueueKind(q.kind()), Priority(q.priority())}; });
    rows(in.rings(), out.rings,
         [](const file::Ring &r) { return Ring{r.peer(), Direction(r.direction()), r.size(), r.slot_bytes()}; });
    rows(in.operations(), out.operations, [this](const file::Operation &o) { return operation(o); });
    rows(in.instructions(), out.instructions, [](const file::Instruction &i) {
      return Instruction{i.operation(), i.queue(), i.first_wait(), i.waits(), i.microbatch(), i.microbatch_stride()};
    });
    rows(in.waits(), out.waits,
         [](const file::Wait &w) { return Wait{w.queue(), w.previous_step(), w.base(), w.stride()}; });
    rows(in.step(), out.step, [](const file::Segment &s) { return Segment{s.first(), s.count(), s.trips()}; });
    out.staticBytes = in.static_bytes();
    out.workspace = in.workspace();
    out.memoryLimit = in.memory_limit();
    out.job = in.job();
    out.piece = in.piece();
    rows(in.windows(), out.windows,
         [](const file::Window &w) { return Window{w.instruction(), w.length(), w.from()}; });
  }

  Operation operation(const file::Operation &o) {
    if (o.part() != 0)
      fail(unsupported("operations on a part of a microbatch are"));
    if ((o.byte_begin() != 0 || o.byte_end() != 0) && !isCollective(Kind(o.kind())))
      fail(unsupported("transfers of a byte range are"));
    return {Kind(o.kind()), Payload(o.of()), o.stage(), o.peer(),        o.cost(),   o.latency(),    o.bytes(),
            o.activation(), o.context(),     o.group(), o.first_layer(), o.layers(), o.byte_begin(), o.byte_end()};
  }

  /// Before version 1.3 an all-reduce summed a norm over all ranks or, with a peer, the gradients of two ranks.
  static void addGroups(Plan &plan) {
    std::map<std::pair<int32_t, int32_t>, size_t> index;
    for (Variant &variant : plan.variants)
      for (Program &program : variant.programs)
        for (Operation &o : program.operations) {
          if (!isCollective(o.kind) || o.of != Payload::None)
            continue;
          o.of = o.peer == -1 ? Payload::Norm : Payload::Gradients;
          if (o.peer == -1)
            continue;
          const int32_t peer = std::exchange(o.peer, -1);
          const std::pair both(std::min(program.rank, peer), std::max(program.rank, peer));
          const auto [at, fresh] = index.try_emplace(both, plan.groups.size());
          if (fresh)
            plan.groups.push_back({{both.first, both.second}});
          o.group = int32_t(at->second);
        }
  }

  void readNames(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *in, std::string Variant::*name,
                 Plan &out) {
    if (!in)
      return;
    if (in->size() != out.variants.size())
      return fail(Status::input(
          fmt::format("P4: the file is damaged: {} names for {} variants", in->size(), out.variants.size())));
    for (uint32_t i = 0; i < in->size(); ++i)
      if (take(in->Get(i)->size()))
        out.variants[i].*name = in->Get(i)->str();
  }

  void readNames(const file::Names &in, Plan &out) {
    readNames(in.variants(), &Variant::name, out);
    readNames(in.schedules(), &Variant::schedule, out);
  }
};

/// P4: offsets stay in the buffer, and no part of it is read twice.
Status readBuffer(std::span<const uint8_t> buffer, uint64_t minor, Plan &plan) {
  constexpr flatbuffers::uoffset_t kDepth = 8; // plan, variant, program, rows
  const auto mostTables = flatbuffers::uoffset_t(buffer.size() / 8 + 1);
  flatbuffers::Verifier verifier(buffer.data(), buffer.size(), kDepth, mostTables);
  if (!verifier.VerifyBuffer<file::Plan>(nullptr))
    return Status::input("P4: the file is damaged: its tables point outside of it");
  Reader reader(buffer.size(), minor);
  reader.read(*flatbuffers::GetRoot<file::Plan>(buffer.data()), plan);
  return reader.status;
}

} // namespace

Status decode(std::span<const uint8_t> file, Plan &plan) {
  plan = {};
  for (const auto check : {checkMagic, checkVersion, checkChecksum})
    if (Status status = check(file); !status.ok())
      return status;
  const std::span<const uint8_t> buffer = file.subspan(kHeaderBytes);
  const uint64_t minor = getLittle(file, kMinorAt, 2);
  Plan read;
  Status status;
  if (reinterpret_cast<uintptr_t>(buffer.data()) % alignof(std::max_align_t) == 0) {
    status = readBuffer(buffer, minor, read);
  } else { // its rows are read in place, so they must be aligned
    const std::vector<uint8_t> aligned(buffer.begin(), buffer.end());
    status = readBuffer(aligned, minor, read);
  }
  if (status.ok())
    status = checkTables(read);
  if (status.ok())
    plan = std::move(read);
  return status;
}

} // namespace pipec::plan
