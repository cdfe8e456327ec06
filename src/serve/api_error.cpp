#include "serve/api_error.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace dovetail::serve {

ApiError from_engine(const Error& error) {
  ApiError result;
  result.message = error.message;
  switch (error.kind) {
    case ErrorKind::kInvalid:
    case ErrorKind::kUnsupported: {
      result.status = 400;
      const std::size_t end = result.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
      if (end != std::string::npos && end > 0 && result.message.compare(end, 2, ": ") == 0) {
        result.param = result.message.substr(0, end);
      }
      break;
    }
    case ErrorKind::kNotFound:
      result.status = 404;
      break;
    case ErrorKind::kExhausted:
      result.status = 429;
      result.code = "queue_full";
      result.retry_after = 1;
      break;
    case ErrorKind::kUnavailable:
      result.status = 503;
      result.code = "unavailable";
      result.retry_after = 5;
      break;
    case ErrorKind::kTimeout:
      result.status = 504;
      result.param = "timeout";
      result.code = "timeout";
      break;
    case ErrorKind::kIo:
    case ErrorKind::kInternal:
      result.status = 500;
      result.code = "internal";
      break;
  }
  return result;
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return "invalid_request_error";
  }
}

std::string failure_code(const ApiError& error) {
  return error.code.empty() ? std::string(error_type(error.status)) : error.code;
}

namespace {

Json openai_error(const ApiError& error) {
  Json detail;
  detail["message"] = error.message;
  detail["type"] = std::string(error_type(error.status));
  detail["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  detail["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
  Json body;
  body["error"] = std::move(detail);
  return body;
}

Json messages_error(const ApiError& error) {
  std::string_view type = error_type(error.status);
  if (error.status == 403) type = "permission_error";
  if (error.status == 413) type = "request_too_large";
  if (error.status >= 500) type = error.status == 503 ? "overloaded_error" : "api_error";
  Json body;
  body["type"] = "error";
  body["error"]["type"] = type;
  body["error"]["message"] = error.message;
  if (!error.code.empty()) body["error"]["details"]["error_code"] = error.code;
  return body;
}

Json llama_error(const ApiError& error) {
  const bool too_long = error.code == "context_length_exceeded";
  Json body;
  body["error"]["code"] = error.status;
  body["error"]["message"] = error.message;
  body["error"]["type"] = too_long ? "exceed_context_size_error" : error_type(error.status);
  if (!error.param.empty()) body["error"]["param"] = error.param;
  return body;
}

}  // namespace

std::string error_body(const ApiError& error, ErrorShape shape) {
  const Json body = shape == ErrorShape::kMessages ? messages_error(error)
                    : shape == ErrorShape::kOllama ? Json{{"error", error.message}}
                    : shape == ErrorShape::kCohere ? Json{{"message", error.message}}
                    : shape == ErrorShape::kLlama  ? llama_error(error)
                                                   : openai_error(error);
  // A message may quote what a client sent; whatever is not UTF-8 in it becomes U+FFFD.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse error_response(const ApiError& error, ErrorShape shape) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_body(error, shape);
  response.error_code = failure_code(error);
  response.error_message = error.message;
  if (error.retry_after) {
    response.headers.emplace_back("Retry-After", std::to_string(*error.retry_after));
  }
  if (!error.allow.empty()) response.headers.emplace_back("Allow", error.allow);
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace dovetail::serve
