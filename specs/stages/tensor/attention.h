/* What a unit does between its two matrices: attention of a head, the bend of a column. In a row, token t of sample s
 * is number t * samples + s, so that each product here is one of `samples` numbers, of all samples at once. */
#ifndef TENSOR_ATTENTION_H
#define TENSOR_ATTENTION_H

#include "kernels.h"

typedef struct Shape {
  int64_t tokens, samples, stride; /* a row has tokens x samples numbers, then zeros up to the stride */
  int64_t depth;                   /* of a head: rows of its queries, keys, values each */
} Shape;

/* to[i][j] = scale x sum over d of a[d][i] b[d][j]. */
static void pairTokens(float *to, const float *a, const float *b, Shape shape, float scale) {
  int64_t n = shape.tokens, m = shape.samples;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t s = 0; s < m; s += kLanes) {
        Lanes sum = {0};
        for (int64_t d = 0; d < shape.depth; ++d)
          sum += *(const Lanes *)(const void *)(a + d * shape.stride + i * m + s) *
                 *(const Lanes *)(const void *)(b + d * shape.stride + j * m + s);
        *(Lanes *)(void *)(to + (i * n + j) * m + s) = sum * scale;
      }
}

/* to[d][i] = sum over j of weights[i][j] a[d][j]; turned: of weights[j][i]. */
static void mixTokens(float *to, const float *weights, const float *a, Shape shape, int turned) {
  int64_t n = shape.tokens, m = shape.samples, ofI = turned ? m : n * m, ofJ = turned ? n * m : m;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t d = 0; d < shape.depth; d += 2)
      for (int64_t s = 0; s < m; s += kLanes) {
        Lanes first = {0}, second = {0};
        const float *one = a + d * shape.stride + s, *two = one + shape.stride;
        for (int64_t j = 0; j < n; ++j) {
          Lanes weight = *(const Lanes *)(const void *)(weights + i * ofI + j * ofJ + s);
          first += weight * *(const Lanes *)(const void *)(one + j * m);
          second += weight * *(const Lanes *)(const void *)(two + j * m);
        }
        *(Lanes *)(void *)(to + d * shape.stride + i * m + s) = first;
        *(Lanes *)(void *)(to + (d + 1) * shape.stride + i * m + s) = second;
      }
}

/* Over j, for one i: from scores to parts of 1. */
static void soften(float *restrict row, int64_t n, int64_t m) {
  for (int64_t s = 0; s < m; s += kLanes) {
    float most[kLanes], sum[kLanes] = {0};
    memcpy(most, row + s, sizeof most);
    for (int64_t j = 1; j < n; ++j)
      for (int l = 0; l < kLanes; ++l)
        most[l] = row[j * m + s + l] > most[l] ? row[j * m + s + l] : most[l];
    for (int64_t j = 0; j < n; ++j)
      for (int l = 0; l < kLanes; ++l) {
        float e = exponential(row[j * m + s + l] - most[l]);
        row[j * m + s + l] = e;
        sum[l] += e;
      }
    for (int l = 0; l < kLanes; ++l)
      sum[l] = 1.0f / sum[l];
    for (int64_t j = 0; j < n; ++j)
      for (int l = 0; l < kLanes; ++l)
        row[j * m + s + l] *= sum[l];
  }
}

/* `qkv`: queries, keys, values; `parts`: tokens x tokens x samples, kept for the way back. */
static void attend(const float *qkv, float *parts, float *out, Shape shape) {
  int64_t block = shape.depth * shape.stride;
  pairTokens(parts, qkv, qkv + block, shape, 1.0f / sqrtf((float)shape.depth));
  for (int64_t i = 0; i < shape.tokens; ++i)
    soften(parts + i * shape.tokens * shape.samples, shape.tokens, shape.samples);
  mixTokens(out, parts, qkv + 2 * block, shape, 0);
}

/* From gradients of the parts to those of the scores, over j for one i. */
static void hardenGradient(float *restrict d, const float *restrict parts, int64_t n, int64_t m, float scale) {
  for (int64_t s = 0; s < m; s += kLanes) {
    float inner[kLanes] = {0};
    for (int64_t j = 0; j < n; ++j)
      for (int l = 0; l < kLanes; ++l)
        inner[l] += d[j * m + s + l] * parts[j * m + s + l];
    for (int64_t j = 0; j < n; ++j)
      for (int l = 0; l < kLanes; ++l)
        d[j * m + s + l] = (d[j * m + s + l] - inner[l]) * parts[j * m + s + l] * scale;
  }
}

