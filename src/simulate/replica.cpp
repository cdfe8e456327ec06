#include "simulate/replica.h"

#include <algorithm>
#include <cmath>

#include "simulate/random.h"

namespace dovetail::simulate {
namespace {

// A token that no other request and position has, but for those of its family's beginning.
std::int32_t token(std::uint64_t id, const Arrival& arrival, std::uint32_t position) {
  const bool shared = arrival.family > 0 && position < arrival.shared_tokens;
  const std::uint64_t owner = shared ? (1ULL << 63) | arrival.family : id;
  return static_cast<std::int32_t>(Random(owner * 0x100000001b3ULL + position).next() >> 33);
}

}  // namespace

void Figures::merge(const Figures& other) {
  queue.merge(other.queue);
  first_token.merge(other.first_token);
  inter_token.merge(other.inter_token);
  end_to_end.merge(other.end_to_end);
  finished += other.finished;
  refused += other.refused;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  recomputed_tokens += other.recomputed_tokens;
  new_tokens += other.new_tokens;
  guesses += other.guesses;
  right_guesses += other.right_guesses;
  preemptions += other.preemptions;
  rows += other.rows;
  prefill_steps += other.prefill_steps;
  mixed_steps += other.mixed_steps;
  decode_steps += other.decode_steps;
  busy += other.busy;
  makespan = std::max(makespan, other.makespan);
}

Replica::Replica(const ReplicaOptions& options, Figures& figures, observe::EventLog* log)
    : options_(options), figures_(figures), log_(log), scheduler_(options.scheduler, log) {
  if (options.knows_cost) scheduler_.set_cost(options.cost);
}

void Replica::tell_time(std::int64_t now) {
  if (log_ != nullptr) log_->set_time(now);
}

void Replica::submit(std::uint64_t id, const Arrival& arrival) {
  tell_time(arrival.time);
  schedule::SequenceSpec spec;
  spec.id = id;
  spec.prompt_tokens = arrival.prompt_tokens;
  spec.max_new_tokens = arrival.output_tokens;
  spec.priority = arrival.priority;
  spec.tenant = arrival.tenant;
  if (options_.scheduler.prefix_cache && arrival.prompt_tokens < options_.scheduler.max_context) {
    prompt_.resize(arrival.prompt_tokens);
    for (std::uint32_t i = 0; i < arrival.prompt_tokens; ++i) prompt_[i] = token(id, arrival, i);
    spec.prompt = prompt_;
  }
  const bool fits = arrival.prompt_tokens < options_.scheduler.max_context;
  if (!fits || !scheduler_.add(spec)) {
    ++figures_.refused;
    return;
  }
  Request& request = requests_[id];
  request.arrived = arrival.time;
  request.left =
      std::min(arrival.output_tokens, options_.scheduler.max_context - arrival.prompt_tokens);
}

Result<std::optional<std::int64_t>> Replica::begin(std::int64_t now) {
  tell_time(now);
  const std::uint64_t preempted = scheduler_.preemptions();
  const std::uint64_t recomputed = scheduler_.recomputed_tokens();
  if (const Status planned = scheduler_.plan(plan_); !planned) return fail(planned.error());
  figures_.preemptions += scheduler_.preemptions() - preempted;
  figures_.recomputed_tokens += scheduler_.recomputed_tokens() - recomputed;
  if (plan_.rows.empty()) return std::optional<std::int64_t>();
  for (const schedule::Admission& admission : plan_.admitted) {
    Request& request = requests_.at(admission.sequence);
    if (request.admitted) continue;
    request.admitted = true;
    figures_.queue.add(now - request.arrived);
    figures_.cached_tokens += admission.cached_tokens;
  }
  schedule::StepLoad load;
  for (const schedule::Row& row : plan_.rows) {
    const bool decode = row.sampled && !row.final_chunk;
    (decode ? load.decode_rows : load.prefill_tokens) += row.tokens;
    load.context_tokens += schedule::context_read(row.first_position, row.tokens);
  }
  ++(plan_.decode_rows() == 0  ? figures_.prefill_steps
     : plan_.prefill_rows == 0 ? figures_.decode_steps
                               : figures_.mixed_steps);
  figures_.rows += plan_.rows.size();
  figures_.prompt_tokens += plan_.prefill_tokens;
  figures_.guesses += plan_.drafts;
  began_ = now;
  stepping_ = true;
  const double microseconds = options_.cost.predict(load);
  return std::optional(now + std::max<std::int64_t>(1, std::llround(1000.0 * microseconds)));
}

// A function of the request and its place alone, so that the schedule does not change the load.
std::uint32_t Replica::right_guesses(std::uint64_t id, std::uint32_t left,
                                     std::uint32_t guesses) const {
  Random random(options_.seed ^ (id * 0x9e3779b97f4a7c15ULL + left));
  std::uint32_t right = 0;
  while (right < guesses && random.uniform() < options_.acceptance) ++right;
  return right;
}

void Replica::finish(std::int64_t now) {
  stepping_ = false;
  tell_time(now);
  figures_.busy += now - began_;
  figures_.makespan = std::max(figures_.makespan, now);
  result_.rows.clear();
  result_.tokens.clear();
  for (const schedule::Row& row : plan_.rows) {
    if (!row.sampled) continue;
    const auto found = requests_.find(row.sequence);
    Request& request = found->second;
    const std::uint32_t right =
        row.drafts > 0 ? right_guesses(row.sequence, request.left, row.drafts) : 0;
    schedule::RowResult& outcome = result_.rows.emplace_back();
    outcome.new_tokens = std::min(1 + right, request.left);
    outcome.next_drafts = options_.scheduler.speculative_tokens;
    if (request.last_token < 0) {
      figures_.first_token.add(now - request.arrived);
    } else {
      figures_.inter_token.add(now - request.last_token);
    }
    figures_.inter_token.add(0, outcome.new_tokens - 1);
    request.last_token = now;
    request.left -= outcome.new_tokens;
    figures_.new_tokens += outcome.new_tokens;
    figures_.right_guesses += outcome.new_tokens - 1;
    if (options_.scheduler.prefix_cache) {
      for (std::uint32_t i = 0; i < outcome.new_tokens; ++i)
        result_.tokens.push_back(
            static_cast<std::int32_t>((row.sequence * 31 + request.left + i) & 0x3fffffff));
    }
    outcome.finished = request.left == 0;
    if (!outcome.finished) continue;
    figures_.end_to_end.add(now - request.arrived);
    ++figures_.finished;
    requests_.erase(found);
  }
  scheduler_.commit(plan_, result_);
}

}  // namespace dovetail::simulate
