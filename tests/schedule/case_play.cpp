#include "schedule/case_play.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace dovetail::schedule {

SchedulerOptions roomy(std::uint32_t slots, std::uint32_t budget, std::uint32_t threshold,
                       std::uint32_t context) {
  SchedulerOptions options;
  options.max_num_seqs = slots;
  options.max_num_batched_tokens = budget;
  options.long_prefill_token_threshold = threshold;
  options.max_context = context;
  options.kv_blocks = slots * kv::blocks_for(context, options.block_size);
  return options;
}

SequenceSpec request(SequenceId id, std::uint32_t prompt, std::uint32_t max) {
  SequenceSpec spec;
  spec.id = id;
  spec.prompt_tokens = prompt;
  spec.max_new_tokens = max;
  return spec;
}

Play::Play(const SchedulerOptions& options, Look look, const StepCost& cost)
    : look_(look), driver_(options, 1 << 16), laws_(options, cost.known()) {
  if (cost.known()) driver_.scheduler().set_cost(cost);
  if (look == Look::kEverything) {
    cells_.resize(std::size_t{options.kv_blocks} * options.block_size);
  }
}

Status Play::add(const SequenceSpec& spec) {
  if (const Status status = driver_.add(spec); !status) return status;
  sequences_[spec.id] = {
      spec.prompt_tokens, {spec.prompt.begin(), spec.prompt.end()}, arrivals_++, 0, 0, false};
  Course& course = courses_[spec.id];
  course.prompt = spec.prompt_tokens;
  course.arrived = steps_;
  course.arrived_at = now_;
  return {};
}

void Play::cancel(SequenceId id) {
  driver_.cancel(id);
  judge();
}

void Play::judge() {
  const observe::EventLog& log = driver_.log();
  if (judged_ < log.oldest()) throw std::runtime_error("more happened at once than the log holds");
  for (; judged_ < log.written(); ++judged_) laws_.see(log.at(judged_));
  if (!laws_.violations().empty()) {
    throw std::runtime_error(
        fmt::format("step {}: a law is broken: {}", steps_, laws_.violations().front()));
  }
}

void Play::plan() { plan_any(false); }
void Play::plan_ahead() { plan_any(true); }

void Play::plan_any(bool ahead) {
  const Status status = ahead ? driver_.plan_ahead() : driver_.plan();
  if (!status) throw std::runtime_error(fmt::format("step {}: {}", steps_, status.error().message));
  const StepPlan& plan = driver_.last_plan();
  judge();
  see(plan);
  ++steps_;
  if (plan.rows.empty()) return;
  step_times_.push_back(step_us + prefill_us * plan.prefill_tokens +
                        decode_us * (plan.tokens - plan.prefill_tokens));
}

void Play::commit() {
  if (step_times_.empty()) return;
  now_ += step_times_.front();
  step_times_.erase(step_times_.begin());
  driver_.commit();
  judge();
  for (const SequenceId id : sampled_.front()) {
    Course& course = courses_.at(id);
    if (!course.first_token) {
      course.first_token = steps_ - 1;
      course.first_token_at = now_;
    }
  }
  sampled_.erase(sampled_.begin());
  // The number of accepted draft tokens decides where the sequence continues.
  for (const auto& [id, first] : drafted_.front()) {
    sequences_.at(id).next = sequences_.at(id).prompt + driver_.generated(id) - 1;
  }
  drafted_.erase(drafted_.begin());
  for (const SequenceId id : driver_.finished()) {
    Course& course = courses_.at(id);
    course.finished = steps_ - 1;
    course.finished_at = now_;
    finished_.push_back(id);
  }
}

void Play::run(std::uint64_t limit) {
  const std::uint64_t end = steps_ + limit;
  while (!scheduler().idle()) {
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_LT(steps_, end) << scheduler().running() << " running, " << scheduler().waiting()
                           << " waiting";
    step();
  }
}

