// The one file that knows yaml-cpp and catches its exceptions. The tree is built from the parser's events, so that what
// yaml-cpp's own tree would accept is refused before anything is built: a key given twice, nesting that would exhaust
// the stack, aliases that would expand without end, a second document.
#include "compiler/spec/Tree.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

namespace pipec::spec {
namespace {

/// Ends parsing from inside an event; caught below.
struct Refusal {
  Mark mark;
  std::string message;
};

std::string tooManyValues() { return fmt::format("more than {} values, counting what aliases repeat", kTreeValues); }

class Builder : public YAML::EventHandler {
public:
  Builder(int source, Errors &errors) : source(source), errors(errors) {}

  NodePtr root;

  void OnDocumentStart(const YAML::Mark &mark) override {
    if (++documents > 1)
      throw Refusal{place(mark), "a second document; a spec is one"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark &mark, YAML::anchor_t anchor) override { finish(start(Node::Kind::Null, mark), anchor); }

  void OnAlias(const YAML::Mark &mark, YAML::anchor_t anchor) override {
    auto target = anchors.find(anchor);
    if (target == anchors.end())
      throw Refusal{place(mark), "an alias inside what it names"};
    if (static_cast<int>(open.size()) + target->second->height > kTreeDepth)
      throw Refusal{place(mark), fmt::format("nested deeper than {} levels", kTreeDepth)};
    attach(target->second, place(mark));
  }

  void OnScalar(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                const std::string &value) override {
    auto node = start(Node::Kind::Scalar, mark);
    node->plain = tag != "!"; // yaml-cpp's tags for no tag: "?" plain, "!" quoted
    checkTag(mark, tag);
    node->text = value;
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    push(Node::Kind::Sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { pop(); }

  void OnMapStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    push(Node::Kind::Map, mark, tag, anchor);
  }
  void OnMapEnd() override {
    dropRepeated(*open.back().node);
    pop();
  }

private:
  struct Open {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor;
    bool named = false; // of a map: the next event is the value of names.back()
  };

  Mark place(const YAML::Mark &mark) const { return {mark.line + 1, mark.column + 1, source}; }

  std::shared_ptr<Node> start(Node::Kind kind, const YAML::Mark &mark) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->mark = place(mark);
    return node;
  }

  void checkTag(const YAML::Mark &mark, const std::string &tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      throw Refusal{place(mark), fmt::format("tags have no meaning here, found {}", quoted(tag))};
  }

  void push(Node::Kind kind, const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor) {
    checkTag(mark, tag);
    if (open.size() >= kTreeDepth)
      throw Refusal{place(mark), fmt::format("nested deeper than {} levels", kTreeDepth)};
    open.push_back({start(kind, mark), anchor});
  }

  void pop() {
    Open top = std::move(open.back());
    open.pop_back();
    finish(std::move(top.node), top.anchor);
  }

  void finish(std::shared_ptr<Node> node, YAML::anchor_t anchor) {
    bool value = !open.empty() && open.back().node->isMap() && open.back().named;
    if (node->kind == Node::Kind::Null && value)
      node->mark = open.back().node->names.back().mark; // the parser is already at the next key
    if (anchor != YAML::NullAnchor)
      anchors[anchor] = node;
    Mark mark = node->mark;
    attach(std::move(node), mark);
  }

  void attach(NodePtr node, Mark mark) {
    if (open.empty()) {
      root = std::move(node);
      return;
    }
    Open &top = open.back();
    if (top.node->isMap() && !top.named) {
      if (!node->isScalar())
        throw Refusal{mark, fmt::format("expected a key, found {}", describe(*node))};
      top.node->names.push_back({node->text, mark});
      top.named = true;
    } else {
      top.node->height = std::max(top.node->height, 1 + node->height);
      top.node->items.push_back(node);
      top.named = false;
    }
    top.node->values += node->values;
    if (top.node->values > kTreeValues)
      throw Refusal{mark, tooManyValues()};
  }

  /// A key given twice is an error; the first stays.
  void dropRepeated(Node &map) {
    std::unordered_map<std::string_view, size_t> first;
    std::vector<size_t> kept;
    for (size_t i = 0; i < map.names.size(); ++i) {
      auto [known, inserted] = first.emplace(map.names[i].text, i);
      if (inserted)
        kept.push_back(i);
      else
        errors.add(map.names[i].mark, fmt::format("key {} is given twice", quoted(map.names[i].text)),
                   map.names[known->second].mark, "first given here");
    }
    if (kept.size() == map.names.size())
      return;
    Node once;
    for (size_t i : kept) {
      once.names.push_back(map.names[i]);
      once.items.push_back(map.items[i]);
    }
    map.names.swap(once.names);
    map.items.swap(once.items);
  }

  int source;
  Errors &errors;
  int documents = 0;
  std::vector<Open> open;
  std::map<YAML::anchor_t, NodePtr> anchors;
};

/// Bytes of the UTF-8 character that `text` starts with; 0 if it is none, or a control character.
size_t characterLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80)
    return (byte(0) >= 0x20 && byte(0) != 0x7F) || text[0] == '\n' || text[0] == '\r' || text[0] == '\t';
  size_t length = byte(0) >= 0xF5 ? 0 : byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : byte(0) >= 0xC2 ? 2 : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80)
      return 0;
  return length;
}

