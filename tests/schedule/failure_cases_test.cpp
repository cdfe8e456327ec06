// Failures that users of serving engines met, as far as they are a scheduler's (CASES.md: F1 to
// F28), case by case.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "schedule/case_play.h"

namespace dovetail::schedule {
namespace {

using testing::ElementsAre;

std::uint32_t in(std::mt19937& random, std::uint32_t low, std::uint32_t high) {
  return std::uniform_int_distribution<std::uint32_t>(low, high)(random);
}

SchedulerOptions tight(std::uint32_t slots, std::uint32_t blocks, std::uint32_t context) {
  SchedulerOptions options;
  options.max_num_seqs = slots;
  options.max_num_batched_tokens = std::max(256U, slots);
  options.kv_blocks = blocks;
  options.max_context = context;
  options.max_waiting = 1U << 20;
  return options;
}

struct Load {
  double tax = 0, goodput = 0;
};
// `clients` of which each has a request of 64 + 100 tokens (11 blocks at its full length) there all
// the time, until 400 are done.
Load thrash(std::uint32_t clients, std::uint32_t blocks) {
  Play play(tight(clients, blocks, 176));
  SequenceId next = 0;
  for (; next < clients; ++next) EXPECT_TRUE(play.add(next, 64, 100));
  while (play.finished().size() < 400 && play.steps() < 40000) {
    play.step();
    for (std::size_t i = play.driver().finished().size(); i > 0; --i) {
      EXPECT_TRUE(play.add(next++, 64, 100));
    }
  }
  const double useful = static_cast<double>(play.finished().size()) * 164;
  return {static_cast<double>(play.scheduler().recomputed_tokens()) / useful, useful / play.now()};
}

TEST(FailureCases, F2_TheRecomputeTaxIsBoundedAndLoadDoesNotCostGoodput) {
  const double tax = thrash(40, 40 * 11 * 2 / 5).tax;
  EXPECT_LE(tax, 0.35);
  EXPECT_GT(tax, 0.0) << "no pressure";
  RecordProperty("tax_percent", static_cast<int>(100 * tax));
  double before = 0;
  for (const std::uint32_t clients : {16U, 32U, 48U}) {
    const double goodput = thrash(clients, 16 * 11).goodput;
    EXPECT_GE(goodput, before) << clients;
    before = goodput;
    RecordProperty(std::to_string(clients) + "_clients", std::to_string(goodput));
  }
}

// 10,000 pairs of a pool and a load, most of them too much for it: all end, and Play bounds each.
TEST(FailureCases, F3_EveryLoadEndsInEveryPool) {
  std::uint64_t preemptions = 0;
  for (std::uint32_t seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    SchedulerOptions options;
    options.block_size = in(random, 1, 8);
    options.kv_blocks = in(random, 1, 24);
    options.max_context = in(random, 2, std::max(2U, options.kv_blocks * options.block_size));
    options.kv_blocks =
        std::max(options.kv_blocks, kv::blocks_for(options.max_context, options.block_size));
    options.max_num_seqs = in(random, 1, 10);
    options.max_num_batched_tokens = in(random, options.max_num_seqs, 64);
    options.long_prefill_token_threshold = in(random, 0, 20);
    options.prefill_alignment = in(random, 0, 4);
    options.watermark = in(random, 0, 3);
    options.min_prefill_tokens = in(random, 1, 20);
    options.prefill_interval = in(random, 1, 4);
    options.mixed = in(random, 0, 3) > 0;
    options.policy = static_cast<Policy>(in(random, 0, 2));
    options.ageing_steps = in(random, 1, 50);
    Play play(options);
    std::uint64_t work = 100;
    const std::uint32_t requests = in(random, 1, 12);
    for (SequenceId id = 0; id < requests; ++id) {
      SequenceSpec spec = request(id, in(random, 1, options.max_context - 1), in(random, 1, 30));
      spec.priority = static_cast<std::int32_t>(in(random, 0, 3));
      spec.batch_class = in(random, 0, 9) == 0 ? 1 : 0;
      spec.tenant = in(random, 0, 2);
      ASSERT_TRUE(play.add(spec));
      work += spec.prompt_tokens + spec.max_new_tokens;
      if (in(random, 0, 2) == 0) play.step();
    }
    play.run(work * (options.prefill_interval + 1) * 4);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    EXPECT_EQ(play.finished().size(), requests);
    play.expect_all_returned();
    preemptions += play.scheduler().preemptions();
  }
  EXPECT_GT(preemptions, 1000U) << "the pools are not tight";
}

TEST(FailureCases, F4_APromptThatCannotFitHoldsUpNoOther) {
  constexpr std::uint32_t kUsable = 320;
  for (const std::uint32_t prompt : {kUsable - 1, kUsable, kUsable + 1, kUsable + 16}) {
    Play play(tight(4, 20, kUsable));
    const Status added = play.add(0, prompt, 10);
    EXPECT_EQ(added.has_value(), prompt < kUsable) << prompt;
    ASSERT_TRUE(play.add(1, 20, 5));
    play.run(40);
    EXPECT_TRUE(play.course(1).finished) << "the one behind " << prompt;
  }
}

// The promise here is strict: first come, first served. So the light ones wait behind the heavy one
// at the head, and what bounds their wait is that its own is bounded: by the end of who runs.
TEST(FailureCases, F5_TheHeavyOnesWaitIsThatOfTheRunning) {
  Play play(tight(16, 1050, 16 * 1050));
  SchedulerOptions options = play.scheduler().options();
  ASSERT_TRUE(play.add(0, 15900, 60));  // 1,000 of 1,050 blocks
  while (!play.course(0).first_token) play.step();
  ASSERT_LE(play.scheduler().pool().free(), 60U);
  ASSERT_TRUE(play.add(1, 15900, 5));
  for (SequenceId id = 2; id < 12; ++id) ASSERT_TRUE(play.add(id, 150, 5));
  play.step();
  EXPECT_TRUE(play.last().admitted.empty()) << "none overtakes";
  while (!play.course(0).finished) play.step();
  play.step();
  ASSERT_FALSE(play.last().admitted.empty());
  EXPECT_EQ(play.last().admitted[0].sequence, 1U) << "with the first step that has capacity";
  // A steady stream of light ones changes nothing.
  SequenceId next = 12;
  const std::uint64_t bound = 15905 / (options.max_num_batched_tokens - 64 - 16) + 5 + 10;
  const std::uint64_t from = play.steps();
  while (!play.course(1).finished && play.steps() < from + 2 * bound) {
    ASSERT_TRUE(play.add(next++, 150, 5));
    play.step();
  }
  ASSERT_TRUE(play.course(1).finished);
  EXPECT_LE(*play.course(1).finished - from, bound);
  play.run(4000);
  EXPECT_EQ(play.finished().size(), next);
}

// A known cost, a long prompt beside a decode: no step takes longer than 1.5 times its bound.
TEST(FailureCases, F6_ALongPromptDoesNotStallADecode) {
  SchedulerOptions options = roomy(8, 2048, 0, 40000);
  options.target_step_us = 5000;
  options.min_prefill_tokens = 16;
  const StepCost cost{1000, 5, 50, 0.001, 0};
  Play play(options, Play::Look::kNotAtTheCache, cost);
  ASSERT_TRUE(play.add(0, 100, 0));
  play.step();
  ASSERT_TRUE(play.add(1, 32768, 1));
  double longest = 0;
  while (!play.course(1).finished && play.steps() < 4000) {
    play.step();
    ASSERT_NE(play.driver().row_of(0), nullptr) << "no gap at all in steps";
    StepLoad load;
    load.prefill_tokens = play.last().prefill_tokens;
    load.decode_rows = play.last().decode_rows();
    for (const Row& row : play.last().rows) {
      load.context_tokens += context_read(row.first_position, row.tokens);
    }
    longest = std::max(longest, cost.predict(load));
  }
  EXPECT_TRUE(play.course(1).finished);
  EXPECT_LE(longest, 1.5 * options.target_step_us);
  EXPECT_GE(longest, 0.9 * options.target_step_us) << "and the bound is used";
  EXPECT_LE(play.steps(), 32768U / 80) << "nor does the decode starve the prompt";
}

// A cap on one prompt's share of a step leaves the rest to who comes after.
TEST(FailureCases, F7_AShortNewcomerDoesNotWaitForALongPrompt) {
  SchedulerOptions options = roomy(8, 512, 384, 32768);
  Play play(options, Play::Look::kNotAtTheCache);
  ASSERT_TRUE(play.add(0, 30000, 5));
  for (int i = 0; i < 20; ++i) play.step();
  for (SequenceId id = 1; id < 5; ++id) {
    const std::uint64_t came = play.steps();
    ASSERT_TRUE(play.add(id, 64, 5));
    while (!play.course(id).first_token) play.step();
    EXPECT_LE(*play.course(id).first_token - came, 3U) << id;
    EXPECT_FALSE(play.course(0).first_token) << "the long prompt is not done yet";
  }
}

TEST(FailureCases, F8_NewArrivalsDoNotStarveTheRunning) {
  std::mt19937 random(8);
  SchedulerOptions options = roomy(32, 64, 0, 512);
  Play play(options, Play::Look::kNotAtTheCache);
  std::poisson_distribution<int> arrivals(1.0);  // each is worth some two steps of the budget
  SequenceId next = 0;
  while (play.steps() < 10000) {
    for (int i = arrivals(random); i > 0; --i) {
      const Status added = play.add(next, in(random, 20, 100), in(random, 5, 80));
      if (added) ++next;
    }
    play.step();
  }
  EXPECT_GT(play.scheduler().waiting(), 500U) << "there is no overload";
  std::uint64_t longest = 0;
  for (const auto& [id, course] : play.courses()) longest = std::max(longest, course.longest_gap);
  EXPECT_LE(longest, 2U);
}

// 12 clients, each with its next request as soon as it has its answer, of three classes that share
// no step.
TEST(FailureCases, F9_NoSequenceInTheQueueIsStuck) {
  std::mt19937 random(9);
  Play play(roomy(4, 256, 0, 128), Play::Look::kNotAtTheCache);
  std::map<std::uint32_t, SequenceId> newest;  // admitted, by class
  std::map<SequenceId, std::uint32_t> classes;
  SequenceId next = 0;
  const auto submit = [&](std::uint32_t client) {
    SequenceSpec spec = request(next, in(random, 30, 50), in(random, 16, 24));
    spec.batch_class = classes[next] = client % 3;
    ASSERT_TRUE(play.add(spec));
    ++next;
  };
  for (std::uint32_t client = 0; client < 12; ++client) submit(client);
  while (play.finished().size() < 10000) {
    play.step();
    for (const Admission& admission : play.last().admitted) {
      const std::uint32_t its = classes[admission.sequence];
      if (newest.contains(its)) {
        EXPECT_GT(admission.sequence, newest[its]) << "overtaken";
      }
      newest[its] = admission.sequence;
    }
    for (const SequenceId id : play.driver().finished()) submit(classes[id]);
    ASSERT_FALSE(HasFailure());
    ASSERT_LT(play.steps(), 400000U);
  }
  std::vector<std::uint64_t> waits;
  for (const auto& [id, course] : play.courses()) {
    if (course.admitted) waits.push_back(*course.admitted - course.arrived);
  }
  std::sort(waits.begin(), waits.end());
  EXPECT_LE(waits.back(), 3 * std::max<std::uint64_t>(1, waits[waits.size() / 2]));
}

TEST(FailureCases, F10_F12_ACancelledOneIsNotComputed) {
  SchedulerOptions options = roomy(4, 64, 0, 32768);
  Play play(options, Play::Look::kNotAtTheCache);
  ASSERT_TRUE(play.add(0, 20, 2000));
  ASSERT_TRUE(play.add(1, 30000, 5));
  while (play.driver().generated(0) < 5) play.step();
  play.cancel(0);  // decodes
  play.cancel(1);  // is partly read
  EXPECT_EQ(play.scheduler().pool().used(), 0U);
  EXPECT_TRUE(play.scheduler().idle());
  play.step();
  EXPECT_TRUE(play.last().rows.empty());
  // While a step is in flight: free with its commit, and no further row.
  ASSERT_TRUE(play.add(2, 30000, 5));
  play.step();
  play.plan();
  play.cancel(2);
  play.commit();
  EXPECT_EQ(play.scheduler().pool().used(), 0U);
  play.step();
  EXPECT_TRUE(play.last().rows.empty());
}

TEST(FailureCases, F11_AHundredCancelledInTheQueueCostNothing) {
  Play play(roomy(2, 256, 0, 256));
  for (SequenceId id = 0; id < 102; ++id) ASSERT_TRUE(play.add(id, 100, 10));
  play.step();
  for (SequenceId id = 2; id < 102; ++id) play.cancel(id);
  EXPECT_EQ(play.scheduler().waiting(), 0U);
  play.run(30);
  EXPECT_EQ(play.prefill_tokens(), 200U);
  EXPECT_THAT(play.finished(), ElementsAre(0, 1));
}

TEST(FailureCases, F13_ACancelEndsNoOther) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    SchedulerOptions options = tight(16, 60, 160);
    Play play(options);
    std::map<SequenceId, std::uint32_t> caps;
    std::set<SequenceId> cancelled;
    while (caps.size() < 200 || !play.scheduler().idle()) {
      while (caps.size() < 200 && random() % 3 == 0) {
        const SequenceId id = caps.size();
        caps[id] = in(random, 1, 60);
        ASSERT_TRUE(play.add(id, in(random, 1, 90), caps[id]));
      }
      play.plan();
      for (int i = 0; i < 3 && !caps.empty() && cancelled.size() < 100; ++i) {
        const SequenceId id = random() % caps.size();
        if (!play.driver().alive(id)) continue;
        play.cancel(id);
        cancelled.insert(id);
      }
      play.commit();
      ASSERT_FALSE(HasFailure()) << seed;
      ASSERT_LT(play.steps(), 20000U);
    }
    EXPECT_GE(cancelled.size(), 80U);
    for (const auto& [id, cap] : caps) {
      if (!cancelled.contains(id)) {
        EXPECT_EQ(play.driver().generated(id), cap) << id;
      }
    }
    play.expect_all_returned();
  }
}

