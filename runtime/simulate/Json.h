// JSON values with their places in the file, for messages that name line and column: nlohmann's parser, and a tree of
// our own. For small files only, since all of a file is kept.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipec::simulate {

/// Line and column count from 1; a column counts bytes.
struct Place {
  int line = 1;
  int column = 1;
};

struct Json {
  enum class Kind { Null, Boolean, Integer, Number, String, Array, Object };
  Kind kind = Kind::Null;
  Place place;
  std::string text;        // content of a String; else the value as written in the file
  int64_t integer = 0;     // of an Integer
  std::vector<Json> items; // of an Array; of an Object its values
  std::vector<Json> keys;  // of an Object, beside the values
};

/// Thrown by parseJson: what is wrong and where.
struct Misplaced {
  Place place;
  std::string message;
};

/// Throws Misplaced where the text is no JSON.
Json parseJson(std::string_view text);

/// "a string", "an integer", …
const char *nameOf(Json::Kind kind);

} // namespace pipec::simulate
