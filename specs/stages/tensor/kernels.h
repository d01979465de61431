/* The arithmetic of matrices. A matrix is rows of numbers, each row `stride` behind the one before, aligned to 64
 * bytes; in a row stand the tokens of all samples. So innermost loops run along tokens, of which there are as many
 * whoever computes how many units, and a unit's numbers come from the same instructions in the same order on every
 * shard. */
#ifndef TENSOR_KERNELS_H
#define TENSOR_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { kLanes = 16, kBlock = 4 };

/* Vectors of gcc and clang, of any machine; these are local values alone, so no call's ABI depends on them. */
typedef float Lanes __attribute__((vector_size(64), may_alias));
typedef float Half __attribute__((vector_size(32), may_alias));
typedef double Wide __attribute__((vector_size(64), may_alias));
typedef uint64_t Counts __attribute__((vector_size(64), may_alias));
typedef int64_t Signed __attribute__((vector_size(64), may_alias));

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* The number-th of a sequence, mixed. */
static uint64_t mixed(uint64_t seed, uint64_t number) { return mix(seed + (number + 1) * 0x9e3779b97f4a7c15u); }

/* Uniform in [-1, 1). */
static float uniform(uint64_t bits) { return (float)(bits >> 40) * (2.0f / 16777216.0f) - 1.0f; }

/* e^x to a few units in the last place, without a call, so that loops of it become vectors. */
static inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 87.0f ? 87.0f : x;
  float shifted = x * 1.44269504f + 12582912.0f; /* its lowest bits are the power of 2 */
  float power = shifted - 12582912.0f;
  float r = x - power * 0.693359375f + power * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  uint32_t bits, low;
  memcpy(&bits, &y, sizeof bits);
  memcpy(&low, &shifted, sizeof low);
  bits += low << 23;
  memcpy(&y, &bits, sizeof bits);
  return y;
}

/* What a product of matrices is of: rows of weights, and where their products go; multiples of kBlock of each. */
typedef struct Rows {
  const float **from;
  float **to;
  int64_t count;
} Rows;

/* A tile of `multiply`, 32 columns wide: four rows of weights, so that each load of x serves four products. */
static void multiplyTile(const float *const *w, float *const *to, int64_t column, const float *x, int64_t stride,
                         const int32_t *list, int64_t terms) {
  Lanes a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0};
  for (int64_t k = 0; k < terms; ++k) {
    int64_t at = list[k];
    const Lanes *row = (const Lanes *)(const void *)(x + at * stride + column);
    Lanes left = row[0], right = row[1];
    float a = w[0][at], b = w[1][at], c = w[2][at], d = w[3][at];
    a0 += a * left;
    a1 += a * right;
    b0 += b * left;
    b1 += b * right;
    c0 += c * left;
    c1 += c * right;
    d0 += d * left;
    d1 += d * right;
  }
  Lanes *a = (Lanes *)(void *)(to[0] + column), *b = (Lanes *)(void *)(to[1] + column);
  Lanes *c = (Lanes *)(void *)(to[2] + column), *d = (Lanes *)(void *)(to[3] + column);
  a[0] = a0, a[1] = a1;
  b[0] = b0, b[1] = b1;
  c[0] = c0, c[1] = c1;
  d[0] = d0, d[1] = d1;
}

/* The last 16 columns of an odd number of them. */
static void multiplyHalf(const float *const *w, float *const *to, int64_t column, const float *x, int64_t stride,
                         const int32_t *list, int64_t terms) {
  Lanes a0 = {0}, b0 = {0}, c0 = {0}, d0 = {0};
  for (int64_t k = 0; k < terms; ++k) {
    int64_t at = list[k];
    Lanes row = *(const Lanes *)(const void *)(x + at * stride + column);
    a0 += w[0][at] * row;
    b0 += w[1][at] * row;
    c0 += w[2][at] * row;
    d0 += w[3][at] * row;
  }
  *(Lanes *)(void *)(to[0] + column) = a0;
  *(Lanes *)(void *)(to[1] + column) = b0;
  *(Lanes *)(void *)(to[2] + column) = c0;
  *(Lanes *)(void *)(to[3] + column) = d0;
}

