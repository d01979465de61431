#include "compiler/program/JobsAttrs.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

std::optional<jobs::Jobs> jobsOf(PipelineOp pipeline) {
  if (!pipeline.getJobs())
    return std::nullopt;
  jobs::Jobs made;
  made.slowDown = pipeline.getJobs()->getSlowDown();
  made.fillsCollectives = pipeline.getJobs()->getFillsCollectives();
  for (auto given : pipeline.getJobs()->getWork().getAsRange<JobAttr>()) {
    jobs::Job &job = made.work.emplace_back();
    job.row.name = given.getName().str();
    job.row.samples = given.getSamples();
    job.row.atoms = given.getAtoms();
    job.row.atom = given.getAtom();
    job.row.overhead = given.getOverhead();
    job.row.memory = given.getMemory();
    if (given.getRanks())
      job.ranks = given.getRanks().asArrayRef().vec();
    job.piece = given.getPiece();
  }
  return made;
}

JobsAttr attributeOf(const jobs::Jobs &jobs, MLIRContext &context) {
  SmallVector<Attribute> work;
  for (const jobs::Job &job : jobs.work)
    work.push_back(JobAttr::get(&context, StringAttr::get(&context, job.row.name), job.row.samples, job.row.atoms,
                                job.row.atom, job.row.overhead, job.row.memory, job.piece,
                                job.ranks ? DenseI32ArrayAttr::get(&context, *job.ranks) : DenseI32ArrayAttr()));
  return JobsAttr::get(&context, jobs.slowDown, jobs.fillsCollectives, ArrayAttr::get(&context, work));
}

} // namespace pipec
