/* Which units are whose, and their way from shard to shard: when that changes, weights and optimizer state from the old
 * owner to the new one; where a shard works another one's units, their weights before a step and gradients behind it.
 */
#ifndef TENSOR_PORTIONS_H
#define TENSOR_PORTIONS_H

#include "resize.h"

/* Numbers that go from one shard to another. All shards make the same list. */
typedef struct Trip {
  int32_t from, to;
  float *at; /* here, at either end */
  int64_t count;
} Trip;

typedef struct Trips {
  Trip *trip;
  int64_t count, room;
} Trips;

static int addTrip(Trips *trips, int32_t from, int32_t to, float *at, int64_t count, PipecError *error) {
  if (trips->count == trips->room) {
    trips->room = trips->room ? 2 * trips->room : 64;
    Trip *more = realloc(trips->trip, (size_t)trips->room * sizeof *more);
    if (!more)
      return fail(error, "not enough memory to move units");
    trips->trip = more;
  }
  Trip trip = {from, to, at, count};
  trips->trip[trips->count++] = trip;
  return 0;
}

/* Copies all trips with this end here, in their order, by the shard at the other end: into or out of `buffer`. */
static void carry(const PipecStage *s, const Trips *trips, char *buffer, int64_t *bytes, int out) {
  for (int32_t other = 0; other < s->shards; ++other) {
    bytes[other] = 0;
    for (const Trip *t = trips->trip; t < trips->trip + trips->count; ++t) {
      if ((out ? t->from : t->to) != s->shard || (out ? t->to : t->from) != other)
        continue;
      int64_t size = t->count * (int64_t)sizeof(float);
      if (buffer && out)
        memcpy(buffer, t->at, (size_t)size);
      else if (buffer)
        memcpy(t->at, buffer, (size_t)size);
      buffer = buffer ? buffer + size : NULL;
      bytes[other] += size;
    }
  }
}

static int64_t sumOf(const int64_t *bytes, int32_t count) {
  int64_t sum = 0;
  for (int32_t i = 0; i < count; ++i)
    sum += bytes[i];
  return sum;
}

/* No trip at all: no shard has one, and none is asked. */
static int travel(PipecStage *s, Trips *trips, PipecError *error) {
  if (trips->count == 0)
    return 0;
  int64_t *sent = calloc(2 * (size_t)s->shards, sizeof *sent), *received = sent + s->shards;
  char *out = NULL, *in = NULL;
  int failed = !sent;
  if (!failed) {
    carry(s, trips, NULL, sent, 1);
    carry(s, trips, NULL, received, 0);
    out = malloc((size_t)sumOf(sent, s->shards) + 1);
    in = malloc((size_t)sumOf(received, s->shards) + 1);
    failed = !out || !in;
  }
  if (failed) {
    fail(error, "not enough memory to move units");
  } else {
    carry(s, trips, out, sent, 1);
    failed = s->group->exchange(s->group, out, sent, in, received, error);
  }
  if (!failed)
    carry(s, trips, in, received, 0);
  free(out);
  free(in);
  free(sent);
  free(trips->trip);
  memset(trips, 0, sizeof *trips);
  return failed;
}

/* Between the owners and workers of a stage's units: gradients before an update, weights behind it. */
static int shareOut(PipecStage *s, Own *own, int gradients, Trips *trips, PipecError *error) {
  for (int32_t l = 0; l < own->layers; ++l)
    for (int32_t kind = 0; kind < kSplits; ++kind) {
      Split *p = &own->layer[l].split[kind];
      for (int32_t u = 0; u < p->units; ++u) {
        int32_t owner = p->owner[u], worker = p->worker[u];
        float *at = gradients ? p->unit[u].gradients : p->unit[u].weights;
        if (owner != worker &&
            addTrip(trips, gradients ? worker : owner, gradients ? owner : worker, at, sizeOf(s, kind), error))
          return 1;
      }
    }
  return 0;
}

/* What one call says of a split in a layer. */
typedef struct Map {
  int32_t *owner, *worker, *kept;
  Balance balance;
} Map;

static Map *newMaps(const PipecStage *s, int64_t splits) {
  Map *maps = calloc((size_t)splits, sizeof *maps);
  int64_t units = s->columns > kHeads ? s->columns : kHeads, each = 2 * units + s->shards;
  for (int64_t i = 0; maps && i < splits; ++i) {
    maps[i].owner = malloc((size_t)each * sizeof(int32_t));
    if (!maps[i].owner) {
      while (i-- > 0)
        free(maps[i].owner);
      free(maps);
      return NULL;
    }
    for (int64_t k = 0; k < each; ++k)
      maps[i].owner[k] = -1;
    maps[i].worker = maps[i].owner + units;
    maps[i].kept = maps[i].worker + units;
  }
  return maps;
}

