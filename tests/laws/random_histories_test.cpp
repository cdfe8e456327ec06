// Random histories of the scheduler, with a fake model, under the law checker, beside a slow and
// obvious scheduler that must plan the same.
// DOVETAIL_HISTORIES=N plays N of them instead of the default.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "laws/checker/history.h"

namespace dovetail::laws {

void showValue(const History& history, std::ostream& out) { describe(history, out); }

namespace {

int histories() {
  const char* text = std::getenv("DOVETAIL_HISTORIES");
  const int count = text == nullptr ? 0 : std::atoi(text);
  return count > 0 ? count : 20000;
}

// Numbers come at full size from the first history on; only the number of operations grows.
rc::Gen<History> any_history() {
  constexpr int kFull = 100;
  const auto bytes = [](std::size_t count) {
    return rc::gen::container<std::vector<std::uint8_t>>(
        count, rc::gen::resize(kFull, rc::gen::arbitrary<std::uint8_t>()));
  };
  return rc::gen::apply(
      [](std::vector<std::uint8_t> head, const std::vector<std::vector<std::uint8_t>>& operations) {
        for (const auto& operation : operations)
          head.insert(head.end(), operation.begin(), operation.end());
        return read_history(head.data(), head.size());
      },
      bytes(kHistoryHead), rc::gen::container<std::vector<std::vector<std::uint8_t>>>(bytes(3)));
}

TEST(RandomHistories, ObeyTheLaws) {
  Tally tally;
  std::uint64_t counted = 0, preempting = 0, finding = 0, drafting = 0, ahead = 0, leaving = 0,
                turns = 0;
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = "RandomHistories/ObeyTheLaws";
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = histories();
  params.maxSize = 150;
  const auto result = rc::detail::checkTestable(
      [&] {
        const History history = *any_history();
        const Verdict verdict = play(history, nullptr, true);
        tally.add(verdict.tally);
        ++counted;
        preempting += verdict.tally.preempted > 0 ? 1 : 0;
        finding += verdict.tally.cached > 0 ? 1 : 0;
        drafting += verdict.tally.accepted > 0 ? 1 : 0;
        ahead += verdict.tally.ahead > 0 ? 1 : 0;
        leaving += verdict.tally.in_flight > 0 ? 1 : 0;
        turns += verdict.tally.turns > 0 ? 1 : 0;
        if (!verdict.faults.empty()) RC_FAIL(verdict.faults.front());
      },
      metadata, params);
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  EXPECT_TRUE(result.template is<rc::detail::SuccessResult>()) << message.str();

  std::cout << tally.histories << " histories, " << tally.steps << " steps, " << tally.rows
            << " rows; " << tally.mixed << " mixed steps, " << tally.ahead << " planned ahead, "
            << tally.preempted << " preemptions, " << tally.cached << " tokens cached, "
            << tally.accepted << " of " << tally.drafted << " drafts right, " << tally.cancelled
            << " cancelled (" << tally.in_flight << " with a row in flight), " << tally.turns
            << " steps with decodes in turns\n";
  // Histories that are too easy would prove nothing.
  const auto share = [&](std::uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(counted);
  };
  EXPECT_GT(share(preempting), 0.10);
  EXPECT_GT(share(finding), 0.10);
  EXPECT_GT(share(drafting), 0.15);
  EXPECT_GT(share(ahead), 0.30);
  EXPECT_GT(share(leaving), 0.10);
  EXPECT_GT(share(turns), 0.02);
}

}  // namespace
}  // namespace dovetail::laws
