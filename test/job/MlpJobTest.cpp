// The example of a job library: it trains, to the same bits whatever the pieces, and goes on from a saved state.
#include "runtime/job/MakeJob.h"
#include "test/launch/TempFolder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <vector>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr int64_t kHidden = 8, kLayers = 3, kData = 10, kSamples = 12, kAtoms = 4, kSeed = 7;
constexpr double kRate = 0.25;

std::string contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

class MlpJob : public test::TempFolder {
protected:
  std::string provider(double rate = kRate, int64_t hidden = kHidden) {
    return fmt::format(R"({{"hidden":{},"layers":{},"samples":{},"seed":{},"rate":{},"report":"{}/report"}})", hidden,
                       kLayers, kData, kSeed, rate, folder);
  }
  Status make(const JobSetup &setup) { return makeJob(PIPEC_MLP_JOB, setup, clock, job); }
  JobSetup setup() {
    return {.name = "mlp", .samples = kSamples, .atoms = kAtoms, .memory = 1 << 20, .provider = provider()};
  }
  void make() {
    const Status status = make(setup());
    ASSERT_TRUE(status.ok()) << status.message;
  }
  /// In pieces of so many.
  void run(int64_t first, int64_t behind, int64_t piece) {
    for (int64_t at = first; at < behind; at += piece) {
      const Status status = job->run(at, std::min(piece, behind - at));
      ASSERT_TRUE(status.ok()) << status.message;
    }
  }
  std::string stateAfter(int64_t atoms) {
    const std::string path = folder + "/state";
    const Status status = job->save(path, atoms);
    EXPECT_TRUE(status.ok()) << status.message;
    return contentOf(path);
  }
  std::vector<double> losses() {
    std::ifstream file(folder + "/report");
    std::vector<double> found;
    double loss;
    for (size_t iteration; file >> iteration >> loss; found.push_back(loss))
      EXPECT_EQ(iteration, found.size());
    return found;
  }

  const Clock clock{0};
  std::unique_ptr<Job> job;
};

TEST_F(MlpJob, HasTheSameBitsWhateverThePieces) {
  constexpr int64_t kRun = 5 * kAtoms + 3; // ends within an iteration
  make();
  run(0, kRun, kRun);
  const std::string expected = stateAfter(kRun);
  const std::vector<double> reported = losses();
  EXPECT_EQ(reported.size(), 5u);
  for (const int64_t piece : {1, 3, 7}) {
    std::filesystem::remove(folder + "/report");
    make();
    run(0, kRun, piece);
    EXPECT_TRUE(stateAfter(kRun) == expected) << "pieces of " << piece;
    EXPECT_EQ(losses(), reported);
  }
}

TEST_F(MlpJob, GoesOnFromASavedStateToTheSameBits) {
  constexpr int64_t kRun = 4 * kAtoms;
  make();
  run(0, kRun, kRun);
  const std::string expected = stateAfter(kRun);
  const std::vector<double> reported = losses();
  for (const int64_t saved : {0, 1, 7, 8}) {
    std::filesystem::remove(folder + "/report");
    make();
    run(0, saved, 2);
    const std::string state = stateAfter(saved);
    make();
    ASSERT_TRUE(job->load(folder + "/state", saved).ok());
    EXPECT_TRUE(stateAfter(saved) == state);
    run(saved, kRun, 3);
    EXPECT_TRUE(stateAfter(kRun) == expected) << "saved after " << saved;
    EXPECT_EQ(losses(), reported) << "saved after " << saved;
  }
}

TEST_F(MlpJob, LearnsAndTakesItsMemoryAtOnce) {
  make();
  const JobMemory before = job->memory();
  run(0, 60 * kAtoms, 5);
  const std::vector<double> all = losses();
  ASSERT_EQ(all.size(), 60u);
  EXPECT_LT(all.back(), all.front() / 2);
  constexpr int64_t kPadded = 4; // three rows an atom
  EXPECT_EQ(before.held, 4 * (2 * kLayers * (kHidden + 1) * kHidden + (2 * kLayers + 2) * kPadded * kHidden +
                              kHidden * std::max(kHidden, kPadded)));
  EXPECT_EQ(job->memory().held, before.held);
  EXPECT_EQ(job->memory().peak, before.held);
}

/// The same training, in doubles and as the formulas have it, from the weights of a state of no atoms.
class Reference {
public:
  explicit Reference(const std::string &state) {
    std::vector<float> saved(size_t(kLayers * (kHidden + 1) * kHidden));
    std::memcpy(saved.data(), state.data() + 8 * 8 + 8,
                saved.size() * sizeof(float)); // behind the numbers and the loss
    weights.assign(saved.begin(), saved.end());
  }

  double iterate(int64_t iteration) {
    std::vector<double> gradients(weights.size());
    double loss = 0;
    for (int64_t s = 0; s < kSamples; ++s)
      loss += sample((iteration * kSamples + s) % kData, gradients);
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] -= kRate * gradients[i];
    return loss / (kSamples * kHidden);
  }

