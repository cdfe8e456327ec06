#include "pipeline/run/response_cache.h"

#include <xxhash.h>

#include <variant>

namespace dovetail::pipeline {
namespace {

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const SamplingSpec& sampling) {
  return {json_of(sampling.temperature), json_of(sampling.top_p),      json_of(sampling.min_p),
          json_of(sampling.top_k),       json_of(sampling.max_tokens), sampling.stop};
}

Json json_of(const ModelSpec& model) {
  if (const auto* local = std::get_if<LocalModel>(&model.where)) return local->path.string();
  const auto& remote = std::get<RemoteModel>(model.where);
  return {remote.base_urls, remote.model, remote.extra_body};
}

std::uint32_t count_of(const Json& value, const char* key) {
  const auto found = value.find(key);
  return found == value.end() || !found->is_number_unsigned() ? 0 : found->get<std::uint32_t>();
}

}  // namespace

Hash128 response_key(const ModelSpec& model, const ModelRequest& request) {
  Json messages = Json::array();
  for (const ModelMessage& message : request.messages) {
    messages.push_back({message.role, message.content});
  }
  const Json all = {json_of(model), json_of(model.sampling),   messages,
                    request.prompt, json_of(request.sampling), request.seed,
                    request.schema};
  const std::string text = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

std::string response_text(const ModelAnswer& answer) {
  const Json all = {{"text", answer.text},
                    {"cut", answer.cut},
                    {"prompt_tokens", answer.usage.prompt_tokens},
                    {"completion_tokens", answer.usage.completion_tokens}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
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
