// Builds the tree from the parser's events. An event comes right after its last character was read, and only blanks,
// commas and colons are between two events, so the first character of each is known.
#include "runtime/simulate/Json.h"

#include "runtime/plan/Units.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace pipec::simulate {

namespace {

constexpr size_t kDepth = 16; // deeper than any file that is read here

/// An iterator over the text that shows how far the parser has read.
class Watched {
public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  Watched() = default;
  Watched(const char *at, size_t *read) : at(at), read(read) {}
  reference operator*() const { return *at; }
  Watched &operator++() {
    ++at;
    ++*read;
    return *this;
  }
  Watched operator++(int) {
    Watched before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Watched &other) const { return at == other.at; }
  bool operator!=(const Watched &other) const { return at != other.at; }

private:
  const char *at = nullptr;
  size_t *read = nullptr;
};

class Builder final : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit Builder(std::string_view text) : text(text) {}

  void build() {
    nlohmann::json::sax_parse(Watched(text.data(), &read), Watched(text.data() + text.size(), &read), this);
  }
  Json root;

  bool null() override { return add(Json::Kind::Null); }
  bool boolean(bool) override { return add(Json::Kind::Boolean); }
  bool number_integer(number_integer_t value) override {
    Json &json = addNode(Json::Kind::Integer);
    json.integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    Json &json = addNode(value <= uint64_t(INT64_MAX) ? Json::Kind::Integer : Json::Kind::Number);
    json.integer = int64_t(value);
    return true;
  }
  bool number_float(number_float_t, const string_t &) override { return add(Json::Kind::Number); }
  bool string(string_t &value) override {
    addNode(Json::Kind::String).text = value;
    return true;
  }
  bool binary(binary_t &) override { return false; } // not in JSON text
  bool start_object(std::size_t) override { return open(Json::Kind::Object); }
  bool start_array(std::size_t) override { return open(Json::Kind::Array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &value) override {
    Json &object = *stack.back();
    Json json;
    json.kind = Json::Kind::String;
    json.place = placeOf(begin());
    json.text = value;
    for (const Json &other : object.keys)
      if (other.text == value)
        throw Misplaced{json.place,
                        fmt::format("key {} is given twice, first in line {}", units::quoted(value), other.place.line)};
    object.keys.push_back(std::move(json));
    seen = read;
    return true;
  }
  bool parse_error(std::size_t, const std::string &, const nlohmann::json::exception &error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …": the text before the cause is
    // cut off, as this class reports the place itself.
    std::string_view message = error.what();
    for (std::string_view before : {"] ", ": "})
      if (size_t at = message.find(before); at != std::string_view::npos && message[0] == (before == "] " ? '[' : 'p'))
        message.remove_prefix(at + before.size());
    std::string said(message);
    std::replace_if(said.begin(), said.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    throw Misplaced{placeOf(read == 0 ? 0 : read - 1), said};
  }

private:
  /// The position at which the last event begins.
  size_t begin() const { return std::min(text.find_first_not_of(" \t\r\n,:", seen), text.size()); }

  /// The line and column of a position. Counts on from the last call, as events come in order.
  Place placeOf(size_t at) {
    if (at < counted)
      counted = lineStart = 0, line = 1;
    for (; counted < at; ++counted)
      if (text[counted] == '\n')
        ++line, lineStart = counted + 1;
    return {line, int(at - lineStart) + 1};
  }

  Json &addNode(Json::Kind kind) {
    size_t first = begin();
    Json json;
    json.kind = kind;
    json.place = placeOf(first);
    size_t end = text.find_first_of(" \t\r\n,]}", first);
    if (kind != Json::Kind::String)
      json.text = text.substr(first, end - first);
    seen = std::max(std::min(read, end), first + 1); // the parser has read one character after a number
    if (kind == Json::Kind::String)
      seen = read;
    if (stack.empty())
      return root = std::move(json);
    return stack.back()->items.emplace_back(std::move(json));
  }
  bool add(Json::Kind kind) {
    addNode(kind);
    return true;
  }
  bool open(Json::Kind kind) {
    Json &json = addNode(kind);
    if (stack.size() == kDepth)
      throw Misplaced{json.place, fmt::format("more than {} levels", kDepth)};
    json.text.clear();
    seen = read;
    stack.push_back(&json);
    return true;
  }
  bool close() {
    seen = read;
    stack.pop_back();
    return true;
  }

  std::string_view text;
  size_t read = 0; // characters that the parser has taken
  size_t seen = 0; // characters up to the end of the last event
  size_t counted = 0, lineStart = 0;
  int line = 1;
  std::vector<Json *> stack; // open arrays and objects; an open one's vector does not move
};

} // namespace

Json parseJson(std::string_view text) {
  Builder builder(text);
  builder.build();
  return std::move(builder.root);
}

const char *nameOf(Json::Kind kind) {
  switch (kind) {
  case Json::Kind::Null:
    return "null";
  case Json::Kind::Boolean:
    return "a boolean";
  case Json::Kind::Integer:
    return "an integer";
  case Json::Kind::Number:
    return "a number";
  case Json::Kind::String:
    return "a string";
  case Json::Kind::Array:
    return "a list";
  case Json::Kind::Object:
    return "an object";
  }
  return "";
}

} // namespace pipec::simulate