/// yaml-cpp guesses other encodings and takes a control character for the end: only plain text may reach it. It also
/// keeps a line's tokens until the line ends, which the count of what may start a value holds within bounds, and is
/// slow where there is nothing but lines.
bool checkText(std::string_view text, int source, Errors &errors) {
  Mark mark{1, 1, source};
  int64_t opens = 0, separates = 0; // a value each; a few for a value
  for (size_t at = 0; at < text.size();) {
    size_t length = characterLength(text.substr(at));
    if (length == 0) {
      errors.add(mark, fmt::format("not UTF-8 text: found byte 0x{:02x}", static_cast<unsigned char>(text[at])));
      return false;
    }
    opens += std::string_view("[{&*!").find(text[at]) != std::string_view::npos;
    separates += std::string_view(",\"'?:-").find(text[at]) != std::string_view::npos;
    if (opens > kTreeValues || separates > 4 * kTreeValues) {
      errors.add(mark, tooManyValues());
      return false;
    }
    bool newline = text[at] == '\n';
    if (newline && mark.line == kTreeLines) {
      errors.add(mark, fmt::format("more than {} lines", kTreeLines));
      return false;
    }
    mark = {mark.line + newline, newline ? 1 : mark.column + static_cast<int>(length), source};
    at += length;
  }
  return true;
}

} // namespace

const Node *Node::find(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].text == name)
      return items[i].get();
  return nullptr;
}

NodePtr parseTree(std::string_view text, int source, Errors &errors) {
  if (!checkText(text, source, errors))
    return nullptr;
  Builder builder(source, errors);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal &refusal) {
    errors.add(refusal.mark, refusal.message);
    return nullptr;
  } catch (const YAML::Exception &error) {
    errors.add({std::max(error.mark.line, 0) + 1, std::max(error.mark.column, 0) + 1, source},
               "not valid YAML: " + error.msg);
    return nullptr;
  }
  if (!builder.root)
    errors.add({1, 1, source}, "holds no value");
  return builder.root;
}

int64_t textBytes(const Node &node, int64_t enough) {
  auto bytes = static_cast<int64_t>(node.text.size());
  for (size_t i = 0; i < node.items.size() && bytes <= enough; ++i) {
    if (node.isMap())
      bytes += static_cast<int64_t>(node.names[i].text.size());
    bytes += textBytes(*node.items[i], enough - bytes);
  }
  return bytes;
}

std::string describe(const Node &node) {
  switch (node.kind) {
  case Node::Kind::Null:
    return "nothing";
  case Node::Kind::Sequence:
    return "a list";
  case Node::Kind::Map:
    return "a map";
  case Node::Kind::Scalar:
    break;
  }
  return quoted(node.text);
}

} // namespace pipec::spec