/* Replaces queries, keys, values by their gradients; `scores` is as large as `parts`, `spare` as qkv. */
static void attendBack(float *qkv, const float *parts, const float *dout, float *scores, float *spare, Shape shape) {
  int64_t block = shape.depth * shape.stride, n = shape.tokens, m = shape.samples;
  pairTokens(scores, dout, qkv + 2 * block, shape, 1.0f);
  for (int64_t i = 0; i < n; ++i)
    hardenGradient(scores + i * n * m, parts + i * n * m, n, m, 1.0f / sqrtf((float)shape.depth));
  mixTokens(spare, scores, qkv + block, shape, 0);
  mixTokens(spare + block, scores, qkv, shape, 1);
  mixTokens(spare + 2 * block, parts, dout, shape, 1);
  for (int64_t d = 0; d < 3 * shape.depth; ++d)
    memcpy(qkv + d * shape.stride, spare + d * shape.stride, (size_t)(n * m) * sizeof(float));
}

/* x / (1 + e^(-1.702 x)), close to the Gaussian error unit. */
static void bend(float *restrict to, const float *restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = from[i] / (1.0f + exponential(-1.702f * from[i]));
}

/* `d`: gradient of what `bend` makes of `pre`; `pre` becomes its own. */
static void bendBack(float *restrict pre, const float *restrict d, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float part = 1.0f / (1.0f + exponential(-1.702f * pre[i]));
    pre[i] = d[i] * part * (1.0f + 1.702f * pre[i] * (1.0f - part));
  }
}

/* LayerNorm over rows, for each of `count` columns: `hat` without gain and shift, `inverse` of the deviations. */
static void normalize(float *restrict hat, float *normal, float *restrict inverse, const float *restrict x,
                      int64_t rows, int64_t stride, int64_t count, const float *gain, const float *shift) {
  float *mean = normal; /* until it is filled */
  memset(mean, 0, (size_t)count * sizeof(float));
  memset(inverse, 0, (size_t)count * sizeof(float));
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t r = 0; r < count; ++r)
      mean[r] += x[k * stride + r];
  for (int64_t r = 0; r < count; ++r)
    mean[r] /= (float)rows;
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t r = 0; r < count; ++r) {
      float off = x[k * stride + r] - mean[r];
      hat[k * stride + r] = off;
      inverse[r] += off * off;
    }
  for (int64_t r = 0; r < count; ++r)
    inverse[r] = 1.0f / sqrtf(inverse[r] / (float)rows + 1e-5f);
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t r = 0; r < count; ++r) {
      float unit = hat[k * stride + r] * inverse[r];
      hat[k * stride + r] = unit;
      normal[k * stride + r] = unit * gain[k] + shift[k];
    }
}

/* to = d + the gradient of x; adds to those of gain and shift. `dnormal` is spent; where there is a `sum`, filled from
 * that first. `spare`: two rows. */
static void normalizeBack(float *to, const float *d, const double *sum, float *restrict dnormal,
                          const float *restrict hat, const float *restrict inverse, int64_t rows, int64_t stride,
                          int64_t count, const float *gain, float *dgain, float *dshift, float *restrict spare) {
  float *restrict mean = spare, *restrict slope = spare + stride;
  memset(mean, 0, (size_t)count * sizeof(float));
  memset(slope, 0, (size_t)count * sizeof(float));
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t r = 0; sum && r < count; ++r)
      dnormal[k * stride + r] = (float)sum[k * stride + r];
    dgain[k] += dot(dnormal + k * stride, hat + k * stride, count);
    dshift[k] += total(dnormal + k * stride, count);
    for (int64_t r = 0; r < count; ++r) {
      float g = dnormal[k * stride + r] * gain[k];
      dnormal[k * stride + r] = g;
      mean[r] += g;
      slope[r] += g * hat[k * stride + r];
    }
  }
  for (int64_t r = 0; r < count; ++r) {
    mean[r] /= (float)rows;
    slope[r] /= (float)rows;
  }
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t r = 0; r < count; ++r) {
      float change = inverse[r] * (dnormal[k * stride + r] - mean[r] - hat[k * stride + r] * slope[r]);
      to[k * stride + r] = d[k * stride + r] + change;
    }
}

#endif
