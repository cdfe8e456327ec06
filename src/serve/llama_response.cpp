#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answers.h"
#include "serve/token_logprobs.h"
#include "serve/token_text.h"

namespace dovetail::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoSlot = -1;
constexpr const char* kProbabilities = "completion_probabilities";

const LlamaForm& form_of(const Answers& answers) { return *answers.generation.llama; }

double milliseconds(Clock::duration time) {
  return std::max(0.0, std::chrono::duration<double, std::milli>(time).count());
}

// Of the kind `kind`: how many, in what time.
void add_pace(Json& timings, const std::string& kind, std::uint64_t count, double time) {
  const auto number = static_cast<double>(count);
  timings[kind + "_n"] = count;
  timings[kind + "_ms"] = time;
  timings[kind + "_per_token_ms"] = count == 0 ? 0.0 : time / number;
  timings[kind + "_per_second"] = time <= 0.0 ? 0.0 : 1000.0 * number / time;
}

// A prompt's time is that to the first token, but for the time in the queue.
Json timings_of(const Answers& answers, const ChoiceState& choice) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point first = choice.first_token.value_or(now);
  const Usage& usage = choice.usage;
  const double waited = 1000.0 * usage.queue_seconds;
  Json timings;
  timings["cache_n"] = usage.cached_tokens;
  add_pace(timings, "prompt",
           usage.prompt_tokens - std::min(usage.prompt_tokens, usage.cached_tokens),
           std::max(0.0, milliseconds(first - answers.label.began) - waited));
  add_pace(timings, "predicted", usage.completion_tokens, milliseconds(now - first));
  return timings;
}

Json probability(TokenId id, float logprob, const Answers& answers) {
  const std::string bytes = answers.token_bytes(id);
  Json json;
  json["id"] = id;
  json["token"] = token_label(bytes);
  Json& list = json["bytes"] = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  json["logprob"] = shown_logprob(logprob);
  return json;
}

