// Encoding, decoding and dispatch of messages, by the fields that their structs list.
#pragma once

#include "runtime/launch/Messages.h"

#include <concepts>
#include <fmt/format.h>
#include <memory>
#include <span>

namespace pipec::runtime::messages {

/// Sent before each message.
struct Header {
  uint32_t kind = 0; // index in All
  uint32_t reserved = 0;
  uint64_t size = 0; // bytes of the message
};

/// An encoded message, which may be sent to several.
struct Body {
  Header header;
  Bytes bytes;
};
using Encoded = std::shared_ptr<const Body>;

/// The fields of a struct. Structs that are no messages have a specialization.
template <typename T> struct Of {
  static constexpr auto &fields = T::fields;
};
template <> struct Of<StateFile> {
  static constexpr std::tuple fields{Field{"name", &StateFile::name}, Field{"bytes", &StateFile::bytes},
                                     Field{"hash", &StateFile::hash}};
};
template <> struct Of<OwnedUnits> {
  static constexpr std::tuple fields{
      Field{"stage", &OwnedUnits::stage},   Field{"first_layer", &OwnedUnits::first_layer},
      Field{"layers", &OwnedUnits::layers}, Field{"split", &OwnedUnits::split},
      Field{"units", &OwnedUnits::units},   Field{"owned", &OwnedUnits::owned}};
};
template <> struct Of<JobState> {
  static constexpr std::tuple fields{Field{"process", &JobState::process}, Field{"job", &JobState::job},
                                     Field{"atoms", &JobState::atoms}, Field{"file", &JobState::file}};
};
template <> struct Of<Manifest> {
  static constexpr std::tuple fields{Field{"step", &Manifest::step},     Field{"stages", &Manifest::stages},
                                     Field{"files", &Manifest::files},   Field{"replicas", &Manifest::replicas},
                                     Field{"shards", &Manifest::shards}, Field{"owned", &Manifest::owned},
                                     Field{"jobs", &Manifest::jobs}};
};

/// Decodes a CBOR object, nested at most kDepth deep. Returns what is wrong with the message; empty: nothing.
std::string parse(std::string_view kind, std::span<const uint8_t> bytes, Message &message);
/// "a message that cannot be read: permit", of what = "cannot be read" and the kind's name.
std::string wrongIn(std::string_view kind, std::string_view what);

template <typename T> struct IsVector : std::false_type {};
template <typename T> struct IsVector<std::vector<T>> : std::true_type {};
template <typename T> struct IsOptional : std::false_type {};
template <typename T> struct IsOptional<std::optional<T>> : std::true_type {};

/// write() makes JSON of a value, read() a value of JSON. read() is false if the JSON has another type or is out of the
/// type's range.
template <typename T> Message write(const T &value);
template <typename T> bool read(Message &json, T &value);

template <typename T> bool readFields(Message &json, T &value, std::string &wrong) {
  size_t known = 0;
  const auto readOne = [&](const auto &field) {
    using Value = std::remove_reference_t<decltype(value.*(field.member))>;
    const auto found = json.find(field.name);
    if (found == json.end()) {
      if constexpr (IsOptional<Value>::value)
        return true;
      wrong = fmt::format("lacks \"{}\"", field.name);
      return false;
    }
    ++known;
    if (read(*found, value.*(field.member)))
      return true;
    wrong = fmt::format("has another type or range of \"{}\"", field.name);
    return false;
  };
  if (!std::apply([&](const auto &...field) { return (readOne(field) && ...); }, Of<T>::fields))
    return false;
  if (known != json.size())
    wrong = "has fields that it should not have";
  return known == json.size();
}

template <typename T> bool read(Message &json, T &value) {
  if constexpr (std::same_as<T, Message>) {
    value = std::move(json);
    return true;
  } else if constexpr (std::same_as<T, bool>) {
    return json.is_boolean() && (value = json.get<bool>(), true);
  } else if constexpr (std::integral<T>) {
    if (!json.is_number_integer())
      return false;
    const bool fits =
        json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>()) : std::in_range<T>(json.get<int64_t>());
    if (fits)
      value = json.get<T>();
    return fits;
  } else if constexpr (std::same_as<T, std::string>) {
    return json.is_string() && (value = std::move(json.get_ref<std::string &>()), true);
  } else if constexpr (std::same_as<T, Bytes>) {
    return json.is_binary() && (value = std::move(json.get_binary()), true);
  } else if constexpr (IsOptional<T>::value) {
    return read(json, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array())
      return false;
    value.resize(json.size());
    for (size_t i = 0; i != value.size(); ++i)
      if (!read(json[i], value[i]))
        return false;
    return true;
  } else if constexpr (requires { std::tuple_size<T>::value; }) { // arrays and pairs
    return json.is_array() && json.size() == std::tuple_size_v<T> &&
           std::apply([&, i = size_t(0)](auto &...each) mutable { return (read(json[i++], each) && ...); }, value);
  } else {
    std::string ignored;
    return json.is_object() && readFields(json, value, ignored);
  }
}

