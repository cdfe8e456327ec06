#include "engine/step_loop.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <random>
#include <utility>

#include "engine/options.h"
#include "engine/validate.h"
#include "kernels/kernels.h"

namespace dovetail::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

schedule::SchedulerOptions scheduler_options(const EngineOptions& options) {
  schedule::SchedulerOptions result;
  result.max_num_seqs = options.max_num_seqs;
  result.max_num_batched_tokens = options.max_num_batched_tokens;
  result.long_prefill_token_threshold = options.long_prefill_token_threshold;
  result.block_size = static_cast<std::uint32_t>(kernels::kBlockSize);
  result.kv_blocks = options.kv_blocks;
  result.max_context = options.max_context;
  // The engine's queue is bounded at its door; what was let in there may always come back here
  // after a preemption.
  result.max_waiting = std::numeric_limits<std::uint32_t>::max();
  return result;
}

std::vector<TokenId> end_ids(const load::ModelSource& source,
                             const std::optional<text::Tokenizer>& tokenizer) {
  std::vector<TokenId> ids(source.generation.eos_ids.begin(), source.generation.eos_ids.end());
  if (tokenizer) ids.insert(ids.end(), tokenizer->end_ids().begin(), tokenizer->end_ids().end());
  return ids;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Result<std::unique_ptr<StepLoop>> StepLoop::create(std::shared_ptr<const load::ModelSource> source,
                                                   std::optional<text::Tokenizer> tokenizer,
                                                   EngineOptions options, StepHooks hooks) {
  Result<ResolvedOptions> resolved = resolve(std::move(options), *source);
  if (!resolved) return fail(resolved.error());
  Result<model::Cache> cache =
      model::Cache::create(resolved->cache_shape, resolved->options.kv_blocks);
  if (!cache) return fail(cache.error());
  return std::unique_ptr<StepLoop>(
      new StepLoop(std::move(resolved->options), std::move(source), std::move(tokenizer),
                   hooks.kernels != nullptr ? *hooks.kernels : *resolved->kernels,
                   *std::move(cache), std::move(hooks)));
}

StepLoop::StepLoop(EngineOptions options, std::shared_ptr<const load::ModelSource> source,
                   std::optional<text::Tokenizer> tokenizer, const kernels::Kernels& kernels,
                   model::Cache cache, StepHooks hooks)
    : options_(std::move(options)),
      source_(std::move(source)),
      tokenizer_(std::move(tokenizer)),
      end_ids_(end_ids(*source_, tokenizer_)),
      workers_(options_.threads),
      model_(source_, kernels, workers_),
      cache_(std::move(cache)),
      scheduler_(scheduler_options(options_)),
      hooks_(std::move(hooks)) {
  if (options_.poison_freed_blocks) {
    for (std::uint32_t block = 0; block < options_.kv_blocks; ++block) cache_.poison(block);
  }
}

Status StepLoop::validate(const Request& request) const {
  return engine::validate(request, {source_->config.vocab_size, options_.max_context,
                                    options_.max_num_seqs, options_.max_waiting});
}

Status StepLoop::add(RequestId id, Request request, EventSink sink) {
  assert(!requests_.contains(id) && validate(request));
  auto shared = std::make_shared<SharedRequest>();
  shared->id = id;
  if (!request.ignore_eos) shared->ends = end_ids_;
  shared->ends.insert(shared->ends.end(), request.stop_ids.begin(), request.stop_ids.end());
  std::sort(shared->ends.begin(), shared->ends.end());
  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  if (request.max_tokens == 0)
    request.max_tokens = static_cast<std::int32_t>(options_.max_context - prompt_tokens);
  shared->seed = request.sampling.seed ? *request.sampling.seed : random_seed();
  shared->request = std::move(request);
  shared->sink = std::move(sink);

  for (std::int32_t choice = 0; choice < shared->request.n; ++choice) {
    const schedule::SequenceId sequence = next_sequence_++;
    if (const Status added = scheduler_.add(sequence, prompt_tokens); !added) {
      for (const schedule::SequenceId earlier : requests_[id]) {
        scheduler_.cancel(earlier);
        sequences_.erase(earlier);
      }
      requests_.erase(id);
      return added;
    }
    sequences_.emplace(sequence, Sequence(shared, choice, tokenizer_));
    requests_[id].push_back(sequence);
  }
  return {};
}

void StepLoop::cancel(RequestId id) {
  const auto known = requests_.find(id);
  if (known == requests_.end()) return;
  for (const schedule::SequenceId sequence : std::vector(known->second)) {
    end(sequence, FinishReason::kCancelled, {});
    ++stats_.requests_cancelled;
  }
}

void StepLoop::cancel_all() {
  while (!requests_.empty()) cancel(requests_.begin()->first);
}

void StepLoop::abort(const Error& error) {
  while (!sequences_.empty()) end(sequences_.begin()->first, FinishReason::kError, error);
}

Status StepLoop::step() {
  const auto start = Clock::now();
  const Result<schedule::StepPlan> plan = scheduler_.plan();
  if (!plan) return fail(plan.error());
  // A freed block may have a new owner by now, which writes it before it reads it.
  for (const kv::BlockId block : scheduler_.take_freed_blocks()) {
    if (options_.poison_freed_blocks) cache_.poison(block);
  }
  if (plan->rows.empty()) return {};

  const auto forward_start = Clock::now();
  if (hooks_.before_forward) {
    schedule::StepPlan changed = *plan;
    hooks_.before_forward(changed);
    forward(changed);
  } else {
    forward(*plan);
  }
  stats_.forward_seconds += seconds_since(forward_start);

  const std::vector<Sequence::Choice> choices = sample(*plan);
  if (hooks_.after_forward) hooks_.after_forward(*plan, logits_);

  schedule::StepResult result;
  std::size_t next = 0;
  for (const schedule::Row& row : plan->rows) {
    if (!row.sampled) continue;
    result.finished.push_back(sequences_.at(row.sequence).accept(choices[next++]));
  }
  next = 0;
  for (const schedule::Row& row : plan->rows) {
    if (!row.sampled || !result.finished[next++]) continue;
    forget(row.sequence);
    ++stats_.requests_finished;
  }
  scheduler_.commit(*plan, result);
  ++stats_.steps;
  stats_.generated_tokens += result.finished.size();
  for (std::size_t i = 0; i < plan->prefill_rows; ++i) stats_.prompt_tokens += plan->rows[i].tokens;
  stats_.step_seconds += seconds_since(start);
  return {};
}

void StepLoop::forward(const schedule::StepPlan& plan) {
  segments_.clear();
  std::size_t sampled = 0;
  for (const schedule::Row& row : plan.rows) {
    const std::span<const TokenId> tokens = sequences_.at(row.sequence).tokens();
    segments_.push_back({tokens.subspan(row.first_position, row.tokens), row.first_position,
                         plan.block_table(row), row.sampled});
    if (row.sampled) ++sampled;
  }
  logits_.resize(sampled * source_->config.vocab_size);
  model_.forward(segments_, cache_, logits_);
}

std::vector<Sequence::Choice> StepLoop::sample(const schedule::StepPlan& plan) {
  std::vector<const Sequence*> sampled;
  for (const schedule::Row& row : plan.rows) {
    if (row.sampled) sampled.push_back(&sequences_.at(row.sequence));
  }
  std::vector<Sequence::Choice> choices(sampled.size());
  const std::size_t vocab = source_->config.vocab_size;
  model::for_each_row(workers_, sampled.size(), 8 * vocab, [&](std::size_t i) {
    choices[i] = sampled[i]->choose(std::span(logits_).subspan(i * vocab, vocab));
  });
  return choices;
}

void StepLoop::end(schedule::SequenceId id, FinishReason reason, const Error& error) {
  sequences_.at(id).end_early(reason, error);
  scheduler_.cancel(id);
  forget(id);
}

void StepLoop::forget(schedule::SequenceId id) {
  const auto sequence = sequences_.find(id);
  const auto request = requests_.find(sequence->second.shared().id);
  std::erase(request->second, id);
  if (request->second.empty()) requests_.erase(request);
  sequences_.erase(sequence);
}

EngineStats StepLoop::stats() const {
  EngineStats stats = stats_;
  stats.preemptions = scheduler_.preemptions();
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.kv_blocks = scheduler_.pool().size();
  stats.kv_blocks_used = scheduler_.pool().used();
  return stats;
}

}  // namespace dovetail::engine
