#include "cli/sampling_options.h"

#include <fmt/core.h>

#include "base/sampling_table.h"
#include "cli/values.h"

namespace dovetail::cli {
namespace {

template <class T>
Status keep(const Result<T>& read, std::optional<double>& value) {
  if (!read) return fail(read.error());
  value = static_cast<double>(*read);
  return {};
}

Status read_value(const SamplingRow& row, const std::string& text, std::optional<double>& value) {
  if (row.whole()) {
    return keep(parse_integer(text, static_cast<std::int64_t>(row.least),
                              static_cast<std::int64_t>(row.most)),
                value);
  }
  return keep(parse_number(text, static_cast<float>(row.least), static_cast<float>(row.most),
                           row.least_excluded),
              value);
}

}  // namespace

void add_sampling_rows(CLI::App& app, SamplingValues& values, const std::string& group,
                       std::string_view fallback) {
  for (const SamplingRow& row : kSamplingRows) {
    std::string help(row.help);
    if (&row == &sampling_row("temperature")) {
      help += fmt::format(" (without a recommendation {})", fallback);
    }
    const std::string name = "--" + option_name(row);
    add_value(
        app, name, row.whole() ? kInteger : kNumber,
        [&row, &value = values[row]](const std::string& text) {
          return read_value(row, text, value);
        },
        help)
        ->group(group);
  }
}

void add_sampling_options(CLI::App& app, SamplingOptions& options, std::string_view fallback) {
  const std::string group = "Sampling (defaults: what the model's makers recommend, else off)";
  add_sampling_rows(app, options.values, group, fallback);
  add_value(
      app, "--logit-bias", "ID=BIAS",
      [&options](const std::string& text) -> Status {
        const Result<std::pair<std::int32_t, float>> bias = parse_bias(text);
        if (!bias) return fail(bias.error());
        options.logit_bias.push_back(*bias);
        return {};
      },
      "Added to a token's logit, -100 to 100; may be repeated", true)
      ->group(group);
  add_value(
      app, "--seed", kInteger,
      [&options](const std::string& text) -> Status {
        const Result<std::uint64_t> seed = parse_unsigned(text);
        if (!seed) return fail(seed.error());
        options.seed = *seed;
        return {};
      },
      "Makes draws repeatable (random)")
      ->group(group);

  const std::string length = "Length";
  add_integer(app, "--max-tokens", options.max_tokens, 0, kMostInt32,
              "Most new tokens (0: until the model ends or its context is full)")
      ->group(length);
  add_integer(app, "--min-tokens", options.min_tokens, 0, kMostInt32,
              "No end before this many new tokens (0)")
      ->group(length);
  add_integer(app, "--reasoning-budget", options.reasoning_budget, -1, kMostInt32,
              "Most tokens of reasoning in answers to chats (-1: any number; 0: none)")
      ->group(length);
  add_reasoning_message(app, options.reasoning_budget_message)->group(length);
  add_value(
      app, "--stop", kText,
      [&options](const std::string& text) -> Status {
        if (text.empty()) return fail(ErrorKind::kInvalid, "expected a string that is not empty");
        options.stop.push_back(text);
        return {};
      },
      "End before this text; may be repeated", true)
      ->group(length);
  add_switch(app, "--ignore-eos", options.ignore_eos, "The model's end tokens do not end")
      ->group(length);
}

CLI::Option* add_reasoning_message(CLI::App& app, std::string& message) {
  return add_text(app, "--reasoning-budget-message", message,
                  "Written before reasoning is closed whose budget is spent (nothing)");
}

Request default_request(const SamplingOptions& options, const load::GenerationDefaults& recommended,
                        float fallback_temperature) {
  SamplingValues values = options.values.or_else(recommended.sampling);
  std::optional<double>& temperature = values[sampling_row("temperature")];
  if (!temperature) temperature = fallback_temperature;
  Request request;
  request.sampling = values.params();
  request.sampling.logit_bias = options.logit_bias;
  request.sampling.seed = options.seed;
  request.max_tokens = options.max_tokens;
  request.min_tokens = options.min_tokens;
  request.stop = options.stop;
  request.ignore_eos = options.ignore_eos;
  return request;
}

}  // namespace dovetail::cli
