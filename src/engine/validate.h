#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "dovetail/request.h"

namespace dovetail::engine {

// What a request is checked against.
struct RequestLimits {
  std::uint32_t vocab_size = 0;
  std::uint32_t max_context = 0;
  std::uint32_t max_num_seqs = 0;
  std::uint32_t max_waiting = 0;
};

// The longest Request::timeout; longer ones are as good as none.
inline constexpr std::chrono::hours kLongestTimeout{24 * 365};

// kInvalid with the field, its value and what would be valid; field names are those of Request.
Status validate(const Request& request, const RequestLimits& limits);

}  // namespace dovetail::engine
