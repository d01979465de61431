// How much a test does. PIPEC_SOAK in the environment (tools/soak) asks for more. Under sanitizers a round takes some
// ten times as long, and what they find shows in few of them: there it is a tenth.
#pragma once

#include <algorithm>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PIPEC_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PIPEC_SANITIZED 1
#endif
#endif

namespace pipec::test {

#ifdef PIPEC_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool soaks() { return std::getenv("PIPEC_SOAK") != nullptr; }

/// How many rounds: as usual, or so many where it soaks.
template <class Count> Count rounds(Count usual, Count soak) {
  const Count asked = soaks() ? soak : usual;
  return kSanitized ? std::max(Count(1), Count(asked / 10)) : asked;
}
template <class Count> Count rounds(Count usual) { return rounds(usual, usual); }
/// More than this a test must have seen of something in rounds of which it is usually so many; in few rounds, nothing.
template <class Count> Count seen(Count usual) { return kSanitized ? Count(-1) : usual; }
/// Every so many of some cases.
inline std::size_t stride(std::size_t usual, std::size_t soak) {
  return (soaks() ? soak : usual) * (kSanitized ? 10 : 1);
}

} // namespace pipec::test
