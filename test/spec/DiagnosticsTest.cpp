// Every kind of wrong spec, with the place and the words it is refused with. A case changes one line of a right spec.
#include "compiler/spec/Reader.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace pipec::spec;

namespace {

/// All that is wrong, a line each.
std::string wrong(std::string_view text, const std::vector<std::string> &set = {}) {
  Spec spec;
  std::vector<Diagnostic> diagnostics;
  bool right = readSpecText(text, "spec.yaml", set, spec, diagnostics);
  EXPECT_EQ(right, diagnostics.empty());
  std::string all;
  for (const Diagnostic &diagnostic : diagnostics)
    all += toString(diagnostic) + '\n';
  return all.substr(0, all.empty() ? 0 : all.size() - 1);
}

struct Lines {
  std::string pipeline = "pipeline: {ranks: 4, microbatches: 8}";
  std::string costs = "costs: {forward: 2ms, backward: 4ms}";
  std::string schedule = "schedule: 1f1b";
  std::string more = {};

  std::string text() const { return pipeline + "\n" + costs + "\n" + schedule + "\n" + more; }
};

struct Case {
  std::string line;
  std::string message; // without "spec.yaml:"
};

TEST(Diagnostics, pipeline) {
  for (const Case &c : {
           Case{"pipeline: {ranks: 4}", "1:11: error: pipeline.microbatches is missing (or batch and microbatch_size)"},
           {"pipeline: {microbatches: 8}", "1:11: error: pipeline.ranks is missing"},
           {"pipeline:", "1:1: error: pipeline: expected a map, found nothing"},
           {"pipeline: 3", "1:11: error: pipeline: expected a map, found '3'"},
           {"pipeline: {rank: 4, ranks: 4, microbatches: 8}",
            "1:12: error: pipeline.rank: unknown key; did you mean 'ranks'?"},
           {"pipeline: {forward: 4, ranks: 4, microbatches: 8}",
            "1:12: error: pipeline.forward: unknown key; did you mean 'costs.forward'?"},
           {"pipeline: {zzzzzz: 4, ranks: 4, microbatches: 8}",
            "1:12: error: pipeline.zzzzzz: unknown key; known here: ranks, stages_per_rank, placement, microbatches, "
            "batch, microbatch_size, slices, cut"},
           {"pipeline: {ranks: 4, microbatches: 8, ranks: 4}",
            "1:39: error: key 'ranks' is given twice\nspec.yaml:1:12: note: first given here"},
           {"pipeline: {ranks: 0, microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer from 1 to 65536, found '0'"},
           {"pipeline: {ranks: 65537, microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer from 1 to 65536, found '65537'"},
           {"pipeline: {ranks: 04, microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer without leading zeros, found '04'"},
           {"pipeline: {ranks: \"4\", microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer without quotes, found \"4\""},
           {"pipeline: {ranks: yes, microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer from 1 to 65536, found 'yes'"},
           {"pipeline: {ranks: {a: 1}, microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer from 1 to 65536, found a map"},
           {"pipeline: {ranks: [4], microbatches: 8}",
            "1:19: error: pipeline.ranks: expected an integer from 1 to 65536, found a list"},
           {"pipeline: {ranks: 4, microbatches: 1048577}",
            "1:36: error: pipeline.microbatches: expected an integer from 1 to 1048576, found '1048577'"},
           {"pipeline: {ranks: 65536, microbatches: 1048576}",
            "1:40: error: 65536 stages and 1048576 microbatches need 137438953472 instructions a step, over the limit "
            "of 2147483648"},
           {"pipeline: {ranks: 65536, stages_per_rank: 17, microbatches: 1}",
            "1:43: error: pipeline.stages_per_rank: expected at most 1048576 stages in all, found 1114112 on 65536 "
            "ranks"},
           {"pipeline: {ranks: 4, microbatches: 8, batch: 8}",
            "1:46: error: pipeline: give either microbatches, or batch and microbatch_size\n"
            "spec.yaml:1:36: note: microbatches is given here"},
           {"pipeline: {ranks: 4, batch: 8}",
            "1:29: error: pipeline.microbatch_size is missing: batch and microbatch_size go together"},
           {"pipeline: {ranks: 4, batch: 8, microbatch_size: 3}",
            "1:29: error: pipeline.batch: expected 1 to 1048576 times the microbatch_size 3, found 8"},
           {"pipeline: {ranks: 4, microbatches: 8, cut: [1, 1, 1, 1]}",
            "1:44: error: pipeline.cut: expected layers to cut, found none"},
           {"pipeline: {ranks: 4, microbatches: 8, cut: [1, 0, 1048577]}",
            "1:48: error: pipeline.cut[1]: expected an integer from 1 to 1048576, found '0'\n"
            "spec.yaml:1:51: error: pipeline.cut[2]: expected an integer from 1 to 1048576, found '1048577'"},
           {"pipeline: {ranks: 4, microbatches: 8, cut: []}",
            "1:44: error: pipeline.cut: expected integers, or auto, found an empty list"},
           {"pipeline: {ranks: 4, microbatches: 8, cut: 4}",
            "1:44: error: pipeline.cut: expected auto, or a list of integers, found '4'"},
       }) {
    Lines lines{.pipeline = c.line};
    EXPECT_EQ(wrong(lines.text()), "spec.yaml:" + c.message) << c.line;
  }
}

TEST(Diagnostics, placement) {
  auto with = [](const std::string &placement) {
    return Lines{.pipeline = "pipeline: {ranks: 2, microbatches: 8, placement: " + placement + "}"}.text();
  };
  for (const Case &c : {
           Case{"lop", "1:50: error: pipeline.placement: expected loop, v, bidirectional, or a list for each rank, "
                       "found 'lop'; did you mean 'loop'?"},
           {"{a: 1}", "1:50: error: pipeline.placement: expected loop, v, bidirectional, or a list for each rank, "
                      "found a map"},
           {"[[0, 3], [1, 1]]",
            "1:50: error: pipeline.placement: stage 2 of 4 stands on no rank\n"
            "spec.yaml:1:63: error: pipeline.placement: stage 1 stands on rank 1 and again on rank 1; only "
            "'bidirectional' puts a stage on two ranks\n"
            "spec.yaml:1:60: note: placed first here"},
           {"[[0, 1], [1, 2]]",
            "1:50: error: pipeline.placement: stage 3 of 4 stands on no rank\n"
            "spec.yaml:1:60: error: pipeline.placement: stage 1 stands on rank 0 and again on rank 1; only "
            "'bidirectional' puts a stage on two ranks\n"
            "spec.yaml:1:55: note: placed first here"},
           {"[[0, 1], [2, 4]]",
            "1:50: error: pipeline.placement: stage 3 of 4 stands on no rank\n"
            "spec.yaml:1:63: error: pipeline.placement[1]: expected stages from 0 to 3, since 4 are placed, found 4"},
           {"[[0], [1], [2]]", "1:50: error: pipeline.placement: expected 2 lists, one for each rank, found 3"},
           {"[[0], []]", "1:56: error: pipeline.placement[1]: expected the list of the rank's stages, found an empty "
                         "one"},
           {"[[0], 1]", "1:56: error: pipeline.placement[1]: expected the list of the rank's stages, found '1'"},
           {"[[0], [one]]",
            "1:57: error: pipeline.placement[1][0]: expected an integer from 0 to 1048575, found 'one'"},
           {"[[0, 1], [2, 3]], stages_per_rank: 1",
            "1:51: error: pipeline.placement[0]: expected 1 stages, found 2\n"
            "spec.yaml:1:85: note: stages_per_rank is given here\n"
            "spec.yaml:1:59: error: pipeline.placement[1]: expected 1 stages, found 2\n"
            "spec.yaml:1:85: note: stages_per_rank is given here"},
       }) {
    EXPECT_EQ(wrong(with(c.line)), "spec.yaml:" + c.message) << c.line;
  }
}

TEST(Diagnostics, costs) {
  const std::string duration = "expected a duration with a unit (ps, ns, us, ms, s), found ";
  for (const Case &c : {
           Case{"costs: {forward: 10, backward: 4ms}", "2:18: error: costs.forward: " + duration + "'10'"},
           {"costs: {forward: 10MB, backward: 4ms}", "2:18: error: costs.forward: " + duration + "'10MB'"},
           {"costs: {forward: , backward: 4ms}", "2:9: error: costs.forward: " + duration + "nothing"},
           {"costs: {forward: -2ms, backward: 4ms}",
            "2:18: error: costs.forward: expected a duration that is not negative, found '-2ms'"},
           {"costs: {forward: 2000000s, backward: 4ms}",
            "2:18: error: costs.forward: expected a duration of at most 10^18 ps, found '2000000s'"},
           {"costs: {forward: 200000s, backward: 4ms}",
            "2:18: error: costs: stage 0 works longer than 10^18 ps in a step of 8 microbatches"},
           {"costs: {forward: [1ms, 2ms, 3ms], backward: 4ms}",
            "2:18: error: costs.forward: expected 4 values, one for each stage (stages_per_rank is 1 unless given), "
            "found 3"},
           {"costs: {forward: [1ms, 2, 3ms, 4ms], backward: 4ms}",
            "2:24: error: costs.forward[1]: " + duration + "'2'"},
           {"costs: {forward: [], backward: 4ms}",
            "2:18: error: costs.forward: expected one value for each stage, found an empty list"},
           {"costs: {forward: {fixd: 1ms}, backward: 4ms}",
            "2:19: error: costs.forward.fixd: unknown key; known here: fixed, per_sample"},
           {"costs: {forward: {fixed: 1ms}, backward: 4ms}",
            "2:18: error: costs.forward: fixed and per_sample need pipeline.batch and pipeline.microbatch_size, which "
            "are missing"},
           {"costs: {forward: {per_sample: 1}, backward: 4ms}",
            "2:31: error: costs.forward.per_sample: " + duration + "'1'"},
           {"costs: {backward: 4ms}", "2:8: error: costs.forward is missing"},
           {"costs: {forward: 2ms}", "2:8: error: costs.backward is missing (or backward_input and backward_weight)"},
           {"costs: {forward: 2ms, backward_input: 2ms}",
            "2:39: error: costs.backward_weight is missing: backward_input and backward_weight go together"},
           {"costs: {forward: 2ms, backward: 4ms, backward_weight: 2ms}",
            "2:55: error: costs.backward_input is missing: backward_input and backward_weight go together"},
           {"costs: {forward: 2ms, backward: 4ms, optimizer: {time: 1ms, global_norm: yes}}",
            "2:74: error: costs.optimizer.global_norm: expected true or false, found 'yes'"},
           {"costs: {forward: 2ms, backward: 4ms, optimizer: {}}", "2:49: error: costs.optimizer.time is missing"},
           {"costs: [1ms]", "2:8: error: costs: expected a map, found a list"},
           {"costs: {forward: 2ms, backward: 4ms, link: {latency: 1ms, bandwith: 1GB/s}}",
            "2:59: error: costs.link.bandwith: unknown key; did you mean 'bandwidth'?"},
           {"costs: {forward: 2ms, backward: 4ms, link: {bandwidth: 0B/s}}",
            "2:56: error: costs.link.bandwidth: expected at least 1B/s, or 'unlimited', found '0B/s'"},
           {"costs: {forward: 2ms, backward: 4ms, links: {from: 0}}",
            "2:45: error: costs.links: expected a list of maps, found a map"},
           {"costs: {forward: 2ms, backward: 4ms, links: [{from: 0, to: 4}]}",
            "2:60: error: costs.links[0].to: expected a rank from 0 to 3, found 4"},
           {"costs: {forward: 2ms, backward: 4ms, links: [{from: 1, to: 1}]}",
            "2:60: error: costs.links[0]: expected two ranks, found 1 twice; stages on one rank hand over at no cost"},
           {"costs: {forward: 2ms, backward: 4ms, links: [{from: 1}]}", "2:46: error: costs.links[0].to is missing"},
           {"costs: {forward: 2ms, backward: 4ms, links: [{from: 0, to: 1}, {from: 0, to: 1}]}",
            "2:64: error: costs.links[1]: the link from 0 to 1 is given twice\n"
            "spec.yaml:2:46: note: first given here"},
       })
    EXPECT_EQ(wrong(Lines{.costs = c.line}.text()), "spec.yaml:" + c.message) << c.line;
}

TEST(Diagnostics, theRest) {
  for (const Case &c : {
           Case{"pipec: 2", "4:8: error: pipec: expected 1, found '2'"},
           {"memry: {limit: 1GiB}", "4:1: error: memry: unknown key; did you mean 'memory'?"},
           {"memory: {limit: 40}",
            "4:17: error: memory.limit: expected a size with a unit (B, kB, MB, GB, TB, KiB, MiB, "
            "GiB, TiB), found '40'"},
           {"memory: {limit: 0B}", "4:17: error: memory.limit: expected at least 1B, found '0B'"},
           {"memory: 40GiB", "4:9: error: memory: expected a map, found '40GiB'"},
           {"tensors: {workspace: [1B, 1B, 1B, 1B]}", "4:22: error: tensors.workspace: expected a size with a unit (B, "
                                                      "kB, MB, GB, TB, KiB, MiB, GiB, TiB), found "
                                                      "a list"},
           {"memory: {limit: [1B, 1B]}", "4:17: error: memory.limit: expected 4 values, one for each rank, found 2"},
           {"memory: {limit: [1B, 0B, 1B, 1B]}", "4:22: error: memory.limit[1]: expected at least 1B, found '0B'"},
           {"memory: {limit: []}", "4:17: error: memory.limit: expected one value for each rank, found an empty list"},
           {"tensors: {static: [1B, 1B]}", "4:19: error: tensors.static: expected 4 values, one for each stage "
                                           "(stages_per_rank is 1 unless given), found 2"},
           {"backward: spilt",
            "4:11: error: backward: expected fused, split, mixed, found 'spilt'; did you mean 'split'?"},
           {"recompute: [9]", "4:13: error: recompute[0]: expected a stage from 0 to 3, found 9"},
           {"recompute: [1, 2, 1]", "4:19: error: recompute[2]: expected each stage once, found 1 again\n"
                                    "spec.yaml:4:13: note: first given here"},
           {"recompute: auto", "4:12: error: recompute: auto chooses what fits into memory.limit, found none: give a "
                               "limit, or all, none or a list of stages"},
           {"recompute: some", "4:12: error: recompute: expected none, all, auto, or a list of integers, found 'some'; "
                               "did you mean 'none'?"},
           {"recompute: [-1]", "4:13: error: recompute[0]: expected an integer from 0 to 1048575, found '-1'"},
           {"recompute: all\ntensors: {activation: 3B, weight_context: 1B, recompute_input: [0B, 4B, 5B, 4B]}",
            "5:73: error: tensors.recompute_input: expected at most activation and weight_context of stage 2, 4 bytes, "
            "found 5"},
           {"recompute: [2]\ntensors: {activation: 3B, weight_context: 1B, boundary: 5B}",
            "4:12: error: recompute: stage 2 would keep the 5 bytes that it receives in place of activation and "
            "weight_context of 4: give tensors.recompute_input, or leave the stage out"},
           {"weights: fil", "4:10: error: weights: expected ordered, fill, found 'fil'; did you mean 'fill'?"},
           {"communicator: 1",
            "4:15: error: communicator: expected per_edge, per_pair, launch_order, shared, found '1'"},
           {"data_parallel: {degree: 65536}",
            "4:25: error: data_parallel.degree: expected at most 65536 processes, found 4 ranks x 65536 replicas"},
           {"data_parallel: {degree: 0}",
            "4:25: error: data_parallel.degree: expected an integer from 1 to 65536, found "
            "'0'"},
           {"data_parallel: {collective: [a]}",
            "4:29: error: data_parallel.collective: expected auto, all_reduce, decoupled, found a list"},
           {"data_parallel: {policy: dpp}",
            "4:25: error: data_parallel.policy: expected auto, none, wfbp, mg-wfbp, ddp, horovod, bytescheduler, dear, "
            "dear-queue, found 'dpp'; did you mean 'ddp'?"},
           {"data_parallel: {policy: {bundle: 1MB}}", "4:25: error: data_parallel.policy.name is missing"},
           {"data_parallel: {fusion: 0B}", "4:25: error: data_parallel.fusion: expected at least 1B, found '0B'"},
           {"data_parallel: {fusion: no}",
            "4:25: error: data_parallel.fusion: expected a size with a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), "
            "found 'no', or auto, none"},
           {"data_parallel: {shard: weights}", "4:24: error: data_parallel.shard: expected optimizer or none, found "
                                               "weights, which is not supported yet"},
           {"data_parallel: {link: {latency: 1us}, costs: {all_reduce: {start: 1ms}}}",
            "4:23: error: data_parallel.link: give either this, from which the times of collectives follow, or costs\n"
            "spec.yaml:4:46: note: costs are given here"},
           {"data_parallel: {costs: {all_gather: {start: 1ms}}}",
            "4:24: error: data_parallel.costs.all_reduce is missing"},
           {"variants: [{schedule: v-min}]", "4:11: error: variants: expected a spec without variants here"},
           {"provider: 3", "4:11: error: provider: expected a map, found '3'"},
           {"? [a]\n: 1", "4:3: error: expected a key, found a list"},
           {"tensors: !!map {}", "4:10: error: tags have no meaning here, found 'tag:yaml.org,2002:map'"},
           {"---\nx: 1", "4:1: error: a second document; a spec is one"},
           {"tensors: {static: 1B", "5:1: error: not valid YAML: end of map flow not found"},
           {"tensors: &t [*t]", "4:14: error: an alias inside what it names"},
       })
    EXPECT_EQ(wrong(Lines{.more = c.line + "\n"}.text()), "spec.yaml:" + c.message) << c.line;
}

TEST(Diagnostics, replicasGoOneWay) {
  EXPECT_EQ(wrong(Lines{.pipeline = "pipeline: {ranks: 4, microbatches: 8, placement: bidirectional}",
                        .more = "data_parallel: {degree: 2}\n"}
                      .text()),
            "spec.yaml:1:50: error: pipeline.placement: bidirectional placement with replicas is not supported yet\n"
            "spec.yaml:4:25: note: the degree is given here");
}

TEST(Diagnostics, schedule) {
  for (const Case &c : {
           Case{"schedule:", "3:1: error: schedule: expected a name, or a map with a name, found nothing"},
           {"schedule: [a]", "3:11: error: schedule: expected a name, or a map with a name, found a list"},
           {"schedule: {k: 2}", "3:11: error: schedule.name is missing"},
           {"schedule: {name: [a]}", "3:18: error: schedule.name: expected a name, found a list"},
           {"schedule: {name: a, k: {}}",
            "3:24: error: schedule.k: expected a single value or a list of them, found a map"},
           {"schedule: {name: a, k: [[1]]}", "3:25: error: schedule.k[0]: expected a single value, found a list"},
           {"schedule: {name: a, k: [" + std::string(65, '1') + "]}",
            "3:25: error: schedule.k[0]: expected at most 64 bytes, found 65"},
           {"schedule: {name: order, file: " + std::string(4097, 'x') + "}",
            "3:31: error: schedule.file: expected at most 4096 bytes, found 4097"},
           {"schedule: {name: a, " + std::string(65, 'k') + ": 1}",
            "3:21: error: schedule." + std::string(40, 'k') +
                "…: expected the name of a parameter, at most 64 bytes, found 65"},
       })
    EXPECT_EQ(wrong(Lines{.schedule = c.line}.text()), "spec.yaml:" + c.message) << c.line;
}

TEST(Diagnostics, missingParts) {
  EXPECT_EQ(wrong("pipec: 1\n"), "spec.yaml:1:1: error: pipeline is missing\n"
                                 "spec.yaml:1:1: error: schedule is missing\n"
                                 "spec.yaml:1:1: error: costs is missing");
}

TEST(Diagnostics, manyAtOnceInFileOrder) {
  EXPECT_EQ(
      wrong("schedule: 1f1b\nx: 1\ncosts: {forward: 1, backward: 1ms}\npipeline: {ranks: 0, microbatches: 1}\n"),
      "spec.yaml:2:1: error: x: unknown key; known here: pipec, pipeline, costs, tensors, layers, shared, memory, "
      "schedule, backward, recompute, weights, communicator, rings, data_parallel, tensor_parallel, jobs, "
      "variants, provider\n"
      "spec.yaml:3:18: error: costs.forward: expected a duration with a unit (ps, ns, us, ms, s), found '1'\n"
      "spec.yaml:4:19: error: pipeline.ranks: expected an integer from 1 to 65536, found '0'");
}

TEST(Diagnostics, settings) {
  const std::string text = Lines().text();
  for (const Case &c : {
           Case{"costs.forward=10", "1:1: error: costs.forward: expected a duration with a unit (ps, ns, us, ms, s), "
                                    "found '10'"},
           {"costs.forwrad=10ms", "1:1: error: costs.forwrad: unknown key; did you mean 'forward'?"},
           {"costs.forward=[1ms", "1:1: error: not valid YAML: end of sequence flow not found"},
           {"costs.forward=", "1:1: error: holds no value"},
           {"costs.forward", "1:1: error: expected key.path=value, found no '='"},
           {"=1", "1:1: error: expected the path of a key, such as costs.forward or layers[2].forward, found ''"},
           {"costs..forward=1", "1:1: error: expected the path of a key, such as costs.forward or layers[2].forward, "
                                "found 'costs..forward'"},
           {"layers[x].forward=1ms", "1:1: error: expected the path of a key, such as costs.forward or "
                                     "layers[2].forward, found 'layers[x].forward'"},
           {"layers[-1]=1ms", "1:1: error: expected the path of a key, such as costs.forward or layers[2].forward, "
                              "found 'layers[-1]'"},
           {"layers[1]2=1ms", "1:1: error: expected the path of a key, such as costs.forward or layers[2].forward, "
                              "found 'layers[1]2'"},
           {"[1]=1ms", "1:1: error: expected the path of a key, such as costs.forward or layers[2].forward, "
                       "found '[1]'"},
           {"layers[0].forward=1ms",
            "1:1: error: layers: expected a list to set '[0].forward' in, found nothing; set it whole instead"},
           {"schedule[0]=1", "1:1: error: schedule: expected a list to set '[0]' in, found '1f1b'; set it whole "
                             "instead\nspec.yaml:3:11: note: given here"},
           {"schedule.k=2", "1:1: error: schedule: expected a map to set 'k' in, found '1f1b'; set it whole instead\n"
                            "spec.yaml:3:11: note: given here"},
       })
    EXPECT_EQ(wrong(text, {c.line}), "--set " + c.line + ":" + c.message);
  Lines lines;
  lines.costs = "costs: {forward: [1ms, 2ms, 3ms, 4ms], backward: 4ms}";
  const std::string list = lines.text();
  EXPECT_EQ(wrong(list, {"costs.forward[4]=1ms"}),
            "--set costs.forward[4]=1ms:1:1: error: costs.forward: a list of 4, the first is 0, has no entry 4\n"
            "spec.yaml:2:18: note: given here");
  EXPECT_EQ(wrong(list, {"costs.forward[1].fixed=1ms"}),
            "--set costs.forward[1].fixed=1ms:1:1: error: costs.forward[1]: expected a map to set 'fixed' in, found "
            "'2ms'; set it whole instead\nspec.yaml:2:24: note: given here");
  // A place is one line, whatever was set.
  EXPECT_EQ(wrong(text, {"x\ny"}), "--set x\\x0ay:1:1: error: expected key.path=value, found no '='");
}

TEST(Diagnostics, filesThatAreNoSpecs) {
  EXPECT_EQ(wrong(""), "spec.yaml:1:1: error: the file is empty; expected a map of keys");
  EXPECT_EQ(wrong(" \n\n"), "spec.yaml:1:1: error: the file is empty; expected a map of keys");
  EXPECT_EQ(wrong("# nothing\n"), "spec.yaml:1:1: error: holds no value");
  EXPECT_EQ(wrong("---\n"), "spec.yaml:2:1: error: expected a map of keys, found nothing");
  EXPECT_EQ(wrong("hello"), "spec.yaml:1:1: error: expected a map of keys, found 'hello'");
  EXPECT_EQ(wrong("- 1\n"), "spec.yaml:1:1: error: expected a map of keys, found a list");
  EXPECT_EQ(wrong(std::string_view("\x7f"
                                   "ELF\0\1",
                                   6)),
            "spec.yaml:1:1: error: not UTF-8 text: found byte 0x7f");
  EXPECT_EQ(wrong("a: 1\nb: \xff\n"), "spec.yaml:2:4: error: not UTF-8 text: found byte 0xff");
  EXPECT_EQ(wrong("a: \x04"), "spec.yaml:1:4: error: not UTF-8 text: found byte 0x04");
  EXPECT_EQ(wrong("a: \xe2\x82"), "spec.yaml:1:4: error: not UTF-8 text: found byte 0xe2"); // cut short
  std::string_view utf16("\xff\xfe"
                         "a\0:\0",
                         6);
  EXPECT_EQ(wrong(utf16), "spec.yaml:1:1: error: not UTF-8 text: found byte 0xff");
}

TEST(Diagnostics, whatWouldExhaustTheReader) {
  std::string nested = "provider: ";
  nested.append(63, '[');
  EXPECT_EQ(wrong(nested + std::string(63, ']') + "\n").find("nested"), std::string::npos);
  EXPECT_EQ(wrong(nested + "[" + std::string(64, ']') + "\n"), "spec.yaml:1:74: error: nested deeper than 64 levels");
  EXPECT_TRUE(wrong(std::string(1 << 20, '[')).ends_with("error: nested deeper than 64 levels"));

  std::string block; // nested through indentation alone
  for (int i = 0; i < 100; ++i)
    block += fmt::format("{:{}}a:\n", "", i);
  EXPECT_EQ(wrong(block), "spec.yaml:65:65: error: nested deeper than 64 levels");

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i)
    bomb +=
        fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  EXPECT_EQ(wrong(bomb), "spec.yaml:6:55: error: more than 1048576 values, counting what aliases repeat");
  EXPECT_EQ(wrong("pipec: 1\n" + std::string(size_t(12) << 20, '\n')),
            "spec.yaml:2097152:1: error: more than 2097152 lines");

