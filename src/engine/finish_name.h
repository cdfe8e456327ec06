#pragma once

#include <string_view>

#include "dovetail/request.h"

namespace dovetail::engine {

// For logs and lines of results; OpenAI's API has names of its own for some.
constexpr std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      break;
  }
  return "error";
}

}  // namespace dovetail::engine
