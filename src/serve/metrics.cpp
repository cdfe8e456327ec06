#include "serve/metrics.h"

#include <fmt/format.h>

#include <iterator>

namespace dovetail::serve {

namespace {

// A label's value, as the format wants it.
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// The names that dashboards and routers know from vLLM.
void add_vllm_names(std::string& text, const EngineStats& stats, const HttpCounts& http,
                    const MetricsModel& model) {
  const auto out = std::back_inserter(text);
  const std::string labels = fmt::format("model_name=\"{}\"", escaped(model.name));
  const auto head = [&](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(out, "# HELP vllm:{0} {2}\n# TYPE vllm:{0} {1}\n", name, type, help);
  };
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help,
                       auto value) {
    head(name, type, help);
    fmt::format_to(out, "vllm:{}{{{}}} {}\n", name, labels, value);
  };
  const auto histogram = [&](std::string_view name, std::string_view help, const Histogram& of) {
    head(name, "histogram", help);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < of.bounds().size(); ++i) {
      sum += of.count(i);
      fmt::format_to(out, "vllm:{}_bucket{{le=\"{}\",{}}} {}\n", name, of.bounds()[i], labels, sum);
    }
    sum += of.count(of.bounds().size());
    fmt::format_to(out,
                   "vllm:{0}_bucket{{le=\"+Inf\",{1}}} {2}\nvllm:{0}_sum{{{1}}} {3}\n"
                   "vllm:{0}_count{{{1}}} {2}\n",
                   name, labels, sum, of.sum());
  };
  const double blocks = std::max<double>(stats.kv_blocks, 1);
  one("num_requests_running", "gauge", "Sequences that hold cache now.", stats.running);
  one("num_requests_waiting", "gauge", "Sequences that wait for admission.", stats.waiting);
  one("kv_cache_usage_perc", "gauge", "Share of the cache's blocks that sequences hold.",
      stats.kv_blocks_used / blocks);
  one("prefix_cache_queries_total", "counter", "Prompt tokens looked for in the prefix cache.",
      stats.prompt_tokens - stats.recomputed_tokens + stats.cached_tokens);
  one("prefix_cache_hits_total", "counter", "Prompt tokens found there.", stats.cached_tokens);
  one("num_preemptions_total", "counter", "Sequences put back to make room for older ones.",
      stats.preemptions);
  one("prompt_tokens_total", "counter", "Prompt tokens computed or found.",
      stats.prompt_tokens - stats.recomputed_tokens + stats.cached_tokens);
  one("generation_tokens_total", "counter", "Tokens sampled.", stats.generated_tokens);
  histogram("time_to_first_token_seconds", "From acceptance to the first token.", http.first_token);
  histogram("inter_token_latency_seconds", "Between tokens of a choice.", http.between_tokens);
  histogram("e2e_request_latency_seconds", "From acceptance to a choice's end.", http.whole);
  histogram("request_queue_time_seconds", "From acceptance to the first admission.", http.queue);
  head("cache_config_info", "gauge", "What the cache is.");
  fmt::format_to(out,
                 "vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"{}\","
                 "max_model_len=\"{}\",{}}} 1\n",
                 stats.kv_blocks, model.max_context, labels);
}

}  // namespace

std::optional<ThroughputRecord> throughput(const EngineStats& before, const EngineStats& now,
                                           double seconds) {
  const auto since = [&](std::uint64_t EngineStats::*count) {
    return static_cast<double>(now.*count - before.*count);
  };
  const double computed = since(&EngineStats::prompt_tokens);
  const double generated = since(&EngineStats::generated_tokens);
  if (computed + generated == 0.0) return std::nullopt;
  const double found = since(&EngineStats::cached_tokens);
  const double prompt = computed - since(&EngineStats::recomputed_tokens) + found;
  ThroughputRecord record;
  record.seconds = seconds;
  record.prompt_tokens = computed / seconds;
  record.generated_tokens = generated / seconds;
  record.running = now.running;
  record.waiting = now.waiting;
  record.cache_used = now.kv_blocks_used / std::max<double>(now.kv_blocks, 1);
  record.prefix_hits = prompt > 0.0 ? found / prompt : 0.0;
  return record;
}

std::string metrics_text(const EngineStats& stats, const HttpCounts& http,
                         const MetricsModel& model) {
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
  one("drafted_tokens_total", "counter", "Draft tokens that were computed.", stats.drafted_tokens);
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
  add_vllm_names(text, stats, http, model);
  return text;
}

}  // namespace dovetail::serve