private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  double &weight(std::vector<double> &of, int64_t layer, int64_t from, int64_t to) {
    return of[size_t((layer * (kHidden + 1) + from) * kHidden + to)]; // `from` beyond the last: the bias
  }

  double sample(int64_t number, std::vector<double> &gradients) {
    std::vector<std::vector<double>> x(kLayers + 1, std::vector<double>(kHidden)), pre = x;
    const uint64_t seed = mix(mix(kSeed + 1) ^ uint64_t(number));
    for (int64_t j = 0; j < kHidden; ++j)
      x[0][size_t(j)] = double(mix(seed + uint64_t(j + 1) * 0x9e3779b97f4a7c15u) >> 40) / 8388608 - 1;
    for (int64_t l = 0; l < kLayers; ++l)
      for (int64_t j = 0; j < kHidden; ++j) {
        double sum = weight(weights, l, kHidden, j);
        for (int64_t i = 0; i < kHidden; ++i)
          sum += x[size_t(l)][size_t(i)] * weight(weights, l, i, j);
        pre[size_t(l)][size_t(j)] = sum;
        x[size_t(l) + 1][size_t(j)] = x[size_t(l)][size_t(j)] + std::max(sum, 0.0);
      }
    double loss = 0;
    std::vector<double> d(kHidden);
    for (int64_t j = 0; j < kHidden; ++j) {
      const double off = x[kLayers][size_t(j)] - std::max(x[0][size_t((j + 1) % kHidden)], 0.0);
      loss += off * off;
      d[size_t(j)] = 2 * off / kSamples;
    }
    for (int64_t l = kLayers; l-- > 0;) {
      std::vector<double> before = d;
      for (int64_t j = 0; j < kHidden; ++j) {
        if (pre[size_t(l)][size_t(j)] <= 0)
          continue;
        weight(gradients, l, kHidden, j) += d[size_t(j)];
        for (int64_t i = 0; i < kHidden; ++i) {
          weight(gradients, l, i, j) += x[size_t(l)][size_t(i)] * d[size_t(j)];
          before[size_t(i)] += weight(weights, l, i, j) * d[size_t(j)];
        }
      }
      d = before;
    }
    return loss;
  }

  std::vector<double> weights;
};

TEST_F(MlpJob, DescendsTheGradient) {
  make();
  Reference reference(stateAfter(0));
  run(0, 8 * kAtoms, 3);
  const std::vector<double> found = losses();
  ASSERT_EQ(found.size(), 8u);
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(found[size_t(i)] / reference.iterate(i), 1, 1e-4) << "iteration " << i;
}

TEST_F(MlpJob, RefusesAnotherState) {
  make();
  run(0, 5, 5);
  const std::string path = folder + "/state", state = stateAfter(5);
  const auto load = [&](const std::string &from, int64_t atoms) { return job->load(from, atoms).message; };
  const std::string own = "rank 0: job mlp: cannot load: ", not5 = ": is not the state of this job after 5 atoms";
  EXPECT_EQ(job->save(path, 4).message, "rank 0: job mlp: cannot save: 5 atoms have run, expected 4");
  EXPECT_EQ(job->save(folder + "/no/state", 5).message,
            "rank 0: job mlp: cannot save: " + folder + "/no/state: cannot be written");
  make();
  EXPECT_EQ(load(path, 6), own + path + ": is not the state of this job after 6 atoms");
  EXPECT_EQ(load(folder + "/absent", 5), own + folder + "/absent: cannot be read");
  const std::string other = folder + "/other";
  for (const std::string &wrong :
       {std::string(), state.substr(0, state.size() - 1), state + "1", "X" + state.substr(1)}) {
    std::ofstream(other, std::ios::binary) << wrong;
    make();
    EXPECT_EQ(load(other, 5), own + other + not5);
  }
  JobSetup longer = setup();
  longer.samples = 2 * kSamples;
  ASSERT_TRUE(make(longer).ok());
  EXPECT_EQ(load(path, 5), own + path + not5);
}

TEST_F(MlpJob, SaysWhatIsWrong) {
  const auto says = [&](auto change) {
    JobSetup changed = setup();
    change(changed);
    const Status status = make(changed);
    EXPECT_EQ(status.code, Code::Run);
    return status.message;
  };
  const std::string own = "rank 0: job mlp: ";
  EXPECT_EQ(says([](JobSetup &s) { s.provider = "null"; }), own + "provider: hidden is missing; it must be a number");
  EXPECT_EQ(says([&](JobSetup &s) { s.provider = provider(kRate, 6); }),
            own + "provider: hidden is 6, expected a multiple of 4");
  EXPECT_EQ(says([](JobSetup &s) { s.atoms = 5; }),
            own + "an iteration has 12 samples in 5 atoms, expected 1 to 65536 in each, in all the same");
  EXPECT_EQ(says([](JobSetup &s) { s.memory = 1000; }), own + "takes 3008 bytes, the plan's memory for it is 1000");
  EXPECT_EQ(says([](JobSetup &s) { s.device = 0; }), own + "computes on the host alone");

  make();
  EXPECT_EQ(job->run(1, 1).message, own + "the piece begins at atom 1, expected 0");
  JobSetup fast = setup();
  fast.provider = provider(1e30);
  ASSERT_TRUE(make(fast).ok());
  const Status status = job->run(0, 4 * kAtoms);
  EXPECT_EQ(status.code, Code::Run);
  EXPECT_EQ(status.message, own + "the loss is not finite in iteration 1; lower the provider's rate, which is 1e+30");
  std::filesystem::remove(folder + "/report");
  std::filesystem::create_directory(folder + "/report");
  make();
  EXPECT_EQ(job->run(0, kAtoms).message, own + folder + "/report: cannot be written");
}

} // namespace
