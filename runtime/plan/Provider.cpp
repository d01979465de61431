// Turns JSON into a FlexBuffer with FlexBuffers' parser, and back with code of our own, since FlexBuffers' printer has
// no limit: a small buffer may refer to its parts again and again.
#include "runtime/plan/Provider.h"

#include "runtime/plan/Limits.h"

#include <cmath>
#include <flatbuffers/flexbuffers.h>
#include <flatbuffers/idl.h>
#include <fmt/format.h>

namespace pipec::plan {

Status providerOf(const std::string &json, std::vector<uint8_t> &provider) {
  provider.clear();
  if (json.empty())
    return {};
  flatbuffers::Parser parser;
  flexbuffers::Builder builder;
  if (!parser.ParseFlexBuffer(json.c_str(), nullptr, &builder))
    return Status::input("the provider's values: " + parser.error_);
  provider = builder.GetBuffer();
  return {};
}

namespace {

class Printer {
public:
  explicit Printer(std::string &text) : text(text) {}

  /// Appends a value. False: the text is longer than the limit, or JSON has no such value; `text` is then of no use.
  bool value(flexbuffers::Reference r) {
    if (text.size() > kLimit)
      return false;
    if (r.IsMap())
      return map(r.AsMap());
    if (r.IsVector())
      return list(r.AsVector());
    if (r.IsTypedVector())
      return list(r.AsTypedVector());
    if (r.IsFixedTypedVector())
      return list(r.AsFixedTypedVector());
    if (r.IsKey())
      return string(r.AsKey());
    if (r.IsString())
      return string({r.AsString().c_str(), r.AsString().size()});
    if (r.IsFloat())
      return number(r.AsDouble());
    if (r.IsUInt())
      text += fmt::format("{}", r.AsUInt64());
    else if (r.IsInt())
      text += fmt::format("{}", r.AsInt64());
    else if (r.IsBool())
      text += r.AsBool() ? "true" : "false";
    else if (r.IsNull())
      text += "null";
    else
      return false; // a blob
    return true;
  }

private:
  static constexpr size_t kLimit = 16 * size_t(limits::kProviderBytes);

  template <typename Elements> bool list(const Elements &elements) {
    text += '[';
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0)
        text += ',';
      if (!value(elements[i]))
        return false;
    }
    text += ']';
    return true;
  }

  bool map(const flexbuffers::Map &map) {
    flexbuffers::TypedVector keys = map.Keys();
    flexbuffers::Vector values = map.Values();
    if (keys.size() != values.size())
      return false;
    text += '{';
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i > 0)
        text += ',';
      if (!string(keys[i].AsKey()))
        return false;
      text += ':';
      if (!value(values[i]))
        return false;
    }
    text += '}';
    return true;
  }

  bool string(std::string_view characters) {
    if (text.size() + characters.size() > kLimit)
      return false;
    text += '"';
    for (char c : characters)
      if (c == '"' || c == '\\')
        text += {'\\', c};
      else if (uint8_t(c) < 0x20)
        text += fmt::format("\\u{:04x}", int(c));
      else
        text += c;
    text += '"';
    return true;
  }

  bool number(double value) {
    text += fmt::format("{}", value); // the shortest text that reads back as the same number
    return std::isfinite(value);
  }

  std::string &text;
};

} // namespace

Status jsonOf(const std::vector<uint8_t> &provider, std::string &json) {
  json.clear();
  if (provider.empty())
    json = "null";
  else if (!Printer(json).value(flexbuffers::GetRoot(provider)))
    return Status::input("the values for the stage library cannot be written as JSON of a sensible size");
  return {};
}

} // namespace pipec::plan