static void freeMaps(Map *maps, int64_t splits) {
  for (int64_t i = 0; maps && i < splits; ++i)
    free(maps[i].owner);
  free(maps);
}

static int claim(const PipecPortion *portion, const PipecUnits *ranges, int64_t count, const char *what, int32_t *map,
                 int64_t *claimed, PipecError *error) {
  int64_t behind = 0;
  *claimed = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t first = ranges[i].first, many = ranges[i].count;
    if (first < behind || many < 0 || many > portion->units - first)
      return fail(error, "stage %d shard %d, split %s: units %lld to %lld %s; expected ascending ones below %lld",
                  portion->stage, portion->shard, portion->split, (long long)first, (long long)(first + many - 1), what,
                  (long long)portion->units);
    behind = first + many;
    *claimed += many;
    for (int64_t u = first; u < behind; ++u) {
      if (map[u] >= 0)
        return fail(error, "stage %d, split %s: unit %lld is %s by shards %d and %d", portion->stage, portion->split,
                    (long long)u, what, map[u], portion->shard);
      map[u] = portion->shard;
    }
  }
  return 0;
}

/* A word of the balance, or the first of those it may be. */
static int word(const char *json, const char *key, const char *const *known, char *to, size_t size, PipecError *error) {
  text(json, key, to, size);
  if (!to[0])
    strcpy(to, known[0]);
  while (*known && strcmp(to, *known) != 0)
    ++known;
  return *known ? 0 : fail(error, "the plan's balance has %s %s, which is not known here", key, to);
}

static int readBalance(const char *json, Balance *balance, PipecError *error) {
  static const char *const names[] = {"even", "auto", "migrate", "resize", "semi", NULL};
  static const char *const imputes[] = {"zero", "average", "same", NULL};
  static const char *const priorities[] = {"change", "random", "first", NULL};
  return word(json, "name", names, balance->name, sizeof balance->name, error) ||
         word(json, "impute", imputes, balance->impute, sizeof balance->impute, error) ||
         word(json, "priority", priorities, balance->priority, sizeof balance->priority, error);
}

static int readPortion(PipecStage *s, const PipecPortion *portion, Map *maps, PipecError *error) {
  Own *own = ownOf(s, portion->stage);
  int32_t kind = 0, first = portion->first_layer, layers = portion->layers;
  if (!own)
    return fail(error, "a portion is of stage %d, which is not here", portion->stage);
  if (portion->shard < 0 || portion->shard >= s->shards)
    return fail(error, "a portion is of shard %d, of %d", portion->shard, s->shards);
  while (kind < kSplits && strcmp(portion->split, kNames[kind]) != 0)
    ++kind;
  if (kind == kSplits)
    return fail(error, "the plan has a split %s; layers here have heads and columns", portion->split);
  int64_t units = kind == kHeadsSplit ? kHeads : s->columns;
  if (portion->units != units)
    return fail(error, "split %s has %lld units in the plan and %lld here%s", portion->split, (long long)portion->units,
                (long long)units, kind == kColumnsSplit ? " (the provider's columns)" : "");
  if (first < 0 || layers < 0 || first > own->layers || layers > own->layers - first)
    return fail(error, "a portion is of layers %d to %d of stage %d, which has %d", first, first + layers - 1,
                portion->stage, own->layers);
  for (int32_t l = first; l < first + layers; ++l) {
    Map *map = maps + kSplits * own->layer[l].index + kind;
    int64_t owned, worked;
    if (map->kept[portion->shard] >= 0)
      return fail(error, "two portions of stage %d shard %d are of split %s in layer %d", portion->stage,
                  portion->shard, portion->split, l);
    if (claim(portion, portion->owned, portion->owned_count, "owned", map->owner, &owned, error) ||
        claim(portion, portion->worked, portion->worked_count, "worked", map->worker, &worked, error))
      return 1;
    if (portion->kept < 0 || portion->kept > worked)
      return fail(error, "stage %d shard %d, split %s: keeps %lld of %lld units", portion->stage, portion->shard,
                  portion->split, (long long)portion->kept, (long long)worked);
    map->kept[portion->shard] = (int32_t)portion->kept;
    Balance balance;
    if (readBalance(portion->balance, &balance, error))
      return 1;
    if (portion->kept < worked && (strcmp(balance.name, "even") == 0 || strcmp(balance.name, "migrate") == 0))
      return fail(error, "balance %s keeps all units; stage %d shard %d keeps %lld of %lld of split %s", balance.name,
                  portion->stage, portion->shard, (long long)portion->kept, (long long)worked, portion->split);
    if (portion->shard == s->shard)
      map->balance = balance;
  }
  return 0;
}

