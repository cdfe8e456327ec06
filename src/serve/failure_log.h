#pragma once

#include <exception>

namespace dovetail::serve {

// Says on the log why a request or its connection ends; also where no memory is left for it.
void log_failure(const std::exception_ptr& failure) noexcept;

}  // namespace dovetail::serve
