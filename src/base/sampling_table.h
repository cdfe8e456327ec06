#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "dovetail/sampling_params.h"

namespace dovetail {

// A number that says how the next token is drawn. Each place where it may be given takes its name
// and its range from here: the command line and TOML files, pipelines, requests over HTTP, input
// lines, models' files. What the number does, SamplingParams says.
struct SamplingRow {
  std::string_view name;  // of fields and keys; of options with '-' for '_'
  std::string_view help;  // a sentence without its end
  // What says it to the engine: its value as it is made changes nothing, and holds where none is
  // given.
  std::variant<float SamplingParams::*, std::int32_t SamplingParams::*> member;
  double least = 0.0;
  double most = 0.0;
  bool least_excluded = false;
  bool minus_one = false;            // over HTTP and in models' files -1 is the neutral value, too
  std::string_view http_alias = {};  // another name over HTTP
  // In GGUF files, after "general.sampling.". Empty: the makers of models recommend none.
  std::string_view gguf_key = {};
  // In conversations with a model whose GGUF file recommends nothing, as llama.cpp has it.
  std::optional<float> conversation = {};
  // In the keys of pipelines' response caches, which stay what they are. New rows have none: they
  // stand there by name, where they are given.
  std::optional<std::size_t> cache_place = {};

  constexpr bool whole() const {
    return std::holds_alternative<std::int32_t SamplingParams::*>(member);
  }
  double neutral() const;
  // Whether models' files may have a value; generation_config.json has it under `name`.
  constexpr bool recommended() const { return !gguf_key.empty(); }
};

inline constexpr double kMostWhole = std::numeric_limits<int>::max();

// In the order in which help and listings show them.
inline constexpr std::array kSamplingRows = {
    SamplingRow{.name = "temperature",
                .help = "0: always the likeliest token; above: draw",
                .member = &SamplingParams::temperature,
                .most = 100.0,
                .gguf_key = "temp",
                .conversation = 0.8F,
                .cache_place = 0},
    SamplingRow{.name = "top_k",
                .help = "Draw from the K likeliest (0: from all)",
                .member = &SamplingParams::top_k,
                .most = kMostWhole,
                .minus_one = true,
                .gguf_key = "top_k",
                .conversation = 40.0F,
                .cache_place = 3},
    SamplingRow{.name = "top_p",
                .help = "Draw from the fewest that have this probability together",
                .member = &SamplingParams::top_p,
                .most = 1.0,
                .least_excluded = true,
                .gguf_key = "top_p",
                .conversation = 0.95F,
                .cache_place = 1},
    SamplingRow{.name = "min_p",
                .help = "Draw from those with this share of the likeliest's probability",
                .member = &SamplingParams::min_p,
                .most = 1.0,
                .gguf_key = "min_p",
                .conversation = 0.05F,
                .cache_place = 2},
    SamplingRow{.name = "repetition_penalty",
                .help = "Above 1: tokens of prompt and answer become less likely",
                .member = &SamplingParams::repetition_penalty,
                .most = 100.0,
                .least_excluded = true,
                .http_alias = "repeat_penalty",  // as llama.cpp names it
                .gguf_key = "penalty_repeat"},
    SamplingRow{.name = "presence_penalty",
                .help = "Subtracted from the logit of tokens that the answer has",
                .member = &SamplingParams::presence_penalty,
                .least = -2.0,
                .most = 2.0},
    SamplingRow{.name = "frequency_penalty",
                .help = "Subtracted from the logit of tokens, times how often the answer has them",
                .member = &SamplingParams::frequency_penalty,
                .least = -2.0,
                .most = 2.0},
};

// The row of this name; one that there is not does not compile.
consteval const SamplingRow& sampling_row(std::string_view name) {
  for (const SamplingRow& row : kSamplingRows) {
    if (row.name == name) return row;
  }
  throw "no row of the table has this name";
}

// "top-k"
std::string option_name(const SamplingRow& row);

// The member of `params` that the row speaks of, read and written; `value` is within its range.
double sampling_value(const SamplingParams& params, const SamplingRow& row);
void set_sampling_value(SamplingParams& params, const SamplingRow& row, double value);

// kInvalid: out of the row's range, which the error has.
Status check_sampling_value(const SamplingRow& row, double value);

// A value of the row in the fewest digits that tell it from others.
std::string sampling_text(const SamplingRow& row, double value);

// Values of rows, each of which may be absent. Those of a request are what it says, then what its
// model recommends: given.or_else(recommended).
class SamplingValues {
 public:
  std::optional<double>& operator[](const SamplingRow& row) { return values_[index(row)]; }
  const std::optional<double>& operator[](const SamplingRow& row) const {
    return values_[index(row)];
  }

  bool any() const;
  // These, and the others' where these have none.
  SamplingValues or_else(const SamplingValues& others) const;
  // Parameters with these values; the others are as they are made.
  SamplingParams params() const;

 private:
  // The row is one of the table, not a copy.
  static std::size_t index(const SamplingRow& row) {
    return static_cast<std::size_t>(&row - kSamplingRows.data());
  }

  std::array<std::optional<double>, kSamplingRows.size()> values_;
};

}  // namespace dovetail