/* to[i] = sum over the k in the list of from[i][k] x[k], `columns` of them, a multiple of kLanes. Whichever is shorter
 * stays in the cache: a tile of x for all rows, or a block of rows for all tiles. */
static void multiply(const Rows *rows, const float *x, int64_t stride, const int32_t *list, int64_t terms,
                     int64_t columns) {
  int64_t tiles = (columns + 2 * kLanes - 1) / (2 * kLanes), blocks = rows->count / kBlock;
  for (int64_t n = 0; n < tiles * blocks; ++n) {
    int64_t column = (terms > columns ? n % tiles : n / blocks) * 2 * kLanes;
    int64_t row = (terms > columns ? n / tiles : n % blocks) * kBlock;
    (column + kLanes < columns ? multiplyTile : multiplyHalf)(rows->from + row, rows->to + row, column, x, stride, list,
                                                              terms);
  }
}

/* Sums of units' parts. A part is rounded to a multiple of the quantum by adding `magic`, between whose neighbours
 * there is one quantum: the bits of what comes out are those of `magic` plus the multiple, so whole numbers are added
 * up, exactly, in whichever order. `sum` holds those whole numbers, and behind `summed` the sums. */
typedef struct Quantum {
  double size;  /* a power of two */
  double magic; /* 1.5 x 2^52 quanta */
  double limit; /* of a part, so that all units' sum has less than 2^53 quanta */
} Quantum;

static Quantum quantumOf(int exponent, int64_t units) {
  double size = ldexp(1, exponent);
  Quantum quantum = {size, ldexp(1.5, 52 + exponent), ldexp(1, 51 + exponent) / (double)units};
  return quantum;
}

