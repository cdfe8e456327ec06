#include <nlohmann/json.hpp>

#include "base/sampling_table.h"
#include "serve/json_input.h"
#include "serve/llama.h"
#include "serve/router.h"

namespace dovetail::serve {
namespace {

// What is not heeded, as it is when it is off; and what is the same for all.
constexpr std::string_view kOff = R"({
  "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "top_n_sigma": -1.0, "xtc_probability": 0.0,
  "xtc_threshold": 0.1, "typical_p": 1.0, "repeat_last_n": -1, "dry_multiplier": 0.0,
  "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1, "dry_sequence_breakers": [],
  "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "adaptive_target": -1.0,
  "adaptive_decay": 0.9, "n_keep": 0, "n_discard": 0, "min_keep": 0, "post_sampling_probs": false,
  "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"], "lora": []})";

// One that is drawn is shown as llama.cpp shows -1.
constexpr std::uint64_t kDrawnSeed = 4294967295;

}  // namespace

Json llama_settings(const Request& request, std::int32_t limit) {
  Json json = Json::parse(kOff);
  json["seed"] = request.sampling.seed.value_or(kDrawnSeed);
  for (const SamplingRow& row : kSamplingRows) {
    // By the name that llama.cpp has for it.
    const std::string name(row.http_alias.empty() ? row.name : row.http_alias);
    json[name] = Json::parse(sampling_text(row, sampling_value(request.sampling, row)));
  }
  json["stop"] = request.stop;
  json["max_tokens"] = limit;
  json["n_predict"] = limit;
  json["ignore_eos"] = request.ignore_eos;
  json["stream"] = false;
  json["n_probs"] = std::max(request.logprobs, 0);
  Json& bias = json["logit_bias"] = Json::array();
  for (const auto& [token, value] : request.sampling.logit_bias)
    bias.push_back({{"bias", shortest(value)}, {"token", token}});
  json["grammar"] = "";
  json["timings_per_token"] = false;
  return json;
}

HttpResponse get_llama_props(std::string_view, const ServerState& state, const HttpCounts&) {
  const ModelInfo& model = state.backend.model;
  Request request;
  request.sampling = model.sampling;
  Json json;
  Json& defaults = json["default_generation_settings"];
  defaults["n_ctx"] = model.max_context;
  defaults["params"] = llama_settings(request, -1);
  json["total_slots"] = model.max_sequences;
  json["model_alias"] = state.served.shown();
  json["model_path"] = model.name;
  json["chat_template"] = model.facts.chat_template;
  json["modalities"] = {{"vision", false}, {"audio", false}};
  json["bos_token"] = model.bos_text;
  json["eos_token"] = model.eos_text;
  json["build_info"] = "dovetail-" DOVETAIL_VERSION;
  json["is_sleeping"] = false;
  HttpResponse response;
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

}  // namespace dovetail::serve
