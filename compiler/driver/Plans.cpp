#include "compiler/driver/Plans.h"

#include "compiler/driver/Files.h"
#include "compiler/passes/Roll.h"
#include "runtime/plan/Evaluation.h"
#include "runtime/plan/Load.h"

namespace pipec {

Status loadPlan(const std::string &path, plan::Plan &plan, std::vector<uint8_t> &bytes) {
  Status status = readPlan(path, bytes);
  if (status.ok())
    status = plan::decode(bytes, plan);
  return status.ok() ? plan::verify(plan) : status;
}

Status loadChecked(const std::string &path, plan::Plan &plan) {
  std::vector<uint8_t> bytes;
  if (Status status = loadPlan(path, plan, bytes); !status.ok())
    return status;
  for (const plan::Variant &variant : plan.variants) {
    simulate::Result result;
    if (Status status = simulate::prove(variant, result); !status.ok())
      return status;
  }
  return {};
}

Status keepEvaluation(plan::Plan &plan) {
  plan::Variant evaluation;
  simulate::Result result;
  Status status = plan::mayEvaluate(plan);
  if (status.ok())
    status = plan::evaluationOf(plan.variants.front(), evaluation);
  if (status.ok())
    status = simulate::span(evaluation, evaluation.certificate.span, result);
  evaluation.certificate.makespan = result.makespan;
  for (plan::Program &program : evaluation.programs)
    if (!program.instructions.empty())
      roll(program);
  if (status.ok())
    plan.variants = {std::move(evaluation)};
  return status;
}

Status figuresOf(const Compiled &compiled, emit::PlanReport &report) {
  report.planBytes = int64_t(compiled.bytes.size());
  report.compileMs = compiled.milliseconds;
  if (compiled.walks.empty())
    return emit::report(compiled.plan, report);
  for (size_t v = 0; v != compiled.walks.size(); ++v)
    if (Status status = emit::add(compiled.plan, compiled.plan.variants[v], compiled.walks[v], report); !status.ok())
      return status;
  return {};
}

} // namespace pipec
