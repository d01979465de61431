// The table of keys as JSON Schema (draft 7, which editors' YAML servers read), and a spec's free-form parts as JSON.
#include "compiler/spec/Schema.h"

#include "compiler/spec/Keys.h"
#include "compiler/spec/SpecUnits.h"
#include "compiler/spec/Tree.h"
#include "runtime/plan/Limits.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipec::spec {
namespace {

using Json = nlohmann::ordered_json;

Json reference(std::string_view name) { return {{"$ref", fmt::format("#/definitions/{}", name)}}; }

/// Partial: nothing is required, for it stands in the spec that it is laid over.
Json mapOf(std::string_view path, bool partial);

std::string describe(const Key &key) {
  return fmt::format("{}{}", key.description, key.fallback.empty() ? "" : fmt::format(" (default: {})", key.fallback));
}

Json integer(int64_t least, int64_t most) { return {{"type", "integer"}, {"minimum", least}, {"maximum", most}}; }

/// One value of the key, without lists and other forms.
Json single(const Key &key, bool partial) {
  switch (key.type) {
  case Type::Map:
    return mapOf(key.path, partial);
  case Type::Maps:
    return {{"type", "array"}, {"items", mapOf(fmt::format("{}[]", key.path), false)}};
  case Type::Duration:
    return reference("duration");
  case Type::Size:
    return reference("size");
  case Type::Bandwidth:
    return reference("bandwidth");
  case Type::Integer:
    return integer(key.least, key.most);
  case Type::Decimal:
    return {{"type", "number"}, {"minimum", double(key.least) / 1e6}, {"maximum", double(key.most) / 1e6}};
  case Type::Integers:
    return {{"type", "array"}, {"minItems", key.mayBeEmpty ? 0 : 1}, {"items", integer(key.least, key.most)}};
  case Type::Boolean:
    return {{"type", "boolean"}};
  case Type::Choice:
  case Type::Placement:
    return {{"enum", key.choices}};
  case Type::Text:
  case Type::Schedule:
    return {{"type", "string"}, {"maxLength", kTextBytes}};
  case Type::Name: // characters, of which none takes less than a byte
    return {{"type", "string"}, {"maxLength", limits::kNameBytes}, {"pattern", R"(^[^\u0000-\u001F\u007F-\u009F]*$)"}};
  case Type::Free:
    return {{"type", "object"}};
  case Type::Variants:
    return {{"type", "array"}, {"minItems", 1}, {"maxItems", limits::kVariants}, {"items", reference("variant")}};
  }
  return {};
}

Json sampled(const Key &key) {
  return {{"type", "object"},
          {"properties", {{"fixed", single(key, false)}, {"per_sample", single(key, false)}}},
          {"minProperties", 1},
          {"additionalProperties", false}};
}

Json bySamples(const Key &key) {
  const Json times = {{"type", "object"},
                      {"patternProperties", {{"^[1-9][0-9]*$", single(key, false)}}},
                      {"minProperties", 1},
                      {"additionalProperties", false}};
  return {{"type", "object"},
          {"properties", {{"samples", times}}},
          {"required", Json::array({"samples"})},
          {"additionalProperties", false}};
}

/// All forms that the key's value may have.
Json schemaOf(const Key &key, bool partial) {
  Json one = single(key, partial);
  Json forms = Json::array({one});
  if (key.perSample)
    forms.push_back(sampled(key));
  if (key.bySamples)
    forms.push_back(bySamples(key));
  if (key.percent)
    forms.push_back(reference("percentage"));
  if (key.perStage || key.perRank || key.perTensor || key.perLayer) {
    Json item = forms.size() == 1 ? one : Json{{"anyOf", forms}};
    forms.push_back({{"type", "array"}, {"minItems", key.mayBeEmpty ? 0 : 1}, {"items", item}});
  }
  if ((key.type == Type::Integers || key.type == Type::Size || key.type == Type::Decimal) && !key.choices.empty())
    forms.push_back({{"enum", key.choices}});
  if (key.type == Type::Placement) {
    Json stages = {{"type", "array"}, {"minItems", 1}, {"items", integer(0, limits::kStages - 1)}};
    forms.push_back({{"type", "array"}, {"items", stages}});
  }
  if (key.type == Type::Variants) {
    Json values = {{"type", "array"}, {"minItems", 1}, {"maxItems", limits::kVariants}};
    forms.push_back({{"type", "object"}, {"minProperties", 1}, {"maxProperties", 1}, {"additionalProperties", values}});
  }
  if (key.type != Type::Map && !keysOf(key.path).empty()) {
    forms.push_back(mapOf(key.path, partial));
    if (key.type == Type::Schedule)
      forms.back()["additionalProperties"] = true; // the parameters are the schedule's
  }
  Json schema = forms.size() == 1 ? one : Json{{"anyOf", forms}};
  if (schema.contains("$ref")) // draft 7 ignores what stands beside it
    schema = Json{{"allOf", Json::array({schema})}};
  schema["description"] = describe(key);
  return schema;
}

Json mapOf(std::string_view path, bool partial) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Key *key : keysOf(path)) {
    if (partial && key->type == Type::Variants)
      continue;
    properties[std::string(key->name())] = schemaOf(*key, partial);
    if (key->required && !partial)
      required.push_back(key->name());
  }
  Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty())
    schema["required"] = required;
  return schema;
}

Json quantity(std::string_view description, const std::string &pattern) {
  return {{"type", "string"}, {"description", description}, {"pattern", pattern}};
}

Json valueOf(const Node &node) {
  Json value;
  switch (node.kind) {
  case Node::Kind::Null:
    return nullptr;
  case Node::Kind::Scalar:
    value = node.plain ? Json::parse(node.text, nullptr, false) : Json(Json::value_t::discarded);
    return value.is_number() || value.is_boolean() ? value : Json(node.text);
  case Node::Kind::Sequence:
    value = Json::array();
    for (const NodePtr &item : node.items)
      value.push_back(valueOf(*item));
    return value;
  case Node::Kind::Map:
    break;
  }
  value = Json::object();
  for (size_t i = 0; i < node.names.size(); ++i)
    value[node.names[i].text] = valueOf(*node.items[i]);
  return value;
}

} // namespace

std::string jsonSchema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "pipec spec"}};
  schema.update(mapOf("", false));
  schema["definitions"] = {
      {"duration", quantity("A duration with its unit, at most 10^18 ps", durationPattern())},
      {"size", quantity("A size with its unit, at most 2^60 bytes", sizePattern())},
      {"bandwidth", quantity("A bandwidth with its unit, or unlimited", bandwidthPattern())},
      {"percentage", quantity("A percentage, at most four digits after the point", percentagePattern())},
      {"variant", mapOf("", true)},
  };
  return schema.dump(2) + "\n";
}

std::string toJson(const Node &node) { return valueOf(node).dump(-1, ' ', false, Json::error_handler_t::replace); }

} // namespace pipec::spec
