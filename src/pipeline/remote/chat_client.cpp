#include "pipeline/remote/chat_client.h"

#include <utility>

namespace dovetail::pipeline {

ChatClient::ChatClient(HttpClient& http, ChatEndpoint endpoint)
    : http_(&http), endpoint_(std::move(endpoint)) {
  std::string base = endpoint_.base_url;
  while (base.ends_with('/')) base.pop_back();
  url_ = base + "/chat/completions";
  completion_url_ = base + "/completions";
  if (!endpoint_.api_key.empty()) {
    endpoint_.headers.emplace_back("Authorization", "Bearer " + endpoint_.api_key);
  }
  endpoint_.headers.emplace_back("Content-Type", "application/json");
  HttpRequest request;
  request.headers = endpoint_.headers;
  secrets_ = secrets_of(request);
}

Result<ChatClient> ChatClient::create(HttpClient& http, ChatEndpoint endpoint) {
  const std::string& base = endpoint.base_url;
  const std::size_t scheme = base.starts_with("http://") ? 7 : base.starts_with("https://") ? 8 : 0;
  const bool good = scheme > 0 && base.size() > scheme && base[scheme] != '/' &&
                    base.find_first_of(" \t\r\n?#") == std::string::npos;
  if (!good) {
    return fail(ErrorKind::kInvalid,
                "base_url: \"{}\" is not http://host... or https://host... without a query",
                public_url(base));
  }
  if (endpoint.api_key.find_first_of("\r\n") != std::string::npos) {
    return fail(ErrorKind::kInvalid, "the API key for {} has a line break in it", public_url(base));
  }
  return ChatClient(http, std::move(endpoint));
}

Result<HttpRequest> ChatClient::prepare(const ChatRequest& request) const {
  Result<std::string> body = chat_body(request);
  if (!body) return fail(body.error());
  HttpRequest prepared;
  prepared.url = request.form() == AnswerForm::kChat ? url_ : completion_url_;
  prepared.headers = endpoint_.headers;
  prepared.body = std::move(*body);
  prepared.timeouts = endpoint_.timeouts;
  prepared.max_response = endpoint_.max_response;
  return prepared;
}

Result<HttpClient::RequestId> ChatClient::send(const ChatRequest& request,
                                               HttpClient::Callback done) const {
  Result<HttpRequest> prepared = prepare(request);
  if (!prepared) return fail(prepared.error());
  return http_->submit(std::move(*prepared), std::move(done));
}

HttpClient::RequestId ChatClient::send(HttpRequest prepared, HttpClient::Callback done) const {
  return http_->submit(std::move(prepared), std::move(done));
}

ChatOutcome ChatClient::read(const HttpResult& result, AnswerForm form) const {
  const std::string& url = form == AnswerForm::kChat ? url_ : completion_url_;
  ChatOutcome outcome;
  outcome.failure = classify(result);
  outcome.retry_after = result.retry_after;
  outcome.status = result.status;
  outcome.on_wire = result.on_wire;
  const auto describe = [&](std::string_view what) {
    return fmt::format("POST {}: HTTP {}: {}", redact(public_url(url), secrets_), result.status,
                       what);
  };
  if (result.error != TransportError::kNone) {
    outcome.message = redact(result.message, secrets_);
  } else if (outcome.failure != FailureClass::kNone) {
    // Before it is shortened: half a secret would not be found.
    outcome.message = describe(error_text(redact(result.body, secrets_)));
  } else if (Result<ChatAnswer> answer = parse_chat_answer(result.body, form)) {
    outcome.answer = std::move(*answer);
  } else {
    outcome.failure = FailureClass::kRetryable;
    const auto shown = parse_chat_answer(redact(result.body, secrets_), form);
    outcome.message = describe(shown ? "the answer cannot be read" : shown.error().message);
  }
  return outcome;
}

}  // namespace dovetail::pipeline
