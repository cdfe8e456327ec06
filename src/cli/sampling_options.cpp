#include "cli/sampling_options.h"

#include <fmt/core.h>

#include "cli/values.h"

namespace dovetail::cli {
void add_sampling_options(CLI::App& app, SamplingOptions& options, std::string_view fallback) {
  const std::string group = "Sampling (defaults: what the model's makers recommend, else off)";
  add_number(app, "--temperature", options.temperature, 0.0F, 100.0F, false,
             fmt::format("0: always the likeliest token; above: draw (without a recommendation {})",
                         fallback))
      ->group(group);
  add_integer(app, "--top-k", options.top_k, 0, kMostInt32,
              "Draw from the K likeliest (0: from all)")
      ->group(group);
  add_number(app, "--top-p", options.top_p, 0.0F, 1.0F, true,
             "Draw from the fewest that have this probability together")
      ->group(group);
  add_number(app, "--min-p", options.min_p, 0.0F, 1.0F, false,
             "Draw from those with this share of the likeliest's probability")
      ->group(group);
  add_number(app, "--repetition-penalty", options.repetition_penalty, 0.0F, 100.0F, true,
             "Above 1: tokens of prompt and answer become less likely")
      ->group(group);
  add_number(app, "--presence-penalty", options.presence_penalty, -2.0F, 2.0F, false,
             "Subtracted from the logit of tokens that the answer has")
      ->group(group);
  add_number(app, "--frequency-penalty", options.frequency_penalty, -2.0F, 2.0F, false,
             "The same, times how often it has them")
      ->group(group);
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
  add_value(
      app, "--stop", kText,
      [&options](const std::string& text) -> Status {
        if (text.empty()) return fail(ErrorKind::kInvalid, "expected a string that is not empty");
        options.stop.push_back(text);
        return {};
      },
      "End before this text; may be repeated", true)
      ->group(length);
  app.add_flag("--ignore-eos", options.ignore_eos, "The model's end tokens do not end")
      ->group(length);
}

Request default_request(const SamplingOptions& options, const load::GenerationDefaults& recommended,
                        float fallback_temperature) {
  const auto pick = [](const auto& given, const auto& recommendation, auto otherwise) {
    return given ? *given : recommendation.value_or(otherwise);
  };
  Request request;
  SamplingParams& sampling = request.sampling;
  sampling.temperature = pick(options.temperature, recommended.temperature, fallback_temperature);
  sampling.top_k = pick(options.top_k, recommended.top_k, 0);
  sampling.top_p = pick(options.top_p, recommended.top_p, 1.0F);
  sampling.min_p = pick(options.min_p, recommended.min_p, 0.0F);
  sampling.repetition_penalty =
      pick(options.repetition_penalty, recommended.repetition_penalty, 1.0F);
  sampling.presence_penalty = options.presence_penalty.value_or(0.0F);
  sampling.frequency_penalty = options.frequency_penalty.value_or(0.0F);
  sampling.logit_bias = options.logit_bias;
  sampling.seed = options.seed;
  request.max_tokens = options.max_tokens;
  request.min_tokens = options.min_tokens;
  request.stop = options.stop;
  request.ignore_eos = options.ignore_eos;
  return request;
}

}  // namespace dovetail::cli
