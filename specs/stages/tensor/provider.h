/* Errors, and values of JSON: a flat map of numbers and strings is all that is read here. */
#ifndef TENSOR_PROVIDER_H
#define TENSOR_PROVIDER_H

#include "pipec_stage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(PipecError *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return 1;
}

/* Behind the colon of "key"; NULL if there is none. */
static const char *find(const char *json, const char *key) {
  size_t length = strlen(key);
  for (const char *at = json ? strchr(json, '"') : NULL; at; at = strchr(at + 1, '"'))
    if (strncmp(at + 1, key, length) == 0 && at[length + 1] == '"') {
      const char *behind = at + length + 2 + strspn(at + length + 2, " ");
      if (*behind == ':')
        return behind + 1 + strspn(behind + 1, " ");
    }
  return NULL;
}

/* Leaves `value` as it is where the key is missing. */
static int number(const char *json, const char *key, double least, double most, double *value, PipecError *error) {
  const char *at = find(json, key);
  char *end = NULL;
  if (!at)
    return 0;
  double found = strtod(at, &end);
  if (end == at)
    return fail(error, "provider: %s must be a number", key);
  if (!(found >= least && found <= most))
    return fail(error, "provider: %s is %g, expected %g to %g", key, found, least, most);
  *value = found;
  return 0;
}

static int integer(const char *json, const char *key, double least, double most, int64_t *value, PipecError *error) {
  double found = (double)*value;
  if (number(json, key, least, most, &found, error))
    return 1;
  *value = (int64_t)found;
  if ((double)*value != found)
    return fail(error, "provider: %s is %g, expected a whole number", key, found);
  return 0;
}

static void text(const char *json, const char *key, char *value, size_t size) {
  const char *at = find(json, key);
  size_t n = 0;
  if (at && *at == '"')
    for (++at; *at && *at != '"' && n + 1 < size; ++at)
      value[n++] = *at;
  value[n] = '\0';
}

#endif
