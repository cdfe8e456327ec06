#pragma once

namespace dovetail::test {

// Built with a sanitizer: everything takes some ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

// Of them the one that looks at threads, which sees arithmetic's every load.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitized = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitized = false;
#endif

// Rounds of a test that repeats itself, a fifth of them under a sanitizer: what it sees, it sees in
// the first ones.
constexpr int rounds(int count) { return kSanitized ? (count + 4) / 5 : count; }

}  // namespace dovetail::test
