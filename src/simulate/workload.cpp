#include "simulate/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

#include "simulate/csv.h"
#include "simulate/random.h"

namespace dovetail::simulate {
namespace {

constexpr double kNanosecond = 1e9;
constexpr double kLongest = 64.0;  // times the typical length
constexpr double kLatest = 1e9;    // seconds
constexpr std::uint32_t kMostTokens = 1U << 24;

// A law of lengths: from a number in [0, 1) and a normal one to tokens.
struct Lengths {
  enum class Kind : std::uint8_t { kFixed, kUniform, kLogNormal, kLongTail } kind = Kind::kFixed;
  double first = 0.0, second = 0.0;

  std::uint32_t draw(Random& random) const {
    double value = first;
    switch (kind) {
      case Kind::kFixed:
        break;
      case Kind::kUniform:
        value = first + std::floor(random.uniform() * (second - first + 1.0));
        break;
      case Kind::kLogNormal:
        value = std::min(first * std::exp(second * random.normal()), kLongest * first);
        break;
      case Kind::kLongTail:
        value = std::min(first * std::pow(1.0 - random.uniform(), -1.0 / 1.5), kLongest * first);
        break;
    }
    return static_cast<std::uint32_t>(std::clamp(std::round(value), 1.0, double{kMostTokens}));
  }
};

struct Times {
  enum class Kind : std::uint8_t { kAll, kPoisson, kUniform, kBurst } kind = Kind::kAll;
  double rate = 0.0, period = 0.0;

