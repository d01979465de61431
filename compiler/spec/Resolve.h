// The last step of reading: makes a Spec from values of the right types.
#pragma once

#include "compiler/spec/Lookup.h"
#include "compiler/spec/Spec.h"
#include "compiler/spec/Values.h"

#include <string>

namespace pipec::spec {

/// Fills `spec`; adds contradictions to `errors`. `root`: the place of the whole spec, for errors about missing values.
void resolve(const Values &values, Mark root, Spec &spec, Errors &errors);

// Its parts, in this order.
void resolvePipeline(const Lookup &lookup, Spec &spec);
void resolveLayers(const Lookup &lookup, Spec &spec);
void resolveDataParallel(const Lookup &lookup, Spec &spec);
void resolveTensorParallel(const Lookup &lookup, Spec &spec);
void resolveBurst(const Lookup &lookup, Spec &spec);
void resolveJobs(const Lookup &lookup, Spec &spec);
void resolveShared(const Lookup &lookup, Spec &spec);

/// The free map at `path` as JSON; empty if there is none.
std::string readProvider(const Lookup &lookup, const std::string &path);

} // namespace pipec::spec
