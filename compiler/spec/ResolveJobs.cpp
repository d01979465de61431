// `jobs`: background work of one process each, for the time in which ranks wait.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string_view>

namespace pipec::spec {
namespace {

/// In the largest unit that needs no point: 350us.
std::string lengthText(int64_t picoseconds) {
  int64_t unit = 1'000'000'000'000;
  for (const char *name : {"s", "ms", "us", "ns"}) {
    if (picoseconds % unit == 0)
      return fmt::format("{}{}", picoseconds / unit, name);
    unit /= 1000;
  }
  return fmt::format("{}ps", picoseconds);
}

bool isName(std::string_view text) {
  return !text.empty() && int64_t(text.size()) <= limits::kJobNameBytes &&
         text.find_first_not_of(limits::kJobNameCharacters) == text.npos;
}

void readName(const Lookup &lookup, const std::string &path, Job &job, std::map<std::string, Mark> &first) {
  Marked<std::string> name;
  if (!lookup.get(path))
    return;
  lookup.text(path, name);
  job.name = name.value;
  if (!isName(job.name))
    lookup.errors.add(name.mark, fmt::format("{}: expected 1 to {} letters, digits, '-', '_' and '.', found {}", path,
                                             limits::kJobNameBytes, quoted(job.name)));
  else if (const auto [at, isNew] = first.emplace(job.name, name.mark); !isNew)
    lookup.errors.add(name.mark, fmt::format("{}: job {} is given twice", path, quoted(job.name)), at->second,
                      "first given here");
}

void readRanks(const Lookup &lookup, const std::string &path, const Spec &spec, Job &job) {
  const Value *value = lookup.get(path);
  if (!value)
    return;
  std::map<int64_t, Mark> first;
  for (size_t i = 0; i < value->numbers.size() && !lookup.errors.full(); ++i) {
    const int64_t rank = value->numbers[i].fixed;
    const Mark mark = value->numbers[i].mark;
    if (spec.ranks.value > 0 && rank >= spec.ranks.value)
      lookup.errors.add(
          mark, fmt::format("{}[{}]: expected a rank from 0 to {}, found {}", path, i, spec.ranks.value - 1, rank));
    if (const auto [at, isNew] = first.emplace(rank, mark); !isNew)
      lookup.errors.add(mark, fmt::format("{}[{}]: rank {} is given twice", path, i, rank), at->second,
                        "first given here");
  }
  job.ranks.emplace();
  for (const auto &[rank, mark] : first)
    job.ranks->push_back(int32_t(rank));
}

void readPiece(const Lookup &lookup, const std::string &path, Job &job) {
  const Value *piece = lookup.get(path);
  const int64_t atom = job.atom.value;
  if (!piece || atom == 0) // of an atom that is missing or wrong an error stands already
    return;
  const int64_t length = piece->numbers[0].fixed, atoms = std::max<int64_t>(length / atom, 1);
  if (length != atoms * atom) {
    const int64_t more = (atoms + 1) * atom;
    lookup.errors.add(piece->mark,
                      fmt::format("{}: expected a multiple of the atom, {}{}, found {}", path, lengthText(atoms * atom),
                                  more > limits::kTime ? "" : fmt::format(" or {}", lengthText(more)),
                                  quoted(piece->node->text)));
  }
  job.piece = {atoms, piece->mark};
}

Job readJob(const Lookup &lookup, const std::string &path, const Spec &spec, std::map<std::string, Mark> &first) {
  Job job;
  job.mark = job.memory.mark = lookup.markOf(path);
  const auto number = [&](const char *name, int64_t &into) {
    if (const Value *value = lookup.get(path + name))
      into = value->numbers[0].fixed;
  };
  readName(lookup, path + ".name", job, first);
  number(".samples", job.samples);
  number(".atoms", job.atoms);
  lookup.single(path + ".atom", job.atom);
  if (static_cast<__int128>(job.atoms) * job.atom.value > limits::kTime)
    lookup.errors.add(job.atom.mark, fmt::format("{}.atom: expected an iteration of at most 10^18 ps, found {} x {}",
                                                 path, job.atoms, lengthText(job.atom.value)));
  number(".overhead", job.overhead);
  lookup.single(path + ".memory", job.memory);
  readRanks(lookup, path + ".ranks", spec, job);
  readPiece(lookup, path + ".piece", job);
  if (job.shortest() > limits::kTime)
    lookup.errors.add(job.mark,
                      fmt::format("{}: expected a piece of at most 10^18 ps with its overhead, found more", path));
  job.provider = readProvider(lookup, path + ".provider");
  return job;
}

void readWork(const Lookup &lookup, const Spec &spec, std::vector<Job> &work) {
  const Value *list = lookup.get("jobs.work");
  const size_t count = list ? list->node->items.size() : 0;
  if (list && (count < 1 || count > size_t(limits::kJobs))) {
    lookup.errors.add(list->mark, fmt::format("jobs.work: expected 1 to {} jobs, found {}", limits::kJobs, count));
    return;
  }
  std::map<std::string, Mark> first;
  size_t bytes = 0; // of all providers: aliases may repeat one in every job
  for (size_t i = 0; i < count && !lookup.errors.full(); ++i) {
    const std::string path = fmt::format("jobs.work[{}]", i);
    work.push_back(readJob(lookup, path, spec, first));
    bytes += work.back().provider.size();
    if (bytes > size_t(limits::kProviderBytes)) {
      lookup.errors.add(lookup.markOf(path + ".provider"),
                        fmt::format("{}.provider: expected at most {} bytes as JSON in all jobs, found more", path,
                                    limits::kProviderBytes));
      return;
    }
  }
}

} // namespace

void resolveJobs(const Lookup &lookup, Spec &spec) {
  Jobs &jobs = spec.jobs;
  jobs.mark = jobs.slowDown.mark = lookup.markOf("jobs");
  if (!lookup.get("jobs"))
    return;
  lookup.single("jobs.slow_down", jobs.slowDown);
  if (const Value *collectives = lookup.get("jobs.collectives"))
    jobs.fillsCollectives = collectives->numbers[0].fixed != 0;
  readWork(lookup, spec, jobs.work);
  if (const Marked<int32_t> &shards = spec.tensorParallel.shards; shards.value > 1)
    lookup.errors.add(jobs.mark, "jobs: jobs with shards are not supported yet", shards.mark,
                      "the shards are given here");
}

} // namespace pipec::spec
