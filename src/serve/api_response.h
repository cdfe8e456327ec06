#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answers.h"
#include "serve/api_error.h"
#include "serve/api_request.h"

namespace dovetail::serve {

// A fresh label of a request that came at `began`: the id is random, `created` is now.
ResponseLabel make_label(
    Endpoint endpoint, std::string_view model,
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now());

// Turns the events of one Generation into the API's response, as a stream of events or as one body,
// in the endpoint's dialect. Events of different choices may come in any order; choice c of prompt
// p has the index p * n + c. One thread at a time.
class ResponseBuilder {
 public:
  // `generation` and `token_bytes` must outlive the builder.
  ResponseBuilder(const Generation& generation, ResponseLabel label,
                  const std::function<std::string(TokenId)>& token_bytes);

  // Takes one event of the prompt with the given index. Returns the events for a streaming client;
  // for another one it gathers and returns nothing.
  std::string add(std::size_t prompt, OutputEvent event);

  // What a stream begins with, and its media type.
  std::string open() { return dialect_.open(answers_); }
  std::string_view stream_type() const { return dialect_.stream_type; }
  // What it ends with; after a failure, with the error.
  std::string close();
  // The response to a client that does not stream, in parts that follow each other: what was
  // gathered is handed over, not copied. Once, when complete() and no failure().
  std::vector<std::string> take_body();

  // Every choice has ended; the engine may still be at work on those that a dialect ended.
  bool complete() const { return open_choices_ == 0; }
  // The first choice that was cut short by anything but its own end; nothing further will be sent
  // but the error.
  const std::optional<ApiError>& failure() const { return failure_; }

 private:
  // What the engine said of a prompt, with its first choice's first event; the events of its other
  // choices wait for that.
  struct Prompt {
    bool told = false;
    std::vector<OutputToken> scores;
    std::vector<OutputEvent> waiting;
  };

  // Takes an event whose prompt is told.
  std::string take(std::size_t prompt, OutputEvent event);
  // What a choice has before its first token: the prompt, where it is echoed, and what was asked of
  // it.
  void begin(std::size_t prompt, ChoiceState& choice, OutputEvent& event, News& news) const;
  // What the text says; begun calls have their ids. The answer is kept where it ends with calls.
  std::vector<dialog::AnswerEvent> read(ChoiceState& choice, std::string text,
                                        std::span<const OutputToken> tokens);
  void gather(ChoiceState& choice, const News& news);

  const Dialect& dialect_;
  Answers answers_;
  std::vector<Prompt> prompts_;
  std::size_t open_choices_ = 0;
  std::optional<ApiError> failure_;
};

}  // namespace dovetail::serve
