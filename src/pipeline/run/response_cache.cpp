#include "pipeline/run/response_cache.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <iterator>
#include <variant>

namespace dovetail::pipeline {
namespace {

Json json_of(const SamplingRow& row, const std::optional<double>& value) {
  if (!value) return Json();
  return row.whole() ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
}

Json json_of(const SamplingSpec& sampling) {
  Json all = Json::array();
  Json named = Json::object();
  for (const SamplingRow& row : kSamplingRows) {
    Json value = json_of(row, sampling.values[row]);
    if (row.cache_place) {
      all[*row.cache_place] = std::move(value);
    } else if (!value.is_null()) {
      named[std::string(row.name)] = std::move(value);
    }
  }
  if (sampling.reasoning_budget) named["reasoning_budget"] = *sampling.reasoning_budget;
  if (sampling.reasoning_budget_message)
    named["reasoning_budget_message"] = *sampling.reasoning_budget_message;
  all.push_back(sampling.max_tokens ? Json(*sampling.max_tokens) : Json());
  all.push_back(sampling.stop);
  if (!named.empty()) all.push_back(std::move(named));
  return all;
}

Json json_of(const ModelSpec& model) {
  if (const auto* local = std::get_if<LocalModel>(&model.where)) return local->path.string();
  const auto& remote = std::get<RemoteModel>(model.where);
  return {remote.model, remote.extra_body};
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::uint32_t count_of(const Json& value, const char* key) {
  const auto found = value.find(key);
  return found == value.end() || !found->is_number_unsigned() ? 0 : found->get<std::uint32_t>();
}

}  // namespace

ResponseKeys::ResponseKeys(const ModelSpec& model, const SamplingSpec& sampling, const Json& schema,
                           const AnswerPattern& pattern)
    : head_(fmt::format("[{},{},", json_text(json_of(model)), json_text(json_of(model.sampling)))),
      sampling_(json_text(json_of(sampling))),
      tail_(json_text(schema)) {
  // Only models of this process are held to it.
  const bool is_local = std::holds_alternative<LocalModel>(model.where);
  if (is_local && !pattern.regex.empty()) tail_ += fmt::format(",{}", json_text(pattern.regex));
  tail_ += ']';
}

Hash128 ResponseKeys::of(const ModelRequest& request) const {
  std::string text = head_;
  text += '[';
  for (const ModelMessage& message : request.messages) {
    if (text.back() != '[') text += ',';
    text += '[';
    text += json_text(message.role);
    text += ',';
    text += json_text(message.content);
    text += ']';
  }
  text += "],";
  text += json_text(request.prompt);
  text += ',';
  text += sampling_;
  fmt::format_to(std::back_inserter(text), ",{},", request.seed);
  text += tail_;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

std::string response_text(const ModelAnswer& answer) {
  return fmt::format(R"({{"text":{},"cut":{},"prompt_tokens":{},"completion_tokens":{}}})",
                     json_text(answer.text), answer.cut, answer.usage.prompt_tokens,
                     answer.usage.completion_tokens);
}

std::optional<ModelAnswer> read_response(std::string_view text) {
  const Json all = Json::parse(text, nullptr, false);
  if (!all.is_object()) return std::nullopt;
  const auto said = all.find("text");
  if (said == all.end() || !said->is_string()) return std::nullopt;
  ModelAnswer answer;
  answer.text = said->get<std::string>();
  const auto cut = all.find("cut");
  answer.cut = cut != all.end() && cut->is_boolean() && cut->get<bool>();
  answer.usage.prompt_tokens = count_of(all, "prompt_tokens");
  answer.usage.completion_tokens = count_of(all, "completion_tokens");
  return answer;
}

}  // namespace dovetail::pipeline
