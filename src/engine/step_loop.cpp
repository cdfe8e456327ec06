#include "engine/step_loop.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <system_error>
#include <utility>

#include "cores/trace.h"
#include "engine/memory.h"
#include "engine/mutation.h"
#include "engine/packing.h"
#include "model/cpu/cpu_backend.h"
#include "model/share.h"

namespace dovetail::engine {
namespace {

double seconds_since(StepLoop::Clock::time_point start) {
  return std::chrono::duration<double>(StepLoop::Clock::now() - start).count();
}

// The engine bounds its queue at submit(); an accepted request may always return to the scheduler's
// queue after a preemption.
schedule::SchedulerOptions scheduling_of(const EngineOptions& engine,
                                         const load::ModelConfig& model,
                                         const model::CacheShape& shape) {
  schedule::SchedulerOptions options = scheduler_options(engine, shape);
  options.whole_prompts = !model.causal();
  options.max_waiting = std::numeric_limits<std::uint32_t>::max();
  return options;
}

std::vector<TokenId> find_end_ids(const load::ModelSource& source,
                                  const std::optional<text::Tokenizer>& tokenizer) {
  std::vector<TokenId> ids(source.generation.eos_ids.begin(), source.generation.eos_ids.end());
  if (tokenizer) ids.insert(ids.end(), tokenizer->end_ids().begin(), tokenizer->end_ids().end());
  std::erase_if(ids, [&](TokenId id) {
    return id < 0 || static_cast<std::uint32_t>(id) >= source.config.vocab_size;
  });
  return ids;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Root of the hashes of a request's prefixes: unique for tenant and salt.
kv::BlockHash prefix_root(const Request& request) {
  return kv::root_hash(
      bytes_of(fmt::format("{}:{}{}", request.tenant.size(), request.tenant, request.cache_salt)));
}

// Tenants are identified by hash, so that their names need no table.
std::uint32_t tenant_number(const Request& request) {
  return static_cast<std::uint32_t>(kv::root_hash(bytes_of(request.tenant)).low);
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Result<std::unique_ptr<model::Backend>> open_on_cpu(std::shared_ptr<const load::ModelSource> source,
                                                    const ResolvedOptions& resolved,
                                                    cores::Executor& executor) {
  const EngineOptions& engine = resolved.options;
  const Packing packing =
      plan_packing(*source, resolved, expected_cache(resolved), available_memory());
  if (!packing.notice.empty() && engine.on_unpacked) engine.on_unpacked(packing.notice);
  return model::open_cpu(std::move(source), backend_options(resolved), *resolved.kernels, executor,
                         {engine.threads, packing.types, engine.on_pack});
}

Result<std::unique_ptr<StepLoop>> StepLoop::create(std::shared_ptr<const load::ModelSource> source,
                                                   std::optional<text::Tokenizer> tokenizer,
                                                   EngineOptions options, StepHooks hooks) {
  Result<ResolvedOptions> resolved = resolve(std::move(options), *source);
  if (!resolved) return fail(resolved.error());
  const std::uint32_t threads = resolved->options.threads;
  try {
    auto host = std::make_unique<Host>(resolved->options, model::cpu_tasks(source->config));
    auto backend =
        (hooks.open_backend ? hooks.open_backend : open_on_cpu)(source, *resolved, host->executor);
    if (!backend) return fail(backend.error());
    return std::unique_ptr<StepLoop>(new StepLoop(std::move(resolved->options), std::move(source),
                                                  std::move(tokenizer), std::move(host),
                                                  *std::move(backend), std::move(hooks)));
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "threads: the system does not start {}: {}", threads,
                error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kExhausted,
                "the engine does not fit the memory; expected fewer kv_blocks or max_num_seqs");
  }
}

StepLoop::StepLoop(EngineOptions options, std::shared_ptr<const load::ModelSource> source,
                   std::optional<text::Tokenizer> tokenizer, std::unique_ptr<Host> host,
                   std::unique_ptr<model::Backend> backend, StepHooks hooks)
    : options_(std::move(options)),
      source_(std::move(source)),
      tokenizer_(std::move(tokenizer)),
      end_ids_(find_end_ids(*source_, tokenizer_)),
      host_(std::move(host)),
      backend_(std::move(backend)),
      log_(options_.trace_events > 0 ? std::make_optional<observe::EventLog>(options_.trace_events)
                                     : std::nullopt),
      lanes_(options_.trace_events > 0 ? std::make_optional<observe::LaneLog>(options_.trace_events)
                                       : std::nullopt),
      scheduler_(scheduling_of(options_, source_->config, backend_->cache_shape()),
                 log_ ? &*log_ : nullptr),
      seeds_(random_seed()),
      drafts_by_layer_(engine::drafts_by_layer(options_, source_->config)),
      scorer_(source_->config.vocab_size),
      hooks_(std::move(hooks)) {
  cores::Recorder recorder(1, 1);
  static_cast<void>(recorder.add({cores::kVectorTask}, [this](const cores::Part& part) {
    const model::Range rows = model::part_of(sampled_.size(), part.block, sampling_.spec(0).blocks);
    for (std::uint32_t row = rows.begin; row < rows.end; ++row) append_tokens(row);
  }));
  sampling_ = std::move(recorder).finish();
  if (options_.async_scheduling) background_.emplace(host_->pins);
  if (options_.poison_freed_blocks) {
    scheduler_.pool().note_stale(true);
    std::vector<std::uint32_t> all(scheduler_.pool().size());
    std::iota(all.begin(), all.end(), 0U);
    backend_->poison_blocks(all);
    all.resize(options_.max_num_seqs);
    std::iota(all.begin(), all.end(), 0U);
    backend_->poison_states(all);
  }
}

StepLoop::~StepLoop() {
  if (in_flight_ && background_) static_cast<void>(background_->wait());
}

Status StepLoop::validate(const Request& request) const {
  return engine::validate(request,
                          {source_->config.vocab_size, options_.max_context, options_.max_num_seqs,
                           options_.max_waiting, source_->config.has_logits,
                           source_->config.score != load::Score::kNone});
}

Status StepLoop::add(RequestId id, Request request, EventSink sink, Clock::time_point arrived) {
  assert(!requests_.contains(id) && validate(request));
  auto shared = std::make_shared<SharedRequest>();
  shared->id = id;
  if (!request.ignore_eos) shared->ends = end_ids_;
  shared->ends.insert(shared->ends.end(), request.stop_ids.begin(), request.stop_ids.end());
  std::sort(shared->ends.begin(), shared->ends.end());
  const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  if (request.embed || request.rank || request.no_output) {
    request.max_tokens = 1;
    request.sampling = {};
  }
  if (request.max_tokens == 0)
    request.max_tokens = static_cast<std::int32_t>(options_.max_context - prompt_tokens);
  shared->seed = request.sampling.seed ? *request.sampling.seed : seeds_();
  shared->arrived = arrived;
  if (request.timeout) shared->deadline = arrived + *request.timeout;
  shared->request = std::move(request);
  shared->sink = std::move(sink);

  schedule::SequenceSpec spec;
  spec.prompt_tokens = prompt_tokens;
  spec.max_new_tokens = static_cast<std::uint32_t>(shared->request.max_tokens);
  spec.priority = shared->request.priority;
  spec.tenant = tenant_number(shared->request);
  spec.prompt = shared->request.prompt;
  spec.root = prefix_root(shared->request);
  if (log_) log_->set_time(Clock::now().time_since_epoch().count());
  for (std::int32_t choice = 0; choice < shared->request.n; ++choice) {
    const schedule::SequenceId sequence = spec.id = next_sequence_++;
    spec.computes_all = shared->request.prompt_logprobs >= 0 && choice == 0;
    if (const Status added = scheduler_.add(spec); !added) {
      for (const schedule::SequenceId earlier : requests_[id]) {
        scheduler_.cancel(earlier);
        sequences_.erase(earlier);
      }
      requests_.erase(id);
      return added;
    }
    sequences_.emplace(sequence, Sequence(shared, choice, tokenizer_, source_->config.pooling));
    requests_[id].push_back(sequence);
  }
  if (shared->deadline) deadlines_.emplace(*shared->deadline, id);
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

void StepLoop::expire(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const RequestId id = deadlines_.begin()->second;
    for (const schedule::SequenceId sequence : std::vector(requests_.at(id))) {
      const auto allowed = sequences_.at(sequence).shared().request.timeout->count();
      end(sequence, FinishReason::kError,
          {ErrorKind::kTimeout,
           fmt::format("timeout: the request did not end within its {} ms", allowed)});
      ++stats_.requests_timed_out;
    }
  }
}

void StepLoop::cancel_all() {
  while (!requests_.empty()) cancel(requests_.begin()->first);
}

void StepLoop::abort(const Error& error) {
  if (background_) static_cast<void>(background_->wait());
  deliver();
  aborted_ = true;
  while (!sequences_.empty()) end(sequences_.begin()->first, FinishReason::kError, error);
}

Status StepLoop::step() {
  const auto start = Clock::now();
  update_pins(start);
  InFlightStep& step = in_flight_steps_[current_];
  if (!in_flight_) {
    if (const Status planned = make_plan(step); !planned) return planned;
    if (step.plan.rows.empty()) return {};
    launch(step);
  }
  // With draft tokens to check the next step is planned after the commit.
  InFlightStep& next = in_flight_steps_[1 - current_];
  next.plan.clear();
  if (background_ && !drafts_offered_) {
    if (const Status planned = make_plan(next); !planned) return planned;
  }
  if (const Status waited = wait(step); !waited) return waited;
  pool(step);
  if (const Status scored = score(step); !scored) return scored;
  sample(step);
  if (const Status drafted = draft(step); !drafted) return drafted;
  commit(step);
  in_flight_ = false;
  current_ = 1 - current_;
  if (!next.plan.rows.empty()) launch(next);
  deliver();
  stats_.step_seconds += seconds_since(start);
  return {};
}

void StepLoop::update_pins(Clock::time_point now) {
  const auto ticks =
      static_cast<cores::Ticks>(now.time_since_epoch() / std::chrono::nanoseconds(1));
  if (hooks_.waited_for_cores) {
    host_->pins.look(ticks, hooks_.waited_for_cores());
  } else {
    host_->pins.look(ticks);
  }
}

Status StepLoop::make_plan(InFlightStep& step) {
  if (log_) log_->set_time(Clock::now().time_since_epoch().count());
  if (const Status planned = scheduler_.plan(step.plan); !planned) return planned;
  for (const schedule::Admission& admission : step.plan.admitted) {
    if (admission.resumed) continue;
    Sequence& sequence = sequences_.at(admission.sequence);
    sequence.note_admission(admission.cached_tokens, seconds_since(sequence.shared().arrived));
    stats_.cached_tokens += admission.cached_tokens;
  }
  return {};
}

// No step is in flight: every sequence has its real last token, and no row reads stale blocks.
void StepLoop::launch(InFlightStep& step) {
  assert(!in_flight_);
  in_flight_ = true;
  host_->step.store(step.plan.number, std::memory_order_relaxed);
  stale_blocks_.clear();
  scheduler_.pool().take_stale(stale_blocks_);
  if (!stale_blocks_.empty()) backend_->poison_blocks(stale_blocks_);
  prepare_inputs(step);
  logits_.resize(step.logit_rows * source_->config.vocab_size);
  hidden_.resize(step.hidden_rows * source_->config.hidden_size);
  step.launched = Clock::now();
  note(observe::EventKind::kForward, step.plan.number);
  const auto forward = [this, &step]() -> Status {
    Status computed;
    if (!step.segments.empty()) computed = backend_->forward(step.segments, logits_, hidden_);
    step.forward_seconds = seconds_since(step.launched);
    return computed;
  };
  if (background_) {
    background_->start(forward);
  } else {
    step.computed = forward();
  }
}

static_assert(kv::kNoBlock == model::Segment::kNoState);

// Prepares the backend's inputs for the rows of sequences that have not ended since the plan was
// made. Tokens are copied: a sequence may be cancelled while they are computed.
void StepLoop::prepare_inputs(InFlightStep& step) {
  const schedule::StepPlan& plan = step.plan;
  step.tokens.clear();
  step.tokens.reserve(plan.tokens);
  step.segments.clear();
  step.saves.clear();
  for (const kv::SavedState& save : plan.saves) step.saves.push_back({save.positions, save.state});
  step.load = {};
  step.drafts = 0;
  for (const schedule::Row& row : plan.rows) {
    const auto sequence = sequences_.find(row.sequence);
    if (sequence == sequences_.end()) continue;
    const std::size_t begin = step.tokens.size();
    const auto real =
        sequence->second.tokens().subspan(row.first_position, row.tokens - row.drafts);
    const auto drafts = sequence->second.drafts().first(row.drafts);
    step.tokens.insert(step.tokens.end(), real.begin(), real.end());
    step.tokens.insert(step.tokens.end(), drafts.begin(), drafts.end());
    const bool decode = row.sampled && !row.final_chunk;
    model::Segment segment{
        std::span(step.tokens).subspan(begin),
        row.first_position,
        row.blocks,
        sequence->second.samples() ? row.logit_rows() : 0,
        decode,
        row.slot,
        sequence->second.hidden_rows(row.first_position, row.tokens, row.final_chunk),
        std::span(step.saves).subspan(row.first_save, row.saves),
        row.load,
        static_cast<std::uint32_t>(sequence->second.shared().request.prompt.size())};
    if (const std::uint32_t second = sequence->second.shared().request.second; second != 0)
      segment.second = second;
    const std::span<const TokenId> known = sequence->second.tokens();
    const std::size_t end = row.first_position + row.tokens;
    if (row.drafts == 0 && end < known.size()) segment.next = known[end];
    if (mutated(Mutant::kStateNotLoaded)) segment.load = model::Segment::kNoState;
    if (mutated(Mutant::kOneSaveForAll) && row.saves > 0)
      segment.saves = std::span(step.saves).first(row.saves);
    if (mutated(Mutant::kDecodesAhead) && background_ && decode && row.first_position % 16 < 15)
      ++segment.first_position;
    step.segments.push_back(segment);
    if (mutated(Mutant::kPlaceholder) && background_ && decode) step.tokens[begin] = 0;
    if (mutated(Mutant::kStaleDrafts) && row.drafts > 0) step.tokens.back() = 0;
    (decode ? step.load.decode_rows : step.load.prefill_tokens) += row.tokens;
    step.drafts += row.drafts;
    step.load.context_tokens += schedule::context_read(row.first_position, row.tokens);
  }
  // Offsets of each row's outputs; a row that is not computed has none.
  step.logits_of.clear();
  step.hidden_of.clear();
  step.logit_rows = step.hidden_rows = 0;
  for (const schedule::Row& row : step.plan.rows) {
    step.logits_of.push_back(step.logit_rows);
    step.hidden_of.push_back(step.hidden_rows);
    const auto sequence = sequences_.find(row.sequence);
    if (sequence == sequences_.end()) continue;
    step.hidden_rows +=
        sequence->second.hidden_rows(row.first_position, row.tokens, row.final_chunk).size();
    if (sequence->second.samples()) step.logit_rows += row.logit_rows();
  }
}

Status StepLoop::wait(InFlightStep& step) {
  if (const Status computed = background_ ? background_->wait() : step.computed; !computed)
    return computed;
  stats_.forward_seconds += step.forward_seconds;
  if (lanes_) backend_->take_trace(*lanes_);
  note(observe::EventKind::kForwarded, step.plan.number);
  return {};
}

// Gives sequences that pool their hidden rows.
void StepLoop::pool(const InFlightStep& step) {
  if (step.hidden_rows == 0) return;
  const std::size_t size = source_->config.hidden_size;
  for (std::size_t i = 0; i < step.plan.rows.size(); ++i) {
    const schedule::Row& row = step.plan.rows[i];
    const auto sequence = sequences_.find(row.sequence);
    if (sequence == sequences_.end() || !sequence->second.pools()) continue;
    const std::size_t end =
        i + 1 < step.hidden_of.size() ? step.hidden_of[i + 1] : step.hidden_rows;
    sequence->second.pool(row.first_position,
                          std::span<const float>(hidden_).subspan(step.hidden_of[i] * size,
                                                                  (end - step.hidden_of[i]) * size),
                          size);
  }
}

// Gives sequences that score their prompt the logits of hidden rows.
Status StepLoop::score(const InFlightStep& step) {
  if (step.hidden_rows == 0) return {};
  for (std::size_t i = 0; i < step.plan.rows.size(); ++i) {
    const schedule::Row& row = step.plan.rows[i];
    const auto sequence = sequences_.find(row.sequence);
    if (sequence == sequences_.end() || !sequence->second.scores()) continue;
    const model::Range rows =
        sequence->second.hidden_rows(row.first_position, row.tokens, row.final_chunk);
    for (std::uint32_t k = 0; k < rows.size(); ++k) {
      scorer_.add(sequence->second, row.first_position + rows.begin + k,
                  hidden_.data() + (step.hidden_of[i] + k) * source_->config.hidden_size);
    }
    if (rows.size() > 0) sequence->second.scored_up_to(row.first_position + rows.end);
  }
  return scorer_.run(*backend_, host_->executor, lanes_ ? &*lanes_ : nullptr);
}

void StepLoop::sample(const InFlightStep& step) {
  const std::size_t vocab = source_->config.vocab_size;
  sampled_.clear();
  sampled_logits_.clear();
  for (std::size_t i = 0; i < step.plan.rows.size(); ++i) {
    const schedule::Row& row = step.plan.rows[i];
    if (!row.sampled) continue;
    const auto sequence = sequences_.find(row.sequence);
    sampled_.push_back(sequence == sequences_.end() ? nullptr : &sequence->second);
    sampled_logits_.push_back(sampled_.back() == nullptr || !sampled_.back()->samples()
                                  ? std::span<const float>()
                                  : std::span<const float>(logits_).subspan(
                                        step.logits_of[i] * vocab, row.logit_rows() * vocab));
  }
  appended_.assign(sampled_.size(), {});
  const cores::Topology& lanes = host_->executor.topology();
  sampling_.set_blocks(0,
                       model::share(sampled_.size(), 8 * vocab * sampled_.size(), lanes.lanes()));
  [[maybe_unused]] const Status ran = host_->executor.run(sampling_);
  assert(ran);
  if (lanes_) {
    cores::write_slices(
        host_->executor.take_spans(), lanes,
        [&](const cores::Span& span) { return cores::lane_slice(span, lanes, "sample"); }, *lanes_);
  }
  note(observe::EventKind::kSampled, step.plan.number);
}

// Samples from the logits of one row.
void StepLoop::append_tokens(std::size_t row) {
  if (sampled_[row] == nullptr) return;
  if (sampled_[row]->pools()) {
    appended_[row] = sampled_[row]->finish_pooled(*backend_);
    return;
  }
  if (!sampled_[row]->samples()) {
    appended_[row] = sampled_[row]->finish_prompt();
    return;
  }
  appended_[row] = sampled_[row]->append_tokens(sampled_logits_[row], source_->config.vocab_size);
  if (!appended_[row].ended && !drafts_by_layer_)
    sampled_[row]->propose_drafts(options_.speculative_tokens);
}

// Draft tokens by the model's own layer, for all that go on.
Status StepLoop::draft(const InFlightStep& step) {
  draft_seconds_ = 0;
  if (!drafts_by_layer_) return {};
  const auto goes_on = [this](std::size_t i) {
    return sampled_[i] != nullptr && sampled_[i]->samples() && !appended_[i].ended;
  };
  std::uint32_t sequences = 0;
  for (std::size_t i = 0; i < sampled_.size(); ++i) {
    if (!goes_on(i)) continue;
    ++sequences;
    const auto drafted =
        static_cast<std::uint32_t>(sampled_logits_[i].size() / source_->config.vocab_size) - 1;
    draft_choice_.observe(drafted, appended_[i].new_tokens - 1);
  }
  const std::uint32_t most =
      draft_choice_.choose(sequences, options_.speculative_tokens, estimator_.cost());
  draft_rows_.clear();
  std::uint32_t passes = 0;
  std::size_t next = 0;
  for (const schedule::Row& row : step.plan.rows) {
    if (!row.sampled) continue;
    const std::size_t i = next++;
    if (!goes_on(i)) continue;
    const std::span<const TokenId> tokens = sampled_[i]->tokens();
    const auto position = static_cast<std::uint32_t>(tokens.size() - 2);
    const std::size_t groups = backend_->cache_shape().groups();
    const std::size_t capacity = row.blocks.size() / groups * kernels::kBlockSize;
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(most, capacity - position));
    const std::span<TokenId> drafts = sampled_[i]->draft_tokens(count);
    if (count == 0) continue;
    passes = std::max(passes, count);
    const std::uint32_t last = mutated(Mutant::kDraftsTooEarly) ? 0 : appended_[i].new_tokens - 1;
    draft_rows_.push_back({row.slot, last, position, tokens.back(), row.blocks, drafts});
  }
  if (draft_rows_.empty()) return {};
  const auto start = Clock::now();
  if (const Status drafted = backend_->draft(draft_rows_); !drafted) return drafted;
  draft_seconds_ = seconds_since(start);
  draft_choice_.observe_time(static_cast<std::uint32_t>(draft_rows_.size()), passes,
                             1e6 * draft_seconds_);
  if (lanes_) backend_->take_trace(*lanes_);
  return {};
}

// Commits the step to the scheduler, and queues the events.
void StepLoop::commit(InFlightStep& step) {
  result_.rows.clear();
  result_.tokens.clear();
  drafts_offered_ = false;
  for (std::size_t i = 0; i < sampled_.size(); ++i) {
    schedule::RowResult& outcome = result_.rows.emplace_back();
    outcome.new_tokens = 0;
    if (sampled_[i] == nullptr) continue;
    const auto tokens = sampled_[i]->tokens();
    outcome.new_tokens = appended_[i].new_tokens;
    outcome.finished = appended_[i].ended;
    outcome.next_drafts = static_cast<std::uint32_t>(sampled_[i]->drafts().size());
    drafts_offered_ |= outcome.next_drafts > 0 && !outcome.finished;
    result_.tokens.insert(result_.tokens.end(), tokens.end() - outcome.new_tokens, tokens.end());
  }
  if (hooks_.after_sampling) hooks_.after_sampling(step.plan, result_, sampled_logits_);
  count(step);
  if (log_) log_->set_time(Clock::now().time_since_epoch().count());
  std::size_t next = 0;
  for (const schedule::Row& row : step.plan.rows) {
    if (!row.sampled) continue;
    const std::size_t i = next++;
    if (sampled_[i] == nullptr) continue;
    // Blocks behind logits that are no numbers must not enter the prefix index.
    if (appended_[i].event.finish == FinishReason::kError) scheduler_.cancel(row.sequence);
    undelivered_.emplace_back(sampled_[i]->share(), std::move(appended_[i].event));
    if (!appended_[i].ended) continue;
    stats_.requests_finished += undelivered_.back().second.finish == FinishReason::kError ? 0 : 1;
    forget(row.sequence);
  }
  scheduler_.commit(step.plan, result_);
  estimator_.observe(step.load, 1e6 * (seconds_since(step.launched) - draft_seconds_));
  scheduler_.set_cost(estimator_.cost());
}

void StepLoop::count(const InFlightStep& step) {
  const schedule::StepPlan& plan = step.plan;
  ++stats_.steps;
  stats_.mixed_steps += plan.prefill_rows > 0 && plan.decode_rows() > 0 ? 1 : 0;
  stats_.prompt_tokens += step.load.prefill_tokens;
  stats_.drafted_tokens += step.drafts;
  for (std::size_t i = 0; i < sampled_.size(); ++i) {
    if (sampled_[i] == nullptr || !sampled_[i]->samples()) continue;
    stats_.generated_tokens += result_.rows[i].new_tokens;
    stats_.accepted_tokens += std::max(result_.rows[i].new_tokens, 1U) - 1;
  }
}

// Runs while the next step computes, if there is one.
void StepLoop::deliver() {
  for (auto& [shared, event] : undelivered_) shared->sink(std::move(event));
  undelivered_.clear();
}

void StepLoop::note(observe::EventKind kind, std::uint64_t id) {
  if (!log_) return;
  log_->set_time(Clock::now().time_since_epoch().count());
  log_->write(kind, id);
}

EngineTrace StepLoop::trace() const {
  if (!log_) return {};
  return {log_->events(), lanes_->slices()};
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
  if (request->second.empty()) {
    const auto& deadline = sequence->second.shared().deadline;
    if (deadline) deadlines_.erase({*deadline, request->first});
    requests_.erase(request);
  }
  sequences_.erase(sequence);
}

EngineStats StepLoop::stats() const {
  EngineStats stats = stats_;
  stats.preemptions = scheduler_.preemptions();
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.kv_blocks = scheduler_.pool().size();
  stats.kv_blocks_used = scheduler_.pool().used();
  stats.threads_pinned = host_->pins.pinned();
  stats.kv_blocks_cached = scheduler_.pool().cached();
  stats.recomputed_tokens = scheduler_.recomputed_tokens();
  return stats;
}

}  // namespace dovetail::engine
