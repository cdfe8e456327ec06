#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail::serve {

// The head of a request, as far as the server reads it.
struct HttpHead {
  std::string method;
  std::string target;  // path and query, as sent
  std::optional<std::string>
      host;  // of the target or the Host header, without its port; lower case
  bool keep_alive = true;
  bool http_1_0 = false;
  bool chunked = false;
  bool expects_continue = false;
  std::string authorization;     // empty: not sent
  std::string api_key;           // X-Api-Key; empty: not sent
  std::string content_type;      // empty: not sent
  std::string content_encoding;  // empty: not sent
  std::string origin;            // of the web page that sends it; empty: none
  std::string request_id;        // X-Request-Id; empty: not sent, or nothing to be repeated
  std::optional<std::uint64_t> content_length;

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // besides those that framing needs
  // What failed, for the server's log; empty: nothing did.
  std::string error_code, error_message;
};

enum class Framing : std::uint8_t {
  kLength,   // Content-Length and the body
  kChunked,  // a stream to an HTTP/1.1 client
  kClose,    // a stream to an HTTP/1.0 client: ends with the connection
};

// What a stream of server-sent events begins with.
HttpResponse event_stream_response();

std::string_view reason_phrase(int status);

// The head of a response on the wire, blank line included. `length` is used with kLength.
std::string response_head(const HttpResponse& response, Framing framing, std::size_t length,
                          bool keep_alive);

// A whole response on the wire; `head_only` leaves the body out (HEAD).
std::string response_text(const HttpResponse& response, bool keep_alive, bool head_only);

// `data` as one chunk of a chunked body, and what ends such a body. Empty data gives nothing.
std::string chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace dovetail::serve
