// Diagnostics of the spec: gathering, order, text.
#include "compiler/spec/Diagnostic.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace pipec::spec {

std::string toString(const Diagnostic &diagnostic) {
  std::string text =
      fmt::format("{}:{}:{}: error: {}", diagnostic.file, diagnostic.line, diagnostic.column, diagnostic.message);
  for (const Note &note : diagnostic.notes)
    text += fmt::format("\n{}:{}:{}: note: {}", note.file, note.line, note.column, note.message);
  return text;
}

void Errors::add(Mark mark, std::string message) { insert(mark, std::move(message), {}); }

void Errors::add(Mark mark, std::string message, Mark noteMark, std::string note) {
  insert(mark, std::move(message), {{sources[noteMark.source], noteMark.line, noteMark.column, std::move(note)}});
}

void Errors::insert(Mark mark, std::string message, std::vector<Note> notes) {
  auto key = [](const Mark &place) { return std::tuple(place.source, place.line, place.column); };
  auto same = std::find_if(found.begin(), found.end(), [&](const Entry &entry) {
    return key(entry.mark) == key(mark) && entry.diagnostic.message == message;
  });
  if (same != found.end()) {
    if (std::exchange(same->ofVariant, false))
      same->diagnostic.notes.pop_back();
    return;
  }
  if (full())
    return;
  if (variant)
    notes.push_back(*variant);
  auto at = std::upper_bound(found.begin(), found.end(), mark,
                             [&](const Mark &a, const Entry &b) { return key(a) < key(b.mark); });
  found.insert(at, {mark,
                    {sources[mark.source], mark.line, mark.column, std::move(message), std::move(notes)},
                    variant.has_value()});
}

std::vector<Diagnostic> Errors::take() {
  std::vector<Diagnostic> result;
  for (Entry &entry : found)
    result.push_back(std::move(entry.diagnostic));
  found.clear();
  return result;
}

} // namespace pipec::spec
