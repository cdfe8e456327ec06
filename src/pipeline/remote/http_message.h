#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct HttpTimeouts {
  Micros connect = 10 * kOneSecond;
  Micros total = 600 * kOneSecond;  // from submit() to the last byte; 0: none
  // Gives up where fewer than `slow_bytes` per second moved for so long; 0: never. An answer that
  // is not streamed is silent until it is done, so this is off by default.
  Micros slow = 0;
  long slow_bytes = 1;
};

struct HttpRequest {
  std::string method = "POST";
  std::string url;
  // Names and values; a value whose name is Authorization, or holds "key", "token", "secret" or
  // "cookie", never appears in an error.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  HttpTimeouts timeouts;
  std::size_t max_response = std::size_t{16} << 20;  // bytes of the body, unpacked
};

// Why there is no answer.
enum class TransportError {
  kNone,
  kCancelled,
  kInvalid,         // the request could not even be made: a bad URL or header
  kResolve,         // the host's name, or the proxy's, is not known
  kConnect,         // nobody listens, or the network is unreachable
  kTls,             // the secure connection was not made
  kUntrusted,       // the server's certificate is not to be trusted
  kConnectTimeout,  // no connection within the connect timeout
  kTimeout,         // no full answer within the total timeout, or too slow
  kDropped,         // the connection ended before the answer did
  kProtocol,        // what came is not HTTP
  kTooLarge,        // the answer is longer than the request allows
  kOther,
};

struct HttpResult {
  TransportError error = TransportError::kNone;
  std::string message;  // one line for `error`, without secrets; empty where there is an answer
  int status = 0;       // 0 where there is no answer
  // Names in lower case, in the order of the answer.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<Micros> retry_after;  // Retry-After (seconds or date) or retry-after-ms
  Micros latency = 0;                 // from submit() to the end
  Micros on_wire = 0;                 // without the time spent waiting in the client
  int http_version = 0;               // 10, 11, 20; 0 where there is no answer
  bool fresh_connection = false;

  // The first header of the name (in lower case), empty where there is none.
  std::string_view header(std::string_view name) const;
};

// Whether a header of this name carries a secret.
bool is_secret_header(std::string_view name);

// The values of the request's secret headers, with and without their scheme ("Bearer ").
std::vector<std::string> secrets_of(const HttpRequest& request);

// The text with every secret replaced by "***".
std::string redact(std::string text, const std::vector<std::string>& secrets);

// The URL for people: no user, password, query or fragment.
std::string public_url(std::string_view url);

}  // namespace dovetail::pipeline
