#include "pipeline/config/models_section.h"

#include <algorithm>

#include "engine/option_table.h"

namespace dovetail::pipeline {
namespace {

constexpr std::int64_t kMostParallel = 4096;

SamplingSpec read_sampling(Fields& fields) {
  SamplingSpec sampling;
  for (const SamplingRow& row : kSamplingRows) {
    if (row.whole()) {
      sampling.values[row] = fields.integer(row.name, static_cast<std::int64_t>(row.least),
                                            static_cast<std::int64_t>(row.most));
    } else {
      sampling.values[row] =
          fields.number_of_float(row.name, {row.least, row.most, row.least_excluded});
    }
  }
  sampling.max_tokens = fields.integer("max_tokens", 1, 10'000'000);
  sampling.reasoning_budget = fields.integer("reasoning_budget", -1, 10'000'000);
  sampling.reasoning_budget_message = fields.text("reasoning_budget_message");
  sampling.stop = fields.texts("stop").value_or(std::vector<std::string>{});
  return sampling;
}

// Options of `dovetail run`, by their names there. In the table all that may stand here are whole
// numbers and flags.
EngineOptions read_engine(const Document& document, Fields& parent) {
  EngineOptions options;
  const Json* value = parent.object("engine");
  if (value == nullptr) return options;
  Fields fields(document, *value, parent.at("engine"));
  for (const engine::OptionRow& row : engine::kOptionRows) {
    if (!row.in_pipelines) continue;
    const std::string key = engine::option_name(row);
    if (row.kind() == engine::OptionKind::kFlag) {
      if (const auto flag = fields.flag(key)) engine::set_option(options, row, *flag ? 1.0 : 0.0);
    } else if (const auto number = fields.integer(key, static_cast<std::int64_t>(row.least),
                                                  static_cast<std::int64_t>(row.most))) {
      engine::set_option(options, row, static_cast<double>(*number));
    }
  }
  options.max_num_batched_tokens = std::max(options.max_num_batched_tokens, options.max_num_seqs);
  parent.take(fields.finish());
  return options;
}

static_assert(std::all_of(engine::kOptionRows.begin(), engine::kOptionRows.end(),
                          [](const engine::OptionRow& row) {
                            return !row.in_pipelines || row.kind() == engine::OptionKind::kWhole ||
                                   row.kind() == engine::OptionKind::kFlag;
                          }));

std::vector<std::pair<std::string, std::string>> read_headers(Fields& fields) {
  std::vector<std::pair<std::string, std::string>> headers;
  const Json* given = fields.object("headers");
  if (given == nullptr) return headers;
  const auto is_one_line = [](std::string_view text) {
    return std::none_of(text.begin(), text.end(),
                        [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; });
  };
  for (const auto& [name, value] : given->items()) {
    const auto* text = value.get_ptr<const Json::string_t*>();
    if (name.empty() || name.find_first_of(": \t") != std::string::npos || !is_one_line(name)) {
      fields.wrong("headers", "{} is no name of a header", shown(Json(name)));
    } else if (text == nullptr || !is_one_line(*text)) {
      fields.wrong("headers", "the value of {} is no text of one line", name);
    } else {
      headers.emplace_back(name, *text);
    }
  }
  return headers;
}

RemoteModel read_remote(Fields& fields) {
  RemoteModel remote;
  remote.base_urls = fields.texts("endpoint").value_or(std::vector<std::string>{});
  for (const std::string& url : remote.base_urls) {
    if (!url.starts_with("http://") && !url.starts_with("https://")) {
      fields.wrong("endpoint", "'{}' is no URL that begins with http:// or https://", url);
    }
  }
  remote.model = fields.required_text("model");
  remote.api_key_env = fields.text("api_key_env").value_or("");
  remote.max_parallel =
      static_cast<std::uint32_t>(fields.integer("max_parallel", 1, kMostParallel).value_or(16));
  remote.requests_per_minute = fields.number("requests_per_minute", {1e-3, 1e9});
  remote.tokens_per_minute = fields.number("tokens_per_minute", {1.0, 1e12});
  remote.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(
      1000.0 * fields.number("timeout", {0.001, 86'400.0}).value_or(600.0)));
  remote.input_price = fields.number("input_price", {0.0, 1e6}).value_or(0.0);
  remote.output_price = fields.number("output_price", {0.0, 1e6}).value_or(0.0);
  remote.headers = read_headers(fields);
  if (const Json* extra = fields.object("extra_body")) remote.extra_body = *extra;
  for (const char* ours : {"messages", "prompt", "stream", "n", "response_format"}) {
    if (remote.extra_body.contains(ours)) {
      fields.wrong("extra_body", "{} is set by the column and its model, not here", ours);
    }
  }
  return remote;
}

// Where, how fast and at what price answers come does not change them.
std::string recipe_of(Json model) {
  if (!model.is_object()) return "";
  for (const char* key :
       {"engine", "endpoint", "api_key_env", "max_parallel", "requests_per_minute",
        "tokens_per_minute", "timeout", "headers", "input_price", "output_price"}) {
    model.erase(key);
  }
  return model.dump();
}

}  // namespace

SamplingSpec read_sampling(const Document& document, Fields& parent, std::string_view key) {
  const Json* value = parent.object(key);
  if (value == nullptr) return {};
  Fields fields(document, *value, parent.at(key));
  SamplingSpec sampling = read_sampling(fields);
  parent.take(fields.finish());
  return sampling;
}

ModelsSection read_models(const Document& document, const Json& section,
                          const std::filesystem::path& folder, Mistakes& mistakes) {
  ModelsSection result;
  for (const auto& [alias, value] : section.items()) {
    Fields fields(document, value, pointer_to("/models", alias));
    ModelSpec model;
    model.alias = alias;
    model.sampling = read_sampling(document, fields, "sampling");
    bool all_are_known = true;
    if (fields.has("path") == fields.has("endpoint")) {
      fields.find("path");
      fields.wrong(
          "", "expected either path (a model in this process) or endpoint (one or several URLs)");
      fields.find("endpoint");
      all_are_known = false;
    } else if (fields.has("path")) {
      LocalModel local;
      local.path = folder / fields.required_text("path");
      local.engine = read_engine(document, fields);
      model.where = std::move(local);
    } else {
      model.where = read_remote(fields);
    }
    mistakes.add(fields.finish(all_are_known));
    // Also one that is wrong: columns may name it.
    result.models.push_back(std::move(model));
    result.recipes.push_back(recipe_of(value));
  }
  return result;
}

}  // namespace dovetail::pipeline
