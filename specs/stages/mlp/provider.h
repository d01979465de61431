/* Errors, and the provider's values: of JSON, a flat map of numbers and strings is all that is read here. Whoever
 * includes it says first which header's error is meant: typedef PipecError MlpError; */
#ifndef MLP_PROVIDER_H
#define MLP_PROVIDER_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(MlpError *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return 1;
}

/* Behind the colon of "key"; NULL if there is none. */
static const char *find(const char *json, const char *key) {
  size_t length = strlen(key);
  for (const char *at = strchr(json, '"'); at; at = strchr(at + 1, '"'))
    if (strncmp(at + 1, key, length) == 0 && at[length + 1] == '"' && at[length + 2] == ':')
      return at + length + 3;
  return NULL;
}

static int number(const char *json, const char *key, double least, double most, double *value, MlpError *error) {
  const char *at = find(json, key);
  char *end = NULL;
  if (at)
    *value = strtod(at, &end);
  if (!at || end == at)
    return fail(error, "provider: %s is missing; it must be a number", key);
  if (!(*value >= least && *value <= most))
    return fail(error, "provider: %s is %g, expected %g to %g", key, *value, least, most);
  return 0;
}

static int integer(const char *json, const char *key, double most, int64_t *value, MlpError *error) {
  double found = 0;
  if (number(json, key, 1, most, &found, error))
    return 1;
  *value = (int64_t)found;
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