// 100,000 requests, with cancels in every state: none leaves a block or a slot behind.
TEST(FailureCases, F14_NothingLeaks) {
  std::mt19937 random(14);
  SchedulerOptions options = tight(12, 32, 96);
  options.block_size = 4;
  options.prefix_cache = true;
  options.speculative_tokens = 2;
  options.watermark = 0;
  options.max_num_batched_tokens = 32;
  Play play(options, Play::Look::kNotAtTheCache);
  struct Cancels {
    std::uint32_t queued = 0, preempted = 0, reading = 0, decoding = 0, under_way = 0;
  } cancels;
  std::vector<SequenceId> alive;
  std::vector<std::int32_t> prompt;
  SequenceId next = 0;
  while (next < 100000 || !play.scheduler().idle()) {
    while (next < 100000 && play.scheduler().waiting() < 3) {
      prompt.assign(in(random, 1, 60), 0);
      for (std::size_t i = 8; i < prompt.size(); ++i) {
        prompt[i] = static_cast<std::int32_t>(random() % 4);
      }
      SequenceSpec spec =
          request(next, static_cast<std::uint32_t>(prompt.size()), in(random, 1, 20));
      spec.prompt = prompt;
      spec.batch_class = random() % 16 == 0 ? 1 : 0;
      ASSERT_TRUE(play.add(spec));
      if (random() % 3 == 0) play.driver().drafts(next, 2, random() % 3);
      alive.push_back(next++);
    }
    play.plan();
    const bool between = random() % 2 == 0;
    if (!between) play.commit();
    std::erase_if(alive, [&](SequenceId id) { return !play.driver().alive(id); });
    for (int i = 0; i < 1 && !alive.empty(); ++i) {
      const SequenceId id = alive[random() % alive.size()];
      if (!play.driver().alive(id)) continue;
      const Course& course = play.course(id);
      const bool waits = course.admissions == course.preemptions;
      ++(waits ? (course.preemptions > 0 ? cancels.preempted : cancels.queued)
         : between && play.driver().row_of(id) != nullptr ? cancels.under_way
         : course.first_token                             ? cancels.decoding
                                                          : cancels.reading);
      play.cancel(id);
    }
    if (between) play.commit();
    ASSERT_FALSE(HasFailure());
  }
  play.expect_all_returned();
  for (const std::uint32_t count :
       {cancels.queued, cancels.preempted, cancels.reading, cancels.decoding, cancels.under_way}) {
    EXPECT_GE(count, 50U) << "a state was hardly met";
  }
}

