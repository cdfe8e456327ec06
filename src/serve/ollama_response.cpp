#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answers.h"
#include "serve/ollama.h"
#include "serve/token_logprobs.h"

namespace dovetail::serve {
namespace {

using Kind = dialog::AnswerEvent::Kind;

std::int64_t nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// Why it ended, and what it took.
void add_end(const Answers& answers, Json& line) {
  const ChoiceState& choice = answers.choices.front();
  const TokenCounts counts = token_counts(answers);
  const auto now = std::chrono::steady_clock::now();
  const auto first = choice.first_token.value_or(now);
  line["done"] = true;
  line["done_reason"] = *choice.finish == FinishReason::kLength ? "length" : "stop";
  line["total_duration"] = nanoseconds(now - answers.label.began);
  line["load_duration"] = 0;
  line["prompt_eval_count"] = counts.prompt;
  line["prompt_eval_duration"] = nanoseconds(first - answers.label.began);
  line["eval_count"] = counts.completion;
  line["eval_duration"] = nanoseconds(now - first);
}

// Those that a streamed line has: null where none are asked for, or all come with the body.
Json logprobs_of(const Answers& answers, std::span<const OutputToken> tokens) {
  if (answers.generation.requests.front().logprobs < 0 || tokens.empty()) return {};
  return dialog_logprobs(tokens, answers.token_bytes);
}

// Those of a body, which are gathered until it is written.
Json body_logprobs(const Answers& answers, ChoiceState&, std::span<const OutputToken> tokens) {
  if (answers.generation.stream) return {};
  Json logprobs = logprobs_of(answers, tokens);
  return logprobs.is_null() ? Json() : Json{{"logprobs", std::move(logprobs)}};
}

std::string text_line(const Json& line) { return dump(line) + "\n"; }

Json call_object(const CallState& call) {
  Json json;
  json["function"]["name"] = call.name;
  Json arguments = Json::parse(call.arguments, nullptr, false);
  json["function"]["arguments"] = arguments.is_object() ? std::move(arguments) : Json::object();
  return json;
}

// A line with this text: that of a chat has it in a message.
Json line_of(const Answers& answers, std::string text) {
  Json line;
  line["model"] = answers.label.model;
  line["created_at"] = ollama_now();
  if (answers.generation.endpoint == Endpoint::kOllamaChat) {
    line["message"]["role"] = "assistant";
    line["message"]["content"] = std::move(text);
  } else {
    line["response"] = std::move(text);
  }
  line["done"] = false;
  return line;
}

// Where reasoning and calls stand in a line.
Json& beside_text(Json& line) { return line.contains("message") ? line["message"] : line; }

std::string open_lines(Answers&) { return {}; }

std::string add_lines(Answers& answers, std::size_t index, const News& news) {
  const ChoiceState& choice = answers.choices[index];
  if (!answers.generation.stream) return {};
  std::string out;
  // They come with the first line, or with one of their own where the text is yet to come.
  Json logprobs = logprobs_of(answers, news.tokens);
  const auto add = [&](Json line) {
    if (!logprobs.is_null()) line["logprobs"] = std::exchange(logprobs, nullptr);
    out += text_line(line);
  };
  for (const dialog::AnswerEvent& event : news.events) {
    if (event.kind == Kind::kContent) add(line_of(answers, event.text));
    if (event.kind == Kind::kReasoning) {
      Json line = line_of(answers, "");
      beside_text(line)["thinking"] = event.text;
      add(std::move(line));
    }
    // Calls are given whole.
    if (event.kind == Kind::kCallEnd) {
      Json line = line_of(answers, "");
      beside_text(line)["tool_calls"].push_back(call_object(choice.calls[event.call]));
      add(std::move(line));
    }
  }
  if (!logprobs.is_null()) add(line_of(answers, ""));
  return out;
}

std::string close_lines(Answers& answers) {
  Json line = line_of(answers, "");
  add_end(answers, line);
  return text_line(line);
}

std::vector<std::string> line_body(Answers& answers) {
  ChoiceState& choice = answers.choices.front();
  Json line = line_of(answers, std::move(choice.text));
  if (!choice.reasoning.empty()) beside_text(line)["thinking"] = std::move(choice.reasoning);
  for (const CallState& call : choice.calls)
    beside_text(line)["tool_calls"].push_back(call_object(call));
  add_end(answers, line);
  std::string text = dump(line);
  if (choice.logprobs.empty()) return {std::move(text)};
  text.back() = ',';
  // The end of the array is left open while it is gathered.
  return {std::move(text) + "\"logprobs\":", std::move(choice.logprobs.front().second), "]}"};
}

std::vector<std::string> embed_body(Answers& answers) {
  Json json;
  json["model"] = answers.label.model;
  std::vector<std::string> parts = {"{\"model\":" + dump(answers.label.model) +
                                    ",\"embeddings\":["};
  for (std::size_t index = 0; index < answers.choices.size(); ++index) {
    const Json embedding = std::move(answers.choices[index].embedding);
    parts.push_back((index == 0 ? "" : ",") + dump(embedding));
  }
  parts.push_back(
      fmt::format("],\"total_duration\":{},\"load_duration\":0,\"prompt_eval_count\":{}}}",
                  nanoseconds(std::chrono::steady_clock::now() - answers.label.began),
                  token_counts(answers).prompt));
  return parts;
}

std::vector<std::string> embedding_body(Answers& answers) {
  Json json;
  json["embedding"] = std::move(answers.choices.front().embedding);
  return {dump(json)};
}

std::string fail_line(const ApiError& error) {
  return error_body(error, ErrorShape::kOllama) + "\n";
}

constexpr std::string_view kLines = "application/x-ndjson";

}  // namespace

// Ollama's API: lines of JSON.
const Dialect kOllamaChatDialect = {.id_begin = "chat-",
                                    .stream_type = kLines,
                                    .open = open_lines,
                                    .add = add_lines,
                                    .close = close_lines,
                                    .fail = fail_line,
                                    .body = line_body,
                                    .logprobs = body_logprobs,
                                    .keeps = true};
const Dialect kOllamaGenerateDialect = {.id_begin = "gen-",
                                        .stream_type = kLines,
                                        .open = open_lines,
                                        .add = add_lines,
                                        .close = close_lines,
                                        .fail = fail_line,
                                        .body = line_body,
                                        .logprobs = body_logprobs};
const Dialect kOllamaEmbedDialect = {.id_begin = "embed-", .body = embed_body};
const Dialect kOllamaEmbeddingDialect = {.id_begin = "embed-", .body = embedding_body};

}  // namespace dovetail::serve
