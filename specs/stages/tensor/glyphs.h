/* The data: glyphs of 20 classes, 20 x 20 pixels. A class is a few strokes between points drawn once; an image is those
 * strokes with jittered points, turned, stretched, moved, with a pen of some width, and noise. Image i has class i mod
 * 20 and depends on the set and i alone, so every process makes the same. */
#ifndef TENSOR_GLYPHS_H
#define TENSOR_GLYPHS_H

#include "kernels.h"

#include <stdlib.h>

enum { kClasses = 20, kSide = 20, kImage = kSide * kSide, kTrain = 8192, kTest = 2048, kStrokes = 4 };

static int32_t classOf(int64_t image) { return (int32_t)(image % kClasses); }

/* A stroke's ends, in [-1, 1]: often one begins where the last one ended. */
static void strokesOf(int32_t kind, float ends[kStrokes][4]) {
  uint64_t seed = mixed(0x676c797068u, (uint64_t)kind);
  for (int i = 0; i < kStrokes; ++i) {
    for (int j = 0; j < 4; ++j)
      ends[i][j] = 0.8f * uniform(mixed(seed, (uint64_t)(4 * i + j)));
    if (i > 0 && mixed(seed, (uint64_t)(100 + i)) % 3 != 0)
      memcpy(ends[i], ends[i - 1] + 2, 2 * sizeof(float));
  }
}

/* Where an image puts a point. */
typedef struct Jitter {
  float xx, xy, yx, yy, x, y, pen, noise;
} Jitter;

static Jitter jitterOf(uint64_t seed) {
  float a = 0.45f * uniform(mixed(seed, 0)), grow = 1 + 0.22f * uniform(mixed(seed, 1));
  float lean = 0.25f * uniform(mixed(seed, 2)), wide = 1 + 0.2f * uniform(mixed(seed, 3));
  float c = cosf(a) * grow, s = sinf(a) * grow;
  Jitter jitter = {c * wide,
                   c * lean - s,
                   s * wide,
                   s * lean + c,
                   0.22f * uniform(mixed(seed, 4)),
                   0.22f * uniform(mixed(seed, 5)),
                   0.07f + 0.025f * uniform(mixed(seed, 6)),
                   0.35f};
  return jitter;
}

/* The square of a point's distance from a stroke. */
static float distance(const float *ends, float x, float y) {
  float dx = ends[2] - ends[0], dy = ends[3] - ends[1], px = x - ends[0], py = y - ends[1];
  float t = (px * dx + py * dy) / (dx * dx + dy * dy + 1e-6f);
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  px -= t * dx;
  py -= t * dy;
  return px * px + py * py;
}

static void drawGlyph(uint8_t *pixels, uint64_t set, int64_t image) {
  uint64_t seed = mixed(mix(set), (uint64_t)image);
  float plain[kStrokes][4], ends[kStrokes][4];
  Jitter jitter = jitterOf(seed);
  strokesOf(classOf(image), plain);
  for (int i = 0; i < kStrokes; ++i)
    for (int j = 0; j < 4; j += 2) {
      float x = plain[i][j] + 0.1f * uniform(mixed(seed, (uint64_t)(20 + 4 * i + j)));
      float y = plain[i][j + 1] + 0.1f * uniform(mixed(seed, (uint64_t)(21 + 4 * i + j)));
      ends[i][j] = jitter.xx * x + jitter.xy * y + jitter.x;
      ends[i][j + 1] = jitter.yx * x + jitter.yy * y + jitter.y;
    }
  for (int p = 0; p < kImage; ++p) {
    float x = ((float)(p % kSide) + 0.5f) / (kSide / 2) - 1, y = ((float)(p / kSide) + 0.5f) / (kSide / 2) - 1;
    float nearest = 4;
    for (int i = 0; i < kStrokes; ++i) {
      float d = distance(ends[i], x, y);
      nearest = d < nearest ? d : nearest;
    }
    float ink = 1.0f / (1.0f + nearest * nearest / (jitter.pen * jitter.pen * jitter.pen * jitter.pen));
    ink += jitter.noise * (uniform(mixed(seed, (uint64_t)(1000 + p))) + uniform(mixed(seed, (uint64_t)(2000 + p))));
    ink = (ink + 0.5f) * 127.5f;
    pixels[p] = (uint8_t)(ink < 0 ? 0 : ink > 255 ? 255 : ink);
  }
}

/* Set 1 is to train, 2 to test. NULL: no memory. */
static uint8_t *drawGlyphs(uint64_t set, int64_t count) {
  uint8_t *pixels = malloc((size_t)(count * kImage));
  for (int64_t i = 0; pixels && i < count; ++i)
    drawGlyph(pixels + i * kImage, set, i);
  return pixels;
}

/* The order of an epoch. */
static void shuffle(int32_t *order, uint64_t seed, int64_t epoch) {
  uint64_t state = mixed(mix(seed ^ 0x6f72646572u), (uint64_t)epoch);
  for (int32_t i = 0; i < kTrain; ++i)
    order[i] = i;
  for (int32_t i = kTrain - 1; i > 0; --i) {
    int32_t j = (int32_t)(mixed(state, (uint64_t)i) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}

#endif
