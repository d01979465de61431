#include "compiler/emit/Provider.h"

#include <flatbuffers/flexbuffers.h>
#include <nlohmann/json.hpp>

namespace pipec::emit {

namespace {

void append(flexbuffers::Builder &builder, const nlohmann::ordered_json &value) {
  using Type = nlohmann::ordered_json::value_t;
  switch (value.type()) {
  case Type::object: {
    size_t start = builder.StartMap();
    for (const auto &[key, each] : value.items()) {
      builder.Key(key.c_str());
      append(builder, each);
    }
    builder.EndMap(start);
    return;
  }
  case Type::array: {
    size_t start = builder.StartVector();
    for (const auto &each : value)
      append(builder, each);
    builder.EndVector(start, /*typed=*/false, /*fixed=*/false);
    return;
  }
  case Type::string:
    return void(builder.String(value.get<std::string>()));
  case Type::boolean:
    return builder.Bool(value.get<bool>());
  case Type::number_integer:
    return builder.Int(value.get<int64_t>());
  case Type::number_unsigned:
    return builder.UInt(value.get<uint64_t>());
  case Type::number_float:
    return builder.Double(value.get<double>());
  default:
    return builder.Null();
  }
}

} // namespace

std::vector<uint8_t> provider(const std::string &json) {
  if (json.empty())
    return {};
  flexbuffers::Builder builder;
  append(builder, nlohmann::ordered_json::parse(json));
  builder.Finish();
  return builder.GetBuffer();
}

} // namespace pipec::emit
