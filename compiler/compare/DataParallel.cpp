#include "compiler/compare/DataParallel.h"

#include "compiler/driver/CompileReplicas.h"
#include "compiler/driver/DesignLevel.h"
#include "compiler/driver/Diagnostics.h"
#include "compiler/emit/BoundsHold.h"
#include "compiler/replicas/PolicyExchanges.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

using namespace mlir;

namespace pipec {

static PolicyRow rowOf(const PolicyExchange &made, const PolicyExchanges &exchanges) {
  PolicyRow row;
  row.policy = made.policy;
  row.span = made.span;
  row.bundle = made.bundle;
  row.wrong = made.wrong;
  if (!made.found())
    return row;
  row.exposed = exchanges.exposedOf(made);
  row.bound = exchanges.boundsOf(made).span;
  row.may = made.may;
  row.mayShard = made.replicas.mayShard;
  for (const std::vector<schedule::Collective> &queue : made.exchange.queues)
    row.collectives.push_back(int64_t(queue.size()));
  return row;
}

Status checkRows(const std::vector<PolicyRow> &rows) {
  for (const PolicyRow &one : rows)
    for (const PolicyRow &other : rows) {
      const bool speaks = one.wrong.empty() && other.wrong.empty() && one.may.whole >= other.may.whole &&
                          one.may.decoupled >= other.may.decoupled && one.mayShard >= other.mayShard;
      if (!speaks)
        continue;
      if (Status status = emit::checkBound(one.policy, "span", one.bound, other.policy, other.span); !status.ok())
        return status;
    }
  return {};
}

bool sweepDataParallel(const Source &source, const Say &say, std::vector<PolicyRow> &rows, Failure &failure) {
  std::vector<spec::Spec> specs;
  if (!readSpecs(source.path, source.set, specs, failure))
    return false;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<pipe::PipeDialect>();
  const FirstError first(context, failure, Said::Everything);
  const auto refused = [&](LogicalResult result) {
    if (failed(result))
      failure.code = Code::Input;
    return failed(result);
  };
  if (specs.size() > 1)
    return !refused(emitError(locationOf(specs.front(), {}, context))
                    << "a sweep of policies is of one spec, found variants: leave 'variants' out");
  if (refused(checkPolicy(specs.front(), context)) || refused(checkExchange(specs.front(), context)))
    return false;
  // The order is that of one replica.
  const spec::Spec &spec = specs.front();
  Compiled compiled;
  compiled.encodes = false;
  compiled.stop = source.stop;
  if (!compile(ofOneReplica(spec), compiled, failure))
    return false;
  const std::vector<int32_t> &layers = compiled.plan.variants.front().cut;
  const std::vector<int64_t> cut(layers.begin(), layers.end());
  const schedule::Problem problem = withWholeState(compiled.problems.front(), spec, cut);
  const PolicyExchanges exchanges(spec, problem, compiled.words.front(), cut, context, source.stop);
  std::vector<PolicyExchange> made;
  for (const schedule::Policy &policy : schedule::policies()) {
    if (source.stop.stop_requested())
      break;
    say(fmt::format("trying {} …", policy.name));
    made.push_back(exchanges.published(policy));
  }
  if (!source.stop.stop_requested()) {
    say("trying auto …");
    made.push_back(exchanges.searched(Sharding::Any, made));
  }
  for (const PolicyExchange &each : made)
    rows.push_back(rowOf(each, exchanges));
  std::sort(rows.begin(), rows.end(), [](const PolicyRow &first, const PolicyRow &other) {
    return std::pair(first.span, std::string_view(first.policy)) <
           std::pair(other.span, std::string_view(other.policy));
  });
  return true;
}

} // namespace pipec
