#include "serve/api_response.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "serve/token_logprobs.h"
#include "serve/token_text.h"

namespace dovetail::serve {
namespace {

// A text that broke the engine's promise of UTF-8 must not break the response.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string event(const Json& json) { return "data: " + dump(json) + "\n\n"; }

constexpr std::string_view kDone = "data: [DONE]\n\n";

Json byte_array(std::string_view bytes) {
  Json array = Json::array();
  for (const char c : bytes) array.push_back(static_cast<unsigned char>(c));
  return array;
}

Json chat_token(std::string_view bytes, float logprob) {
  Json token;
  token["token"] = token_label(bytes);
  token["logprob"] = shown_logprob(logprob);
  token["bytes"] = byte_array(bytes);
  return token;
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

// RFC 4648. Floats are little-endian on every machine that this runs on.
std::string base64_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static_assert(std::endian::native == std::endian::little);
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8U |
              (at + i < bytes.size() ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool filled = at + i < bytes.size() + 1;
      out += filled ? kDigits[group >> (18U - 6U * i) & 63U] : '=';
    }
  }
  return out;
}

const char* id_begin(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
      return "chatcmpl";
    case Endpoint::kRerank:
      return "rerank";
    case Endpoint::kCompletion:
    case Endpoint::kEmbedding:
      break;
  }
  return "cmpl";
}

}  // namespace

std::string random_id(std::string_view begin) {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}{:08x}", begin, random(), random(), random());
}

ResponseLabel make_label(Endpoint endpoint, std::string_view model) {
  ResponseLabel label;
  label.id = random_id(id_begin(endpoint));
  label.model = std::string(model);
  label.created = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  return label;
}

ResponseBuilder::ResponseBuilder(const Generation& generation, ResponseLabel label,
                                 const std::function<std::string(TokenId)>& token_bytes)
    : generation_(generation), label_(std::move(label)), token_bytes_(token_bytes) {
  std::size_t choices = 0;
  for (const Request& request : generation.requests) choices += static_cast<std::size_t>(request.n);
  choices_.resize(choices);
  prompts_.resize(generation.requests.size());
  open_choices_ = choices;
}

Json ResponseBuilder::envelope(const char* object) const {
  Json json;
  json["id"] = label_.id;
  json["object"] = object;
  json["created"] = label_.created;
  json["model"] = label_.model;
  return json;
}