static uint64_t bitsOf(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Adds rounded w[i][k] a[i] to row k of the sum, for each of `rows` (w: from, a: to), one unit each; the product of two
 * floats is exact in a double. `wide` holds kBlock x terms numbers for each block of rows. */
static void addEach(double *sum, const Rows *rows, int64_t stride, int64_t columns, const int32_t *list, int64_t terms,
                    Quantum quantum, double *wide) {
  for (int64_t i = 0; i < rows->count; ++i)
    for (int64_t k = 0; k < terms; ++k)
      wide[(i / kBlock * terms + k) * kBlock + i % kBlock] = rows->from[i][list[k]];
  Wide magic = (Wide){0} + quantum.magic;
  Counts taken = (Counts){0} + kBlock * bitsOf(quantum.magic);
  for (int64_t tile = 0; tile < columns; tile += 4 * kLanes)
    for (int64_t i = 0; i < rows->count; i += kBlock)
      for (int64_t r = tile; r < tile + 4 * kLanes && r < columns; r += kLanes / 2) {
        const double *f = wide + i * terms;
        Wide a = __builtin_convertvector(*(const Half *)(const void *)(rows->to[i] + r), Wide);
        Wide b = __builtin_convertvector(*(const Half *)(const void *)(rows->to[i + 1] + r), Wide);
        Wide c = __builtin_convertvector(*(const Half *)(const void *)(rows->to[i + 2] + r), Wide);
        Wide d = __builtin_convertvector(*(const Half *)(const void *)(rows->to[i + 3] + r), Wide);
        for (int64_t k = 0; k < terms; ++k, f += kBlock) {
          Counts *to = (Counts *)(void *)(sum + list[k] * stride + r);
          Counts pa = (Counts)(f[0] * a + magic), pb = (Counts)(f[1] * b + magic);
          Counts pc = (Counts)(f[2] * c + magic), pd = (Counts)(f[3] * d + magic);
          *to += (pa + pb) + (pc + pd) - taken;
        }
      }
}

/* The same of one unit whose part is the sum over all rows. */
static void addJoined(double *sum, const Rows *rows, int64_t stride, int64_t columns, const int32_t *list,
                      int64_t terms, Quantum quantum) {
  Counts taken = (Counts){0} + bitsOf(quantum.magic);
  for (int64_t r = 0; r < columns; r += kLanes)
    for (int64_t k = 0; k < terms; k += kBlock) {
      int64_t at[kBlock];
      for (int64_t i = 0; i < kBlock; ++i)
        at[i] = list[k + i < terms ? k + i : terms - 1];
      Lanes a = {0}, b = {0}, c = {0}, d = {0};
      for (int64_t j = 0; j < rows->count; ++j) {
        const float *w = rows->from[j];
        Lanes x = *(const Lanes *)(const void *)(rows->to[j] + r);
        a += w[at[0]] * x;
        b += w[at[1]] * x;
        c += w[at[2]] * x;
        d += w[at[3]] * x;
      }
      Lanes part[kBlock] = {a, b, c, d};
      for (int64_t i = 0; i < kBlock && k + i < terms; ++i) {
        Counts *to = (Counts *)(void *)(sum + at[i] * stride + r);
        const Half *half = (const Half *)(const void *)&part[i];
        to[0] += (Counts)(__builtin_convertvector(half[0], Wide) + quantum.magic) - taken;
        to[1] += (Counts)(__builtin_convertvector(half[1], Wide) + quantum.magic) - taken;
      }
    }
}

/* The same, slowly, of a unit that may have larger parts than there is room for: those count as the limit. */
static void addLimited(double *sum, const Rows *rows, int64_t stride, int64_t columns, const int32_t *list,
                       int64_t terms, Quantum quantum) {
  for (int64_t k = 0; k < terms; ++k)
    for (int64_t r = 0; r < columns; ++r) {
      double part = 0, *to = sum + list[k] * stride + r;
      for (int64_t j = 0; j < rows->count; ++j)
        part += (double)rows->from[j][list[k]] * rows->to[j][r];
      part = part > quantum.limit ? quantum.limit : part < -quantum.limit ? -quantum.limit : part;
      uint64_t count;
      memcpy(&count, to, sizeof count);
      count += bitsOf(part + quantum.magic) - bitsOf(quantum.magic);
      memcpy(to, &count, sizeof count);
    }
}

/* Whole numbers become what they stand for. */
static void summed(double *sum, int64_t count, Quantum quantum) {
  for (int64_t i = 0; i < count; i += kLanes / 2) {
    const Signed *counts = (const Signed *)(const void *)(sum + i);
    *(Wide *)(void *)(sum + i) = __builtin_convertvector(*counts, Wide) * quantum.size;
  }
}

/* The largest magnitude among them; of what is not a number, infinity. */
static float largest(const float *values, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    bits &= 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  most = most > 0x7f800000u ? 0x7f800000u : most;
  float found;
  memcpy(&found, &most, sizeof found);
  return found;
}

/* to (count x width) = the listed rows of from, `count` columns of each, turned over; what is beyond the list is 0. A
 * few columns at a time: what they fill stays in the cache. */
static void turn(float *restrict to, int64_t width, const float *from, int64_t stride, const int32_t *list,
                 int64_t terms, int64_t count, const float *zeros) {
  for (int64_t block = 0; block < count; block += kLanes)
    for (int64_t k = 0; k < width; k += kBlock) {
      const float *row[kBlock];
      for (int64_t i = 0; i < kBlock; ++i)
        row[i] = k + i < terms ? from + list[k + i] * stride : zeros;
      for (int64_t r = block; r < block + kLanes; ++r) {
        float *at = to + r * width + k;
        at[0] = row[0][r];
        at[1] = row[1][r];
        at[2] = row[2][r];
        at[3] = row[3][r];
      }
    }
}

/* The sum of a row. */
static float total(const float *row, int64_t count) {
  Lanes lanes = {0};
  for (int64_t r = 0; r < count; r += kLanes)
    lanes += *(const Lanes *)(const void *)(row + r);
  float sum = 0;
  for (int i = 0; i < kLanes; ++i)
    sum += lanes[i];
  return sum;
}

/* The sum of products of two rows. */
static float dot(const float *a, const float *b, int64_t count) {
  Lanes lanes = {0};
  for (int64_t r = 0; r < count; r += kLanes)
    lanes += *(const Lanes *)(const void *)(a + r) * *(const Lanes *)(const void *)(b + r);
  float sum = 0;
  for (int i = 0; i < kLanes; ++i)
    sum += lanes[i];
  return sum;
}

#endif
