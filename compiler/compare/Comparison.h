// The schedules that a spec allows, or one schedule under several memory limits: each compiled, held against the
// others.
#pragma once

#include "compiler/driver/Compile.h"

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace pipec {

/// A spec, and what --set lays over it.
struct Source {
  std::string path;
  std::vector<std::string> set;
  std::string output = {};   // as in Compiled
  std::stop_token stop = {}; // asked to stop, a comparison ends with the rows that it has
};

/// A schedule compiled for the spec, or why it was not.
struct Row {
  std::string name;
  plan::Certificate certificate;
  double bubble = 0; // of the span
  plan::Bytes peak = 0;
  int32_t stages = 0;
  std::vector<int32_t> cut;       // layers of each stage, where `cut: auto` chose them
  std::vector<int32_t> layers;    // of each stage; empty: the spec has none
  std::vector<int32_t> recompute; // the stages that run their forward again
  schedule::Problem problem;
  bool wholeAsParts = false;  // of `auto`: a whole backward takes what its two parts take, as in split orders
  bool ofOwnPortions = false; // its bound is of the portions that its shards have, which others need not have
  schedule::Words words;      // that its plan runs
  std::string wrong;          // why there is no plan; empty: there is one
};

/// Called with what is being tried.
using Say = std::function<void(const std::string &)>;

/// `auto` for this objective, as --set takes it.
std::string autoFor(schedule::Objective objective);

/// Compiles the source with `over` laid over it too. False where the spec does not allow that: no row for it.
bool compileRow(const Source &source, const std::vector<std::string> &over, Row &made);

/// A row for `auto` with this objective, and one for each schedule of the catalogue, for a spec that compile() has
/// checked. A schedule that cuts the model into another number of stages than the spec's costs are of has a row without
/// figures. Where the spec leaves both the cut and the number of stages to pipec, `auto` has a row with one stage a
/// rank and one with two.
std::vector<Row> compareSchedules(const Source &source, const Compiled &checked, const Say &say);

/// Rows of `auto` by memory limit, each named by its limit.
struct Sweep {
  std::vector<Row> rows;
  std::vector<Row> without; // with `recompute: auto`: the same with nothing recomputed; else none
};
/// From the least limit that does to where more changes nothing. False after an error in the spec, which has been said.
bool sweepMemory(const Source &source, schedule::Objective objective, const Say &say, Sweep &sweep, Failure &failure);

/// Whether what the rows of one spec say to be proven holds against all of them, and none was refused for a fault of
/// pipec's own.
Status checkRows(const std::vector<Row> &rows);

/// Sorts rows by the objective; those without a plan come last.
void sortRows(std::vector<Row> &rows, schedule::Objective objective);

} // namespace pipec
