#include "cli/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

namespace dovetail::cli {
namespace {

// Stands for an engine: accepts up to `capacity` choices and, every time the batch looks up from
// its work, ends a random one of them. The answer is the prompt's first token as text.
struct FakeEngine {
  struct Open {
    RequestId id = 0;
    std::int32_t choice = 0;
    TokenId token = 0;
    EventSink sink;
  };

  std::size_t capacity;
  std::mt19937 random;
  std::vector<Open> open;
  RequestId next_id = 1;
  std::size_t most_open = 0;

  FakeEngine(std::size_t choices, std::uint32_t seed) : capacity(choices), random(seed) {}

  Generator generator() {
    return {[this](Request request, EventSink sink) -> Result<RequestId> {
              if (open.size() + static_cast<std::size_t>(request.n) > capacity)
                return fail(ErrorKind::kExhausted, "full");
              for (std::int32_t i = 0; i < request.n; ++i)
                open.push_back({next_id, i, request.prompt.front(), sink});
              most_open = std::max(most_open, open.size());
              return next_id++;
            },
            [this](RequestId id) {
              for (std::size_t i = open.size(); i-- > 0;)
                if (open[i].id == id) end(i, FinishReason::kCancelled);
            }};
  }

  void end(std::size_t at, FinishReason reason) {
    Open ended = std::move(open[at]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    OutputEvent first;
    first.request = ended.id;
    first.choice = ended.choice;
    first.text = std::to_string(ended.token);
    first.usage.completion_tokens = 2;
    ended.sink(first);
    OutputEvent last = first;
    last.text = "!";
    last.finish = reason;
    last.usage.completion_tokens = 3;
    ended.sink(last);
  }

  void step() {
    if (open.empty()) return;
    end(std::uniform_int_distribution<std::size_t>(0, open.size() - 1)(random),
        FinishReason::kStop);
  }
};

struct Written {
  std::vector<std::string> lines;
  std::size_t read = 0;
  std::size_t most_held = 0;
};

InputRecord record(std::size_t index, std::int32_t n) {
  InputRecord made;
  made.request.prompt = {static_cast<TokenId>(index), 0};
  made.request.n = n;
  return made;
}

BatchHooks hooks(FakeEngine& engine, Written& run, std::size_t records, std::int32_t n) {
  BatchHooks made;
  made.next = [&run, records, n]() -> Result<std::optional<InputRecord>> {
    if (run.read == records) return std::optional<InputRecord>();
    return std::optional(record(run.read++, n));
  };
  made.format = [](const InputRecord& from, const std::vector<Answer>& answers) {
    std::string line = std::to_string(from.index);
    for (const Answer& answer : answers) line += " " + answer.text;
    return line;
  };
  made.write = [&run](std::string_view line) -> Status {
    run.lines.emplace_back(line);
    return {};
  };
  made.progress = [](const BatchTotals&) {};
  made.patience = std::chrono::milliseconds(0);
  made.stop = [&engine, &run] {
    run.most_held = std::max(run.most_held, run.read - run.lines.size());
    engine.step();
    return false;
  };
  return made;
}

RC_GTEST_PROP(RunBatch, WritesEveryRecordOnceInOrder, ()) {
  const auto records = *rc::gen::inRange<std::size_t>(0, 80);
  const auto n = *rc::gen::inRange(1, 4);
  const auto window = *rc::gen::inRange<std::size_t>(1, 20);
  FakeEngine engine(*rc::gen::inRange<std::size_t>(3, 30), *rc::gen::arbitrary<std::uint32_t>());
  Written run;
  const auto totals = run_batch(engine.generator(), hooks(engine, run, records, n), window);
  RC_ASSERT(totals.has_value());
  RC_ASSERT(run.lines.size() == records);
  for (std::size_t i = 0; i < records; ++i) {
    std::string expected = std::to_string(i);
    for (int choice = 0; choice < n; ++choice) expected += fmt::format(" {}!", i);
    RC_ASSERT(run.lines[i] == expected);
  }
  RC_ASSERT(totals->records == records);
  RC_ASSERT(totals->answers == records * static_cast<std::size_t>(n));
  RC_ASSERT(totals->generated_tokens == 3 * totals->answers);
  RC_ASSERT(totals->prompt_tokens == 2 * records);
  RC_ASSERT(run.most_held <= window);
  RC_ASSERT(engine.open.empty());
}

TEST(RunBatch, FillsTheEngine) {
  FakeEngine engine(16, 1);
  Written run;
  ASSERT_TRUE(run_batch(engine.generator(), hooks(engine, run, 100, 1), 1000));
  EXPECT_EQ(engine.most_open, 16U);
}

TEST(RunBatch, CountsWhatIsExpected) {
  FakeEngine engine(4, 1);
  Written run;
  BatchHooks made = hooks(engine, run, 0, 1);
  made.next = [&run]() -> Result<std::optional<InputRecord>> {
    if (run.read == 6) return std::optional<InputRecord>();
    InputRecord made_record = record(run.read, 1);
    if (run.read != 0) made_record.expect = run.read < 3 ? std::to_string(run.read) + "!" : "?";
    ++run.read;
    return std::optional(std::move(made_record));
  };
  const auto totals = run_batch(engine.generator(), made, 10);
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->expecting, 5U);
  EXPECT_EQ(totals->as_expected, 2U);
  EXPECT_EQ(summary(*totals, 2.0),
            "6 requests, 12 prompt and 18 generated tokens in 2.00 s (9 tokens/s); 2 of 5 as "
            "expected");
}

TEST(RunBatch, AStopCancelsTheRestAndWritesWhatHadEnded) {
  FakeEngine engine(8, 1);
  Written run;
  BatchHooks made = hooks(engine, run, 1000, 1);
  int looks = 0;
  made.stop = [&] {
    if (++looks > 5) return true;
    if (!engine.open.empty()) engine.end(engine.open.size() - 1, FinishReason::kStop);
    return false;
  };
  const auto totals = run_batch(engine.generator(), made, 100);
  ASSERT_TRUE(totals);
  EXPECT_TRUE(engine.open.empty());
  EXPECT_EQ(totals->answers, 4U);
  EXPECT_EQ(totals->cancelled, 8U);
  // Record 0 never ended: what came after the gap is still written, in order.
  EXPECT_THAT(run.lines, testing::ElementsAre("7 7!", "8 8!", "9 9!", "10 10!"));
}

TEST(RunBatch, AFailedWriteCancelsTheRest) {
  FakeEngine engine(8, 1);
  Written run;
  BatchHooks made = hooks(engine, run, 1000, 1);
  made.write = [](std::string_view) -> Status { return fail(ErrorKind::kIo, "the disk is full"); };
  const auto totals = run_batch(engine.generator(), made, 100);
  ASSERT_FALSE(totals);
  EXPECT_EQ(totals.error().message, "the disk is full");
  EXPECT_TRUE(engine.open.empty());
  EXPECT_LT(run.read, 1000U);
}

TEST(RunBatch, AnEngineThatRefusesEndsTheBatch) {
  FakeEngine engine(8, 1);
  Written run;
  Generator generator = engine.generator();
  int accepted = 0;
  generator.submit = [&, submit = generator.submit](Request request,
                                                    EventSink sink) -> Result<RequestId> {
    if (++accepted > 3) return fail(ErrorKind::kUnavailable, "the engine has failed");
    return submit(std::move(request), std::move(sink));
  };
  const auto totals = run_batch(generator, hooks(engine, run, 10, 1), 100);
  ASSERT_FALSE(totals);
  EXPECT_EQ(totals.error().message, "the engine has failed");
  EXPECT_TRUE(engine.open.empty());
}

TEST(StreamAnswer, PassesTextOnUntilTheReaderGoes) {
  FakeEngine engine(1, 1);
  Request request;
  request.prompt = {7};
  std::string text;
  const auto answer = stream_answer(
      engine.generator(), request,
      [&](std::string_view piece) {
        text += piece;
        return false;
      },
      [&] {
        engine.step();
        return false;
      });
  ASSERT_TRUE(answer);
  EXPECT_EQ(text, "7");
}

}  // namespace
}  // namespace dovetail::cli
