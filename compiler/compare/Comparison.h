// Compares the schedules that a spec allows, or one schedule under several memory limits. Each is compiled.
#pragma once

#include "compiler/driver/Compile.h"

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace pipec {

/// A spec, and the settings of --set that override it.
struct Source {
  std::string path;
  std::vector<std::string> set;
  std::string output = {};   // as in Compiled
  std::stop_token stop = {}; // on a request to stop, a comparison ends with the rows it has
};

/// A schedule compiled for the spec, or why it could not be compiled.
struct Row {
  std::string name;
  plan::Certificate certificate;
  double bubble = 0; // of the span
  plan::Bytes peak = 0;
  int32_t stages = 0;
  std::vector<int32_t> cut;       // layers of each stage, if `cut: auto` chose them
  std::vector<int32_t> layers;    // of each stage; empty: the spec has none
  std::vector<int32_t> recompute; // the stages that are recomputed
  schedule::Problem problem;
  bool wholeAsParts = false;  // for `auto`: a whole backward counts as long as its two parts, as in split orders
  bool ofOwnPortions = false; // its bound holds only for the portions of its own shards
  schedule::Words words;      // words of its plan
  std::string wrong;          // why there is no plan; empty: there is one
};

/// Called with progress messages.
using Say = std::function<void(const std::string &)>;

/// `auto` for this objective, as --set takes it.
std::string autoFor(schedule::Objective objective);

/// Compiles the source with the additional settings `over`. False if the spec does not allow this; then there is no
/// row.
bool compileRow(const Source &source, const std::vector<std::string> &over, Row &made);

/// For a spec that compile() has checked: a row for `auto` with the spec's objective, and a row for each catalogue
/// schedule. A schedule that needs another number of stages than the spec has costs for gets a row without figures. If
/// the spec leaves both the cut and the number of stages open, `auto` has a row with one stage per rank and a row with
/// two.
std::vector<Row> compareSchedules(const Source &source, const Compiled &checked, const Say &say);

/// Rows of `auto` by memory limit, each named by its limit.
struct Sweep {
  std::vector<Row> rows;
  std::vector<Row> without; // with `recompute: auto`: the same rows with nothing recomputed; else empty
};
/// Sweeps the memory limit from the least sufficient limit to the one from which more memory changes nothing. False
/// after an error in the spec, which has been printed.
bool sweepMemory(const Source &source, schedule::Objective objective, const Say &say, Sweep &sweep, Failure &failure);

/// Checks the proven bounds of the rows of one spec against all rows, and that no row failed because of an error in
/// pipec itself.
Status checkRows(const std::vector<Row> &rows);

/// Sorts rows by the objective; those without a plan come last.
void sortRows(std::vector<Row> &rows, schedule::Objective objective);

} // namespace pipec
