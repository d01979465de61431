/* One layer, x' = x + relu(x W + b), forward and backward, and numbers to begin with. A layer's parameters are W (n x
 * n) and then b (n); x, pre and gradients are `rows` x n. Innermost loops run along rows, which compilers vectorize. */
#ifndef MLP_LAYER_H
#define MLP_LAYER_H

#include <stdint.h>
#include <string.h>

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Uniform in [-1, 1). */
static void draw(float *to, int64_t count, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = (float)(mix(seed + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u) >> 40) * (2.0f / 16777216.0f) - 1.0f;
}

/* c (m x n) += a (m x k) b (k x n); k is a multiple of 4. Four rows of b at a time: a fourth of the stores. */
static void multiply(float *restrict c, const float *restrict a, const float *restrict b, int64_t m, int64_t k,
                     int64_t n) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; j += 4) {
      const float *f = a + i * k + j, *row = b + j * n;
      float f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3], *restrict to = c + i * n;
      for (int64_t l = 0; l < n; ++l)
        to[l] += f0 * row[l] + f1 * row[n + l] + f2 * row[2 * n + l] + f3 * row[3 * n + l];
    }
}

/* to (n x m) = from (m x n), turned over. */
static void transpose(float *restrict to, const float *restrict from, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      to[j * m + i] = from[i * n + j];
}

static void layerForward(const float *parameters, const float *x, float *pre, float *out, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    memcpy(pre + r * n, parameters + n * n, (size_t)n * sizeof(float));
  multiply(pre, x, parameters, rows, n, n);
  for (int64_t i = 0; i < rows * n; ++i)
    out[i] = x[i] + (pre[i] > 0 ? pre[i] : 0);
}

/* `d`: gradient of the layer's output on entry, of its input on return; `pre` becomes its own gradient. `scratch` holds
 * n x n. */
static void layerBackwardInput(const float *parameters, float *pre, float *d, float *scratch, int64_t rows, int64_t n) {
  for (int64_t i = 0; i < rows * n; ++i)
    pre[i] = pre[i] > 0 ? d[i] : 0;
  transpose(scratch, parameters, n, n);
  multiply(d, pre, scratch, rows, n, n);
}

/* Adds to `gradients`, laid out as the parameters are. `scratch` holds n x rows. */
static void layerBackwardWeight(float *gradients, const float *x, const float *dpre, float *scratch, int64_t rows,
                                int64_t n) {
  transpose(scratch, x, rows, n);
  multiply(gradients, scratch, dpre, n, rows, n);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j)
      gradients[n * n + j] += dpre[r * n + j];
}

#endif
