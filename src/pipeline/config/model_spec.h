#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/sampling_table.h"
#include "dovetail/engine.h"
#include "pipeline/config/document.h"

namespace dovetail::pipeline {

// How answers are sampled; what is absent is the model's default.
struct SamplingSpec {
  SamplingValues values;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> reasoning_budget;  // tokens; -1: any number
  std::optional<std::string> reasoning_budget_message;
  std::vector<std::string> stop;
};

// A model in this process.
struct LocalModel {
  std::filesystem::path path;  // as the program runs it: relative ones stood relative to the file
  EngineOptions engine;
};

// The same model behind one or several OpenAI-compatible endpoints.
struct RemoteModel {
  std::vector<std::string> base_urls;  // "http://host:8000/v1"
  std::string model;
  std::string api_key_env;  // the environment variable that holds the key; empty: none
  std::uint32_t max_parallel = 0;
  std::optional<double> requests_per_minute, tokens_per_minute;
  std::chrono::milliseconds timeout{};
  double input_price = 0.0, output_price = 0.0;              // per million tokens
  std::vector<std::pair<std::string, std::string>> headers;  // of every request
  Json extra_body;  // merged into every request's body; null: nothing
};

struct ModelSpec {
  std::string alias;
  std::variant<LocalModel, RemoteModel> where;
  SamplingSpec sampling;
};

}  // namespace dovetail::pipeline
