#include "serve/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "serve/json_input.h"
#include "serve/token_text.h"

namespace dovetail::serve {
namespace {

Json empty_arrays() {
  Json json;
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    json[name] = Json::array();
  return json;
}

// At most `top` alternatives, by their spelling. Two tokens may be spelled alike: the first, more
// probable one stays.
Json by_spelling(const std::vector<TokenLogprob>& tokens, std::size_t top,
                 const TokenBytes& bytes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < std::min(top, tokens.size()); ++i) {
    const std::string label = token_label(bytes(tokens[i].id));
    if (!json.contains(label)) json[label] = shown_logprob(tokens[i].logprob);
  }
  return json;
}

Json token_json(std::string_view bytes, float logprob) {
  Json token;
  token["token"] = token_label(bytes);
  token["logprob"] = shown_logprob(logprob);
  Json& array = token["bytes"] = Json::array();
  for (const char c : bytes) array.push_back(static_cast<unsigned char>(c));
  return token;
}

}  // namespace

double shown_logprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0;
}

Json dialog_logprobs(std::span<const OutputToken> tokens, const TokenBytes& bytes) {
  Json entries = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = token_json(bytes(token.id), token.logprob);
    Json& top = entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top)
      top.push_back(token_json(bytes(other.id), other.logprob));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Json completion_logprobs(std::span<const OutputToken> tokens, std::size_t& text_offset,
                         const TokenBytes& bytes) {
  Json json = empty_arrays();
  for (const OutputToken& token : tokens) {
    const std::string its_bytes = bytes(token.id);
    json["tokens"].push_back(token_label(its_bytes));
    json["token_logprobs"].push_back(shown_logprob(token.logprob));
    json["top_logprobs"].push_back(by_spelling(token.top, token.top.size(), bytes));
    json["text_offset"].push_back(text_offset);
    text_offset += code_points(its_bytes);
  }
  return json;
}

Json echoed_logprobs(const std::vector<TokenId>& prompt, const std::vector<OutputToken>& scores,
                     std::int32_t top, std::string_view text, std::size_t& text_offset,
                     const TokenBytes& bytes) {
  Json json = empty_arrays();
  std::size_t all = 0;
  for (const TokenId id : prompt) all += code_points(bytes(id));
  // What the tokenizer puts before a text (BOS, a space) is no part of it: the first tokens stand
  // where the text begins.
  const std::size_t size = code_points(text);
  const std::size_t before = all - std::min(all, size);
  std::size_t at = 0;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const std::string its_bytes = bytes(prompt[i]);
    json["tokens"].push_back(token_label(its_bytes));
    json["text_offset"].push_back(at - std::min(at, before));
    at += code_points(its_bytes);
    if (i == 0) {
      json["token_logprobs"].push_back(nullptr);
      json["top_logprobs"].push_back(nullptr);
      continue;
    }
    const OutputToken& score = scores[i - 1];
    json["token_logprobs"].push_back(shown_logprob(score.logprob));
    json["top_logprobs"].push_back(by_spelling(score.top, static_cast<std::size_t>(top), bytes));
  }
  text_offset = size;
  return json;
}

Json prompt_logprobs(const std::vector<OutputToken>& scores, std::int32_t top,
                     const TokenBytes& bytes) {
  Json json = Json::array();
  json.push_back(nullptr);
  const auto entry = [&](TokenId id, float logprob, std::uint32_t rank) {
    Json shown;
    shown["logprob"] = shown_logprob(logprob);
    shown["rank"] = rank;
    shown["decoded_token"] = token_label(bytes(id));
    return shown;
  };
  for (const OutputToken& score : scores) {
    Json tokens;
    tokens[std::to_string(score.id)] = entry(score.id, score.logprob, score.rank);
    for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(top), score.top.size()); ++i) {
      const TokenLogprob& other = score.top[i];
      const std::string key = std::to_string(other.id);
      if (!tokens.contains(key))
        tokens[key] = entry(other.id, other.logprob, static_cast<std::uint32_t>(i + 1));
    }
    json.push_back(std::move(tokens));
  }
  return json;
}

}  // namespace dovetail::serve