  // When request `number` comes, `last` being when the one before it came.
  double next(double last, std::uint64_t number, Random& random) const {
    switch (kind) {
      case Kind::kAll:
        return 0.0;
      case Kind::kPoisson:
        return last - std::log(1.0 - random.uniform()) / rate;
      case Kind::kUniform:
        return static_cast<double>(number) / rate;
      case Kind::kBurst:
        return std::floor(static_cast<double>(number) / rate) * period;
    }
    return last;
  }
};

std::optional<double> number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

// The law's name, and the one or two numbers behind it.
struct Law {
  std::string_view name;
  std::vector<double> numbers;
};

std::optional<Law> parse_law(std::string_view text, std::string_view separators) {
  const std::size_t colon = text.find(':');
  Law law{text.substr(0, colon), {}};
  if (colon == std::string_view::npos) return law;
  std::string_view rest = text.substr(colon + 1);
  const std::size_t cut = rest.find_first_of(separators);
  for (const std::string_view part :
       {rest.substr(0, cut),
        cut == std::string_view::npos ? std::string_view() : rest.substr(cut + 1)}) {
    if (part.empty() && part.data() == nullptr) continue;
    const std::optional<double> value = number(part);
    if (!value) return std::nullopt;
    law.numbers.push_back(*value);
  }
  return law;
}

Result<Lengths> parse_lengths(std::string_view field, std::string_view text) {
  const std::optional<Law> law = parse_law(text, "-:");
  const auto valid = [](double value) { return value >= 1.0 && value <= kMostTokens; };
  if (law && law->numbers.size() == 1 && valid(law->numbers[0])) {
    if (law->name == "fixed") return Lengths{Lengths::Kind::kFixed, law->numbers[0], 0.0};
    if (law->name == "longtail") return Lengths{Lengths::Kind::kLongTail, law->numbers[0], 0.0};
  }
  if (law && law->numbers.size() == 2 && valid(law->numbers[0])) {
    const double second = law->numbers[1];
    if (law->name == "uniform" && valid(second) && second >= law->numbers[0])
      return Lengths{Lengths::Kind::kUniform, law->numbers[0], second};
    if (law->name == "lognormal" && second >= 0.0 && second <= 10.0)
      return Lengths{Lengths::Kind::kLogNormal, law->numbers[0], second};
  }
  return fail(
      ErrorKind::kInvalid,
      "{}: '{}' is no law of lengths, expected fixed:N, uniform:A-B, lognormal:MEDIAN:SIGMA "
      "or longtail:N, with tokens from 1 to {}",
      field, text, kMostTokens);
}

Result<Times> parse_times(std::string_view text) {
  const std::optional<Law> law = parse_law(text, "@");
  if (text == "all") return Times{};
  const auto valid = [](double value) { return value >= 1e-6 && value <= 1e9; };
  if (law && law->numbers.size() == 1 && valid(law->numbers[0])) {
    if (law->name == "poisson") return Times{Times::Kind::kPoisson, law->numbers[0], 0.0};
    if (law->name == "uniform") return Times{Times::Kind::kUniform, law->numbers[0], 0.0};
  }
  if (law && law->name == "burst" && law->numbers.size() == 2 && law->numbers[0] >= 1.0 &&
      valid(law->numbers[0]) && valid(law->numbers[1]))
    return Times{Times::Kind::kBurst, std::floor(law->numbers[0]), law->numbers[1]};
  return fail(ErrorKind::kInvalid,
              "arrivals: '{}' is no law of arrivals, expected all, poisson:RATE, uniform:RATE or "
              "burst:N@SECONDS",
              text);
}

}  // namespace

Result<Workload> generate(const WorkloadSpec& spec) {
  const Result<Times> times = parse_times(spec.arrivals);
  if (!times) return fail(times.error());
  const Result<Lengths> prompt = parse_lengths("prompt", spec.prompt);
  if (!prompt) return fail(prompt.error());
  const Result<Lengths> output = parse_lengths("output", spec.output);
  if (!output) return fail(output.error());
  struct State {
    Random random;
    std::uint64_t number = 0;
    double last = 0.0;
  };
  const auto state = std::make_shared<State>(State{Random(spec.seed), 0, 0.0});
  return Workload([state, spec, times = *times, prompt = *prompt,
                   output = *output]() -> std::optional<Arrival> {
    if (state->number == spec.requests) return std::nullopt;
    Arrival arrival;
    state->last = std::min(times.next(state->last, state->number++, state->random), kLatest);
    arrival.time = static_cast<std::int64_t>(state->last * kNanosecond);
    arrival.prompt_tokens = prompt.draw(state->random);
    arrival.output_tokens = output.draw(state->random);
    if (spec.tenants > 1) arrival.tenant = state->random.below(spec.tenants);
    if (spec.families > 0) {
      arrival.family = 1 + state->random.below(spec.families);
      arrival.shared_tokens = std::min(spec.shared_tokens, arrival.prompt_tokens);
    }
    return arrival;
  });
}

Result<std::vector<Arrival>> parse_trace(std::string_view text, std::string_view name) {
  const Result<CsvTable> table =
      parse_csv(text, name, {"arrival", "prompt_tokens", "output_tokens"},
                {"priority", "tenant", "family", "shared_tokens"});
  if (!table) return fail(table.error());
  std::vector<Arrival> arrivals;
  arrivals.reserve(table->rows.size());
  for (const CsvRow& row : table->rows) {
    Arrival arrival;
    const auto take = [&](std::size_t column, double least, double most,
                          bool whole) -> Result<double> {
      const double value = row.values[column];
      if (value >= least && value <= most && (!whole || value == std::floor(value))) return value;
      return fail(ErrorKind::kInvalid, "{}:{}: {}: {} is out of range, expected {}{} to {}", name,
                  row.line, table->columns[column], value, whole ? "a whole number from " : "",
                  least, most);
    };
    const Result<double> time = take(0, 0.0, kLatest, false);
    const Result<double> prompt = take(1, 1.0, kMostTokens, true);
    const Result<double> output = take(2, 1.0, kMostTokens, true);
    const Result<double> priority = take(3, -1000.0, 1000.0, true);
    const Result<double> tenant = take(4, 0.0, 4294967295.0, true);
    const Result<double> family = take(5, 0.0, 4294967295.0, true);
    const Result<double> shared = take(6, 0.0, kMostTokens, true);
    for (const auto* each : {&time, &prompt, &output, &priority, &tenant, &family, &shared}) {
      if (!*each) return fail(each->error());
    }
    arrival.time = static_cast<std::int64_t>(*time * kNanosecond);
    arrival.prompt_tokens = static_cast<std::uint32_t>(*prompt);
    arrival.output_tokens = static_cast<std::uint32_t>(*output);
    arrival.priority = static_cast<std::int32_t>(*priority);
    arrival.tenant = static_cast<std::uint32_t>(*tenant);
    arrival.family = static_cast<std::uint32_t>(*family);
    arrival.shared_tokens = std::min(static_cast<std::uint32_t>(*shared), arrival.prompt_tokens);
    arrivals.push_back(arrival);
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.time < b.time; });
  return arrivals;
}

Result<std::vector<Arrival>> read_trace(const std::string& path) {
  const Result<std::string> text = read_csv_file(path);
  if (!text) return fail(text.error());
  return parse_trace(*text, path);
}

Workload replay(std::vector<Arrival> arrivals) {
  const auto state =
      std::make_shared<std::pair<std::vector<Arrival>, std::size_t>>(std::move(arrivals), 0);
  return [state]() -> std::optional<Arrival> {
    if (state->second == state->first.size()) return std::nullopt;
    return state->first[state->second++];
  };
}

}  // namespace dovetail::simulate