// One step in ten finds no block, at random: everybody ends all the same.
TEST(FailureCases, F15_AllocationsThatFailAtRandom) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    SchedulerOptions options = tight(8, 40, 160);
    Play play(options);
    for (SequenceId id = 0; id < 40; ++id) {
      ASSERT_TRUE(play.add(id, in(random, 1, 100), in(random, 1, 50)));
    }
    while (!play.scheduler().idle() && play.steps() < 20000) {
      play.driver().withhold(random() % 10 == 0 ? options.kv_blocks : 0);
      play.step();
      ASSERT_FALSE(HasFailure()) << seed;
    }
    EXPECT_EQ(play.finished().size(), 40U);
    play.expect_all_returned();
  }
}

SequenceSpec prioritised(SequenceId id, std::uint32_t prompt, std::uint32_t max,
                         std::int32_t priority) {
  SequenceSpec spec = request(id, prompt, max);
  spec.priority = priority;
  return spec;
}

TEST(FailureCases, F16_AnUrgentOneDoesNotWaitBehindAFullBatch) {
  SchedulerOptions options = roomy(4, 256, 0, 256);
  options.policy = Policy::kPriority;
  Play play(options);
  for (SequenceId id = 0; id < 6; ++id) ASSERT_TRUE(play.add(prioritised(id, 20, 100, 5)));
  for (int i = 0; i < 10; ++i) play.step();
  ASSERT_TRUE(play.add(prioritised(9, 20, 3, 0)));
  const std::uint64_t came = play.steps();
  while (!play.course(9).admitted && play.steps() < came + 10) play.step();
  EXPECT_LE(*play.course(9).admitted - came, 2U);
  EXPECT_EQ(play.course(3).preemptions, 1U) << "the youngest of those that ran";
  // It comes back before those that never ran.
  while (play.course(3).admissions < 2 && play.steps() < 100) play.step();
  EXPECT_EQ(play.course(4).admissions, 0U);
  EXPECT_EQ(play.course(5).admissions, 0U);
  play.run(400);
  EXPECT_EQ(play.finished().size(), 7U);
}