  std::string chain = "a0: &a0 [x]\n"; // deep through aliases alone
  for (int i = 1; i < 100; ++i)
    chain += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  EXPECT_EQ(wrong(chain), "spec.yaml:63:12: error: nested deeper than 64 levels");

  EXPECT_EQ(wrong("a: [" + std::string(8 << 20, ',')),
            "spec.yaml:1:4194308: error: more than 1048576 values, counting what aliases repeat");
  EXPECT_EQ(wrong(std::string(2 << 20, '[')),
            "spec.yaml:1:1048577: error: more than 1048576 values, counting what aliases repeat");
  EXPECT_EQ(wrong(std::string(pipec::limits::kSpecBytes + 1, ' ')),
            "spec.yaml:1:1: error: larger than a spec may be (16 MiB)");

  // A text repeated: as JSON it would be longer than memory.
  std::string repeated = Lines().text() + "provider: {a: &a [" + std::string(1 << 17, 'x') + "], b: [*a";
  for (int i = 0; i < 100'000; ++i)
    repeated += ", *a";
  EXPECT_EQ(wrong(repeated + "]}\n"),
            "spec.yaml:4:11: error: provider: expected at most 262144 bytes as JSON, found more");
  std::string quotes; // two bytes each as JSON
  for (int i = 0; i < 1 << 17; ++i)
    quotes += "\\\"";
  EXPECT_EQ(wrong(Lines().text() + "provider: {a: \"" + quotes + "\"}\n"),
            "spec.yaml:4:11: error: provider: expected at most 262144 bytes as JSON, found more");

  std::string keys;
  for (int i = 0; i < 1000; ++i)
    keys += fmt::format("key{}: 1\n", i);
  std::string hundred = wrong(keys);
  EXPECT_EQ(std::count(hundred.begin(), hundred.end(), '\n'), 99);
}

TEST(Diagnostics, files) {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("pipec-spec-{}", getpid());
  std::filesystem::create_directories(folder);
  auto of = [](const std::filesystem::path &path) {
    Spec spec;
    std::vector<Diagnostic> diagnostics;
    EXPECT_FALSE(readSpec(path.string(), {}, spec, diagnostics));
    return diagnostics.size() == 1 ? toString(diagnostics[0]) : "not one error";
  };
  std::string huge = folder / "huge.yaml";
  std::ofstream(huge) << "a: 1\n";
  std::filesystem::resize_file(huge, 100'000'000); // a hole
  EXPECT_EQ(of(huge), huge + ":1:1: error: larger than a spec may be (16 MiB)");
  EXPECT_EQ(of("/dev/zero"), "/dev/zero:1:1: error: is a device; expected a file");
  EXPECT_EQ(of(folder), folder.string() + ":1:1: error: is a directory; expected a file");
  EXPECT_EQ(of(folder / "none.yaml"), (folder / "none.yaml").string() + ":1:1: error: no such file");
  std::filesystem::remove_all(folder);
}

} // namespace