void Play::see(const StepPlan& plan) {
  const SchedulerOptions& options = scheduler().options();
  EXPECT_LE(plan.rows.size(), options.max_num_seqs) << "step " << steps_;
  EXPECT_LE(plan.tokens, options.max_num_batched_tokens) << "step " << steps_;
  EXPECT_LE(scheduler().running(), options.max_num_seqs) << "step " << steps_;
  for (const SequenceId id : plan.preempted) {
    EXPECT_TRUE(sequences_.at(id).running) << id << " gave way and had no place";
    sequences_.at(id).running = false;
    ++courses_.at(id).preemptions;
  }
  for (const Admission& admission : plan.admitted) {
    Sequence& sequence = sequences_.at(admission.sequence);
    Course& course = courses_.at(admission.sequence);
    EXPECT_FALSE(sequence.running) << admission.sequence << " was admitted twice";
    EXPECT_EQ(admission.resumed, course.admissions > 0) << admission.sequence;
    sequence.running = true;
    sequence.next = admission.cached_tokens;
    sequence.target = sequence.prompt + driver_.generated(admission.sequence);
    if (course.admissions++ == 0) {
      course.admitted = steps_;
      course.cached = admission.cached_tokens;
    }
  }
  std::uint32_t tokens = 0, prefill_tokens = 0;
  std::set<SequenceId> seen;
  if (!plan.rows.empty()) {
    drafted_.emplace_back();
    sampled_.emplace_back();
  }
  const bool by_arrival = options.policy == Policy::kFcfs || options.policy == Policy::kFair;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    const bool prefill = i < plan.prefill_rows;
    EXPECT_TRUE(seen.insert(row.sequence).second) << row.sequence << " has two rows";
    if (by_arrival && i > 0 && i != plan.prefill_rows) {
      EXPECT_LT(sequences_.at(plan.rows[i - 1].sequence).arrival,
                sequences_.at(row.sequence).arrival)
          << "rows out of order in step " << steps_;
    }
    see_row(plan, row, prefill);
    tokens += row.tokens;
    prefill_tokens += prefill ? row.tokens : 0;
  }
  EXPECT_EQ(plan.tokens, tokens);
  EXPECT_EQ(plan.prefill_tokens, prefill_tokens);
  if (!options.mixed) {
    EXPECT_TRUE(plan.prefill_rows == 0 || plan.decode_rows() == 0);
  }
  prefill_tokens_ += prefill_tokens;
  decode_tokens_ += tokens - prefill_tokens;
}

void Play::see_row(const StepPlan& plan, const Row& row, bool prefill) {
  Sequence& sequence = sequences_.at(row.sequence);
  Course& course = courses_.at(row.sequence);
  EXPECT_TRUE(sequence.running) << row.sequence << " has a row and no place";
  EXPECT_EQ(row.first_position, sequence.next) << row.sequence << " in step " << plan.number;
  sequence.next = row.first_position + row.tokens;
  if (prefill) {
    EXPECT_LE(sequence.next, sequence.target) << row.sequence;
    EXPECT_EQ(row.final_chunk, sequence.next == sequence.target) << row.sequence;
    EXPECT_EQ(row.sampled, row.final_chunk) << row.sequence;
    EXPECT_EQ(row.drafts, 0U) << row.sequence;
  } else {
    EXPECT_TRUE(row.sampled) << row.sequence;
    EXPECT_EQ(row.tokens, 1 + row.drafts) << row.sequence;
    EXPECT_GE(row.first_position, sequence.target) << row.sequence << " decodes while it reads";
  }
  if (row.drafts > 0) drafted_.back().emplace_back(row.sequence, row.first_position);
  if (row.sampled) {
    sampled_.back().push_back(row.sequence);
    if (course.last_row) {
      course.longest_gap = std::max(course.longest_gap, steps_ - *course.last_row);
    }
    course.last_row = steps_;
  }
  if (look_ == Look::kEverything) see_cache(row);
}

void Play::see_cache(const Row& row) {
  const std::uint32_t block_size = scheduler().options().block_size;
  const std::uint32_t end = row.first_position + row.tokens;
  ASSERT_EQ(row.blocks.size(), kv::blocks_for(end, block_size)) << row.sequence;
  for (std::uint32_t position = 0; position < end; ++position) {
    Cell& cell =
        cells_[std::size_t{row.blocks[position / block_size]} * block_size + position % block_size];
    const Cell own = cell_of(row.sequence, position);
    if (position >= row.first_position) {
      cell = own;
    } else {
      ASSERT_EQ(cell.token, own.token) << row.sequence << " reads a foreign or lost position "
                                       << position << " in step " << steps_;
      ASSERT_EQ(cell.position, own.position) << row.sequence;
    }
  }
}

Play::Cell Play::cell_of(SequenceId id, std::uint32_t position) const {
  const Sequence& sequence = sequences_.at(id);
  if (sequence.tokens.empty()) return {static_cast<std::int64_t>(id), position};
  return {position < sequence.prompt ? sequence.tokens[position]
                                     : Driver::token(id, position - sequence.prompt),
          position};
}

void Play::expect_all_returned() const {
  EXPECT_TRUE(scheduler().idle());
  EXPECT_EQ(scheduler().running(), 0U);
  EXPECT_EQ(scheduler().waiting(), 0U);
  const kv::BlockPool& pool = scheduler().pool();
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_EQ(pool.free() + pool.cached(), pool.size());
  for (kv::BlockId block = 0; block < pool.size(); ++block) {
    EXPECT_EQ(pool.references(block), 0U) << block;
  }
}

}  // namespace dovetail::schedule
