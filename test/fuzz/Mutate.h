// What the fuzzers' own mutators share. libFuzzer calls LLVMFuzzerCustomMutator of a target, and that LLVMFuzzerMutate
// for changes that know nothing of the format; CorpusTest.cpp does both without libFuzzer.
#pragma once

#include "compiler/schedule/model/Random.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed);

namespace pipec::fuzz {

/// The standard's distributions differ between libraries.
class Random : public schedule::Random {
public:
  using schedule::Random::Random;
  size_t below(size_t limit) { return limit ? schedule::Random::below(limit) : 0; }
  bool oneIn(size_t n) { return below(n) == 0; }
  template <typename Range> auto &of(Range &range) { return *(std::begin(range) + ptrdiff_t(below(std::size(range)))); }
};

/// Numbers at which something may break.
inline int64_t edge(Random &random) {
  constexpr int64_t kEdges[] = {0,
                                1,
                                2,
                                -1,
                                255,
                                1 << 16,
                                1 << 20,
                                1 << 27,
                                INT32_MAX,
                                int64_t(1) << 31,
                                UINT32_MAX,
                                1ll << 60,
                                INT64_MAX,
                                INT64_MIN,
                                1'000'000'000'000'000'000,
                                65'536,
                                1'000'000,
                                (1 << 20) + 1};
  return random.of(kEdges);
}

/// A number near another: one more or less, half, double, or an edge.
inline int64_t near(int64_t value, Random &random) {
  switch (random.below(5)) {
  case 0:
    return int64_t(uint64_t(value) + 1);
  case 1:
    return int64_t(uint64_t(value) - 1);
  case 2:
    return value / 2;
  case 3:
    return int64_t(uint64_t(value) * 2);
  default:
    return edge(random);
  }
}

inline std::string textOf(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

/// Into libFuzzer's buffer, cut to fit.
template <typename Bytes> size_t give(const Bytes &made, uint8_t *data, size_t maxSize) {
  const size_t size = std::min<size_t>(std::size(made), maxSize);
  std::copy_n(std::begin(made), size, data);
  return size;
}

/// A word of a text: a run of letters, digits and what stands in names and numbers.
struct Word {
  size_t at, length;
};

inline std::vector<Word> wordsOf(std::string_view text) {
  std::vector<Word> words;
  const auto inWord = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == '/';
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && inWord(text[end]))
      ++end;
    if (end > i)
      words.push_back({i, end - i});
    i = end + 1;
  }
  return words;
}

/// One word's number changed, or the word in place of another or beside it. `known` is a dictionary.
inline void changeWord(std::string &text, const std::vector<std::string> &known, Random &random) {
  const std::vector<Word> words = wordsOf(text);
  if (words.empty())
    return;
  const Word word = random.of(words), other = random.of(words);
  const size_t digits = std::min(text.find_first_of("0123456789", word.at), word.at + word.length);
  const size_t end = std::min(text.find_first_not_of("0123456789", digits), word.at + word.length);
  switch (random.below(4)) {
  case 0:
    if (digits < end && end - digits < 18)
      text.replace(digits, end - digits, std::to_string(near(std::stoll(text.substr(digits, end - digits)), random)));
    break;
  case 1:
    text.replace(word.at, word.length, text.substr(other.at, other.length));
    break;
  case 2:
    if (!known.empty())
      text.replace(word.at, word.length, random.of(known));
    break;
  case 3:
    if (!known.empty())
      text.insert(word.at, random.of(known) + (random.oneIn(2) ? ": " : ", "));
    break;
  }
}

/// Parts between `separator`: one twice, two swapped, or one gone.
inline void changeParts(std::string &text, char separator, Random &random) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  switch (random.below(3)) {
  case 0: {
    const std::string part = random.of(parts);
    parts.insert(parts.begin() + ptrdiff_t(random.below(parts.size())), part);
    break;
  }
  case 1:
    std::swap(random.of(parts), random.of(parts));
    break;
  case 2:
    parts.erase(parts.begin() + ptrdiff_t(random.below(parts.size())));
    break;
  }
  text.clear();
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i ? std::string(1, separator) : std::string()) + parts[i];
}

} // namespace pipec::fuzz
