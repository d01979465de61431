// The design level of a spec whose schedule has been chosen: `pipe.pipeline` with its block or orders.
#pragma once

#include "compiler/program/Shards.h"
#include "compiler/schedule/catalogue/Catalogue.h"
#include "compiler/spec/Spec.h"
#include "compiler/torch/OrderCsv.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace pipec {

/// The schedule of a spec, looked up or found.
struct Design {
  const schedule::Entry *entry = nullptr; // null: the spec's own block, an order file, or a search
  schedule::Problem problem;
  schedule::Parameters parameters;
  std::optional<schedule::Block> block;
  std::optional<schedule::Order> order; // of a file, or the words that a search has found
  std::optional<Shards> shards;         // of each rank; absent: there are none
};

/// A place in the spec.
mlir::Location locationOf(const spec::Spec &spec, const spec::Mark &mark, mlir::MLIRContext &context);

/// A module with one `pipe.pipeline`, locations pointing into the spec, verified. Null after an error: then the design
/// is none, which no spec brings about.
mlir::OwningOpRef<mlir::ModuleOp> designLevel(const spec::Spec &spec, const Design &design, mlir::MLIRContext &context);

/// As text, without locations.
std::string textOf(mlir::ModuleOp module);

} // namespace pipec