/* All units of all layers must be somebody's. */
static int complete(const PipecStage *s, const Own *own, const Map *maps, PipecError *error) {
  for (int32_t l = 0; l < own->layers; ++l)
    for (int32_t kind = 0; kind < kSplits; ++kind) {
      const Map *map = maps + kSplits * own->layer[l].index + kind;
      for (int32_t i = 0; i < s->shards; ++i)
        if (map->kept[i] < 0)
          return fail(error, "no portion of stage %d shard %d is of split %s in layer %d", own->stage, i, kNames[kind],
                      l);
      for (int32_t u = 0; u < own->layer[l].split[kind].units; ++u)
        if (map->owner[u] < 0 || map->worker[u] < 0)
          return fail(error, "stage %d layer %d, split %s: no shard has unit %d", own->stage, l, kNames[kind], u);
    }
  return 0;
}

/* Makes room for what becomes this shard's, and lists what moves. */
static int arrive(PipecStage *s, const Layer *layer, Split *p, const Map *map, Trips *trips, PipecError *error) {
  int64_t size = sizeOf(s, p->kind);
  for (int32_t u = 0; u < p->units; ++u) {
    Unit *unit = &p->unit[u];
    int here = map->owner[u] == s->shard;
    if (here && hold(s, unit, size, 1, error))
      return 1;
    if (!p->owner && here)
      drawWeights(s, unit, layer->number, p->kind, u);
    if (p->owner && p->owner[u] != map->owner[u] &&
        addTrip(trips, p->owner[u], map->owner[u], unit->weights, 3 * size, error))
      return 1;
  }
  return 0;
}

/* From now on it is so; what is no longer needed here goes. */
static int settle(PipecStage *s, Split *p, const Map *map, PipecError *error) {
  int64_t size = sizeOf(s, p->kind), units = p->units;
  if (!p->owner) {
    p->owner = malloc((size_t)(2 * units + s->shards) * sizeof(int32_t));
    if (!p->owner)
      return fail(error, "not enough memory for portions");
    p->worker = p->owner + units;
    p->kept = p->worker + units;
  }
  memcpy(p->owner, map->owner, (size_t)units * sizeof(int32_t));
  memcpy(p->worker, map->worker, (size_t)units * sizeof(int32_t));
  memcpy(p->kept, map->kept, (size_t)s->shards * sizeof(int32_t));
  p->balance = map->balance;
  p->step = -1;
  if (!prunes(&p->balance))
    forget(p);
  for (int32_t u = 0; u < units; ++u) {
    Unit *unit = &p->unit[u];
    if (p->worker[u] != s->shard || !p->resize) {
      free(unit->begin);
      free(unit->last);
      unit->begin = unit->last = NULL;
    }
    if (p->owner[u] != s->shard && p->worker[u] != s->shard)
      drop(s, unit, size);
    else if (hold(s, unit, size, p->owner[u] == s->shard, error))
      return 1;
  }
  return 0;
}

static int portionsOf(PipecStage *s, const Map *maps, PipecError *error) {
  Trips moves = {0}, copies = {0};
  int failed = 0;
  freeSpares(s); /* sizes are others from now on */
  for (int pass = 0; pass < 2 && !failed; ++pass) {
    for (Own *own = s->own; own < s->own + s->ownCount && !failed; ++own)
      for (int32_t i = 0; i < kSplits * own->layers && !failed; ++i) {
        Layer *layer = &own->layer[i / kSplits];
        Split *p = &layer->split[i % kSplits];
        const Map *map = maps + kSplits * layer->index + i % kSplits;
        failed = pass == 0 ? arrive(s, layer, p, map, &moves, error) : settle(s, p, map, error);
      }
    if (pass == 0 && !failed)
      failed = travel(s, &moves, error);
  }
  for (Own *own = s->own; own < s->own + s->ownCount && !failed; ++own)
    failed = shareOut(s, own, 0, &copies, error);
  failed = failed || travel(s, &copies, error);
  free(moves.trip);
  free(copies.trip);
  return failed;
}

#endif
