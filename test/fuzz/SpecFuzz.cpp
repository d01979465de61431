// Any bytes as a spec: refused with a place and words, or read into variants whose values are within the limits. What
// follows a NUL, which no spec holds, is laid over it as by --set.
#include "compiler/spec/Keys.h"
#include "compiler/spec/Reader.h"
#include "compiler/spec/Stages.h"
#include "runtime/plan/Limits.h"
#include "test/fuzz/Mutate.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace {

using namespace pipec;
using namespace pipec::spec;

void hold(bool rule) {
  if (!rule)
    std::abort();
}

void checkErrors(const std::vector<Diagnostic> &diagnostics) {
  for (const Diagnostic &diagnostic : diagnostics) {
    hold(diagnostic.line > 0 && diagnostic.column > 0 && !diagnostic.message.empty());
    hold(toString(diagnostic).find('\n') == std::string::npos || !diagnostic.notes.empty());
  }
}

void checkValues(const Spec &spec, const PerStage &values, int64_t most) {
  hold(values.values.size() == (values.list ? size_t(spec.stages) : 1) && values.marks.size() == values.values.size());
  for (size_t stage = 0; stage < size_t(spec.stages); ++stage) {
    hold(values[stage] >= 0 && values[stage] <= most);
    hold(size_t(values.markOf(stage).source) < spec.sources.size());
  }
}

void checkJobs(const Spec &spec) {
  hold(spec.jobs.slowDown.value > 0 && spec.jobs.slowDown.value <= kWholePart &&
       spec.jobs.work.size() <= size_t(limits::kJobs));
  for (const Job &job : spec.jobs.work) {
    hold(!job.name.empty() && job.atom.value > 0 && job.atoms > 0 && job.atoms <= limits::kTime / job.atom.value);
    hold(job.overhead <= limits::kTime && job.memory.value <= limits::kBytes);
    hold(!job.piece || (job.piece->value > 0 && job.piece->value <= limits::kTime / job.atom.value));
    hold(!job.ranks || (!job.ranks->empty() && std::is_sorted(job.ranks->begin(), job.ranks->end()) &&
                        job.ranks->back() < spec.ranks.value));
  }
}

void checkSpec(const Spec &spec) {
  hold(spec.ranks.value > 0 && spec.microbatches.value > 0 && spec.stages > 0 && spec.stages <= limits::kStages);
  hold(spec.has(Figure::Backward) != spec.has(Figure::BackwardInput));
  hold(spec.has(Figure::BackwardInput) == spec.has(Figure::BackwardWeight));
  for (const plan::FigureRow &row : plan::kFigureTable)
    checkValues(spec, spec[row.figure], plan::mostOf(row));
  checkJobs(spec);
}

/// Keys and what they take.
std::vector<std::string> dictionary() {
  std::vector<std::string> words = {"1ms",  "3.5us",  "16MiB", "0B",   "12.5GB/s", "unlimited", "kfkb",
                                    "1f1b", "k",      "group", "name", "~",        "\n  ",      "{}",
                                    "[]",   "[0, 1]", "&a ",   "*a",   "null",     "true",      "1%"};
  for (const Key &key : keys()) {
    words.emplace_back(key.name());
    for (std::string_view choice : key.choices)
      words.emplace_back(choice);
  }
  return words;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  static const std::vector<std::string> known = dictionary();
  fuzz::Random random(seed);
  if (random.oneIn(3))
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = fuzz::textOf(data, size);
  for (size_t changes = 1 + random.below(3); changes > 0; --changes)
    if (random.oneIn(4))
      fuzz::changeParts(text, random.oneIn(3) ? ',' : '\n', random);
    else
      fuzz::changeWord(text, known, random);
  return fuzz::give(text, data, maxSize);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i)
    if (data[i] == 0 && parts.size() < 4)
      parts.emplace_back();
    else
      parts.back() += char(data[i]);
  const std::vector<std::string> set(parts.begin() + 1, parts.end());
  std::vector<Spec> variants;
  std::vector<Diagnostic> diagnostics;
  const bool right = readSpecsText(parts[0], "spec.yaml", set, variants, diagnostics);
  hold(right == diagnostics.empty());
  checkErrors(diagnostics);
  if (!right)
    return 0;
  hold(!variants.empty() && int64_t(variants.size()) <= limits::kVariants);
  std::set<std::string> names;
  for (Spec &spec : variants) {
    hold(names.insert(spec.variantName).second);
    for (int32_t stages : {2 * spec.ranks.value, spec.stages}) {
      Spec whole = spec;
      if (setStages(whole, stages, diagnostics))
        checkSpec(whole);
      else
        hold(stages != spec.stages || !spec.stagesGiven); // it was checked then
    }
    checkErrors(diagnostics);
    diagnostics.clear();
  }
  return 0;
}
