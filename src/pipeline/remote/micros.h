#pragma once

#include <cstdint>
#include <limits>

namespace dovetail::pipeline {

// A moment or a span in microseconds, on whatever steady clock the caller has. The state machines
// of this folder have no clock of their own.
using Micros = std::int64_t;

inline constexpr Micros kOneSecond = 1'000'000;

// "No moment known": only another event can change the answer.
inline constexpr Micros kNever = std::numeric_limits<Micros>::max();

}  // namespace dovetail::pipeline
