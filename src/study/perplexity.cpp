#include "study/perplexity.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <new>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "engine/memory.h"
#include "engine/options.h"
#include "engine/packing.h"
#include "model/backend.h"
#include "model/cpu/cpu_backend.h"

namespace dovetail::study {
namespace {

// Rows of logits in memory; the chunks of a pass leave no trace in its bits.
constexpr std::uint32_t kPassTokens = 256;
constexpr std::uint32_t kLeastContext = 4;

cores::ExecutorOptions graphs_alone(const load::ModelConfig& config) {
  cores::ExecutorOptions options;
  options.graph = {std::bit_ceil(model::cpu_tasks(config)), 1, 1};
  return options;
}

// The sums over scored tokens so far.
class Score {
 public:
  void add(double nll) {
    sum_ += nll;
    squares_ += nll * nll;
    ++count_;
  }

  Perplexity result(std::uint32_t chunks) const {
    const auto n = static_cast<double>(count_);
    const double mean = sum_ / n;
    const double variance = n > 1 ? std::max(0.0, squares_ / n - mean * mean) / (n - 1) : 0.0;
    const double value = std::exp(mean);
    return {value, value * std::sqrt(variance), count_, chunks};
  }

 private:
  double sum_ = 0.0, squares_ = 0.0;
  std::uint64_t count_ = 0;
};

Result<Perplexity> score_chunks(model::Backend& backend, std::uint32_t blocks, std::size_t vocab,
                                const PerplexityOptions& options, std::span<const TokenId> tokens,
                                std::uint32_t chunks,
                                const std::function<void(const Perplexity&)>& on_chunk) {
  const std::uint32_t context = options.context;
  std::vector<std::uint32_t> table(blocks);
  std::iota(table.begin(), table.end(), 0U);
  std::vector<float> logits;
  Score score;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const auto text = tokens.subspan(std::size_t{chunk} * context, context);
    std::vector<TokenId> read(text.begin(), text.end());
    if (options.first_token >= 0) read.front() = options.first_token;
    // The last token is scored and never read.
    for (std::uint32_t first = 0; first + 1 < context; first += kPassTokens) {
      const std::uint32_t end = std::min(first + kPassTokens, context - 1);
      const std::uint32_t scored = end - std::clamp(context / 2, first, end);
      const model::Segment segment = {std::span(read).subspan(first, end - first), first, table,
                                      scored};
      logits.resize(scored * vocab);
      if (const Status computed = backend.forward({&segment, 1}, logits, {}); !computed)
        return fail(computed.error());
      for (std::uint32_t i = 0; i < scored; ++i) {
        const TokenId next = read[end - scored + i + 1];
        score.add(negative_log_probability(std::span(logits).subspan(i * vocab, vocab), next));
      }
    }
    if (on_chunk) on_chunk(score.result(chunk + 1));
  }
  return score.result(chunks);
}

}  // namespace

double negative_log_probability(std::span<const float> logits, TokenId token) {
  assert(token >= 0 && static_cast<std::size_t>(token) < logits.size());
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return std::log(sum) + most - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

Result<Perplexity> measure_perplexity(const std::shared_ptr<const load::ModelSource>& source,
                                      const PerplexityOptions& options,
                                      std::span<const TokenId> tokens,
                                      const std::function<void(const Perplexity&)>& on_chunk) {
  if (!source->config.has_logits) {
    return fail(ErrorKind::kInvalid,
                "{}: it embeds texts and expects no tokens; valid: a model that generates",
                source->path.string());
  }
  const std::uint32_t most = source->config.max_context;
  if (options.context < kLeastContext || options.context > most) {
    return fail(ErrorKind::kInvalid, "context: {} is out of range, expected {} to {}",
                options.context, kLeastContext, most);
  }
  const std::size_t all = tokens.size() / options.context;
  if (all == 0) {
    return fail(ErrorKind::kInvalid, "the text has {} tokens, expected at least one context of {}",
                tokens.size(), options.context);
  }
  const auto chunks = static_cast<std::uint32_t>(
      std::min<std::size_t>(all, options.chunks == 0 ? UINT32_MAX : options.chunks));
  EngineOptions engine = options.engine;
  engine.max_context = options.context;
  const Result<engine::ResolvedOptions> resolved = engine::resolve(engine, *source);
  if (!resolved) return fail(resolved.error());
  const std::uint32_t threads = resolved->options.threads;
  const auto blocks =
      static_cast<std::uint32_t>((options.context + kernels::kBlockSize - 1) / kernels::kBlockSize);
  model::BackendOptions alone;
  alone.cache = model::cache_shape(source->config, resolved->cache_shape.type());
  alone.blocks = blocks;
  alone.context = resolved->context;
  try {
    cores::Executor executor(cores::Topology::of_machine(threads), graphs_alone(source->config));
    const engine::Packing packing =
        engine::plan_packing(*source, *resolved, std::uint64_t{blocks} * alone.cache.block_bytes(),
                             engine::available_memory());
    if (!packing.notice.empty() && resolved->options.on_unpacked)
      resolved->options.on_unpacked(packing.notice);
    const auto backend = model::open_cpu(source, alone, *resolved->kernels, executor,
                                         {threads, packing.types, resolved->options.on_pack});
    if (!backend) return fail(backend.error());
    return score_chunks(**backend, blocks, source->config.vocab_size, options, tokens, chunks,
                        on_chunk);
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "threads: the system does not start {}: {}", threads,
                error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kExhausted, "the logits of {} tokens do not fit the memory",
                kPassTokens);
  }
}

}  // namespace dovetail::study
