#include "runtime/launch/messages/Code.h"

namespace pipec::runtime::messages {

namespace {

/// Checks a message before it is decoded: how deep it is nested, and whether it announces more elements than it has
/// bytes. The library's decoder itself recurses as deep as the message says.
class Depth final : public nlohmann::json_sax<Message> {
public:
  explicit Depth(size_t bytes) : bytes(bytes) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool key(string_t &) override { return true; }
  bool start_object(size_t size) override { return enter(size); }
  bool start_array(size_t size) override { return enter(size); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(size_t, const std::string &, const nlohmann::json::exception &) override { return false; }

  bool tooDeep() const { return depth > kDepth; }

private:
  bool enter(size_t size) { return ++depth <= kDepth && (size == size_t(-1) || size <= bytes); }
  bool leave() {
    --depth;
    return true;
  }
  const size_t bytes;
  int depth = 0;
};

} // namespace

std::string wrongIn(std::string_view kind, std::string_view what) {
  return fmt::format("a message that {}: {}", what, kind);
}

std::string parse(std::string_view kind, std::span<const uint8_t> bytes, Message &message) {
  try {
    Depth depth(bytes.size());
    if (Message::sax_parse(bytes.begin(), bytes.end(), &depth, Message::input_format_t::cbor)) {
      message = Message::from_cbor(bytes.begin(), bytes.end(), true, false);
      if (message.is_object())
        return "";
    } else if (depth.tooDeep()) {
      return wrongIn(kind, fmt::format("has more than {} objects and arrays in each other", kDepth));
    }
  } catch (const nlohmann::json::exception &) { // from values that the library cannot hold
  }
  return wrongIn(kind, fmt::format("cannot be read, {} bytes of no object", bytes.size()));
}

} // namespace pipec::runtime::messages
