#include "cli/sampling_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/near_match.h"
#include "base/sampling_table.h"

namespace dovetail::cli {
namespace {

// The options without a command.
struct SamplingApp {
  SamplingApp() {
    app.set_help_flag();
    add_sampling_options(app, options, "");
  }
  CLI::Option* find(const std::string& name) { return app.get_option_no_throw("--" + name); }

  CLI::App app;
  SamplingOptions options;
};

// A value in double quotes is a JSON string: how line breaks, blanks at the ends, and the word
// "default" are typed.
Result<std::string> unquoted(const std::string& value) {
  if (value.size() < 2 || !value.starts_with('"') || !value.ends_with('"')) return value;
  const Json text = Json::parse(value, nullptr, false);
  if (text.is_string()) return text.get<std::string>();
  return fail(ErrorKind::kInvalid, "'{}' is no JSON string, expected one such as \"\\n\", or {}",
              value, "a text without quotes around it");
}

}  // namespace

Result<SamplingSettings> SamplingSettings::create(const CLI::App& parsed) {
  Given given;
  for (const std::string& name : names()) {
    const CLI::Option* option = parsed.get_option_no_throw("--" + name);
    if (option != nullptr && option->count() > 0) given[name] = option->results();
  }
  SamplingSettings settings;
  if (const Status ok = settings.take(std::move(given)); !ok) return fail(ok.error());
  return settings;
}

std::vector<std::string> SamplingSettings::names() {
  const SamplingApp all;
  std::vector<std::string> names;
  for (const CLI::Option* option : all.app.get_options())
    names.push_back(option->get_lnames().front());
  return names;
}

std::vector<std::pair<std::string, std::string>> SamplingSettings::values_offered() {
  const SamplingApp all;
  std::vector<std::pair<std::string, std::string>> offered;
  for (const CLI::Option* option : all.app.get_options()) {
    const std::string name = option->get_lnames().front();
    if (option->get_items_expected_max() == 0) {
      offered.emplace_back(name, "true");
      offered.emplace_back(name, "false");
    }
    offered.emplace_back(name, "default");
  }
  return offered;
}

Status SamplingSettings::set(const std::string& name, const std::string& value) {
  const std::vector<std::string> known = names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::vector<std::string> near = begun_or_near(name, known);
    return fail(ErrorKind::kInvalid, "unknown setting '{}', {} {}", name,
                near.empty() ? "expected one of" : "did you mean",
                fmt::join(near.empty() ? known : near, ", "));
  }
  Given given = given_;
  if (value == "default") {
    given.erase(name);
  } else {
    const Result<std::string> text = unquoted(value);
    if (!text) return fail(text.error().kind, "{}: {}", name, text.error().message);
    given[name] = {*text};
  }
  return take(std::move(given));
}

Status SamplingSettings::take(Given given) {
  SamplingApp fresh;
  for (const auto& [name, values] : given) {
    CLI::Option* option = fresh.find(name);
    try {
      for (const std::string& value : values) option->add_result(value);
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      std::string_view message = error.what();
      if (message.starts_with("--")) message.remove_prefix(2);
      return fail(ErrorKind::kInvalid, "{}", message);
    }
  }
  given_ = std::move(given);
  options_ = fresh.options;
  return {};
}

std::vector<std::pair<std::string, std::string>> sampling_values(const Request& request,
                                                                 const SamplingOptions& options) {
  const SamplingParams& sampling = request.sampling;
  std::vector<std::pair<std::string, std::string>> values;
  const auto add = [&values](const char* name, const auto& value) {
    values.emplace_back(name, fmt::format("{}", value));
  };
  for (const SamplingRow& row : kSamplingRows)
    values.emplace_back(option_name(row), sampling_text(row, sampling_value(sampling, row)));
  std::vector<std::string> biases;
  for (const auto& [id, bias] : sampling.logit_bias)
    biases.push_back(fmt::format("{}={}", id, bias));
  add("logit-bias", biases.empty() ? "none" : fmt::format("{}", fmt::join(biases, ", ")));
  add("seed", sampling.seed ? std::to_string(*sampling.seed) : "random");
  add("max-tokens", request.max_tokens);
  add("min-tokens", request.min_tokens);
  add("reasoning-budget", options.reasoning_budget);
  add("reasoning-budget-message", options.reasoning_budget_message.empty()
                                      ? "none"
                                      : fmt::format("\"{}\"", options.reasoning_budget_message));
  add("stop", request.stop.empty() ? "none" : fmt::format("{}", request.stop));
  add("ignore-eos", request.ignore_eos);
  return values;
}

}  // namespace dovetail::cli
