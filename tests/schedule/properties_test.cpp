// Random histories under the law checker. DOVETAIL_HISTORIES=N runs N of them instead of the
// default.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>

#include "schedule/driver.h"
#include "schedule/history_runner.h"
#include "schedule/law_checker.h"

namespace dovetail::schedule {
namespace {

enum class Verb { kAdd, kAdvance, kCancel, kFinish };

// Numbers are taken modulo what makes sense where they are used, so that every list of operations
// is a history, also after shrinking.
struct Operation {
  Verb verb = Verb::kAdvance;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

struct Load {
  SchedulerOptions options;
  std::vector<Operation> operations;
};

struct Outcome {
  std::string script;  // in the language of tests/histories
  std::vector<std::string> faults;
  std::uint64_t preemptions = 0;
};

Outcome play(const Load& load) {
  const SchedulerOptions& options = load.options;
  Driver driver(options);
  Outcome outcome;
  std::ostringstream script;
  script << "options slots=" << options.max_num_seqs << " budget=" << options.max_num_batched_tokens
         << " block=" << options.block_size << " blocks=" << options.kv_blocks
         << " context=" << options.max_context
         << " threshold=" << options.long_prefill_token_threshold
         << " queue=" << options.max_waiting << '\n';
  // In every step the oldest sequence computes a token or more, and each of them is the oldest for
  // at most its own length in steps.
  std::uint32_t bound = 1;
  SequenceId next = 0;
  const auto advance = [&] {
    if (driver.plan_under_way()) {
      driver.commit();
      script << "commit\n";
      return true;
    }
    script << "plan\n";
    const Status status = driver.plan();
    if (!status) outcome.faults.push_back(status.error().message);
    return status.has_value();
  };
  const auto some_alive = [&](std::uint32_t choice) {
    const std::vector<SequenceId> alive = driver.alive();
    return alive[choice % alive.size()];
  };
  for (const Operation& operation : load.operations) {
    switch (operation.verb) {
      case Verb::kAdd: {
        const std::uint32_t prompt = 1 + operation.a % options.max_context;  // the longest: refused
        const std::uint32_t max = 1 + operation.b % options.max_context;
        script << "add S" << next << " prompt=" << prompt << " max=" << max << '\n';
        if (const Status added = driver.add(next++, prompt, max); !added) {
          script << "expect refused \"" << added.error().message << "\"\n";
        } else {
          bound += options.max_context;
        }
        break;
      }
      case Verb::kAdvance:
        if (!advance()) return outcome;
        break;
      case Verb::kCancel: {
        if (next == 0) break;
        const SequenceId id = operation.a % next;  // it may have ended, or never got in
        script << "cancel S" << id << '\n';
        driver.cancel(id);
        break;
      }
      case Verb::kFinish: {
        if (driver.alive().empty()) break;
        const SequenceId id = some_alive(operation.a);
        script << "finish S" << id << '\n';
        driver.finish_next(id);
        break;
      }
    }
  }
  if (driver.plan_under_way()) advance();
  script << "until idle limit=" << bound << '\n';
  if (const auto steps = driver.run_until_idle(bound); !steps) {
    outcome.faults.push_back(steps.error().message);
  }
  script << "expect free " << options.kv_blocks << '\n';
  outcome.script = script.str();
  outcome.preemptions = driver.scheduler().preemptions();
  for (std::string& violation : violations(driver.history())) {
    outcome.faults.push_back(std::move(violation));
  }
  if (driver.scheduler().pool().free() != options.kv_blocks) {
    outcome.faults.push_back("blocks are missing at the end");
  }
  return outcome;
}

std::ostream& operator<<(std::ostream& out, const Load& load) {
  return out << '\n' << play(load).script;
}

rc::Gen<Operation> operation() {
  return rc::gen::apply(
      [](Verb verb, std::uint32_t a, std::uint32_t b) {
        return Operation{verb, a, b};
      },
      rc::gen::weightedElement<Verb>(
          {{12, Verb::kAdvance}, {6, Verb::kAdd}, {1, Verb::kCancel}, {1, Verb::kFinish}}),
      rc::gen::inRange<std::uint32_t>(0, 64), rc::gen::inRange<std::uint32_t>(0, 64));
}

rc::Gen<SchedulerOptions> options() {
  return rc::gen::apply(
      [](std::uint32_t slots, std::uint32_t budget, std::uint32_t threshold, std::uint32_t block,
         std::uint32_t context, std::uint32_t spare, std::uint32_t queue) {
        SchedulerOptions options;
        options.max_num_seqs = slots;
        options.max_num_batched_tokens = slots + budget;
        options.long_prefill_token_threshold = threshold;
        options.block_size = block;
        options.max_context = context;
        options.kv_blocks = kv::blocks_for(context, block) + spare;
        options.max_waiting = queue;
        return options;
      },
      rc::gen::inRange<std::uint32_t>(1, 10), rc::gen::inRange<std::uint32_t>(0, 40),
      rc::gen::inRange<std::uint32_t>(0, 12), rc::gen::inRange<std::uint32_t>(1, 7),
      rc::gen::inRange<std::uint32_t>(2, 40), rc::gen::inRange<std::uint32_t>(0, 14),
      rc::gen::inRange<std::uint32_t>(1, 16));
}

// Numbers come at full size from the first history on; only the number of operations grows.
rc::Gen<Load> loads() {
  constexpr int kFull = 100;
  return rc::gen::apply(
      [](const SchedulerOptions& chosen, std::vector<Operation> operations) {
        return Load{chosen, std::move(operations)};
      },
      rc::gen::resize(kFull, options()),
      rc::gen::container<std::vector<Operation>>(rc::gen::resize(kFull, operation())));
}

int histories() {
  const char* text = std::getenv("DOVETAIL_HISTORIES");
  const int count = text == nullptr ? 0 : std::atoi(text);
  return count > 0 ? count : 20000;
}

TEST(Properties, EveryHistoryObeysTheLaws) {
  std::uint64_t preemptions = 0;
  std::uint64_t preempting = 0;
  rc::detail::TestMetadata metadata;
  metadata.id = "Properties/EveryHistoryObeysTheLaws";
  metadata.description = metadata.id;
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = histories();
  params.maxSize = 150;
  const auto result = rc::detail::checkTestable(
      [&] {
        const Load load = *loads();
        const Outcome outcome = play(load);
        preemptions += outcome.preemptions;
        preempting += outcome.preemptions > 0 ? 1 : 0;
        if (!outcome.faults.empty()) RC_FAIL(outcome.faults.front());
      },
      metadata, params);
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  EXPECT_TRUE(result.template is<rc::detail::SuccessResult>()) << message.str();
  RecordProperty("preemptions", std::to_string(preemptions));
  // Otherwise the loads are too light to say anything of memory pressure.
  EXPECT_GT(preempting * 4, static_cast<std::uint64_t>(params.maxSuccess)) << preempting;
}

// What a failure prints is a script that can be kept: the runner reads it and sees the same.
TEST(Properties, AHistoryIsAScript) {
  const bool ok = rc::check([] {
    const Load load = *loads();
    const auto fault = run_history(play(load).script, "printed");
    if (fault) RC_FAIL(*fault);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace dovetail::schedule
