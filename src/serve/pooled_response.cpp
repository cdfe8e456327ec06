#include <algorithm>
#include <bit>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "serve/answers.h"

namespace dovetail::serve {
namespace {

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

// Of what has no output.
std::string prompt_usage(const Answers& answers) {
  Json all = usage_json(answers);
  all.erase("completion_tokens");
  all.erase("prompt_tokens_details");
  return dump(all);
}

std::vector<std::string> embeddings_body(Answers& answers) {
  std::vector<std::string> parts = {R"({"object":"list","data":[)"};
  for (std::size_t index = 0; index < answers.choices.size(); ++index) {
    const std::vector<float> embedding = std::move(answers.choices[index].embedding);
    Json json;
    json["object"] = "embedding";
    json["index"] = index;
    if (answers.generation.base64) {
      json["embedding"] = base64_of(std::as_bytes(std::span(embedding)));
    } else {
      json["embedding"] = embedding;
    }
    parts.push_back((index == 0 ? "" : ",") + dump(json));
  }
  parts.push_back("],\"model\":" + dump(answers.label.model) +
                  ",\"usage\":" + prompt_usage(answers) + "}");
  return parts;
}

// The results as JSON text: the best documents first, the earlier one among equals.
void add_results(Answers& answers, std::vector<std::string>& parts) {
  const Ranking& ranking = answers.generation.ranking;
  const std::vector<ChoiceState>& choices = answers.choices;
  std::vector<std::size_t> order(choices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&choices](std::size_t a, std::size_t b) {
    return choices[a].score > choices[b].score;
  });
  order.resize(std::min(order.size(), ranking.top));
  parts.emplace_back("[");
  for (const std::size_t index : order) {
    Json json;
    json["index"] = index;
    json["relevance_score"] = choices[index].score;
    if (ranking.with_texts) json["document"]["text"] = ranking.documents[index];
    parts.push_back((index == order.front() ? "" : ",") + dump(json));
  }
  parts.emplace_back("]");
}

std::vector<std::string> ranking_body(Answers& answers) {
  std::vector<std::string> parts = {"{\"id\":" + dump(answers.label.id) +
                                    ",\"model\":" + dump(answers.label.model) +
                                    ",\"usage\":" + prompt_usage(answers) + ",\"results\":"};
  add_results(answers, parts);
  parts.emplace_back("}");
  return parts;
}

// Nothing is billed here, so "billed_units" are left out.
std::vector<std::string> cohere_body(Answers& answers) {
  std::vector<std::string> parts = {"{\"id\":" + dump(answers.label.id) + ",\"results\":"};
  add_results(answers, parts);
  Json meta;
  meta["api_version"] = {{"version", "2"}, {"is_experimental", false}};
  meta["tokens"] = {{"input_tokens", token_counts(answers).prompt}, {"output_tokens", 0}};
  parts.push_back(",\"meta\":" + dump(meta) + "}");
  return parts;
}

}  // namespace

// What is pooled is not streamed.
const Dialect kEmbeddingDialect = {.id_begin = "embd-", .body = embeddings_body};
const Dialect kRerankDialect = {.id_begin = "rerank-", .body = ranking_body};
const Dialect kCohereRerankDialect = {.id_begin = "rerank-", .body = cohere_body};

}  // namespace dovetail::serve
