// Splits of layers and shards of ranks: what is read, and what is refused, with its place.
#include "test/spec/Expect.h"

#include <fmt/format.h>

namespace pipec::spec::test {
namespace {

constexpr int64_t kMs = 1'000'000'000;

/// The layers begin on the third line, tensor_parallel on the ninth.
std::string sharded(const std::string &parallel = "shards: 4",
                    const std::string &pipeline = "ranks: 2, microbatches: 8",
                    const std::string &more = "schedule: 1f1b") {
  return fmt::format(
      "pipeline: {{{}}}\n{}\nlayers:\n- count: 4\n  forward: 1ms\n  backward: 2ms\n  splits:\n"
      "  - {{name: heads, units: 16, forward: 8ms, backward: 16ms, sum: 16MiB, activation: 16kB, weights: 32kB}}\n"
      "tensor_parallel: {{{}}}\n",
      pipeline, more, parallel);
}

TEST(TensorParallel, splitsArePlainTimeOfOneShard) {
  const Spec spec = right(sharded("shards: 1")).at(0);
  EXPECT_EQ(spec[Figure::Forward].values, std::vector<int64_t>(2, 18 * kMs));
  EXPECT_EQ(spec[Figure::Backward].values, std::vector<int64_t>(2, 36 * kMs));
  EXPECT_EQ(spec[Figure::Activation].values, std::vector<int64_t>(2, 32'000));
  EXPECT_EQ(spec[Figure::Static].values, std::vector<int64_t>(2, 64'000));
  const Layer &layer = spec.layers->entries.front();
  EXPECT_EQ(layer.own[Figure::Forward], kMs);
  EXPECT_EQ(layer.figures[Figure::Forward], 9 * kMs);
  ASSERT_EQ(layer.splits.size(), 1u);
  EXPECT_EQ(layer.splits[0].name, "heads");
  EXPECT_EQ(layer.splits[0].units, 16);
  EXPECT_EQ(layer.splits[0].sum, int64_t(16) << 20);
}

TEST(TensorParallel, aLayerMayBeSplitsAlone) {
  const Spec spec = right("pipeline: {ranks: 1, microbatches: 1}\nschedule: 1f1b\nlayers:\n"
                          "- splits: [{name: a, units: 2, forward: 1ms, backward_input: 2ms, backward_weight: 3ms},\n"
                          "           {name: b, units: 3, forward: 4ms, backward_input: 5ms, backward_weight: 6ms}]\n")
                        .at(0);
  EXPECT_EQ(spec[Figure::Forward].values, std::vector<int64_t>(1, 5 * kMs));
  EXPECT_EQ(spec[Figure::BackwardWeight].values, std::vector<int64_t>(1, 9 * kMs));
  EXPECT_FALSE(spec.has(Figure::Backward));
}

TEST(TensorParallel, shardsAndTheirBalance) {
  const TensorParallel auto0 = right(sharded("shards: 4, link: {latency: 20us, bandwidth: 100GB/s}, sequence: true,\n"
                                             "  slow: [{rank: 1, shard: 3, factor: 2.5}]"))
                                   .at(0)
                                   .tensorParallel;
  EXPECT_EQ(auto0.shards.value, 4);
  EXPECT_EQ(auto0.link.latency, 20'000'000);
  EXPECT_TRUE(auto0.sequence);
  EXPECT_EQ(auto0.slow.at(0).factor, 2'500'000);
  EXPECT_EQ(auto0.balance.kind.value, BalanceKind::Auto);
  EXPECT_EQ(auto0.balance.most, 0);
  const Balance most = right(sharded("shards: 4, balance: {name: auto, most: 0.125}")).at(0).tensorParallel.balance;
  EXPECT_EQ(most.most, 125'000);
  const Balance resize = right(sharded("shards: 4, balance: {name: resize, gamma: 0.5, reference: mean, impute: same,\n"
                                       "  priority: random}"))
                             .at(0)
                             .tensorParallel.balance;
  EXPECT_EQ(resize.kind.value, BalanceKind::Resize);
  EXPECT_EQ(resize.gamma, 500'000);
  EXPECT_EQ(resize.reference, Reference::Mean);
  EXPECT_EQ(resize.impute, Impute::Same);
  EXPECT_EQ(resize.priority, KeepFirst::Random);
  EXPECT_FALSE(right(sharded("shards: 4, balance: {name: resize, gamma: auto}")).at(0).tensorParallel.balance.gamma);
  EXPECT_EQ(right(sharded("shards: 4, balance: {name: semi, part: 0.25}")).at(0).tensorParallel.balance.part, 250'000);
}

struct Refused {
  std::string parallel, message;
};

TEST(TensorParallel, whatIsRefused) {
  const Refused refused[] = {
      {"shards: 0", "9:27: error: tensor_parallel.shards: expected an integer from 1 to 65536, found '0'"},
      {"shards: 4, slow: [{rank: 0, shard: 0, factor: 0}]",
       "9:65: error: tensor_parallel.slow[0].factor: expected a number from 0.000001 to 1000, at most six digits after "
       "the point, found '0'"},
      {"shards: 4, slow: [{rank: 2, shard: 0, factor: 2}]",
       "9:44: error: tensor_parallel.slow[0].rank: expected a rank from 0 to 1, found 2"},
      {"shards: 4, slow: [{rank: 0, shard: 4, factor: 2}]",
       "9:54: error: tensor_parallel.slow[0].shard: expected a shard from 0 to 3, found 4"},
      {"shards: 4, slow: [{rank: 0, shard: 1, factor: 2}, {rank: 0, shard: 1, factor: 3}]",
       "9:69: error: tensor_parallel.slow[1]: shard 1 of rank 0 is given twice\n9:37: note: first given here"},
      {"shards: 1, slow: [{rank: 0, shard: 0, factor: 2}]",
       "9:36: error: tensor_parallel.slow: expected two shards or more, of which some are slow, found 1"},
      {"shards: 4, balance: {name: auto, most: 1}",
       "9:58: error: tensor_parallel.balance.most: expected a number from 0 to 0.999999, at most six digits after the "
       "point, found '1'"},
      {"shards: 4, balance: {name: even, most: 0.5}",
       "9:58: error: tensor_parallel.balance.most: even has no such parameter; auto has"},
      {"shards: 4, balance: fair",
       "9:39: error: tensor_parallel.balance: expected auto, even, migrate, resize, semi, found 'fair'"},
      {"shards: 4, balance: {name: resize, impute: nothing}",
       "9:62: error: tensor_parallel.balance.impute: expected zero, average, same, found 'nothing'"},
      {"shards: 4, balance: {name: resize, priority: last}",
       "9:64: error: tensor_parallel.balance.priority: expected change, random, first, found 'last'"},
      {"shards: 4, balance: {name: resize, gamma: much}",
       "9:61: error: tensor_parallel.balance.gamma: expected auto, or a number from 0 to 0.999999, at most six digits "
       "after the point, found 'much'"},
      {"shards: 40000",
       "9:27: error: tensor_parallel.shards: expected at most 65536 processes, found 2 ranks x 40000 shards"},
  };
  for (const Refused &each : refused)
    EXPECT_EQ(wrong(sharded(each.parallel)), each.message) << each.parallel;
}

TEST(TensorParallel, whatItDoesNotGoWithYet) {
  const std::string here = "\n9:27: note: the shards are given here";
  EXPECT_EQ(wrong("pipeline: {ranks: 2, microbatches: 8}\nschedule: 1f1b\ncosts: {forward: 1ms, backward: 2ms}\n"
                  "tensor_parallel: {shards: 4}\n"),
            "4:27: error: tensor_parallel.shards: expected layers with splits, which shards share, found none: give "
            "layers[].splits");
  const auto with = [](const std::string &more, const std::string &pipeline = "ranks: 2, microbatches: 8") {
    return wrong(sharded("shards: 4", pipeline, more));
  };
  EXPECT_EQ(
      with("data_parallel: {degree: 2}\nschedule: 1f1b"),
      "2:25: error: data_parallel.degree: replicas with shards are not supported yet\n10:27: note: the shards are "
      "given here");
  EXPECT_EQ(with("schedule: 1f1b", "ranks: 2, microbatches: 8, placement: bidirectional"),
            "1:50: error: pipeline.placement: bidirectional placement with shards is not supported yet" + here);
  EXPECT_EQ(with("schedule: 1f1b", "ranks: 2, microbatches: 8, slices: 2"),
            "1:47: error: pipeline.slices: slices with shards are not supported yet" + here);
  EXPECT_EQ(with("weights: fill\nschedule: 1f1b"),
            "2:10: error: weights: fill with shards is not supported yet\n10:27: note: the shards are given here");
  EXPECT_EQ(
      with("costs: {overlapped: 60ms}\nschedule: 1f1b"),
      "2:21: error: costs.overlapped: overlapped pairs with shards are not supported yet\n10:27: note: the shards "
      "are given here");
}

std::string layer(const std::string &splits, const std::string &own = "forward: 1ms, backward: 2ms, ") {
  return fmt::format("pipeline: {{ranks: 1, microbatches: 1}}\nschedule: 1f1b\nlayers:\n- {{{}splits: [{}]}}\n", own,
                     splits);
}

TEST(TensorParallel, wrongSplits) {
  EXPECT_EQ(wrong(layer("{name: a, units: 0, forward: 1ms, backward: 2ms}")),
            "4:59: error: layers[0].splits[0].units: expected an integer from 1 to 1048576, found '0'");
  EXPECT_EQ(wrong(layer("{name: a, units: 1, forward: 1ms, backward: 2ms}, {name: a, units: 1, forward: 1ms, backward: "
                        "2ms}")),
            "4:99: error: layers[0].splits[1].name: expected each name once in a layer, found 'a' again\n4:42: note: "
            "first given here");
  EXPECT_EQ(wrong(layer(fmt::format("{{name: {}, units: 1, forward: 1ms, backward: 2ms}}", std::string(257, 'a')))),
            fmt::format("4:49: error: layers[0].splits[0].name: expected a name of at most 256 bytes of UTF-8 without "
                        "control characters, found '{}…': 257 bytes are over the limit of 256",
                        std::string(40, 'a')));
  EXPECT_EQ(wrong(layer("{name: \"a\\e[31m\", units: 1, forward: 1ms, backward: 2ms}")),
            "4:49: error: layers[0].splits[0].name: expected a name of at most 256 bytes of UTF-8 without control "
            "characters, found 'a\\x1b[31m': byte 1 begins a control character");
  EXPECT_EQ(wrong(layer("")), "4:41: error: layers[0].splits: expected at least one split, found an empty list");
  EXPECT_EQ(wrong(layer("{name: a, units: 1, forward: 1ms, backward_input: 1ms, backward_weight: 1ms}")),
            "4:42: error: layers[0].splits[0]: expected backward as in layers[0]");
  EXPECT_EQ(wrong(layer("{name: a, units: 1, backward: 1ms}")), "4:42: error: layers[0].splits[0].forward is missing");
  EXPECT_EQ(wrong("pipeline: {ranks: 1, microbatches: 1}\nschedule: 1f1b\nlayers: [{backward: 1ms}]\n"),
            "3:10: error: layers[0].forward is missing");
}

} // namespace
} // namespace pipec::spec::test