Json probabilities_of(const Answers& answers, std::span<const OutputToken> tokens) {
  Json list = Json::array();
  for (const OutputToken& token : tokens) {
    Json json = probability(token.id, token.logprob, answers);
    Json& top = json["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top)
      top.push_back(probability(other.id, other.logprob, answers));
    list.push_back(std::move(json));
  }
  return list;
}

bool shows_probabilities(const Answers& answers) {
  return answers.generation.requests.front().logprobs >= 0;
}

Json ids_of(std::span<const OutputToken> tokens) {
  Json ids = Json::array();
  for (const OutputToken& token : tokens) ids.push_back(token.id);
  return ids;
}

// What a body has of its tokens, gathered as text.
Json gathered(const Answers& answers, ChoiceState&, std::span<const OutputToken> tokens) {
  if (answers.generation.stream || tokens.empty()) return {};
  Json json = Json::object();
  if (form_of(answers).tokens) json["tokens"] = ids_of(tokens);
  if (shows_probabilities(answers)) json[kProbabilities] = probabilities_of(answers, tokens);
  return json;
}

std::string_view stop_type(const ChoiceState& choice) {
  if (*choice.finish == FinishReason::kLength) return "limit";
  return choice.stop_string.empty() ? "eos" : "word";
}

// Whether an answer shows what the path names, or a part of it.
bool is_shown(const LlamaForm& form, std::string_view name) {
  return form.fields.empty() ||
         std::find(form.fields.begin(), form.fields.end(), name) != form.fields.end();
}

// The values of the paths that there are, each under its path.
Json only_shown(const LlamaForm& form, Json json) {
  if (form.fields.empty()) return json;
  Json out = Json::object();
  for (const std::string& path : form.fields) {
    const Json* at = &json;
    std::string_view rest = path;
    while (at != nullptr) {
      const std::size_t end = rest.find('/');
      const auto found = at->is_object() ? at->find(rest.substr(0, end)) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
    if (at != nullptr) out[path] = *at;
  }
  return out;
}

// The answer of a choice that has ended.
Json whole(const Answers& answers, std::size_t index, std::string content) {
  const ChoiceState& choice = answers.choices[index];
  const LlamaForm& form = form_of(answers);
  const auto n = static_cast<std::size_t>(answers.generation.requests.front().n);
  const Usage& usage = choice.usage;
  const std::uint64_t tokens = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  Json json;
  json["index"] = index;
  json["content"] = std::move(content);
  json["tokens"] = Json::array();
  json["id_slot"] = kNoSlot;
  json["stop"] = true;
  json["model"] = answers.label.model;
  json["tokens_predicted"] = usage.completion_tokens;
  json["tokens_evaluated"] = usage.prompt_tokens;
  json["generation_settings"] = form.settings;
  json["prompt"] = form.prompts[index / n];
  json["has_new_line"] = choice.lines.any;
  json["truncated"] = *choice.finish == FinishReason::kLength && tokens >= form.context;
  json["stop_type"] = stop_type(choice);
  json["stopping_word"] = choice.stop_string;
  // What the last token left behind is not computed.
  json["tokens_cached"] = tokens - std::min<std::uint64_t>(tokens, usage.completion_tokens > 0);
  json["timings"] = timings_of(answers, choice);
  return only_shown(form, std::move(json));
}

std::string open_llama(Answers&) { return {}; }

std::string add_llama(Answers& answers, std::size_t index, const News& news) {
  const ChoiceState& choice = answers.choices[index];
  std::string text;
  for (const dialog::AnswerEvent& event : news.events) text += event.text;
  std::string out;
  if (!text.empty() || !news.tokens.empty()) {
    Json json;
    json["index"] = index;
    json["content"] = std::move(text);
    json["tokens"] = ids_of(news.tokens);
    json["stop"] = false;
    json["id_slot"] = kNoSlot;
    json["tokens_predicted"] = choice.usage.completion_tokens;
    json["tokens_evaluated"] = choice.usage.prompt_tokens;
    if (form_of(answers).timings) json["timings"] = timings_of(answers, choice);
    if (shows_probabilities(answers) && !news.tokens.empty())
      json[kProbabilities] = probabilities_of(answers, news.tokens);
    out = sse(json);
  }
  if (news.finished) out += sse(whole(answers, index, ""));
  return out;
}

// Nothing: the last event of each choice says that it is.
std::string close_llama(Answers&) { return {}; }

std::string fail_llama(const ApiError& error) {
  return "data: " + error_body(error, ErrorShape::kLlama) + "\n\n";
}

// The end of the object is left open while what was gathered is put behind it.
void add_body(Answers& answers, std::size_t index, std::vector<std::string>& parts) {
  ChoiceState& choice = answers.choices[index];
  const LlamaForm& form = form_of(answers);
  Json json = whole(answers, index, std::move(choice.text));
  const auto shown = [&](const auto& each) { return is_shown(form, each.first); };
  for (const auto& each : choice.logprobs)
    if (shown(each)) json.erase(each.first);
  std::string text = dump(json);
  text.pop_back();
  for (auto& each : choice.logprobs) {
    if (!shown(each)) continue;
    text += text == "{" ? "\"" : ",\"";
    text += each.first + "\":";
    parts.push_back(std::exchange(text, "]"));
    parts.push_back(std::move(each.second));
  }
  parts.push_back(text + '}');
}

// One answer; several are an array.
std::vector<std::string> llama_body(Answers& answers) {
  std::vector<std::string> parts;
  const bool several = answers.choices.size() > 1;
  for (std::size_t index = 0; index < answers.choices.size(); ++index) {
    if (several) parts.emplace_back(index == 0 ? "[" : ",");
    add_body(answers, index, parts);
  }
  if (several) parts.emplace_back("]");
  return parts;
}

// Where an answer ends for its lines: it is cut ahead of one that is not indented enough.
bool ends_by_lines(Answers& answers, std::size_t index, News& news) {
  ChoiceState& choice = answers.choices[index];
  ChoiceState::Lines& lines = choice.lines;
  const LlamaForm& form = form_of(answers);
  for (dialog::AnswerEvent& event : news.events) {
    for (std::size_t i = 0; i < event.text.size(); ++i) {
      const char c = event.text[i];
      if (lines.begins && (c == ' ' || c == '\t')) {
        ++lines.white;
        continue;
      }
      if (lines.begins && lines.white < form.least_indent) {
        event.text.resize(i);
        return true;
      }
      lines.begins = c == '\n';
      if (lines.begins) lines.white = 0;
      lines.any = lines.any || lines.begins;
      lines.ended = lines.ended || lines.begins;
    }
  }
  const bool late = form.predict_limit.count() > 0 && choice.first_token &&
                    Clock::now() - *choice.first_token > form.predict_limit;
  return std::exchange(lines.ended, false) && late;
}

}  // namespace

const Dialect kLlamaDialect = {.id_begin = "cmpl-",
                               .open = open_llama,
                               .add = add_llama,
                               .close = close_llama,
                               .fail = fail_llama,
                               .body = llama_body,
                               .logprobs = gathered,
                               .ends = ends_by_lines};

}  // namespace dovetail::serve
