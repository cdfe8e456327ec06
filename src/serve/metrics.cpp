#include "serve/metrics.h"

#include <fmt/format.h>

#include <iterator>

namespace dovetail::serve {

std::string metrics_text(const EngineStats& stats, const HttpCounts& http) {
  std::string text;
  const auto head = [&text](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text), "# HELP dovetail_{0} {2}\n# TYPE dovetail_{0} {1}\n",
                   name, type, help);
  };
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help,
                       auto value) {
    head(name, type, help);
    fmt::format_to(std::back_inserter(text), "dovetail_{} {}\n", name, value);
  };
  one("steps_total", "counter", "Steps of the engine.", stats.steps);
  one("mixed_steps_total", "counter", "Steps with prompts beside decoding sequences.",
      stats.mixed_steps);
  one("step_seconds_total", "counter", "Time spent in steps.", stats.step_seconds);
  one("forward_seconds_total", "counter", "Time spent in the model's forward pass.",
      stats.forward_seconds);
  one("prompt_tokens_total", "counter", "Prompt tokens computed.", stats.prompt_tokens);
  one("cached_tokens_total", "counter", "Prompt tokens found in the prefix cache, not computed.",
      stats.cached_tokens);
  one("recomputed_tokens_total", "counter",
      "Of the prompt tokens computed: those that a preemption had lost.", stats.recomputed_tokens);
  one("generated_tokens_total", "counter", "Tokens sampled.", stats.generated_tokens);
  one("drafted_tokens_total", "counter", "Guesses of speculative decoding that were computed.",
      stats.drafted_tokens);
  one("accepted_tokens_total", "counter", "Of them, those that were right.", stats.accepted_tokens);
  one("requests_finished_total", "counter", "Choices ended by a stop or by length.",
      stats.requests_finished);
  one("cancelled_total", "counter", "Choices cancelled.", stats.requests_cancelled);
  one("timed_out_total", "counter", "Choices ended by their request's timeout.",
      stats.requests_timed_out);
  one("preemptions_total", "counter", "Sequences put back to make room for older ones.",
      stats.preemptions);
  one("requests_running", "gauge", "Sequences that hold cache now.", stats.running);
  one("requests_waiting", "gauge", "Sequences that wait for admission.", stats.waiting);
  one("kv_blocks", "gauge", "Blocks of the cache.", stats.kv_blocks);
  one("kv_blocks_used", "gauge", "Blocks that sequences hold now.", stats.kv_blocks_used);
  one("kv_blocks_cached", "gauge", "Blocks that no sequence holds, but the prefix cache can find.",
      stats.kv_blocks_cached);
  one("threads_pinned", "gauge", "1 while threads that compute stay on a core each.",
      stats.threads_pinned ? 1 : 0);
  one("http_connections", "gauge", "Open connections.", http.connections);
  one("http_disconnects_total", "counter", "Clients that left before their answer was complete.",
      http.disconnects);
  one("http_slow_readers_total", "counter", "Streams cut because their client did not read.",
      http.slow_readers);
  head("http_requests_total", "counter", "Requests answered, by status and route.");
  for (const auto& [key, count] : http.responses()) {
    fmt::format_to(std::back_inserter(text),
                   "dovetail_http_requests_total{{code=\"{}\",route=\"{}\"}} {}\n", key.second,
                   key.first, count);
  }
  return text;
}

}  // namespace dovetail::serve