std::string ResponseBuilder::delta(std::size_t index, Json content, Json logprobs,
                                   const char* finish, Json prompt_logprobs) const {
  const bool chat = generation_.endpoint == Endpoint::kChat;
  Json choice;
  choice["index"] = index;
  choice[chat ? "delta" : "text"] = std::move(content);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish != nullptr ? Json(finish) : Json(nullptr);
  if (!chat && !prompt_logprobs.is_null()) choice["prompt_logprobs"] = std::move(prompt_logprobs);
  Json json = envelope(chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array();
  json["choices"].push_back(std::move(choice));
  if (chat && !prompt_logprobs.is_null()) json["prompt_logprobs"] = std::move(prompt_logprobs);
  if (generation_.include_usage) json["usage"] = nullptr;
  return event(json);
}

Json ResponseBuilder::chat_logprobs(const std::vector<OutputToken>& tokens) const {
  Json content = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = chat_token(token_bytes_(token.id), token.logprob);
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back(chat_token(token_bytes_(other.id), other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  Json json;
  json["content"] = std::move(content);
  json["refusal"] = nullptr;
  return json;
}

std::string ResponseBuilder::add(std::size_t prompt, OutputEvent event) {
  assert(prompt < generation_.requests.size());
  Prompt& its = prompts_[prompt];
  const bool first = event.choice == 0 && !its.told;
  if (!first && !its.told && generation_.requests[prompt].prompt_logprobs >= 0) {
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

// What a choice has before its first token: the prompt, where it is echoed, and what was asked of
// it.
void ResponseBuilder::begin(std::size_t prompt, Choice& choice, OutputEvent& event, Json& logprobs,
                            Json& of_prompt) {
  const Request& request = generation_.requests[prompt];
  const std::vector<OutputToken>& scores = prompts_[prompt].scores;
  if (!generation_.echo.empty()) {
    const std::string& text = generation_.echo[prompt];
    event.text.insert(0, text);
    if (request.logprobs >= 0) {
      logprobs = echoed_logprobs(request.prompt, scores, request.logprobs, text, choice.text_offset,
                                 token_bytes_);
    }
  }
  const bool of_each = generation_.endpoint == Endpoint::kCompletion || event.choice == 0;
  if (generation_.prompt_logprobs >= 0 && of_each)
    of_prompt = prompt_logprobs(scores, generation_.prompt_logprobs, token_bytes_);
}

// Takes an event whose prompt is told.
std::string ResponseBuilder::take(std::size_t prompt, OutputEvent event) {
  const Request& request = generation_.requests[prompt];
  const std::size_t index =
      prompt * static_cast<std::size_t>(request.n) + static_cast<std::size_t>(event.choice);
  assert(index < choices_.size());
  Choice& choice = choices_[index];
  assert(choice.finish == nullptr);
  choice.usage = event.usage;
  if (event.finish) {
    --open_choices_;
    choice.finish = *event.finish == FinishReason::kLength ? "length" : "stop";
    if (!failure_ && *event.finish == FinishReason::kError) failure_ = from_engine(event.error);
    if (!failure_ && *event.finish == FinishReason::kCancelled) {
      failure_ = from_engine({ErrorKind::kUnavailable, "the request was cancelled by the server"});
    }
  }
  if (failure_) return {};

  const bool chat = generation_.endpoint == Endpoint::kChat;
  Json logprobs, of_prompt;
  if (!std::exchange(choice.begun, true)) begin(prompt, choice, event, logprobs, of_prompt);
  if (request.logprobs >= 0 && !event.tokens.empty()) {
    Json more = chat ? chat_logprobs(event.tokens)
                     : completion_logprobs(event.tokens, choice.text_offset, token_bytes_);
    if (logprobs.is_null()) {
      logprobs = std::move(more);
    } else {
      for (auto& [name, values] : more.items())
        logprobs[name].insert(logprobs[name].end(), values.begin(), values.end());
    }
  }
  if (!generation_.stream) {
    choice.text += event.text;
    choice.embedding = std::move(event.embedding);
    choice.score = event.score;
    if (!logprobs.is_null()) append_arrays(choice.logprobs, logprobs);
    if (!of_prompt.is_null()) choice.prompt_logprobs = dump(of_prompt);
    return {};
  }
  std::string out;
  const bool news = !event.text.empty() || !logprobs.is_null() || !of_prompt.is_null();
  if (!chat) {
    if (news || event.finish) {
      out = delta(index, std::move(event.text), std::move(logprobs), choice.finish,
                  std::move(of_prompt));
    }
    return out;
  }
  if (news) {
    Json content = Json::object();
    content["content"] = std::move(event.text);
    out = delta(index, std::move(content), std::move(logprobs), nullptr, std::move(of_prompt));
  }
  if (event.finish) out += delta(index, Json::object(), nullptr, choice.finish);
  return out;
}

std::string ResponseBuilder::open() const {
  std::string out;
  if (generation_.endpoint != Endpoint::kChat) return out;
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    Json content;
    content["role"] = "assistant";
    content["content"] = "";
    out += delta(index, std::move(content), nullptr, nullptr);
  }
  return out;
}

std::string ResponseBuilder::close() const {
  std::string out;
  if (failure_) {
    out = "data: " + error_body(*failure_) + "\n\n";
  } else if (generation_.include_usage) {
    Json json = envelope(generation_.endpoint == Endpoint::kChat ? "chat.completion.chunk"
                                                                 : "text_completion");
    json["choices"] = Json::array();
    json["usage"] = usage();
    out = event(json);
  }
  out += kDone;
  return out;
}

// The choices of one prompt share it, so a prompt counts once; what its first choice found cached
// is what the prompt as such found.
Json ResponseBuilder::usage() const {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::size_t index = 0;
  for (const Request& request : generation_.requests) {
    prompt_tokens += request.prompt.size();
    cached_tokens += choices_[index].usage.cached_tokens;
    for (std::int32_t i = 0; i < request.n; ++i) {
      completion_tokens += choices_[index++].usage.completion_tokens;
    }
  }
  Json json;
  json["prompt_tokens"] = prompt_tokens;
  json["completion_tokens"] = completion_tokens;
  json["total_tokens"] = prompt_tokens + completion_tokens;
  json["prompt_tokens_details"]["cached_tokens"] = cached_tokens;
  return json;
}

std::vector<std::string> ResponseBuilder::embeddings_body() {
  std::vector<std::string> parts = {R"({"object":"list","data":[)"};
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    const std::vector<float> embedding = std::move(choices_[index].embedding);
    Json json;
    json["object"] = "embedding";
    json["index"] = index;
    if (generation_.base64) {
      json["embedding"] = base64_of(std::as_bytes(std::span(embedding)));
    } else {
      json["embedding"] = embedding;
    }
    parts.push_back((index == 0 ? "" : ",") + dump(json));
  }
  parts.push_back("],\"model\":" + dump(label_.model) + ",\"usage\":" + prompt_usage() + "}");
  return parts;
}

// Of what has no output.
std::string ResponseBuilder::prompt_usage() const {
  Json all = usage();
  all.erase("completion_tokens");
  all.erase("prompt_tokens_details");
  return dump(all);
}

// The best documents first, the earlier one among equals.
std::vector<std::string> ResponseBuilder::ranking_body() const {
  const Ranking& ranking = generation_.ranking;
  std::vector<std::size_t> order(choices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return choices_[a].score > choices_[b].score;
  });
  order.resize(std::min(order.size(), ranking.top));
  std::vector<std::string> parts = {"{\"id\":" + dump(label_.id) +
                                    ",\"model\":" + dump(label_.model) +
                                    ",\"usage\":" + prompt_usage() + ",\"results\":["};
  for (const std::size_t index : order) {
    Json json;
    json["index"] = index;
    json["relevance_score"] = choices_[index].score;
    if (ranking.with_texts) json["document"]["text"] = ranking.documents[index];
    parts.push_back((index == order.front() ? "" : ",") + dump(json));
  }
  parts.emplace_back("]}");
  return parts;
}

std::vector<std::string> ResponseBuilder::take_body() {
  assert(complete() && !failure_);
  if (generation_.endpoint == Endpoint::kEmbedding) return embeddings_body();
  if (generation_.endpoint == Endpoint::kRerank) return ranking_body();
  const bool chat = generation_.endpoint == Endpoint::kChat;
  std::vector<std::string> parts;
  // The end of an object's text is left open for what follows.
  const auto open_text = [](const Json& json) {
    std::string text = dump(json);
    text.pop_back();
    return text;
  };
  std::string text;
  const auto add_prompt_logprobs = [&](Choice& from) {
    parts.push_back(std::move(text) + ",\"prompt_logprobs\":");
    parts.push_back(std::move(from.prompt_logprobs));
    text.clear();
  };
  text = open_text(envelope(chat ? "chat.completion" : "text_completion"));
  text += ",\"choices\":[";
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    Choice& from = choices_[index];
    Json choice;
    choice["index"] = index;
    if (chat) {
      choice["message"]["role"] = "assistant";
      choice["message"]["content"] = std::move(from.text);
      choice["message"]["refusal"] = nullptr;
    } else {
      choice["text"] = std::move(from.text);
    }
    if (index > 0) text += ',';
    text += open_text(choice);
    text += from.logprobs.empty() ? ",\"logprobs\":null" : ",\"logprobs\":";
    char before = '{';
    for (auto& [name, elements] : from.logprobs) {
      const bool array = elements.starts_with('[');
      text += before;
      text += '"' + name + "\":";
      parts.push_back(std::move(text));
      parts.push_back(std::move(elements));
      text.clear();
      if (array) text += ']';
      before = ',';
    }
    if (!from.logprobs.empty()) text += '}';
    text += ",\"finish_reason\":\"";
    text += from.finish;
    text += '"';
    if (!chat && !from.prompt_logprobs.empty()) add_prompt_logprobs(from);
    text += '}';
  }
  text += "],\"usage\":" + dump(usage());
  if (chat && !choices_.front().prompt_logprobs.empty()) add_prompt_logprobs(choices_.front());
  text += '}';
  parts.push_back(std::move(text));
  return parts;
}

}  // namespace dovetail::serve
