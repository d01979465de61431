/* One layer, x' = x + relu(x W + b), forward and backward, and numbers to begin with. A layer's parameters are W (n x
 * n) and then b (n); x, pre and gradients are `rows` x n. Innermost loops run along rows, which compilers vectorize. */
#ifndef MLP_LAYER_H
#define MLP_LAYER_H

#include <stdint.h>
#include <string.h>

/* What is computed with: float, or what MLP_REAL says. Data and weights begin with the same values in both. */
#ifndef MLP_REAL
#define MLP_REAL float
#endif
typedef MLP_REAL Real;

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* What draw() goes on with behind so many numbers. */
static uint64_t seedBehind(uint64_t seed, int64_t count) { return seed + (uint64_t)count * 0x9e3779b97f4a7c15u; }

/* Uniform in [-1, 1). */
static void draw(Real *to, int64_t count, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = (float)(mix(seedBehind(seed, i + 1)) >> 40) * (2.0f / 16777216.0f) - 1.0f;
}

/* c (m x n) += a (m x k) b (k x n); k is a multiple of 4. Four rows of b at a time: a fourth of the stores. */
static void multiply(Real *restrict c, const Real *restrict a, const Real *restrict b, int64_t m, int64_t k,
                     int64_t n) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; j += 4) {
      const Real *f = a + i * k + j, *row = b + j * n;
      Real f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3], *restrict to = c + i * n;
      for (int64_t l = 0; l < n; ++l)
        to[l] += f0 * row[l] + f1 * row[n + l] + f2 * row[2 * n + l] + f3 * row[3 * n + l];
    }
}

/* to (n x m) = from (m x n), turned over. */
static void transpose(Real *restrict to, const Real *restrict from, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      to[j * m + i] = from[i * n + j];
}

static void layerForward(const Real *parameters, const Real *x, Real *pre, Real *out, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r)
    memcpy(pre + r * n, parameters + n * n, (size_t)n * sizeof(Real));
  multiply(pre, x, parameters, rows, n, n);
  for (int64_t i = 0; i < rows * n; ++i)
    out[i] = x[i] + (pre[i] > 0 ? pre[i] : 0);
}

/* `d`: gradient of the layer's output on entry, of its input on return; `pre` becomes its own gradient. `scratch` holds
 * n x n. */
static void layerBackwardInput(const Real *parameters, Real *pre, Real *d, Real *scratch, int64_t rows, int64_t n) {
  for (int64_t i = 0; i < rows * n; ++i)
    pre[i] = pre[i] > 0 ? d[i] : 0;
  transpose(scratch, parameters, n, n);
  multiply(d, pre, scratch, rows, n, n);
}

/* Adds to `gradients`, laid out as the parameters are. `scratch` holds n x rows. */
static void layerBackwardWeight(Real *gradients, const Real *x, const Real *dpre, Real *scratch, int64_t rows,
                                int64_t n) {
  transpose(scratch, x, rows, n);
  multiply(gradients, scratch, dpre, n, rows, n);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j)
      gradients[n * n + j] += dpre[r * n + j];
}

#endif