TEST(FailureCases, F16_TheLeastUrgentAgesToItsTurn) {
  SchedulerOptions options = roomy(2, 256, 0, 256);
  options.policy = Policy::kPriority;
  options.ageing_steps = 50;
  options.max_waiting = 1U << 20;
  Play play(options);
  SequenceId next = 0;
  for (; next < 4; ++next) ASSERT_TRUE(play.add(prioritised(next, 8, 3, 0)));
  ASSERT_TRUE(play.add(prioritised(1000000, 8, 3, 2)));
  // One urgent request a step, three steps each, two at a time: without ageing it would never run.
  while (!play.course(1000000).finished && play.steps() < 2000) {
    ASSERT_TRUE(play.add(prioritised(next++, 8, 3, 0)));
    play.step();
  }
  ASSERT_TRUE(play.course(1000000).finished);
  // It counts as old as who came 2 * 50 steps later; those before it need 3 / 2 steps each.
  EXPECT_GE(*play.course(1000000).admitted, 100U) << "before its turn";
  EXPECT_LE(*play.course(1000000).finished, (4 + 100) * 3 / 2 + 6);
}

struct Tenant {
  std::uint32_t clients = 0;
};
// Tokens that each tenant's closed-loop clients got in `steps`.
std::vector<double> served(const std::vector<Tenant>& tenants, std::uint32_t slots, Policy policy,
                           std::uint64_t steps) {
  SchedulerOptions options = roomy(slots, 256, 0, 256);
  options.policy = policy;
  Play play(options, Play::Look::kNotAtTheCache);
  std::map<SequenceId, std::uint32_t> owner;
  std::vector<double> tokens(tenants.size(), 0);
  SequenceId next = 0;
  const auto submit = [&](std::uint32_t tenant) {
    SequenceSpec spec = request(next, 16, 40);
    spec.tenant = owner[next] = tenant;
    EXPECT_TRUE(play.add(spec));
    ++next;
  };
  for (std::uint32_t tenant = 0; tenant < tenants.size(); ++tenant) {
    for (std::uint32_t i = 0; i < tenants[tenant].clients; ++i) submit(tenant);
  }
  while (play.steps() < steps) {
    play.step();
    for (const Row& row : play.last().rows) tokens[owner[row.sequence]] += row.sampled ? 1 : 0;
    for (const SequenceId id : play.driver().finished()) submit(owner[id]);
  }
  return tokens;
}

