#include "serve/api_response.h"

#include <cassert>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "serve/token_logprobs.h"

namespace dovetail::serve {
namespace {

using Kind = dialog::AnswerEvent::Kind;

// Of letters and digits.
std::string random_name(std::size_t size) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> draw(0, kLetters.size() - 1);
  std::string name;
  while (name.size() < size) name += kLetters[draw(random)];
  return name;
}

std::string call_id(dialog::IdRule rule) {
  return rule == dialog::IdRule::kNine ? random_name(9) : "call_" + random_name(24);
}

// Appends the elements of the arrays inside `more` to the texts of the same name.
void append_arrays(std::vector<std::pair<std::string, std::string>>& to, const Json& more) {
  std::size_t at = 0;
  for (const auto& [key, values] : more.items()) {
    if (at == to.size()) to.emplace_back(key, "");
    std::string& text = to[at++].second;
    if (!values.is_array()) {
      text = dump(values);
      continue;
    }
    for (const Json& value : values) {
      text += text.empty() ? '[' : ',';
      text += dump(value);
    }
  }
}

// A token counts to what its text does; one whose text is yet to come, to what came before.
void count_reasoning(ChoiceState& choice, const News& news) {
  for (const dialog::AnswerEvent& event : news.events)
    choice.reasons = event.kind == Kind::kReasoning;
  if (choice.reasons) choice.reasoning_tokens += news.tokens.size();
}

}  // namespace

const Dialect& dialect_of(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
      return kChatDialect;
    case Endpoint::kResponses:
      return kResponsesDialect;
    case Endpoint::kMessages:
      return kMessagesDialect;
    case Endpoint::kOllamaChat:
      return kOllamaChatDialect;
    case Endpoint::kOllamaGenerate:
      return kOllamaGenerateDialect;
    case Endpoint::kOllamaEmbed:
      return kOllamaEmbedDialect;
    case Endpoint::kOllamaEmbedding:
      return kOllamaEmbeddingDialect;
    case Endpoint::kEmbedding:
      return kEmbeddingDialect;
    case Endpoint::kRerank:
      return kRerankDialect;
    case Endpoint::kCohereRerank:
      return kCohereRerankDialect;
    case Endpoint::kLlamaCompletion:
    case Endpoint::kLlamaInfill:
      return kLlamaDialect;
    case Endpoint::kCompletion:
      break;
  }
  return kCompletionDialect;
}

const Request& Answers::request_of(std::size_t choice) const {
  // All requests have the same n.
  return generation.requests[choice / static_cast<std::size_t>(generation.requests.front().n)];
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string sse(const Json& json) { return "data: " + dump(json) + "\n\n"; }

std::string failed_stream(const ApiError& error) {
  return "data: " + error_body(error) + "\n\n" + std::string(kStreamDone);
}

Json envelope(const Answers& answers, std::string_view object) {
  Json json;
  json["id"] = answers.label.id;
  json["object"] = object;
  json["created"] = answers.label.created;
  json["model"] = answers.label.model;
  return json;
}

TokenCounts token_counts(const Answers& answers) {
  TokenCounts counts;
  std::size_t index = 0;
  for (const Request& request : answers.generation.requests) {
    counts.prompt += request.prompt.size();
    counts.cached += answers.choices[index].usage.cached_tokens;
    for (std::int32_t i = 0; i < request.n; ++i) {
      counts.completion += answers.choices[index].usage.completion_tokens;
      counts.reasoning += answers.choices[index++].reasoning_tokens;
    }
  }
  return counts;
}

Json usage_json(const Answers& answers) {
  const TokenCounts counts = token_counts(answers);
  Json json;
  json["prompt_tokens"] = counts.prompt;
  json["completion_tokens"] = counts.completion;
  json["total_tokens"] = counts.prompt + counts.completion;
  json["prompt_tokens_details"]["cached_tokens"] = counts.cached;
  if (answers.generation.answer)
    json["completion_tokens_details"]["reasoning_tokens"] = counts.reasoning;
  return json;
}

bool asks_for_calls(const ChoiceState& choice) {
  return !choice.calls.empty() && choice.calls.back().ended;
}

std::string_view finish_word(const ChoiceState& choice) {
  assert(choice.finish);
  if (*choice.finish == FinishReason::kLength) return "length";
  return asks_for_calls(choice) ? "tool_calls" : "stop";
}

std::string random_id(std::string_view begin) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", begin, random(), random(), random());
}

ResponseLabel make_label(Endpoint endpoint, std::string_view model,
                         std::chrono::steady_clock::time_point began) {
  ResponseLabel label;
  label.began = began;
  label.id = random_id(dialect_of(endpoint).id_begin);
  label.model = std::string(model);
  label.created = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  return label;
}

ResponseBuilder::ResponseBuilder(const Generation& generation, ResponseLabel label,
                                 const std::function<std::string(TokenId)>& token_bytes)
    : dialect_(dialect_of(generation.endpoint)),
      answers_{.generation = generation,
               .label = std::move(label),
               .token_bytes = token_bytes,
               .choices = {}} {
  for (const Request& request : generation.requests)
    open_choices_ += static_cast<std::size_t>(request.n);
  answers_.choices.resize(open_choices_);
  prompts_.resize(generation.requests.size());
  if (!generation.answer) return;
  for (ChoiceState& choice : answers_.choices) {
    choice.reader.emplace(*generation.answer);
    if (generation.calls != nullptr) choice.record.emplace();
  }
}

