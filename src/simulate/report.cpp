#include "simulate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace dovetail::simulate {
namespace {

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}};

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

double per_second(std::uint64_t count, std::int64_t nanoseconds) {
  return nanoseconds > 0 ? static_cast<double>(count) / seconds(nanoseconds) : 0.0;
}

std::string milliseconds(double nanoseconds) { return fmt::format("{:.2f}", nanoseconds * 1e-6); }

nlohmann::json distribution(const Histogram& histogram) {
  nlohmann::json json;
  json["mean"] = histogram.mean() * 1e-9;
  for (const auto& [name, share] : kQuantiles) json[name] = seconds(histogram.quantile(share));
  json["max"] = seconds(histogram.max());
  return json;
}

double utilisation(const Figures& figures, std::uint32_t replicas) {
  const double span = seconds(figures.makespan) * replicas;
  return span > 0.0 ? seconds(figures.busy) / span : 0.0;
}

}  // namespace

std::string report_text(const Figures& figures, std::uint32_t replicas) {
  std::string text;
  const auto line = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  };
  line("{:<22}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "milliseconds", "mean", "p50", "p99", "p99.9",
       "max");
  const std::pair<const char*, const Histogram*> rows[] = {
      {"time to first token", &figures.first_token},
      {"between two tokens", &figures.inter_token},
      {"whole request", &figures.end_to_end},
      {"of it in the queue", &figures.queue}};
  for (const auto& [name, histogram] : rows) {
    line("{:<22}{:>12}", name, milliseconds(histogram->mean()));
    for (const auto& [label, share] : kQuantiles)
      line("{:>12}", milliseconds(static_cast<double>(histogram->quantile(share))));
    line("{:>12}\n", milliseconds(static_cast<double>(histogram->max())));
  }
  line("\nrequests      {} finished, {} refused, {:.3f} s in all\n", figures.finished,
       figures.refused, seconds(figures.makespan));
  line("throughput    {:.1f} new tokens/s, {:.1f} prompt tokens/s, {:.2f} requests/s\n",
       per_second(figures.new_tokens, figures.makespan),
       per_second(figures.prompt_tokens, figures.makespan),
       per_second(figures.finished, figures.makespan));
  line("steps         {} prefill only, {} mixed, {} decode only; {:.1f} rows each; busy {:.1f} %\n",
       figures.prefill_steps, figures.mixed_steps, figures.decode_steps,
       static_cast<double>(figures.rows) /
           static_cast<double>(std::max<std::uint64_t>(
               1, figures.prefill_steps + figures.mixed_steps + figures.decode_steps)),
       100.0 * utilisation(figures, replicas));
  line("cache         {} preemptions, {} tokens computed again, {} prompt tokens found\n",
       figures.preemptions, figures.recomputed_tokens, figures.cached_tokens);
  if (figures.guesses > 0)
    line("guesses       {} of {} right\n", figures.right_guesses, figures.guesses);
  return text;
}

std::string report_json(const Figures& figures, std::uint32_t replicas) {
  nlohmann::json json;
  json["time_to_first_token"] = distribution(figures.first_token);
  json["inter_token_latency"] = distribution(figures.inter_token);
  json["end_to_end"] = distribution(figures.end_to_end);
  json["queue_time"] = distribution(figures.queue);
  json["requests"] = {{"finished", figures.finished}, {"refused", figures.refused}};
  json["makespan"] = seconds(figures.makespan);
  json["utilisation"] = utilisation(figures, replicas);
  json["replicas"] = replicas;
  json["tokens"] = {{"prompt", figures.prompt_tokens}, {"new", figures.new_tokens},
                    {"cached", figures.cached_tokens}, {"recomputed", figures.recomputed_tokens},
                    {"guessed", figures.guesses},      {"guessed_right", figures.right_guesses}};
  json["steps"] = {{"prefill", figures.prefill_steps},
                   {"mixed", figures.mixed_steps},
                   {"decode", figures.decode_steps},
                   {"rows", figures.rows}};
  json["preemptions"] = figures.preemptions;
  return json.dump(2) + "\n";
}

}  // namespace dovetail::simulate
