// The design level of a spec with a chosen schedule: `pipe.pipeline` with its block or orders.
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

/// The schedule of a spec, from the catalogue or found by a search.
struct Design {
  const schedule::Entry *entry = nullptr; // null for the spec's own block, an order file or a search
  schedule::Problem problem;
  schedule::Parameters parameters;
  std::optional<schedule::Block> block;
  std::optional<schedule::Order> order; // from an order file, or the words of a search
  std::optional<Shards> shards;         // shards of the ranks; absent: there are none
};

/// A place in the spec.
mlir::Location locationOf(const spec::Spec &spec, const spec::Mark &mark, mlir::MLIRContext &context);

/// A verified module with one `pipe.pipeline` and locations that point into the spec. Null after an error: then the
/// design is invalid, which no spec can cause.
mlir::OwningOpRef<mlir::ModuleOp> designLevel(const spec::Spec &spec, const Design &design, mlir::MLIRContext &context);

/// The module as text, without locations.
std::string textOf(mlir::ModuleOp module);

} // namespace pipec
