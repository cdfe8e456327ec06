#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "pipeline/remote/http_message.h"

namespace dovetail::pipeline {

struct HttpClientOptions {
  // Idle connections that are kept for the next request.
  long kept_connections = 1024;
  // A file of certificates to trust instead of the system's; empty: the system's.
  std::string ca_file;
};

// HTTP requests, hundreds at a time, on one thread of its own: libcurl's multi interface driven by
// epoll, so that an event costs the same whatever is in flight. Connections are kept and reused,
// HTTP/2 is used where the server offers it (ALPN), certificates are verified, proxies come from
// the environment, redirects are not followed. No signals are used.
//
// Every submitted request gets exactly one callback, on the client's thread; it must not block and
// must not throw. It may call submit() and cancel(). The client does not limit how many requests
// are in flight: who submits does.
class HttpClient {
 public:
  using RequestId = std::uint64_t;
  using Callback = std::function<void(HttpResult)>;

  // Fails where the system has no descriptors or threads left.
  static Result<std::unique_ptr<HttpClient>> create(HttpClientOptions options = {});

  // Ends what is in flight with kCancelled and waits for the callbacks. Not from a callback.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // From any thread.
  RequestId submit(HttpRequest request, Callback done);

  // From any thread. The callback comes soon with kCancelled; an id that is done is ignored.
  void cancel(RequestId id);

 private:
  class Worker;
  explicit HttpClient(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace dovetail::pipeline
