/* The tensor stage library with windows. */
#include "tensor.c"

#include "test/tensor/Inside.h"

Parameters parametersOf(PipecStage *s, int32_t own, int32_t layer, int32_t kind, int32_t unit) {
  Own *of = &s->own[own];
  Unit *found = kind < kSplits       ? &of->layer[layer].split[kind].unit[unit]
                : kind == kNorms     ? &of->layer[layer].norms
                : kind == kEmbedding ? &of->embedding
                                     : &of->classifier;
  Parameters parameters = {found->weights, found->gradients, found->moments, sizeOf(s, kind)};
  return parameters;
}

double lossOf(const PipecStage *s) { return s->loss; }

void forgetStep(PipecStage *s, int32_t own) {
  visit(s, &s->own[own], clear, NULL);
  s->own[own].seen = 0;
  s->loss = 0;
}

TakingPart takingPart(PipecStage *s, int32_t own, int32_t layer, int32_t kind) {
  Split *p = &s->own[own].layer[layer].split[kind];
  TakingPart part = {p->active, p->inputs, 0, p->chosen, p->input, p->scale};
  for (int32_t i = 0; i < p->active; ++i)
    part.outputs += p->outputs[i];
  return part;
}

int64_t outputSize(const PipecStage *s) { return s->width * s->shape.stride; }

void splitOutput(PipecStage *s, int32_t own, int32_t layer, int32_t kind, int64_t step, double *to) {
  Layer *of = &s->own[own].layer[layer];
  SplitKept k;
  PipecError error;
  memset(&k, 0, sizeof k);
  k.normal = take(s, outputSize(s));
  for (int64_t i = 0; i < outputSize(s); ++i)
    k.normal[i] = uniform(mixed(7, (uint64_t)i));
  of->split[kind].step = -1;
  if (choose(s, &of->split[kind], of->number, step, step < 0, &error) || splitForward(s, &of->split[kind], &k, &error))
    abort();
  memcpy(to, s->sum, (size_t)outputSize(s) * sizeof(double));
  releaseSplit(s, &k);
}

double accuracyOf(PipecStage *s) {
  double found = -1;
  PipecError error;
  return evaluate(s, &found, &error) ? -1 : found;
}

void drawImage(uint8_t *pixels, uint64_t set, int64_t image) { drawGlyph(pixels, set, image); }
