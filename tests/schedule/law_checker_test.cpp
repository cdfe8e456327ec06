// The checker must see every kind of damage: a good history is damaged in one place at a time.

#include "schedule/law_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <ostream>

#include "schedule/driver.h"

namespace dovetail::schedule {
namespace {

SchedulerOptions small() {
  SchedulerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 12;
  options.long_prefill_token_threshold = 8;
  options.block_size = 4;
  options.kv_blocks = 10;
  options.max_context = 40;
  options.max_waiting = 4;
  return options;
}

// Chunks, mixed steps, two admissions in one step, preemptions, cancels, a refusal.
History good() {
  Driver driver(small());
  EXPECT_TRUE(driver.add(1, 5, 12));
  EXPECT_TRUE(driver.add(2, 4, 12));
  EXPECT_TRUE(driver.step());
  EXPECT_TRUE(driver.add(3, 11, 9));
  EXPECT_TRUE(driver.step());
  EXPECT_TRUE(driver.step());
  EXPECT_TRUE(driver.add(4, 3, 9));
  EXPECT_TRUE(driver.add(5, 9, 3));
  EXPECT_TRUE(driver.add(6, 2, 3));
  EXPECT_FALSE(driver.add(7, 40));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(driver.step());
  EXPECT_TRUE(driver.plan());
  driver.cancel(5);
  driver.commit();
  EXPECT_TRUE(driver.run_until_idle(200));
  EXPECT_GT(driver.scheduler().preemptions(), 0U);
  return driver.history();
}

using OnPlan = std::function<bool(StepPlan&)>;
using OnHistory = std::function<bool(History&)>;

// Damages the first plan on which `damage` says that it could.
OnHistory first_plan(const OnPlan& damage) {
  return [damage](History& history) {
    for (Event& event : history.events) {
      if (auto* planned = std::get_if<Planned>(&event.what); planned && damage(planned->plan)) {
        return true;
      }
    }
    return false;
  };
}

void drop(StepPlan& plan, std::size_t row) {
  plan.tokens -= plan.rows[row].tokens;
  plan.rows.erase(plan.rows.begin() + static_cast<std::ptrdiff_t>(row));
  if (row < plan.prefill_rows) --plan.prefill_rows;
}

template <class What>
std::size_t first_event(const History& history) {
  std::size_t i = 0;
  while (!std::holds_alternative<What>(history.events.at(i).what)) ++i;
  return i;
}

struct Damage {
  const char* name;
  OnHistory apply;
  const char* seen_as;  // part of the violation
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

const std::vector<Damage>& damages() {
  static const std::vector<Damage> table = {
      {"DropDecodeRow", first_plan([](StepPlan& plan) {
         if (plan.rows.size() < plan.prefill_rows + 2) return false;
         drop(plan, plan.rows.size() - 1);
         return true;
       }),
       "decode rows ["},
      {"DropPrefillRow", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows == 0 || plan.prefill_rows == plan.rows.size() ||
             !plan.admitted.empty() || plan.rows.back().sequence > plan.rows[0].sequence) {
           return false;
         }
         drop(plan, plan.prefill_rows - 1);
         return true;
       }),
       "left out with budget to spare"},
      {"DropAdmittedRow", first_plan([](StepPlan& plan) {
         if (plan.admitted.size() < 2) return false;
         drop(plan, plan.prefill_rows - 1);
         return true;
       }),
       "admitted without a row"},
      {"DropOldestRow", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows > 0 || plan.rows.size() < 2) return false;
         drop(plan, 0);
         return true;
       }),
       "the oldest sequence"},
      {"DuplicateRow", first_plan([](StepPlan& plan) {
         if (plan.rows.size() != 2 || plan.prefill_rows != 0) return false;
         plan.rows.push_back(plan.rows.back());
         plan.tokens += plan.rows.back().tokens;
         return true;
       }),
       "has two rows"},
      {"ForeignRow", first_plan([](StepPlan& plan) {
         plan.rows.back().sequence = 99;
         return true;
       }),
       "is not alive"},
      {"EmptyRow", first_plan([](StepPlan& plan) {
         plan.tokens -= plan.rows.back().tokens;
         plan.rows.back().tokens = 0;
         return true;
       }),
       "row without tokens"},
      {"SwapBlocksBetweenSequences", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows > 0 || plan.rows.size() < 2) return false;
         std::swap(plan.block_tables[plan.rows[0].table_begin],
                   plan.block_tables[plan.rows[1].table_begin]);
         return true;
       }),
       "and wrote to"},
      {"SwapBlocksInTable", first_plan([](StepPlan& plan) {
         const Row& row = plan.rows.back();
         if (row.table_size < 2 || plan.prefill_rows > 0) return false;
         std::swap(plan.block_tables[row.table_begin], plan.block_tables[row.table_begin + 1]);
         return true;
       }),
       "and wrote to"},
      {"ShareABlock", first_plan([](StepPlan& plan) {
         if (plan.admitted.size() < 2) return false;
         plan.block_tables[plan.rows[1].table_begin] = plan.block_tables[plan.rows[0].table_begin];
         return true;
       }),
       "of sequence"},
      {"BlockTwiceInTable", first_plan([](StepPlan& plan) {
         const Row& row = plan.rows[0];
         if (plan.admitted.empty() || row.table_size < 2) return false;
         plan.block_tables[row.table_begin + 1] = plan.block_tables[row.table_begin];
         return true;
       }),
       "of sequence"},
      {"BlockThatIsNone", first_plan([](StepPlan& plan) {
         plan.block_tables[0] = 10;
         return true;
       }),
       "does not exist"},
      {"ShortTable", first_plan([](StepPlan& plan) {
         --plan.rows[0].table_size;
         return true;
       }),
       "blocks for"},
      {"LongTable", first_plan([](StepPlan& plan) {
         if (plan.rows.size() < 2) return false;
         plan.rows[0].table_size += plan.rows[1].table_size;
         return true;
       }),
       "blocks for"},
      {"TableOutOfRange", first_plan([](StepPlan& plan) {
         plan.rows[0].table_begin = static_cast<std::uint32_t>(plan.block_tables.size());
         return true;
       }),
       "out of range"},
      {"ShiftPositionUp", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows == plan.rows.size()) return false;
         ++plan.rows.back().first_position;
         return true;
       }),
       "computes from position"},
      {"ShiftPositionDown", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows == plan.rows.size()) return false;
         --plan.rows.back().first_position;
         return true;
       }),
       "computes from position"},
      {"SampleAMiddleChunk", first_plan([](StepPlan& plan) {
         for (Row& row : plan.rows) {
           if (!row.sampled) return row.sampled = true;
         }
         return false;
       }),
       "is sampled at"},
      {"SkipASample", first_plan([](StepPlan& plan) {
         plan.rows[0].sampled = false;
         return true;
       }),
       "is not sampled at"},
      {"ShortenAChunk", first_plan([](StepPlan& plan) {
         Row& row = plan.rows[0];
         if (plan.prefill_rows == 0 || row.tokens < 2 || !row.sampled) return false;
         --row.tokens;
         --plan.tokens;
         row.sampled = false;
         return true;
       }),
       "cut short"},
      {"ReadPastTheThreshold",
       [](History& history) {
         history.options.long_prefill_token_threshold = 7;
         return true;
       },
       "over a limit of 7"},
      {"ExceedTheBudget",
       [](History& history) {
         history.options.max_num_batched_tokens = 8;
         return true;
       },
       "exceed the budget of 8"},
      {"ExceedTheSlots",
       [](History& history) {
         history.options.max_num_seqs = 2;
         return true;
       },
       "exceed 2 slots"},
      {"WrongTotal", first_plan([](StepPlan& plan) {
         ++plan.tokens;
         return true;
       }),
       "tokens are said"},
      {"DecodeAmongPrefills", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows == plan.rows.size()) return false;
         ++plan.prefill_rows;
         return true;
       }),
       "decode rows ["},
      {"ReorderDecodes", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows > 0 || plan.rows.size() < 2) return false;
         std::swap(plan.rows[0], plan.rows[1]);
         return true;
       }),
       "decode rows ["},
      {"ReorderPrefills", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows < 2) return false;
         std::swap(plan.rows[0], plan.rows[1]);
         return true;
       }),
       "by arrival of"},
      {"ReorderAdmissions", first_plan([](StepPlan& plan) {
         if (plan.admitted.size() < 2) return false;
         std::swap(plan.admitted[0], plan.admitted[1]);
         return true;
       }),
       "not the oldest that waits"},
      {"ForgetAnAdmission", first_plan([](StepPlan& plan) {
         if (plan.admitted.size() < 2) return false;
         plan.admitted.pop_back();
         return true;
       }),
       "waits although"},
      {"SwapSlots", first_plan([](StepPlan& plan) {
         if (plan.admitted.size() < 2) return false;
         std::swap(plan.rows[0].slot, plan.rows[1].slot);
         return true;
       }),
       "is the lowest free"},
      {"MoveToAnotherSlot", first_plan([](StepPlan& plan) {
         if (!plan.admitted.empty()) return false;
         plan.rows.back().slot ^= 1;
         return true;
       }),
       "moved from slot"},
      {"ForgetAPreemption", first_plan([](StepPlan& plan) {
         if (plan.preempted.empty()) return false;
         plan.preempted.clear();
         return true;
       }),
       "decode rows ["},
      {"PreemptAPlannedRow", first_plan([](StepPlan& plan) {
         if (plan.preempted.empty()) return false;
         plan.preempted.push_back(plan.rows.back().sequence);
         return true;
       }),
       "not older, has a row"},
      {"PreemptWithoutNeed", first_plan([](StepPlan& plan) {
         if (plan.prefill_rows > 0 || plan.rows.size() < 2 || !plan.preempted.empty()) return false;
         plan.preempted.push_back(plan.rows.back().sequence);
         drop(plan, plan.rows.size() - 1);
         return true;
       }),
       "memory sufficed"},
      {"PreemptWhoDoesNotRun", first_plan([](StepPlan& plan) {
         if (plan.preempted.empty()) return false;
         plan.preempted.push_back(plan.preempted.back());
         return true;
       }),
       "preempted twice"},
      {"LoseAWholeStep",
       [](History& history) {
         const auto follows = [](const Event& event) {
           const auto* planned = std::get_if<Planned>(&event.what);
           return planned != nullptr && planned->plan.preempted.empty();
         };
         for (auto event = history.events.begin(); event != history.events.end(); ++event) {
           const auto* planned = std::get_if<Planned>(&event->what);
           if (planned == nullptr || !planned->plan.admitted.empty() ||
               event->free != std::prev(event)->free || !event[1].freed.empty() ||
               !follows(event[2])) {
             continue;
           }
           history.events.erase(event, event + 2);
           return true;
         }
         return false;
       },
       "decode, by arrival"},
      {"LoseTheEnd",
       [](History& history) {
         history.events.resize(history.events.size() - 2);
         return true;
       },
       "never ended"},
      {"TooManyResults",
       [](History& history) {
         std::get<Committed>(history.events.at(first_event<Committed>(history)).what)
             .result.finished.push_back(false);
         return true;
       },
       "more results"},
      {"TooFewResults",
       [](History& history) {
         std::get<Committed>(history.events.at(first_event<Committed>(history)).what)
             .result.finished.pop_back();
         return true;
       },
       "fewer results"},
      {"RefuseAWelcomeOne",
       [](History& history) {
         std::get<Added>(history.events.at(0).what).accepted = false;
         return true;
       },
       "was refused"},
      {"AcceptWhatCannotFit",
       [](History& history) {
         for (Event& event : history.events) {
           auto* added = std::get_if<Added>(&event.what);
           if (added != nullptr && !added->accepted) return added->accepted = true;
         }
         return false;
       },
       "was accepted"},
      {"HideAFreedBlock",
       [](History& history) {
         for (Event& event : history.events) {
           if (event.freed.empty()) continue;
           event.freed.pop_back();
           return true;
         }
         return false;
       },
       "not reported"},
      {"FreeABlockTwice",
       [](History& history) {
         for (Event& event : history.events) {
           if (event.freed.empty()) continue;
           event.freed.push_back(event.freed.back());
           return true;
         }
         return false;
       },
       "freed twice"},
      {"FreeABlockInUse",
       [](History& history) {
         history.events.at(first_event<Committed>(history)).freed.push_back(0);
         return true;
       },
       "1 blocks were freed, and 0 given up"},
      {"LeakABlock",
       [](History& history) {
         for (std::size_t i = 6; i < history.events.size(); ++i) --history.events[i].free;
         return true;
       },
       "blocks are free, and should be"},
      {"MiscountRunning",
       [](History& history) {
         ++history.events.at(first_event<Planned>(history)).running;
         return true;
       },
       "run, and"},
      {"MiscountWaiting",
       [](History& history) {
         ++history.events.at(0).waiting;
         return true;
       },
       "are alive"},
  };
  return table;
}

TEST(LawChecker, AcceptsTheUndamagedHistory) {
  EXPECT_THAT(violations(good()), testing::IsEmpty());
}

class DamagedHistory : public testing::TestWithParam<Damage> {};

TEST_P(DamagedHistory, IsSeen) {
  History history = good();
  ASSERT_TRUE(GetParam().apply(history)) << "the history has no place for this damage";
  EXPECT_THAT(violations(history), testing::Contains(testing::HasSubstr(GetParam().seen_as)));
}

INSTANTIATE_TEST_SUITE_P(LawChecker, DamagedHistory, testing::ValuesIn(damages()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dovetail::schedule
