#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api_error.h"
#include "serve/api_request.h"

namespace dovetail::serve {

struct ResponseLabel {
  std::string id;     // "chatcmpl-..." or "cmpl-..."
  std::string model;  // the served name
  std::int64_t created = 0;
};

// "begin-" and 24 random hexadecimal digits.
std::string random_id(std::string_view begin);

// A fresh label: the id is random, `created` is now.
ResponseLabel make_label(Endpoint endpoint, std::string_view model);

// Turns the events of one Generation into the API's response, as a stream of server-sent events or
// as one body. Events of different choices may come in any order; choice c of prompt p has the
// index p * n + c. One thread at a time.
class ResponseBuilder {
 public:
  // `generation` and `token_bytes` must outlive the builder.
  ResponseBuilder(const Generation& generation, ResponseLabel label,
                  const std::function<std::string(TokenId)>& token_bytes);

  // Takes one event of the prompt with the given index. Returns the events for a streaming client;
  // for another one it gathers and returns nothing.
  std::string add(std::size_t prompt, OutputEvent event);

  // What a stream begins with: the role of every choice of a chat.
  std::string open() const;
  // What it ends with: the usage where asked for and [DONE]; after a failure the error and [DONE].
  std::string close() const;
  // The response to a client that does not stream, in parts that follow each other: what was
  // gathered is handed over, not copied. Once, when complete() and no failure().
  std::vector<std::string> take_body();

  // Every choice has ended.
  bool complete() const { return open_choices_ == 0; }
  // The first choice that was cut short by anything but its own end; nothing further will be sent
  // but the error.
  const std::optional<ApiError>& failure() const { return failure_; }

 private:
  struct Choice {
    bool begun = false;  // it had an event
    std::string text;
    std::string prompt_logprobs;  // JSON text; empty: none are shown
    // The body's "logprobs" as JSON text, which takes a tenth of what values take: the elements of
    // each array inside.
    std::vector<std::pair<std::string, std::string>> logprobs;
    std::size_t text_offset = 0;  // code points of the tokens so far
    const char* finish = nullptr;
    Usage usage;
    std::vector<float> embedding;
    float score = 0.0F;
  };

  // What the engine said of a prompt, with its first choice's first event; the events of its other
  // choices wait for that.
  struct Prompt {
    bool told = false;
    std::vector<OutputToken> scores;
    std::vector<OutputEvent> waiting;
  };

  std::string take(std::size_t prompt, OutputEvent event);
  void begin(std::size_t prompt, Choice& choice, OutputEvent& event,
             nlohmann::ordered_json& logprobs, nlohmann::ordered_json& of_prompt);
  std::vector<std::string> embeddings_body();
  std::vector<std::string> ranking_body() const;
  std::string prompt_usage() const;

  nlohmann::ordered_json envelope(const char* object) const;
  std::string delta(std::size_t index, nlohmann::ordered_json content,
                    nlohmann::ordered_json logprobs, const char* finish,
                    nlohmann::ordered_json prompt_logprobs = {}) const;
  nlohmann::ordered_json chat_logprobs(const std::vector<OutputToken>& tokens) const;
  nlohmann::ordered_json usage() const;

  const Generation& generation_;
  ResponseLabel label_;
  const std::function<std::string(TokenId)>& token_bytes_;
  std::vector<Choice> choices_;
  std::vector<Prompt> prompts_;
  std::size_t open_choices_ = 0;
  std::optional<ApiError> failure_;
};

}  // namespace dovetail::serve
