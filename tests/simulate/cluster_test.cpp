#include "simulate/cluster.h"

#include <gtest/gtest.h>

#include <vector>

#include "simulate/calibrate.h"
#include "simulate/random.h"
#include "simulate/report.h"

namespace dovetail::simulate {
namespace {

constexpr std::int64_t kMicrosecond = 1000;

ClusterOptions machine() {
  ClusterOptions options;
  options.replica.scheduler.max_num_seqs = 4;
  options.replica.scheduler.max_num_batched_tokens = 64;
  options.replica.scheduler.max_context = 128;
  options.replica.scheduler.kv_blocks = 64;
  options.replica.scheduler.prefill_alignment = 1;
  options.replica.cost = {100.0, 1.0, 10.0, 0.0, 0};
  options.replica.knows_cost = false;
  return options;
}

Figures play(const ClusterOptions& options, std::vector<Arrival> arrivals) {
  const auto figures = simulate(
      options, [&] { return replay(arrivals); }, nullptr);
  EXPECT_TRUE(figures.has_value()) << figures.error().message;
  return *figures;
}

Arrival request(std::int64_t microseconds, std::uint32_t prompt, std::uint32_t output) {
  Arrival arrival;
  arrival.time = microseconds * kMicrosecond;
  arrival.prompt_tokens = prompt;
  arrival.output_tokens = output;
  return arrival;
}

// By hand: the prompt takes 100 + 20 us, each further token 100 + 10 us.
TEST(Replica, OneRequestTakesWhatItsStepsTake) {
  const Figures figures = play(machine(), {request(50, 20, 3)});
  EXPECT_EQ(figures.first_token.max(), 120 * kMicrosecond);
  EXPECT_EQ(figures.inter_token.count(), 2U);
  EXPECT_EQ(figures.inter_token.min(), 110 * kMicrosecond);
  EXPECT_EQ(figures.inter_token.max(), 110 * kMicrosecond);
  EXPECT_EQ(figures.end_to_end.max(), 340 * kMicrosecond);
  EXPECT_EQ(figures.queue.max(), 0);
  EXPECT_EQ(figures.makespan, 390 * kMicrosecond);
  EXPECT_EQ(figures.prefill_steps, 1U);
  EXPECT_EQ(figures.decode_steps, 2U);
  EXPECT_EQ(figures.rows, 3U);
}

// The second comes while the first step runs (to 120) and waits for its end; then one mixed step
// of 100 + 30 + 10 us.
TEST(Replica, ANewcomerJoinsTheNextStep) {
  const Figures figures = play(machine(), {request(0, 20, 2), request(100, 30, 1)});
  EXPECT_EQ(figures.mixed_steps, 1U);
  EXPECT_EQ(figures.queue.max(), 20 * kMicrosecond);
  EXPECT_EQ(figures.first_token.max(), 160 * kMicrosecond);
  EXPECT_EQ(figures.inter_token.max(), 140 * kMicrosecond);
  EXPECT_EQ(figures.makespan, 260 * kMicrosecond);
}

TEST(Replica, WhatCannotFitIsRefused) {
  const Figures figures = play(machine(), {request(0, 128, 1), request(0, 127, 50)});
  EXPECT_EQ(figures.refused, 1U);
  EXPECT_EQ(figures.finished, 1U);
  EXPECT_EQ(figures.new_tokens, 1U);  // the context's end
}

WorkloadSpec busy() {
  WorkloadSpec spec;
  spec.requests = 400;
  spec.arrivals = "poisson:2000";
  spec.prompt = "uniform:5-60";
  spec.output = "uniform:1-40";
  spec.tenants = 3;
  spec.families = 5;
  spec.shared_tokens = 32;
  return spec;
}

Figures play(const ClusterOptions& options, const WorkloadSpec& spec) {
  const auto figures = simulate(
      options, [&] { return *generate(spec); }, nullptr);
  EXPECT_TRUE(figures.has_value()) << figures.error().message;
  return *figures;
}

// Every request ends, every token is counted once, whatever the options.
TEST(Cluster, ConservesRequestsAndTokens) {
  const WorkloadSpec spec = busy();
  std::uint64_t wanted = 0;
  const Workload workload = *generate(spec);
  while (const auto next = workload()) wanted += next->output_tokens;
  for (const std::uint32_t blocks : {10U, 14U, 64U}) {
    for (const Router router :
         {Router::kRoundRobin, Router::kLeastOutstanding, Router::kPrefixAffinity}) {
      for (const bool everything : {false, true}) {
        ClusterOptions options = machine();
        options.replicas = 3;
        options.router = router;
        options.replica.scheduler.kv_blocks = blocks;
        options.replica.scheduler.prefix_cache = everything;
        options.replica.scheduler.speculative_tokens = everything ? 2 : 0;
        options.replica.scheduler.policy =
            everything ? schedule::Policy::kFair : schedule::Policy::kFcfs;
        options.replica.knows_cost = everything;
        const Figures figures = play(options, spec);
        EXPECT_EQ(figures.finished, spec.requests);
        EXPECT_EQ(figures.refused, 0U);
        EXPECT_EQ(figures.new_tokens, wanted);
        EXPECT_EQ(figures.end_to_end.count(), spec.requests);
        EXPECT_EQ(figures.first_token.count() + figures.inter_token.count(), wanted);
        EXPECT_EQ(figures.guesses > 0, everything);
        EXPECT_LE(figures.busy, 3 * figures.makespan);
      }
    }
  }
}

TEST(Cluster, TheResultDoesNotDependOnTheThreads) {
  ClusterOptions options = machine();
  options.replicas = 7;
  options.replica.scheduler.kv_blocks = 12;
  const std::string alone = report_json(play(options, busy()), 7);
  options.threads = 3;
  EXPECT_EQ(report_json(play(options, busy()), 7), alone);
  options.threads = 16;
  EXPECT_EQ(report_json(play(options, busy()), 7), alone);
  // Nor where the times are so long that their sum outgrows a double.
  options.replica.cost = {12345678912.345, 101.13, 203.71, 0.0107, 0};
  options.threads = 1;
  const std::string slow = report_json(play(options, busy()), 7);
  options.threads = 3;
  EXPECT_EQ(report_json(play(options, busy()), 7), slow);
}

// Forty requests of 64 + 100 tokens at once. With room for 16 of them they run in three waves of
// 16, 16 and 8 and no sequence is preempted; where the pool holds 24 prompts and not what grows
// from them, some give way, and all end still.
TEST(Replica, FortyEqualRequestsAllEndUnderMemoryPressure) {
  ClusterOptions options = machine();
  options.replica.cost = {1000.0, 10.0, 50.0, 0.0, 0};
  options.replica.scheduler.max_num_batched_tokens = 2048;
  options.replica.scheduler.max_context = 176;
  options.replica.scheduler.max_num_seqs = 16;
  options.replica.scheduler.kv_blocks = 176;
  const std::vector<Arrival> requests(40, request(0, 64, 100));
  const Figures waves = play(options, requests);
  EXPECT_EQ(waves.finished, 40U);
  EXPECT_EQ(waves.preemptions, 0U);
  EXPECT_EQ(waves.prompt_tokens, 40U * 64);
  // A wave: its prompts in one step (1000 + 10 * 64 a prompt), then 99 steps of 50 a row.
  EXPECT_EQ(waves.prefill_steps, 3U);
  EXPECT_EQ(waves.decode_steps, 3U * 99);
  const std::int64_t full = 1000 + 10 * 64 * 16 + 99 * (1000 + 50 * 16);
  const std::int64_t last = 1000 + 10 * 64 * 8 + 99 * (1000 + 50 * 8);
  EXPECT_EQ(waves.end_to_end.min(), full * kMicrosecond);
  EXPECT_EQ(waves.end_to_end.max(), (2 * full + last) * kMicrosecond);
  EXPECT_LE(waves.end_to_end.max(), 3 * waves.end_to_end.min());

  options.replica.scheduler.max_num_seqs = 40;
  options.replica.scheduler.kv_blocks = 120;
  const Figures growth = play(options, requests);
  EXPECT_EQ(growth.finished, 40U);
  EXPECT_EQ(growth.refused, 0U);
  EXPECT_EQ(growth.new_tokens, 4000U);
  EXPECT_GT(growth.preemptions, 0U);
  // Who comes back reads what it lost, and the token that it had got last.
  EXPECT_EQ(growth.prompt_tokens, 40U * 64 + growth.recomputed_tokens + growth.preemptions);
  EXPECT_LE(growth.recomputed_tokens, (40U * 64 + 4000) / 2);
}

TEST(Cluster, PrefixAffinityFindsMoreThanRoundRobin) {
  ClusterOptions options = machine();
  options.replicas = 4;
  options.replica.scheduler.prefix_cache = true;
  WorkloadSpec spec = busy();
  spec.families = 12;
  spec.prompt = "uniform:40-60";
  const Figures round_robin = play(options, spec);
  options.router = Router::kPrefixAffinity;
  const Figures affine = play(options, spec);
  EXPECT_GT(round_robin.cached_tokens, 0U);
  EXPECT_GT(affine.cached_tokens, round_robin.cached_tokens);
}

TEST(Cluster, LeastOutstandingShortensTheQueueUnderUnevenLoad) {
  ClusterOptions options = machine();
  options.replicas = 4;
  WorkloadSpec spec = busy();
  spec.output = "longtail:4";
  spec.families = 0;
  const Figures round_robin = play(options, spec);
  options.router = Router::kLeastOutstanding;
  const Figures least = play(options, spec);
  EXPECT_LT(least.queue.mean(), round_robin.queue.mean());
}

TEST(Calibrate, FindsTheCoefficients) {
  const schedule::StepCost truth{350.0, 12.5, 40.0, 0.002, 0};
  Random random(3);
  std::vector<MeasuredStep> steps;
  for (int i = 0; i < 200; ++i) {
    const schedule::StepLoad load{random.below(600), 1 + random.below(60),
                                  static_cast<double>(random.below(1000000))};
    steps.push_back({load, truth.predict(load) * (0.99 + 0.02 * random.uniform())});
  }
  const auto found = calibrate(steps);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_NEAR(found->cost.step, truth.step, 0.05 * truth.step);
  EXPECT_NEAR(found->cost.prefill_token, truth.prefill_token, 0.02 * truth.prefill_token);
  EXPECT_NEAR(found->cost.decode_row, truth.decode_row, 0.05 * truth.decode_row);
  EXPECT_NEAR(found->cost.context_token, truth.context_token, 0.05 * truth.context_token);
  EXPECT_LT(found->median_error, 0.01);
  // What costs nothing comes out as nothing, not as less.
  for (MeasuredStep& step : steps) step.microseconds = 5.0 * step.load.prefill_tokens + 1.0;
  const auto plain = calibrate(steps);
  ASSERT_TRUE(plain.has_value());
  EXPECT_GE(plain->cost.decode_row, 0.0);
  EXPECT_GE(plain->cost.context_token, 0.0);
}

TEST(Calibrate, RefusesWhatTeachesNothing) {
  EXPECT_FALSE(calibrate({}).has_value());
  const std::string head = "prefill_tokens,decode_rows,context_tokens,microseconds\n";
  EXPECT_FALSE(parse_steps(head + "1,1,1,0\n", "s.csv").has_value());
  EXPECT_FALSE(parse_steps(head + "0,0,1,5\n", "s.csv").has_value());
  EXPECT_FALSE(parse_steps(head + "-1,0,1,5\n", "s.csv").has_value());
  const auto steps = parse_steps(head + "16,2,300,81.5\n", "s.csv");
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ((*steps)[0].load.prefill_tokens, 16U);
  EXPECT_DOUBLE_EQ((*steps)[0].microseconds, 81.5);
}

}  // namespace
}  // namespace dovetail::simulate
