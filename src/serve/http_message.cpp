#include "serve/http_message.h"

#include <fmt/format.h>

#include <iterator>

namespace dovetail::serve {

HttpResponse event_stream_response() {
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  return response;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

std::string response_head(const HttpResponse& response, Framing framing, std::size_t length,
                          bool keep_alive) {
  std::string head;
  const auto out = std::back_inserter(head);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nServer: dovetail\r\nContent-Type: {}\r\n", response.status,
                 reason_phrase(response.status), response.content_type);
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(out, "{}: {}\r\n", name, value);
  }
  if (framing == Framing::kLength) fmt::format_to(out, "Content-Length: {}\r\n", length);
  if (framing == Framing::kChunked) head += "Transfer-Encoding: chunked\r\n";
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string response_text(const HttpResponse& response, bool keep_alive, bool head_only) {
  std::string text = response_head(response, Framing::kLength, response.body.size(), keep_alive);
  if (!head_only) text += response.body;
  return text;
}

std::string chunk(std::string_view data) {
  if (data.empty()) return {};
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace dovetail::serve