double jain(const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double squares = std::inner_product(shares.begin(), shares.end(), shares.begin(), 0.0);
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

double share_of_last(const std::vector<double>& tokens) {
  return tokens.back() / std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

TEST(FailureCases, F17_AHundredClientsDoNotCrowdOutOne) {
  // Two slots: one client's demand is half of what there is.
  EXPECT_GE(share_of_last(served({{100}, {1}}, 2, Policy::kFair, 4000)), 0.45);
  // Eight slots and eight clients against a hundred.
  const double share = share_of_last(served({{100}, {8}}, 8, Policy::kFair, 4000));
  EXPECT_GE(share, 0.45);
  RecordProperty("share_percent", static_cast<int>(100 * share));
  EXPECT_LT(share_of_last(served({{100}, {8}}, 8, Policy::kFcfs, 4000)), 0.2)
      << "by arrival alone the many win: the case would show nothing";
}

TEST(FailureCases, F17_EqualTenantsGetEqualShares) {
  const std::vector<Tenant> tenants{{4}, {8}, {16}, {64}};
  const double index = jain(served(tenants, 8, Policy::kFair, 8000));
  EXPECT_GE(index, 0.95);
  RecordProperty("jain_percent", static_cast<int>(100 * index));
  EXPECT_LT(jain(served(tenants, 8, Policy::kFcfs, 8000)), 0.75);
}

// 95 % of the requests find their prefix cached. The others are admitted in order all the same.
TEST(FailureCases, F18_ColdRequestsAreNotOvertakenByHotOnes) {
  std::mt19937 random(18);
  SchedulerOptions options = roomy(4, 256, 0, 512);
  options.prefix_cache = true;
  options.max_waiting = 1U << 20;
  Play play(options);
  std::vector<std::int32_t> prompt(260, 1);
  SequenceId next = 0, admitted = 0;
  std::uint32_t hits = 0, cold_hits = 0;
  std::set<SequenceId> cold;
  while (admitted < 1000) {
    for (; play.scheduler().waiting() < 20; ++next) {
      const bool is_cold = random() % 20 == 0;
      for (std::int32_t& token : prompt) token = is_cold ? static_cast<std::int32_t>(random()) : 1;
      prompt.back() = static_cast<std::int32_t>(next);
      if (is_cold) cold.insert(next);
      SequenceSpec spec = request(next, 260, in(random, 1, 20));
      spec.prompt = prompt;
      ASSERT_TRUE(play.add(spec));
    }
    play.step();
    for (const Admission& admission : play.last().admitted) {
      EXPECT_EQ(admission.sequence, admitted++) << "overtaken";
      hits += admission.cached_tokens > 0 ? 1 : 0;
      cold_hits += cold.contains(admission.sequence) && admission.cached_tokens > 0 ? 1 : 0;
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(hits, 900U);
  EXPECT_EQ(cold_hits, 0U);
}

// With work there, a step has rows, and a waiting sequence waits for a running one.
TEST(FailureCases, F19_TheQueueIsNeverStuckWhileNothingRuns) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    SchedulerOptions options = tight(in(random, 1, 6), in(random, 10, 30), 160);
    options.policy = static_cast<Policy>(seed % 3);
    options.prefix_cache = false;
    options.watermark = in(random, 0, 5);
    Play play(options);
    for (SequenceId next = 0; next < 60 || !play.scheduler().idle();) {
      for (; next < 60 && random() % 4 == 0; ++next) {
        SequenceSpec spec = request(next, in(random, 1, 158), in(random, 1, 30));
        spec.batch_class = in(random, 0, 2);
        spec.priority = static_cast<std::int32_t>(in(random, 0, 2));
        ASSERT_TRUE(play.add(spec));
      }
      const bool work = !play.scheduler().idle();
      play.plan();
      if (work) {
        EXPECT_FALSE(play.last().rows.empty()) << "seed " << seed << " step " << play.steps();
        EXPECT_GT(play.scheduler().running(), 0U);
      }
      play.commit();
      ASSERT_FALSE(HasFailure()) << seed;
      ASSERT_LT(play.steps(), 20000U);
    }
  }
}

// Prompts share nothing, so that only those that come back from a preemption can find anything;
// that is not reported as a hit.
TEST(FailureCases, F25_ComingBackIsNoPrefixHit) {
  std::mt19937 random(25);
  SchedulerOptions options = tight(16, 60, 160);
  options.prefix_cache = true;
  options.watermark = 0;
  Play play(options);
  std::vector<std::int32_t> prompt;
  for (SequenceId id = 0; id < 60; ++id) {
    prompt.assign(in(random, 40, 90), 0);
    for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random());
    SequenceSpec spec = request(id, static_cast<std::uint32_t>(prompt.size()), 60);
    spec.prompt = prompt;
    ASSERT_TRUE(play.add(spec));
  }
  std::uint32_t hits = 0, resumed_hits = 0;
  while (!play.scheduler().idle() && play.steps() < 20000) {
    play.step();
    for (const Admission& admission : play.last().admitted) {
      (admission.resumed ? resumed_hits : hits) += admission.cached_tokens;
    }
  }
  EXPECT_EQ(play.finished().size(), 60U);
  EXPECT_GT(play.scheduler().preemptions(), 10U);
  EXPECT_EQ(hits, 0U);
  EXPECT_GT(resumed_hits, 0U) << "nothing came back to what it had";
}

// Eight continuations of one prompt, four slots, a prompt of several steps: every step gets on.
TEST(FailureCases, F26_AGroupLargerThanTheSlots) {
  SchedulerOptions options = roomy(4, 64, 0, 512);
  options.prefix_cache = true;
  Play play(options);
  const std::vector<std::int32_t> prompt(300, 3);
  for (SequenceId id = 0; id < 8; ++id) {
    SequenceSpec spec = request(id, 300, 20);
    spec.prompt = prompt;
    ASSERT_TRUE(play.add(spec));
  }
  while (!play.scheduler().idle() && play.steps() < 400) {
    play.step();
    EXPECT_GT(play.last().tokens, 0U);
  }
  EXPECT_EQ(play.finished().size(), 8U);
}

// 16 rows of room, of which prompts may take eight: with all slots taken each resident has a token
// in two steps at least.
TEST(FailureCases, F27_NoMoreRunThanAreServed) {
  SchedulerOptions options = roomy(16, 16, 0, 512);
  options.min_prefill_tokens = 8;
  Play play(options, Play::Look::kNotAtTheCache);
  for (SequenceId id = 0; id < 400; ++id) ASSERT_TRUE(play.add(id, 30, 40));
  std::uint32_t most = 0;
  while (!play.scheduler().idle() && play.steps() < 20000) {
    play.step();
    most = std::max(most, play.scheduler().running());
  }
  EXPECT_EQ(most, 16U);
  EXPECT_EQ(play.finished().size(), 400U);
  for (const auto& [id, course] : play.courses()) EXPECT_LE(course.longest_gap, 2U) << id;
}

// A pool of 96 blocks, a prefix of 59 that all 32 share: 37 blocks are left for what is their own.
TEST(FailureCases, F28_ASharedPrefixThatFillsMostOfThePool) {
  for (const std::uint32_t watermark : {0U, 1U, 2U}) {
    SchedulerOptions options = tight(32, 96, 96 * 16);
    options.prefix_cache = true;
    options.watermark = watermark;
    Play play(options);
    std::vector<std::int32_t> prompt(59 * 16 + 5, 4);
    for (SequenceId id = 0; id < 32; ++id) {
      prompt.back() = static_cast<std::int32_t>(id);
      SequenceSpec spec = request(id, static_cast<std::uint32_t>(prompt.size()), 100);
      spec.prompt = prompt;
      ASSERT_TRUE(play.add(spec));
    }
    play.run(5000);
    EXPECT_EQ(play.finished().size(), 32U);
    std::uint32_t hits = 0;
    for (const auto& [id, course] : play.courses()) {
      EXPECT_EQ(play.driver().generated(id), 100U);
      hits += course.cached >= 59 * 16 ? 1 : 0;
    }
    // The first computes it, and the second comes in while it does.
    EXPECT_GE(hits, 30U);
    play.expect_all_returned();
  }
}

// One request of half the pool among small ones. In every step the oldest that is alive gets on: a
// row if it decodes, the first chunk in prefill. So the `k`-th in age is done when those
// before it have had their steps one after the other, and itself.
TEST(FailureCases, HalfThePoolAmongSmallOnes) {
  std::uint64_t waited = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    SchedulerOptions options = tight(8, 64, 1024);
    options.max_num_batched_tokens = 64;
    Play play(options);
    // Seven decodes leave 57 tokens to the first chunk, of which 48 at least are taken.
    const auto steps_of = [](std::uint32_t prompt, std::uint32_t max) {
      return (prompt + max + 47) / 48 + max;
    };
    const SequenceId heavy = in(random, 5, 40);
    std::map<SequenceId, std::uint64_t> worst;
    SequenceId next = 0;
    std::uint64_t bound = 0;
    while (!play.courses().contains(heavy) || !play.course(heavy).finished) {
      for (; next < 120 && random() % 3 != 0; ++next) {
        const bool is_heavy = next == heavy;
        const std::uint32_t prompt = is_heavy ? 480 : in(random, 1, 80);
        const std::uint32_t max = is_heavy ? 32 : in(random, 1, 40);
        ASSERT_TRUE(play.add(next, prompt, max));
        worst[next] = steps_of(prompt, max);
        if (!is_heavy) continue;
        bound = play.steps();
        for (const auto& [id, its] : worst) {
          if (!play.course(id).finished) bound += its;
        }
      }
      play.step();
      ASSERT_FALSE(HasFailure()) << seed;
      if (bound > 0) {
        ASSERT_LE(play.steps(), bound) << seed;
      }
      ASSERT_LT(play.steps(), 20000U);
    }
    waited += *play.course(heavy).admitted > play.course(heavy).arrived ? 1 : 0;
    play.run(20000);
    EXPECT_EQ(play.finished().size(), next);
  }
  EXPECT_GT(waited, 100U) << "it never had to wait";
}

}  // namespace
}  // namespace dovetail::schedule
