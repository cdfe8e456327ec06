// Law 5 with a trained model and everything at once: random histories with preemption, cached
// prefixes, draft tokens, plans ahead and cancellation. Streams are those of lone runs, bit for
// bit, and the engine's own events obey the laws. DOVETAIL_DEMO_HISTORIES=N plays N instead of 200
// (60 with a sanitizer).

#include "laws/demo_histories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "support/sanitized.h"

namespace dovetail::laws {
namespace {

std::uint32_t demo_histories() {
  const char* text = std::getenv("DOVETAIL_DEMO_HISTORIES");
  const int count = text == nullptr ? 0 : std::atoi(text);
  return count > 0 ? static_cast<std::uint32_t>(count) : test::kSanitized ? 60 : 200;
}

class DemoHistories : public testing::TestWithParam<const char*> {};

// Keys and values, looked-up draft tokens; latents, a layer that drafts; windows, compressed
// entries, streams, with random weights.
INSTANTIATE_TEST_SUITE_P(Of, DemoHistories,
                         testing::Values("demo-arith", "demo-mla", "demo-v4-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(DemoHistories, AnswerAsIfEachRequestWereAlone) {
  DemoModel model(GetParam());
  EngineStats total;
  std::uint64_t cancelled_under_way = 0, ahead = 0, sampled_drafts = 0;
  for (std::uint32_t number = 0; number < demo_histories(); ++number) {
    const DemoHistory history = model.history(number);
    const Outcome outcome = model.play(history);
    const std::string fault = model.judge(history, outcome);
    ASSERT_EQ(fault, "") << "in history " << number;
    total.steps += outcome.stats.steps;
    total.mixed_steps += outcome.stats.mixed_steps;
    total.preemptions += outcome.stats.preemptions;
    total.recomputed_tokens += outcome.stats.recomputed_tokens;
    total.cached_tokens += outcome.stats.cached_tokens;
    total.drafted_tokens += outcome.stats.drafted_tokens;
    total.accepted_tokens += outcome.stats.accepted_tokens;
    total.requests_finished += outcome.stats.requests_finished;
    total.requests_cancelled += outcome.stats.requests_cancelled;
    for (const observe::Event& event : outcome.events) {
      cancelled_under_way += event.kind == observe::EventKind::kCancel && event.a == 1 ? 1 : 0;
      ahead += event.kind == observe::EventKind::kPlan && event.a == 1 ? 1 : 0;
    }
    const bool draws = std::any_of(
        history.arrivals.begin(), history.arrivals.end(),
        [](const Arrival& arrival) { return arrival.request.sampling.temperature > 0.0F; });
    if (draws) sampled_drafts += outcome.stats.accepted_tokens;
  }
  std::cout << total.requests_finished << " requests in " << total.steps << " steps, "
            << total.mixed_steps << " of them mixed, " << ahead << " planned ahead; "
            << total.preemptions << " preemptions, " << total.recomputed_tokens
            << " tokens computed again, " << total.cached_tokens << " found in the cache, "
            << total.accepted_tokens << " of " << total.drafted_tokens << " draft tokens right, "
            << total.requests_cancelled << " cancelled, " << cancelled_under_way
            << " of them with a row in flight\n";
  EXPECT_GT(total.mixed_steps, 0U);
  EXPECT_GT(total.preemptions, 0U);
  EXPECT_GT(total.recomputed_tokens, 0U);
  EXPECT_GT(total.cached_tokens, 0U);
  EXPECT_LT(total.accepted_tokens, total.drafted_tokens);
  // With random weights a draft is right by chance; else more than a third are, whichever were
  // worth their time.
  if (std::string_view(GetParam()) != "demo-v4-tiny") {
    EXPECT_GT(3 * total.accepted_tokens, total.drafted_tokens);
    EXPECT_GT(sampled_drafts, 0U);
  }
  EXPECT_GT(ahead, 0U);
  EXPECT_GT(total.requests_cancelled, 0U);
  EXPECT_GT(cancelled_under_way, 0U);
}

}  // namespace
}  // namespace dovetail::laws
