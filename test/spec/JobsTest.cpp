// Jobs that run while ranks wait: what is read, and what is refused, with its place.
#include "runtime/plan/Limits.h"
#include "test/spec/Expect.h"

#include <fmt/format.h>

namespace pipec::spec::test {
namespace {

constexpr int64_t kUs = 1'000'000;

/// `jobs` stands on the fourth line.
std::string with(const std::string &jobs, const std::string &more = "") {
  return fmt::format("pipeline: {{ranks: 2, microbatches: 8}}\ncosts: {{forward: 2ms, backward: 4ms}}\n"
                     "schedule: 1f1b\njobs: {}\n{}",
                     jobs, more);
}

/// One job of the four keys that must be given, at column 15, and `more`, from column 61 on.
std::string job(const std::string &more = "", const std::string &outer = "") {
  return with(fmt::format("{{work: [{{name: vgg, samples: 8, atoms: 340, atom: 50us{}}}]{}}}", more, outer));
}

TEST(Jobs, noneUnlessGiven) {
  const Jobs jobs = right("pipeline: {ranks: 2, microbatches: 8}\ncosts: {forward: 2ms, backward: 4ms}\n"
                          "schedule: 1f1b\n")
                        .at(0)
                        .jobs;
  EXPECT_TRUE(jobs.work.empty());
}

TEST(Jobs, defaults) {
  const Jobs jobs = right(job()).at(0).jobs;
  EXPECT_EQ(jobs.mark.line, 4);
  EXPECT_EQ(jobs.mark.column, 7);
  EXPECT_EQ(jobs.slowDown.value, 10'000);
  EXPECT_EQ(jobs.slowDown.mark.line, 4) << "what is not given stands where the jobs do";
  EXPECT_FALSE(jobs.fillsCollectives);
  ASSERT_EQ(jobs.work.size(), 1u);
  const Job &only = jobs.work[0];
  EXPECT_EQ(only.name, "vgg");
  EXPECT_EQ(only.mark.column, 15);
  EXPECT_EQ(only.samples, 8);
  EXPECT_EQ(only.atoms, 340);
  EXPECT_EQ(only.atom.value, 50 * kUs);
  EXPECT_EQ(only.overhead, 0);
  EXPECT_EQ(only.memory.value, 0);
  EXPECT_EQ(only.memory.mark.column, 15);
  EXPECT_FALSE(only.ranks);
  EXPECT_FALSE(only.piece);
  EXPECT_EQ(only.provider, "");
}

TEST(Jobs, everyKey) {
  const Jobs jobs = right(job(", overhead: 20us, memory: 6GiB, ranks: [1, 0], piece: 300us, provider: {batch: 8}}, "
                              "{name: A-1_b.c, samples: 1, atoms: 1, atom: 1ps, ranks: [1]",
                              ", slow_down: 2.5%, collectives: fill"))
                        .at(0)
                        .jobs;
  EXPECT_EQ(jobs.slowDown.value, 25'000);
  EXPECT_TRUE(jobs.fillsCollectives);
  ASSERT_EQ(jobs.work.size(), 2u);
  const Job &first = jobs.work[0];
  EXPECT_EQ(first.overhead, 20 * kUs);
  EXPECT_EQ(first.memory.value, int64_t(6) << 30);
  EXPECT_EQ(first.ranks, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(first.piece->value, 6);
  EXPECT_EQ(first.provider, R"({"batch":8})");
  EXPECT_EQ(jobs.work[1].name, "A-1_b.c");
  EXPECT_EQ(jobs.work[1].ranks, (std::vector<int32_t>{1}));
  EXPECT_EQ(jobs.work[1].atom.value, 1);
  EXPECT_EQ(right(job(", piece: 0.05ms")).at(0).jobs.work.at(0).piece->value, 1);
}

TEST(Jobs, slowDownIsAPercentageOrADecimal) {
  const std::pair<const char *, int64_t> percentages[] = {{"1%", 10'000}, {"0.01", 10'000}, {"'1%'", 10'000}};
  for (const auto &[text, millionths] : percentages)
    EXPECT_EQ(right(job("", fmt::format(", slow_down: {}", text))).at(0).jobs.slowDown.value, millionths) << text;
  const std::pair<const char *, const char *> refused[] = {
      {"101%", "'101%'"}, {"0%", "'0%'"}, {"0", "'0'"}, {"'0.01'", "'0.01'"}, {"[1%]", "a list"}};
  for (const auto &[text, found] : refused)
    EXPECT_EQ(
        wrong(job("", fmt::format(", slow_down: {}", text))),
        fmt::format("4:76: error: jobs.slow_down: expected a percentage from 0.0001% to 100%, at most four digits "
                    "after the point, or a number from 0.000001 to 1, at most six, found {}",
                    found));
}

TEST(Jobs, wrongKeys) {
  for (const auto &[jobs, message] : std::vector<std::pair<std::string, std::string>>{
           {"3", "4:7: error: jobs: expected a map, found '3'"},
           {"{}", "4:7: error: jobs.work is missing"},
           {"{work: []}", "4:14: error: jobs.work: expected 1 to 256 jobs, found 0"},
           {"{work: {name: vgg}}", "4:14: error: jobs.work: expected a list of maps, found a map"},
           {"{work: [vgg]}", "4:15: error: jobs.work[0]: expected a map, found 'vgg'"},
           {"{work: [{}]}", "4:15: error: jobs.work[0].name is missing\n4:15: error: jobs.work[0].samples is missing\n"
                            "4:15: error: jobs.work[0].atoms is missing\n4:15: error: jobs.work[0].atom is missing"},
       })
    EXPECT_EQ(wrong(with(jobs)), message) << jobs;
  EXPECT_EQ(wrong(job("", ", collectives: loud")), "4:78: error: jobs.collectives: expected quiet, fill, found 'loud'");
}

TEST(Jobs, wrongJobs) {
  for (const auto &[more, message] : std::vector<std::pair<std::string, std::string>>{
           {"pieces: 300us", "4:63: error: jobs.work[0].pieces: unknown key; did you mean 'piece'?"},
           {"ranks: []", "4:70: error: jobs.work[0].ranks: expected integers, found an empty list"},
           {"ranks: 0", "4:70: error: jobs.work[0].ranks: expected a list of integers, found '0'"},
           {"ranks: [0, 2]", "4:74: error: jobs.work[0].ranks[1]: expected a rank from 0 to 1, found 2"},
           {"ranks: [1, 0, 1]",
            "4:77: error: jobs.work[0].ranks[2]: rank 1 is given twice\n4:71: note: first given here"},
           {"ranks: [65536]", "4:71: error: jobs.work[0].ranks[0]: expected an integer from 0 to 65535, found '65536'"},
           {"piece: 0us", "4:70: error: jobs.work[0].piece: expected a multiple of the atom, 50us or 100us, found "
                          "'0us'"},
           {"piece: 20us", "4:70: error: jobs.work[0].piece: expected a multiple of the atom, 50us or 100us, found "
                           "'20us'"},
           {"piece: 0.32ms", "4:70: error: jobs.work[0].piece: expected a multiple of the atom, 300us or 350us, found "
                             "'0.32ms'"},
           {"piece: 999999999us", "4:70: error: jobs.work[0].piece: expected a multiple of the atom, 999999950us or "
                                  "1000s, found '999999999us'"},
           {"provider: 3", "4:73: error: jobs.work[0].provider: expected a map, found '3'"},
       })
    EXPECT_EQ(wrong(job(", " + more)), message) << more;
}

TEST(Jobs, wrongIterations) {
  const auto of = [](const std::string &samples, const std::string &atoms, const std::string &atom) {
    return wrong(with(fmt::format("{{work: [{{name: a, samples: {}, atoms: {}, atom: {}}}]}}", samples, atoms, atom)));
  };
  EXPECT_EQ(of("0", "1", "1us"), "4:34: error: jobs.work[0].samples: expected an integer from 1 to "
                                 "1000000000000000000, found '0'");
  EXPECT_EQ(of("1", "0", "1us"), "4:44: error: jobs.work[0].atoms: expected an integer from 1 to 1048576, found '0'");
  EXPECT_EQ(of("1", "1048577", "1us"),
            "4:44: error: jobs.work[0].atoms: expected an integer from 1 to 1048576, found '1048577'");
  EXPECT_EQ(of("1", "1", "0us"), "4:53: error: jobs.work[0].atom: expected at least 1ps, found '0us'");
  EXPECT_EQ(of("1", "11", "100000s"),
            "4:54: error: jobs.work[0].atom: expected an iteration of at most 10^18 ps, found 11 x 100000s");
  EXPECT_EQ(of("1", "1", "600000s, piece: 900000s"),
            "4:69: error: jobs.work[0].piece: expected a multiple of the atom, 600000s, found '900000s'");
  EXPECT_EQ(of("1", "1", "600000s, overhead: 500000s"),
            "4:15: error: jobs.work[0]: expected a piece of at most 10^18 ps with its overhead, found more");
  EXPECT_EQ(of("1", "1", "1500ps, piece: 1501ps"),
            "4:68: error: jobs.work[0].piece: expected a multiple of the atom, 1500ps or 3ns, found '1501ps'");
}

TEST(Jobs, names) {
  const auto named = [](const std::string &first, const std::string &second = "b") {
    const std::string rest = "samples: 1, atoms: 1, atom: 1us";
    return wrong(with(fmt::format("\n  work:\n  - {{name: {}, {}}}\n  - {{name: {}, {}}}", first, rest, second, rest)));
  };
  const std::string long64(64, 'n');
  EXPECT_EQ(named(long64), "");
  EXPECT_EQ(named(long64 + "n"), "6:12: error: jobs.work[0].name: expected 1 to 64 letters, digits, '-', '_' and '.', "
                                 "found 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…'");
  for (const char *name : {"", "a b", "a/b", "ä"})
    EXPECT_EQ(named(fmt::format("'{}'", name)),
              fmt::format("6:12: error: jobs.work[0].name: expected 1 to 64 letters, digits, '-', '_' and '.', found "
                          "'{}'",
                          name));
  EXPECT_EQ(named("vgg", "vgg"),
            "7:12: error: jobs.work[1].name: job 'vgg' is given twice\n6:12: note: first given here");
}

TEST(Jobs, limits) {
  const auto many = [](int count) {
    std::string jobs = "\n  work:\n";
    for (int i = 0; i < count; ++i)
      jobs += fmt::format("  - {{name: n{}, samples: 1, atoms: 1, atom: 1us}}\n", i);
    return with(jobs);
  };
  EXPECT_EQ(right(many(256)).at(0).jobs.work.size(), 256u);
  EXPECT_EQ(wrong(many(257)), "6:3: error: jobs.work: expected 1 to 256 jobs, found 257");
  // Of one job, and of all of them, which may repeat it.
  const std::string text(size_t(pipec::limits::kProviderBytes) - 8, 'x');
  EXPECT_EQ(right(job(", provider: {a: " + text + "}")).at(0).jobs.work.at(0).provider.size(), text.size() + 8);
  EXPECT_EQ(wrong(job(", provider: {a: x" + text + "}")),
            "4:73: error: jobs.work[0].provider: expected at most 262144 bytes as JSON, found more");
  EXPECT_EQ(wrong(with("\n  work:\n"
                       "  - {name: a, samples: 1, atoms: 1, atom: 1us, provider: &text {a: " +
                       text +
                       "}}\n"
                       "  - {name: b, samples: 1, atoms: 1, atom: 1us, provider: *text}")),
            "6:58: error: jobs.work[1].provider: expected at most 262144 bytes as JSON in all jobs, found more");
}

TEST(Jobs, settings) {
  const Jobs jobs = right(job(), {"jobs.slow_down=3%", "jobs.work[0].piece=100us"}).at(0).jobs;
  EXPECT_EQ(jobs.slowDown.value, 30'000);
  EXPECT_EQ(jobs.work.at(0).piece->value, 2);
}

TEST(Jobs, ofVariants) {
  const auto variants = [](const std::string &second) {
    return with("{work: [{name: a, samples: 1, atoms: 2, atom: 1ms, provider: {x: [1]}}]}",
                "variants:\n- {}\n- " + second + "\n");
  };
  const std::vector<Spec> specs = right(variants("{schedule: gpipe}"));
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[1].jobs.work.at(0).name, "a");
  EXPECT_EQ(wrong(variants("{jobs: {work: [{name: a, samples: 1, atoms: 2, atom: 1000us, provider: {x: [1]}}]}}")), "");
  EXPECT_EQ(wrong(variants("{jobs: {slow_down: 2%}}")),
            "7:22: error: jobs.slow_down: expected the same in all variants, found none in the first");
  EXPECT_EQ(wrong(variants("{jobs: {collectives: fill}}")),
            "7:24: error: jobs.collectives: expected the same in all variants, found none in the first");
  for (const char *other :
       {"name: b, samples: 1, atoms: 2, atom: 1ms, provider: {x: [1]}",
        "name: a, samples: 1, atoms: 2, atom: 1ms, provider: {x: [2]}",
        "name: a, samples: 1, atoms: 2, atom: 2ms, provider: {x: [1]}", "name: a, samples: 1, atoms: 2, atom: 1ms"})
    EXPECT_EQ(wrong(variants(fmt::format("{{jobs: {{work: [{{{}}}]}}}}", other))),
              "7:17: error: jobs.work: expected the same in all variants, found another\n"
              "4:14: note: the first variant's is given here")
        << other;
  const std::string two = "pipeline: {ranks: 2, microbatches: 8}\ncosts: {forward: 2ms, backward: 4ms}\n"
                          "variants:\n- {schedule: 1f1b}\n- {schedule: gpipe, jobs: {work: [{name: a, samples: 1, "
                          "atoms: 2, atom: 1ms}]}}\n";
  EXPECT_EQ(wrong(two + "schedule: 1f1b\n"),
            "5:34: error: jobs.work: expected the same in all variants, found none in the first");
}

TEST(Jobs, notWithShardsYet) {
  EXPECT_EQ(wrong("pipeline: {ranks: 2, microbatches: 8}\nschedule: 1f1b\nlayers:\n- count: 4\n  splits:\n"
                  "  - {name: heads, units: 16, forward: 8ms, backward: 16ms}\ntensor_parallel: {shards: 4}\n"
                  "jobs: {work: [{name: a, samples: 1, atoms: 1, atom: 1ms}]}\n"),
            "8:7: error: jobs: jobs with shards are not supported yet\n7:27: note: the shards are given here");
}

} // namespace
} // namespace pipec::spec::test
