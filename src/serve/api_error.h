#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "base/result.h"
#include "serve/http_message.h"

namespace dovetail::serve {

// An error as OpenAI's API words it: an HTTP status and {"error": {message, type, param, code}}.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param;               // the field at fault; empty: none (null in the body)
  std::string code;                // empty: null in the body
  std::optional<int> retry_after;  // seconds
  std::string allow;               // of a 405
};

template <class T>
using Outcome = tl::expected<T, ApiError>;

// 400 that blames one field. The message begins with the field's name.
template <class... Args>
[[nodiscard]] tl::unexpected<ApiError> bad_field(std::string_view field,
                                                 fmt::format_string<Args...> format,
                                                 Args&&... args) {
  ApiError error;
  error.param = std::string(field);
  error.message = error.param + ": " + fmt::format(format, std::forward<Args>(args)...);
  return tl::unexpected<ApiError>(std::move(error));
}

// What is wrong with a field, if anything is.
using Problem = std::optional<ApiError>;
inline Problem problem(tl::unexpected<ApiError> error) { return std::move(error.value()); }

// An engine's error in HTTP's terms: kInvalid and kUnsupported 400, kNotFound 404, kExhausted 429,
// kUnavailable 503, kTimeout 504, the rest 500. A message of kInvalid that begins with "field: "
// blames that field.
ApiError from_engine(const Error& error);

// "invalid_request_error" and so on, by status.
std::string_view error_type(int status);

// The error's code, or its type where it has none.
std::string failure_code(const ApiError& error);

// How an API's clients expect errors to be written.
enum class ErrorShape : std::uint8_t {
  kOpenAi,    // {"error": {"message", "type", "param", "code"}}
  kMessages,  // {"type": "error", "error": {"type", "message", "details"}}, as Anthropic's
  kOllama,    // {"error": message}
  kCohere,    // {"message": message}
  kLlama,     // {"error": {"code": status, "message", "type"}}, as llama.cpp's
};

// As JSON text.
std::string error_body(const ApiError& error, ErrorShape shape = ErrorShape::kOpenAi);

HttpResponse error_response(const ApiError& error, ErrorShape shape = ErrorShape::kOpenAi);

}  // namespace dovetail::serve