template <typename T> Message write(const T &value) {
  if constexpr (std::same_as<T, Message> || std::same_as<T, bool> || std::integral<T> || std::same_as<T, std::string> ||
                std::same_as<T, Numbers>) {
    return value;
  } else if constexpr (std::same_as<T, Bytes>) {
    return Message::binary(value);
  } else if constexpr (IsVector<T>::value) {
    Message json = Message::array();
    for (const auto &each : value)
      json.push_back(write(each));
    return json;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    Message json = Message::array();
    std::apply([&](const auto &...each) { (json.push_back(write(each)), ...); }, value);
    return json;
  } else {
    Message json = Message::object();
    const auto writeOne = [&](const auto &field) {
      const auto &of = value.*(field.member);
      if constexpr (IsOptional<std::remove_cvref_t<decltype(of)>>::value) {
        if (of)
          json[field.name] = write(*of);
      } else {
        json[field.name] = write(of);
      }
    };
    std::apply([&](const auto &...field) { (writeOne(field), ...); }, Of<T>::fields);
    return json;
  }
}

template <typename T, size_t I = 0> constexpr uint32_t placeOf() {
  if constexpr (std::same_as<T, std::tuple_element_t<I, All>>)
    return I;
  else
    return placeOf<T, I + 1>();
}

template <typename T>
concept IsMessage = requires {
  { T::kind } -> std::convertible_to<Kind>;
};

template <IsMessage T> Encoded encode(const T &message) {
  auto body = std::make_shared<Body>();
  body->bytes = Message::to_cbor(write(message));
  body->header = {placeOf<T>(), 0, body->bytes.size()};
  return body;
}

/// Returns what is wrong; empty: nothing.
template <IsMessage T> std::string decode(std::span<const uint8_t> bytes, T &message) {
  Message json;
  if (std::string wrong = parse(T::kind.name, bytes, json); !wrong.empty())
    return wrong;
  std::string wrong;
  return readFields(json, message, wrong) ? "" : wrongIn(T::kind.name, wrong);
}

/// Decodes a message of the kind in its header, and calls the handler with the struct. The handler accepts each struct
/// that may go this way. Returns what is wrong; empty: nothing.
template <Way way, typename Handler>
std::string dispatch(uint32_t kind, std::span<const uint8_t> bytes, Handler &handler) {
  std::string wrong = wrongIn("", "is of unknown kind");
  const auto tryOne = [&]<typename T>(T *) {
    if constexpr ((T::kind.ways & way) != 0) {
      T message;
      if (wrong = decode(bytes, message); wrong.empty())
        handler(std::move(message));
    }
    return true;
  };
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((I == kind && tryOne(static_cast<std::tuple_element_t<I, All> *>(nullptr))) || ...);
  }(std::make_index_sequence<std::tuple_size_v<All>>());
  return wrong;
}

} // namespace pipec::runtime::messages
