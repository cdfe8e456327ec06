#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "pipeline/remote/chat_format.h"
#include "pipeline/remote/http_client.h"
#include "pipeline/remote/retry_policy.h"

namespace dovetail::pipeline {

// One OpenAI-compatible endpoint.
struct ChatEndpoint {
  std::string base_url;  // what comes before /chat/completions, usually ending in /v1
  std::string api_key;   // sent as "Authorization: Bearer ..."; empty: not sent
  std::vector<std::pair<std::string, std::string>> headers;
  HttpTimeouts timeouts;
  std::size_t max_response = std::size_t{16} << 20;
};

// What became of one request.
struct ChatOutcome {
  FailureClass failure = FailureClass::kNone;
  ChatAnswer answer;    // where there is no failure
  std::string message;  // where there is: one line, without secrets
  std::optional<Micros> retry_after;
  int status = 0;
  Micros on_wire = 0;
};

// Sends chats and completions to one endpoint by a shared HttpClient, which must outlive it. The
// answer comes as bytes, on the HTTP client's thread; read() makes sense of it on whatever thread
// has the time. Any thread.
class ChatClient {
 public:
  // kInvalid where the base URL is not http(s)://host....
  static Result<ChatClient> create(HttpClient& http, ChatEndpoint endpoint);

  // The request as it would be sent: body and all. kInvalid where a field is wrong.
  Result<HttpRequest> prepare(const ChatRequest& request) const;

  // prepare() and submit(). On an error the callback is never called.
  Result<HttpClient::RequestId> send(const ChatRequest& request, HttpClient::Callback done) const;
  HttpClient::RequestId send(HttpRequest prepared, HttpClient::Callback done) const;
  void cancel(HttpClient::RequestId id) const { http_->cancel(id); }

  // A 2xx that cannot be read is kRetryable: servers under load cut answers off.
  ChatOutcome read(const HttpResult& result, AnswerForm form = AnswerForm::kChat) const;

  // Where chats go.
  const std::string& url() const { return url_; }

 private:
  ChatClient(HttpClient& http, ChatEndpoint endpoint);

  HttpClient* http_;
  ChatEndpoint endpoint_;
  std::string url_;             // of chats
  std::string completion_url_;  // of completions
  std::vector<std::string> secrets_;
};

}  // namespace dovetail::pipeline
