// Background jobs of a spec: conversion for other rooms, and insertion into finished variants.
#pragma once

#include "compiler/passes/Passes.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Status.h"

#include "mlir/IR/Location.h"

namespace pipec {

/// The spec's background jobs, without the arguments of their libraries.
jobs::Jobs jobsOf(const spec::Spec &spec);

/// The places in the spec of the keys of its jobs (placeOf()).
llvm::SmallVector<mlir::Location> placesOfJobs(const spec::Spec &spec, mlir::MLIRContext &context);

/// Calls openWindows() with the spec's jobs, and adds the arguments of their libraries.
Code addJobs(const spec::Spec &spec, bool warns, llvm::ArrayRef<Walked> variants, mlir::MLIRContext &context);

} // namespace pipec
