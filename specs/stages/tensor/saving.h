/* States in files: what the shard owns, and what all hold, of all stages here. A record is where in the model it
 * belongs, then weights and moments. */
#ifndef TENSOR_SAVING_H
#define TENSOR_SAVING_H

#include "update.h"

typedef struct Header {
  char magic[8];
  int64_t steps, width, columns, patch, records;
} Header;

typedef struct Record {
  int64_t layer, kind, number;
} Record;

/* A pass over a file: writing it, or reading it where it must be what is owned now. */
typedef struct Saving {
  FILE *file;
  int reads, bad;
} Saving;

static void count(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number, void *data) {
  (void)s;
  (void)layer;
  (void)kind;
  (void)number;
  *(int64_t *)data += unit->moments != NULL;
}

static Header headerOf(PipecStage *s, int64_t steps) {
  Header header = {"TENSORS", steps, s->width, s->columns, s->patch, 0};
  for (int32_t i = 0; i < s->ownCount; ++i)
    visit(s, &s->own[i], count, &header.records);
  return header;
}

static void record(PipecStage *s, Unit *unit, int64_t layer, int32_t kind, int64_t number, void *data) {
  Saving *saving = data;
  Record expected = {layer, kind, number}, found;
  size_t size = 3 * (size_t)sizeOf(s, kind);
  if (!unit->moments || saving->bad)
    return;
  if (saving->reads)
    saving->bad = fread(&found, sizeof found, 1, saving->file) != 1 || memcmp(&found, &expected, sizeof found) != 0 ||
                  fread(unit->weights, sizeof(float), size, saving->file) != size;
  else
    saving->bad = fwrite(&expected, sizeof expected, 1, saving->file) != 1 ||
                  fwrite(unit->weights, sizeof(float), size, saving->file) != size;
}

int pipec_stage_save(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  Saving saving = {fopen(path, "wb"), 0, 0};
  Header header = headerOf(s, steps);
  saving.bad = !saving.file || fwrite(&header, sizeof header, 1, saving.file) != 1;
  for (int32_t i = 0; i < s->ownCount; ++i)
    visit(s, &s->own[i], record, &saving);
  if (saving.file && fclose(saving.file) != 0)
    saving.bad = 1;
  return saving.bad ? fail(error, "%s: cannot be written", path) : 0;
}

int pipec_stage_load(PipecStage *s, const char *path, int64_t steps, PipecError *error) {
  Saving saving = {fopen(path, "rb"), 1, 0};
  if (!saving.file)
    return fail(error, "%s: cannot be read", path);
  Header expected = headerOf(s, steps), header;
  saving.bad = fread(&header, sizeof header, 1, saving.file) != 1 || memcmp(&header, &expected, sizeof header) != 0;
  for (int32_t i = 0; i < s->ownCount; ++i)
    visit(s, &s->own[i], record, &saving);
  saving.bad = saving.bad || fgetc(saving.file) != EOF;
  fclose(saving.file);
  return saving.bad
             ? fail(error, "%s: is not the state of these stages and units after %lld steps", path, (long long)steps)
             : 0;
}

#endif
