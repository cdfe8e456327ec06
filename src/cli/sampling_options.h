#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sampling_table.h"
#include "dovetail/request.h"
#include "load/model_source.h"

namespace dovetail::cli {

// How to generate, as far as the command line says it.
struct SamplingOptions {
  SamplingValues values;
  std::optional<std::uint64_t> seed;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::int32_t max_tokens = 0;
  std::int32_t min_tokens = 0;
  std::int32_t reasoning_budget = -1;  // as dialog::ReasoningBound's
  std::string reasoning_budget_message;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

// For the help of commands that hold conversations: the temperature without a recommendation
// (load::conversation_defaults()).
inline constexpr std::string_view kConversationTemperature = "0.8 for a GGUF file, else 1";

// An option for each row of the table.
void add_sampling_rows(CLI::App& app, SamplingValues& values, const std::string& group,
                       std::string_view fallback);

// Those, and what else says how to generate. `fallback` stands in the help: the temperature without
// a recommendation.
void add_sampling_options(CLI::App& app, SamplingOptions& options, std::string_view fallback);

// `message` is dialog::ReasoningBound's.
CLI::Option* add_reasoning_message(CLI::App& app, std::string& message);

// A request without a prompt. A parameter that the command line leaves out is what the model's
// makers recommend; without a recommendation the temperature is `fallback_temperature` and the
// others are off.
Request default_request(const SamplingOptions& options, const load::GenerationDefaults& recommended,
                        float fallback_temperature);

}  // namespace dovetail::cli