std::vector<dialog::AnswerEvent> ResponseBuilder::read(ChoiceState& choice, std::string text,
                                                       std::span<const OutputToken> tokens) {
  std::vector<dialog::AnswerEvent> events;
  const bool finished = choice.finish.has_value();
  if (!choice.reader) {
    if (!text.empty()) events.push_back({Kind::kContent, std::move(text), 0, {}});
    return events;
  }
  events = choice.reader->feed(text);
  if (finished) {
    for (auto& event : choice.reader->finish()) events.push_back(std::move(event));
  }
  if (choice.record) choice.record->add(text, tokens, events);
  if (!answers_.generation.show_reasoning) {
    std::erase_if(events, [](const auto& event) { return event.kind == Kind::kReasoning; });
  }
  for (dialog::AnswerEvent& event : events) {
    if (event.kind == Kind::kCallEnd) choice.calls[event.call].ended = true;
    if (event.kind != Kind::kCallBegin) continue;
    if (event.id.empty()) event.id = call_id(answers_.generation.call_ids);
    choice.calls.push_back({event.id, event.text, {}, false});
  }
  if (choice.record && finished && *choice.finish == FinishReason::kStop) {
    auto kept =
        choice.record->finish(choice.reader->calls_at(), choice.calls, answers_.token_bytes);
    if (kept) answers_.generation.calls->put(*std::move(kept));
  }
  return events;
}

void ResponseBuilder::gather(ChoiceState& choice, const News& news) {
  for (const dialog::AnswerEvent& event : news.events) {
    if (event.kind == Kind::kContent) choice.text += event.text;
    if (event.kind == Kind::kReasoning) choice.reasoning += event.text;
    if (event.kind == Kind::kArguments) choice.calls[event.call].arguments += event.text;
  }
  if (!news.of_prompt.is_null()) choice.prompt_logprobs = dump(news.of_prompt);
  if (!news.echoed.is_null()) append_arrays(choice.logprobs, news.echoed);
  if (dialect_.logprobs == nullptr || news.tokens.empty()) return;
  const Json logprobs = dialect_.logprobs(answers_, choice, news.tokens);
  if (!logprobs.is_null()) append_arrays(choice.logprobs, logprobs);
}

std::string ResponseBuilder::add(std::size_t prompt, OutputEvent event) {
  assert(prompt < answers_.generation.requests.size());
  Prompt& its = prompts_[prompt];
  const bool first = event.choice == 0 && !its.told;
  if (!first && !its.told && answers_.generation.requests[prompt].prompt_logprobs >= 0) {
    its.waiting.push_back(std::move(event));
    return {};
  }
  if (first) {
    its.told = true;
    its.scores = std::move(event.prompt_logprobs);
  }
  std::string out = take(prompt, std::move(event));
  if (!first) return out;
  for (OutputEvent& waiting : std::exchange(its.waiting, {})) {
    if (!failure_) out += take(prompt, std::move(waiting));
  }
  return out;
}

void ResponseBuilder::begin(std::size_t prompt, ChoiceState& choice, OutputEvent& event,
                            News& news) const {
  const Generation& generation = answers_.generation;
  const Request& request = generation.requests[prompt];
  const std::vector<OutputToken>& scores = prompts_[prompt].scores;
  if (!generation.echo.empty()) {
    const std::string& text = generation.echo[prompt];
    event.text.insert(0, text);
    if (request.logprobs >= 0) {
      news.echoed = echoed_logprobs(request.prompt, scores, request.logprobs, text,
                                    choice.text_offset, answers_.token_bytes);
    }
  }
  const bool of_each = !generation.is_dialog || event.choice == 0;
  if (generation.prompt_logprobs >= 0 && of_each)
    news.of_prompt = prompt_logprobs(scores, generation.prompt_logprobs, answers_.token_bytes);
}

std::string ResponseBuilder::take(std::size_t prompt, OutputEvent event) {
  const Generation& generation = answers_.generation;
  const std::size_t index = prompt * static_cast<std::size_t>(generation.requests[prompt].n) +
                            static_cast<std::size_t>(event.choice);
  assert(index < answers_.choices.size());
  ChoiceState& choice = answers_.choices[index];
  if (choice.cut) return {};
  assert(!choice.finish);
  choice.usage = event.usage;
  if (event.finish) {
    --open_choices_;
    choice.finish = event.finish;
    choice.stop_string = std::move(event.stop_string);
    if (!failure_ && *event.finish == FinishReason::kError) failure_ = from_engine(event.error);
    if (!failure_ && *event.finish == FinishReason::kCancelled) {
      failure_ = from_engine({ErrorKind::kUnavailable, "the request was cancelled by the server"});
    }
  }
  if (failure_) return {};

  News news;
  if (!std::exchange(choice.begun, true)) begin(prompt, choice, event, news);
  news.events = read(choice, std::move(event.text), event.tokens);
  news.tokens = event.tokens;
  news.finished = event.finish.has_value();
  count_reasoning(choice, news);
  if (!choice.first_token && !news.tokens.empty())
    choice.first_token = std::chrono::steady_clock::now();
  if (dialect_.ends != nullptr && dialect_.ends(answers_, index, news) && !choice.finish) {
    choice.cut = true;
    choice.finish = FinishReason::kLength;
    news.finished = true;
    --open_choices_;
  }
  if (!generation.stream || dialect_.keeps) gather(choice, news);
  std::string out;
  if (generation.stream || dialect_.keeps) out = dialect_.add(answers_, index, news);
  if (generation.stream) return out;
  choice.embedding = std::move(event.embedding);
  choice.score = event.score;
  return {};
}

std::string ResponseBuilder::close() {
  return failure_ ? dialect_.fail(*failure_) : dialect_.close(answers_);
}

std::vector<std::string> ResponseBuilder::take_body() {
  assert(complete() && !failure_);
  return dialect_.body(answers_);
}

}  // namespace dovetail::serve
