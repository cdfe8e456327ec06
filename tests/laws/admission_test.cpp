// Cases of sequences that come and go in a running batch, by the numbers of the case lists: what
// one request gets is untouched by any other's coming, going, place or memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "laws/streams.h"
#include "support/changed_backend.h"
#include "support/random_model.h"

namespace dovetail::laws {
namespace {

class Admissions : public testing::Test {
 protected:
  Admissions() : model_(test::random_model({})) {
    options_.max_num_seqs = 4;
    options_.max_num_batched_tokens = 64;
    options_.long_prefill_token_threshold = 16;
    options_.threads = 1;
    options_.poison_freed_blocks = true;
  }

  // A greedy request whose tokens are its own.
  Request request(std::uint32_t seed, std::size_t prompt, std::int32_t max_tokens) const {
    std::mt19937 random(seed);
    Request request;
    for (std::size_t i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<TokenId>(random() % model_->config.vocab_size));
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0.0F;
    return request;
  }

  Stream alone(const Request& request) const { return serve_alone(model_, options_, request); }

  std::shared_ptr<const load::ModelSource> model_;
  EngineOptions options_;
};

TEST_F(Admissions, T11_DoNotDisturbWhoRuns) {
  const Request a = request(1, 33, 39), b = request(2, 20, 12);
  const Stream a_alone = alone(a), b_alone = alone(b);
  for (std::uint32_t step = 1; step <= 39; ++step) {
    std::uint32_t admitted = 0;
    for (const bool async : {false, true}) {
      options_.async_scheduling = async;
      const Outcome outcome = serve(model_, options_, {{a, 0, {}}, {b, step, {}}});
      ASSERT_TRUE(same_bits(outcome.streams[0], a_alone)) << "B came at step " << step;
      ASSERT_TRUE(same_bits(outcome.streams[1], b_alone)) << "at step " << step;
      // Planning ahead costs an arrival one step at most.
      ASSERT_EQ(outcome.admissions.size(), 2U);
      if (!async) admitted = outcome.admissions[1].step;
      EXPECT_LE(outcome.admissions[1].step, admitted + 1);
    }
  }
}

TEST_F(Admissions, T13_ARecycledSlotStartsClean) {
  options_.max_num_seqs = 1;
  for (const bool prefix_cache : {false, true}) {
    options_.prefix_cache = prefix_cache;
    const Request longer = request(1, 33, 39), shorter = request(2, 20, 12);
    const Outcome outcome = serve(model_, options_, {{longer, 0, {}}, {shorter, 0, {}}});
    ASSERT_EQ(outcome.admissions.size(), 2U);
    EXPECT_EQ(outcome.admissions[1].slot, outcome.admissions[0].slot);
    EXPECT_TRUE(same_bits(outcome.streams[0], alone(longer)));
    EXPECT_TRUE(same_bits(outcome.streams[1], alone(shorter)));
  }
}

// The memory of those who left holds NaN; who reads any of it says NaN. A mask that is one position
// too long does.
kernels::Kernels too_long;

TEST_F(Admissions, T13_PoisonShowsWhoReadsTheMemoryOfThoseWhoLeft) {
  too_long = kernels::best_kernels();
  too_long.attention = [](const kernels::AttentionArgs& args) {
    kernels::AttentionArgs wrong = args;
    ++wrong.first_position;
    // Positions that have a block.
    const bool room = (args.first_position + args.rows) % kernels::kBlockSize != 0;
    kernels::best_kernels().attention(room ? wrong : args);
  };
  options_.max_num_seqs = 1;
  options_.long_prefill_token_threshold = 0;  // a chunk without logits shows nothing
  const std::vector<Arrival> arrivals = {{request(1, 33, 39), 0, {}}, {request(2, 20, 12), 0, {}}};
  for (const bool broken : {false, true}) {
    engine::StepHooks hooks;
    if (broken) hooks.open_backend = test::with_kernels(too_long);
    const Outcome outcome = serve(model_, options_, arrivals, std::move(hooks));
    EXPECT_EQ(outcome.streams[1].finish, broken ? FinishReason::kError : FinishReason::kLength);
    EXPECT_EQ(outcome.stats.kv_blocks_used, 0U);
    // What is no number is no prefix for others.
    EXPECT_EQ(outcome.stats.requests_finished, broken ? 0U : 2U);
    EXPECT_EQ(outcome.stats.kv_blocks_cached > 0, !broken);
  }
}

TEST_F(Admissions, T15_HalfFullEqualsFull) {
  const Request subject = request(9, 29, 20);
  const Stream expected = alone(subject);
  for (std::size_t mates = 0; mates < options_.max_num_seqs; ++mates) {
    for (std::size_t place = 0; place <= mates; ++place) {
      std::vector<Arrival> arrivals;
      for (std::uint32_t i = 0; i < mates; ++i)
        arrivals.push_back({request(20 + i, 20 + 5 * i, 25), 0, {}});
      arrivals.insert(arrivals.begin() + static_cast<std::ptrdiff_t>(place), {subject, 0, {}});
      const Outcome outcome = serve(model_, options_, arrivals);
      ASSERT_EQ(outcome.admissions[place].slot, place);
      ASSERT_TRUE(same_bits(outcome.streams[place], expected)) << mates << " mates, slot " << place;
    }
  }
}

// After every k-th token of it a more urgent request takes the only slot, so that it is preempted
// and comes back.
TEST_F(Admissions, S19_PreemptedAfterEveryKthTokenTheAnswerIsTheSame) {
  constexpr std::int32_t kTokens = 110;
  Request subject = request(3, 21, kTokens);
  subject.priority = 5;
  const Stream expected = alone(subject);
  options_.max_num_seqs = 1;
  options_.policy = PolicyOption::kPriority;
  for (std::uint32_t k = 1; k <= 100; ++k) {
    options_.prefix_cache = k % 2 == 0;
    options_.async_scheduling = k % 3 == 0;
    options_.speculative_tokens = k % 5 == 0 ? 3 : 0;
    auto created = engine::StepLoop::create(model_, std::nullopt, options_);
    ASSERT_TRUE(created.has_value());
    engine::StepLoop& loop = **created;
    std::vector<TokenId> got;
    std::optional<FinishReason> finish;
    std::uint32_t since = 0;
    const auto sink = [&](const OutputEvent& event) {
      for (const OutputToken& token : event.tokens) got.push_back(token.id);
      since += static_cast<std::uint32_t>(event.tokens.size());
      finish = event.finish;
    };
    ASSERT_TRUE(loop.add(0, subject, sink).has_value());
    std::uint32_t urgent = 0;
    for (int step = 0; step < 3000 && !loop.idle(); ++step) {
      if (since >= k && !finish) {
        since = 0;
        ++urgent;
        ASSERT_TRUE(loop.add(urgent, request(urgent, 5, 1), [](const OutputEvent&) {}));
      }
      ASSERT_TRUE(loop.step().has_value());
    }
    ASSERT_TRUE(loop.idle());
    const EngineStats stats = loop.stats();
    EXPECT_GE(urgent, 1U);
    // A sequence that ends with the step in flight is not preempted.
    EXPECT_GE(stats.preemptions + 1, urgent) << k;
    EXPECT_GE(stats.preemptions, 1U) << k;
    ASSERT_EQ(got, expected.tokens) << "k = " << k;
    EXPECT_EQ(finish, expected.finish);
    EXPECT_EQ(stats.kv_blocks_used, 0U);
  }
}

}  // namespace
}  // namespace dovetail::laws
