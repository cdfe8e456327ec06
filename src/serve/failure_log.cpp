#include "serve/failure_log.h"

#include <spdlog/spdlog.h>

#include <exception>

namespace dovetail::serve {

void log_failure(const std::exception_ptr& failure) noexcept {
  try {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      spdlog::error("a request or its connection failed: {}", e.what());
    }
  } catch (...) {
    return;  // no memory is left for the line
  }
}

}  // namespace dovetail::serve
