// A fuzzer's entry point and mutator without libFuzzer: its corpus, and mutations of it that are the same on every
// machine. What is wrong ends the process. Meant for the sanitizers too.
#include "test/fuzz/Mutate.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <vector>

namespace {

using pipec::fuzz::Random;

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(std::filesystem::path(PIPEC_SOURCE_DIR) /
                                                               "test/fuzz/corpus" / PIPEC_FUZZ_NAME))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> files;
  for (const auto &path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// A part of `from`, at most 64 bytes of it.
Bytes part(const Bytes &from, Random &random) {
  const size_t begin = random.below(from.size()), length = std::min(from.size() - begin, random.below(65));
  return {from.begin() + ptrdiff_t(begin), from.begin() + ptrdiff_t(begin + length)};
}

void mutate(Bytes &bytes, const std::vector<Bytes> &files, Random &random) {
  const auto at = bytes.begin() + ptrdiff_t(random.below(bytes.size()));
  const auto rest = size_t(bytes.end() - at);
  auto insert = [&](const Bytes &what) { bytes.insert(at, what.begin(), what.end()); };
  auto text = [](std::string_view what) { return Bytes(what.begin(), what.end()); };
  constexpr std::string_view kTokens[] = {"0",    "1",  "2147483648", "9223372036854775808",
                                          "-1",   ": ", ", ",         "[",
                                          "]",    "{",  "}",          "\n",
                                          "\n  ", "*a", "&a ",        "'",
                                          "#",    "\"", "\\"};
  switch (random.below(6)) {
  case 0: // a bit
    if (rest)
      *at ^= uint8_t(1 << random.below(8));
    break;
  case 1: // a byte
    if (rest)
      *at = uint8_t(random.next());
    break;
  case 2: // less
    bytes.erase(at, at + ptrdiff_t(std::min(rest, random.below(33))));
    break;
  case 3: // twice
    insert(part(bytes, random));
    break;
  case 4: // from elsewhere
    insert(part(files[random.below(files.size())], random));
    break;
  case 5:
    insert(text(kTokens[random.below(std::size(kTokens))]));
    break;
  }
}

TEST(PIPEC_FUZZ_SUITE, corpus) {
  const std::vector<Bytes> files = corpus();
  ASSERT_FALSE(files.empty());
  for (const Bytes &file : files)
    LLVMFuzzerTestOneInput(file.data(), file.size());
  LLVMFuzzerTestOneInput(nullptr, 0);
}

TEST(PIPEC_FUZZ_SUITE, mutations) {
  const std::vector<Bytes> files = corpus();
  ASSERT_FALSE(files.empty());
  Random random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = random.of(files);
    const size_t before = bytes.size();
    bytes.resize(2 * before + 4096);
    bytes.resize(LLVMFuzzerCustomMutator(bytes.data(), before, bytes.size(), unsigned(random.next())));
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

} // namespace

/// What libFuzzer would do to the bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize) {
  static const std::vector<Bytes> files = corpus();
  static Random random(2);
  Bytes bytes(data, data + size);
  for (size_t change = 1 + random.below(4); change > 0; --change)
    mutate(bytes, files, random);
  return pipec::fuzz::give(bytes, data, maxSize);
}
