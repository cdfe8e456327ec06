#include "serve/live.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace dovetail::serve {
namespace {

constexpr double kHighQuantile = 0.95;

// How often something took how long between two snapshots of its histogram. The quantile is that of
// the bucket in which it falls: its upper bound, or the lower one where there is no upper one.
nlohmann::ordered_json latency_json(const Histogram& before, const Histogram& now) {
  const std::size_t buckets = now.bounds().size() + 1;
  const auto since = [&](std::size_t bucket) { return now.count(bucket) - before.count(bucket); };
  std::uint64_t count = 0;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) count += since(bucket);
  nlohmann::ordered_json json = {
      {"count", count}, {"mean_seconds", nullptr}, {"p95_seconds", nullptr}};
  if (count == 0) return json;
  json["mean_seconds"] = (now.sum() - before.sum()) / static_cast<double>(count);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    seen += since(bucket);
    if (static_cast<double>(seen) < kHighQuantile * static_cast<double>(count)) continue;
    json["p95_seconds"] = now.bounds()[std::min(bucket, buckets - 2)];
    break;
  }
  return json;
}

}  // namespace

std::string live_event(const LiveSnapshot& before, const LiveSnapshot& now, bool draining) {
  const EngineStats& stats = now.stats;
  const double seconds = std::chrono::duration<double>(now.time - before.time).count();
  const auto since = [&](std::uint64_t EngineStats::*count) {
    return stats.*count - before.stats.*count;
  };
  const auto rate = [&](std::uint64_t EngineStats::*count) {
    return seconds > 0.0 ? static_cast<double>(since(count)) / seconds : 0.0;
  };
  const std::uint64_t steps = since(&EngineStats::steps);
  nlohmann::ordered_json json;
  json["seconds"] = seconds;
  json["running"] = stats.running;
  json["waiting"] = stats.waiting;
  json["kv_blocks"] = stats.kv_blocks;
  json["kv_blocks_used"] = stats.kv_blocks_used;
  json["kv_blocks_cached"] = stats.kv_blocks_cached;
  json["prompt_tokens_per_second"] = rate(&EngineStats::prompt_tokens);
  json["cached_tokens_per_second"] = rate(&EngineStats::cached_tokens);
  json["generated_tokens_per_second"] = rate(&EngineStats::generated_tokens);
  json["steps"] = steps;
  json["mean_step_seconds"] = nullptr;
  json["mixed_step_share"] = nullptr;
  if (steps > 0) {
    const auto divisor = static_cast<double>(steps);
    json["mean_step_seconds"] = (stats.step_seconds - before.stats.step_seconds) / divisor;
    json["mixed_step_share"] = static_cast<double>(since(&EngineStats::mixed_steps)) / divisor;
  }
  json["first_token"] = latency_json(before.first_token, now.first_token);
  json["between_tokens"] = latency_json(before.between_tokens, now.between_tokens);
  json["preemptions"] = since(&EngineStats::preemptions);
  json["draining"] = draining;
  return "data: " + json.dump() + "\n\n";
}

}  // namespace dovetail::serve
