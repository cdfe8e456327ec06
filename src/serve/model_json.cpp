#include "serve/model_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/sampling_table.h"

namespace dovetail::serve {
namespace {

constexpr std::int64_t kMaxShownSeed = (std::int64_t{1} << 53) - 1;  // exact in a double

// A number in the fewest digits.
Json shown_value(const SamplingRow& row, double value) {
  return Json::parse(sampling_text(row, value));
}

Json parameter(std::string_view name, std::string_view help, bool whole) {
  Json json;
  json["name"] = name;
  json["description"] = help;
  json["type"] = whole ? "integer" : "number";
  return json;
}

// In the words of JSON Schema; no default: the server draws it, or sets no limit.
Json sampling_parameters(const ModelInfo& model) {
  Json list = Json::array();
  for (const SamplingRow& row : kSamplingRows) {
    Json json = parameter(row.name, row.help, row.whole());
    json[row.least_excluded ? "exclusiveMinimum" : "minimum"] = shown_value(row, row.least);
    json["maximum"] = shown_value(row, row.most);
    json["default"] = shown_value(row, sampling_value(model.sampling, row));
    list.push_back(std::move(json));
  }
  Json limit = parameter("max_tokens", "An answer has at most so many tokens", true);
  limit["minimum"] = 1;
  limit["maximum"] = model.max_context;
  list.push_back(std::move(limit));
  Json seed = parameter("seed", "With the same seed the same is drawn", true);
  seed["minimum"] = 0;
  seed["maximum"] = kMaxShownSeed;
  list.push_back(std::move(seed));
  return list;
}

// As llama.cpp's server has it; what is not known is left out.
Json meta(const ModelInfo& model) {
  Json json;
  json["n_vocab"] = model.vocab_size;
  json["n_ctx"] = model.max_context;
  const ModelFacts& facts = model.facts;
  if (facts.hidden_size > 0) json["n_embd"] = facts.hidden_size;
  if (facts.parameters > 0) json["n_params"] = facts.parameters;
  if (facts.file_bytes > 0) json["size"] = facts.file_bytes;
  return json;
}

}  // namespace

Json model_json(const ServerState& state, std::string_view name) {
  const ModelInfo& model = state.backend.model;
  Json json;
  json["id"] = name;
  json["object"] = "model";
  json["created"] = state.created;
  json["owned_by"] = "dovetail";
  json["max_model_len"] = model.max_context;
  json["vocab_size"] = model.vocab_size;
  json["meta"] = meta(model);
  Json& defaults = json["sampling_defaults"];
  for (const SamplingRow& row : kSamplingRows) {
    if (!row.recommended()) continue;
    defaults[std::string(row.name)] = shown_value(row, sampling_value(model.sampling, row));
  }
  json["sampling_parameters"] = sampling_parameters(model);
  if (state.backend.dialog) json["dialog"] = state.backend.dialog->description();
  return json;
}

}  // namespace dovetail::serve
