/* States in files: of all stages here, or of one layer. */
#ifndef MLP_SAVING_H
#define MLP_SAVING_H

#include "stage.h"

/* A saved layer: these numbers, then its weights; gradients are zero between steps, and the optimizer keeps nothing. A
 * saved state is the layers of all stages here, one after the other. */
typedef struct Header {
  char magic[8];
  int64_t steps, hidden, layer;
} Header;

static Header headerOf(const PipecStage *s, int64_t layer, int64_t steps) {
  Header header = {"MLPLAYER", steps, s->hidden, layer};
  return header;
}

/* Of a layer in `own`; 1: it could not be written, or is not what it should be. */
static int writeLayer(const PipecStage *s, const Own *own, int64_t layer, int64_t steps, FILE *file) {
  Header header = headerOf(s, layer, steps);
  size_t count = (size_t)layerSize(s);
  return fwrite(&header, sizeof header, 1, file) != 1 ||
         fwrite(own->weights + (layer - own->first) * layerSize(s), sizeof(Real), count, file) != count;
}

static int readLayer(PipecStage *s, Own *own, int64_t layer, int64_t steps, FILE *file) {
  Header expected = headerOf(s, layer, steps), header;
  size_t count = (size_t)layerSize(s);
  return fread(&header, sizeof header, 1, file) != 1 || memcmp(&header, &expected, sizeof header) != 0 ||
         fread(own->weights + (layer - own->first) * layerSize(s), sizeof(Real), count, file) != count;
}

static int ends(FILE *file) { return fgetc(file) == EOF; }

int pipec_stage_save(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  FILE *file = fopen(path, "wb");
  int bad = !file;
  for (Own *own = s->own; !bad && own < s->own + s->ownCount; ++own)
    for (int64_t l = 0; !bad && l < own->layers; ++l)
      bad = writeLayer(s, own, own->first + l, steps, file);
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", path) : 0;
}

int pipec_stage_load(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return fail(error, "%s: cannot be read", path);
  int bad = 0;
  for (Own *own = s->own; !bad && own < s->own + s->ownCount; ++own)
    for (int64_t l = 0; !bad && l < own->layers; ++l)
      bad = readLayer(s, own, own->first + l, steps, file);
  bad = bad || !ends(file);
  fclose(file);
  return bad ? fail(error, "%s: is not the state of these stages after %lld steps", path, (long long)steps) : 0;
}

/* The stage here that holds a layer. */
static Own *holderOf(PipecStage *s, int32_t layer, PipecError *error) {
  for (Own *own = s->own; own < s->own + s->ownCount; ++own)
    if (layer >= own->first && layer - own->first < own->layers)
      return own;
  fail(error, "no stage here holds layer %d", layer);
  return NULL;
}

int pipec_stage_save_layer(PipecStage *s, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  const Own *own = holderOf(s, layer, error);
  if (!own)
    return 1;
  FILE *file = fopen(path, "wb");
  int bad = !file || writeLayer(s, own, layer, steps, file);
  if (file && fclose(file) != 0)
    bad = 1;
  return bad ? fail(error, "%s: cannot be written", path) : 0;
}

int pipec_stage_load_layer(PipecStage *s, int32_t layer, const char *path, int64_t steps, PipecError *error) {
  Own *own = holderOf(s, layer, error);
  if (!own)
    return 1;
  FILE *file = fopen(path, "rb");
  if (!file)
    return fail(error, "%s: cannot be read", path);
  int bad = readLayer(s, own, layer, steps, file) || !ends(file);
  fclose(file);
  return bad ? fail(error, "%s: is not the state of layer %d after %lld steps", path, layer, (long long)steps) : 0;
}

#endif
