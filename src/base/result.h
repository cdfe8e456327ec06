#pragma once

#include <fmt/core.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace dovetail {

// What went wrong, in the terms of whoever caused it. The message names the file or field, the
// value and what would be valid; it is one line and stands alone.
enum class ErrorKind {
  kInvalid,      // bad input: a malformed file, field or option
  kNotFound,     // a file, model or id that is not there
  kUnsupported,  // well-formed, but nothing that Dovetail can do
  kIo,           // the operating system refused
  kExhausted,    // a bounded resource is full; trying later may succeed
  kUnavailable,  // shutting down or failed
  kTimeout,      // the time that the caller gave it has passed
  kInternal,     // a broken invariant of our own
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

using Status = Result<void>;

// The error of this kind whose message is the formatted text: one place formats for all that fail.
[[nodiscard]] Error make_error(ErrorKind kind, fmt::string_view format, fmt::format_args args);

// Builds the error side of a Result: `return fail(ErrorKind::kInvalid, "{}: ...", path);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(make_error(kind, format, fmt::make_format_args(args...)));
}

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace dovetail
