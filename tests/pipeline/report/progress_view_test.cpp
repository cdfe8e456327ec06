#include "pipeline/report/progress_view.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pipeline/config/document.h"

namespace dovetail::pipeline {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

ProgressView some_view() {
  ProgressView view;
  view.columns = {{"topic", 400, 0, 0, 0, 400, 90.0},
                  {"question", 200, 16, 2, 0, 400, 4.0},
                  {"verdict", 100, 3, 0, 50, 400, 2.5}};
  view.endpoints = {{"local", 16, 16, SlotCause::kLimit},
                    {"judge-a", 3, 64, SlotCause::kNothingReady}};
  view.records_done = 148;
  view.records_dropped = 2;
  view.records_total = 400;
  view.record_rate = 2.5;
  view.elapsed = 75s;
  view.tokens_in = 120'000;
  view.tokens_out = 45'200;
  view.cost = 420'000'000;
  return view;
}

TEST(ProgressLines, Wide) {
  EXPECT_EQ(progress_lines(some_view(), {100, false, true}),
            (Lines{
                "records   ███████████×·················  150/400  2.50/s  1m39s                2 "
                "dropped",
                "topic     █████████████████████████████  400/400",
                "question  ██████████████×▒·············  202/400     4/s    49s  16 in flight   2 "
                "failed",
                "verdict   ███████████▒·················  150/400  2.50/s  1m40s   3 in flight     "
                "        50 skipped",
                "local     16/16 in flight  at its limit",
                "judge-a    3/64 in flight  nothing ready",
                "elapsed 1m15s  tokens 120k in, 45.2k out  cost 0.4200",
            }));
}

TEST(ProgressLines, Ascii) {
  ProgressView view = some_view();
  view.columns.resize(2);
  view.endpoints.clear();
  EXPECT_EQ(
      progress_lines(view, {84, false, false}),
      (Lines{
          "records   ##########x................  150/400  2.50/s  49s                2 dropped",
          "topic     ###########################  400/400",
          "question  #############x>............  202/400     4/s  49s  16 in flight   2 failed",
          "elapsed 1m15s  tokens 120k in, 45.2k out  cost 0.4200",
      }));
}

TEST(ProgressLines, NarrowHasNoBarAndIsCut) {
  EXPECT_EQ(progress_lines(some_view(), {40, false, true}),
            (Lines{
                "records   150/400  2.50/s  1m39s       …",
                "topic     400/400",
                "question  202/400     4/s    49s  16 in…",
                "verdict   150/400  2.50/s  1m40s   3 in…",
                "local     16/16 in flight  at its limit",
                "judge-a    3/64 in flight  nothing ready",
                "elapsed 1m15s  tokens 120k in, 45.2k ou…",
            }));
}

TEST(ProgressLines, ColoursOnlyWhereAsked) {
  ProgressView view;
  view.columns = {{"a", 4, 1, 2, 0, 8, std::nullopt}};
  view.records_total = 8;
  view.elapsed = 1s;
  EXPECT_EQ(
      progress_lines(view, {60, true, false})[1],
      "a        \x1b[32m############\x1b[0m\x1b[31mxxxxx\x1b[0m\x1b[36m>>>\x1b[0m\x1b[2m...\x1b[0m "
      " 6/8  "
      "1 in flight  2 failed");
}

TEST(ProgressLines, NothingYet) {
  ProgressView view;
  view.columns = {{"a", 0, 0, 0, 0, 0, std::nullopt}};
  EXPECT_EQ(
      progress_lines(view, {30, false, true}),
      (Lines{"records  ················  0/0", "a        ················  0/0", "elapsed 0.0s"}));
}

TEST(ProgressLines, NamesOfDataCannotMoveTheCursor) {
  ProgressView view;
  view.columns = {{"a\x1b[2Jb", 1, 0, 0, 0, 1, std::nullopt}};
  for (const std::string& line : progress_lines(view, {80, false, true})) {
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
}

RC_GTEST_PROP(ProgressLines, FitTheTerminal, ()) {
  const auto number = [] {
    return *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << *rc::gen::inRange(1, 40));
  };
  ProgressView view;
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
    view.columns.push_back({*rc::gen::arbitrary<std::string>(), number(), number(), number(),
                            number(), number(), *rc::gen::arbitrary<double>()});
    view.endpoints.push_back({*rc::gen::arbitrary<std::string>(),
                              *rc::gen::arbitrary<std::uint32_t>(),
                              *rc::gen::arbitrary<std::uint32_t>(), SlotCause::kBudget});
  }
  view.records_done = number();
  view.records_total = number();
  view.elapsed = std::chrono::microseconds(number());
  view.cost = number();
  const auto width = *rc::gen::inRange<std::size_t>(1, 200);
  const auto lines = progress_lines(view, {width, false, *rc::gen::arbitrary<bool>()});
  RC_ASSERT(lines.size() == 2 + view.columns.size() + view.endpoints.size());
  for (const std::string& line : lines) RC_ASSERT(display_width(line) <= width);
}

TEST(Redraw, TakesThePlaceOfFormerLines) {
  EXPECT_EQ(redraw({"a", "b"}, 0), "\ra\x1b[K\nb\x1b[K\n");
  EXPECT_EQ(redraw({"a", "b"}, 2), "\r\x1b[2Aa\x1b[K\nb\x1b[K\n");
  EXPECT_EQ(redraw({"a"}, 2), "\r\x1b[2Aa\x1b[K\n\x1b[J");
}

TEST(Redraw, CountsTheRowsOfLinesThatANarrowerTerminalHasBroken) {
  const Lines lines = {"12345678", "\x1b[32m####\x1b[0m\x1b[2m....\x1b[0m", "", "漢字漢字"};
  EXPECT_EQ(rows_of(lines, 100), 4U);
  EXPECT_EQ(rows_of(lines, 8), 4U);
  EXPECT_EQ(rows_of(lines, 7), 7U);
  EXPECT_EQ(rows_of(lines, 3), 10U);
  EXPECT_EQ(rows_of({}, 3), 0U);
}

// The run ends at its target: what is allowed beyond that is nothing left to do.
TEST(ProgressOfATarget, CountsWhatWasAccepted) {
  ProgressView view;
  view.columns = {{"a", 13, 0, 0, 0, 30, 5.0}};
  view.records_done = 8;
  view.records_dropped = 5;
  view.records_total = 30;
  view.records_wanted = 8;
  view.elapsed = 2s;
  EXPECT_EQ(progress_line(view),
            "8 accepted of 8 wanted, 30 records allowed, 5 dropped; a 13; elapsed 2s");
  EXPECT_EQ(
      progress_lines(view, {90, false, false}).front(),
      "accepted  ###################################    8/8           5 dropped  13 of 30 records");
  EXPECT_EQ(Json::parse(progress_event(view)).at("records").at("wanted"), 8);
  view.records_done = 4;
  view.records_dropped = 4;
  view.record_rate = 2.0;  // of which half are accepted
  EXPECT_EQ(time_left(view), 4s);
}

TEST(ProgressLine, SaysAll) {
  EXPECT_EQ(
      progress_line(some_view()),
      "records 150/400 (37.5%), 2 dropped, 2.50/s, 1m39s left; topic 400; question 202 +16 in "
      "flight, 2 failed; verdict 150 +3 in flight; local 16/16 at its limit; judge-a 3/64 "
      "nothing ready; elapsed 1m15s  tokens 120k in, 45.2k out  cost 0.4200");
}

TEST(ProgressEvent, IsOneLineOfJson) {
  ProgressView view = some_view();
  view.columns.resize(2);
  view.columns[0].rate.reset();
  view.endpoints.resize(1);
  EXPECT_EQ(
      progress_event(view),
      R"({"event":"progress","elapsed_ms":75000,"left_ms":49000,)"
      R"("records":{"done":148,"dropped":2,"total":400,"per_second":2.5},)"
      R"("columns":[{"name":"topic","done":400,"in_flight":0,"failed":0,"skipped":0,"total":400,)"
      R"("per_second":null},)"
      R"({"name":"question","done":200,"in_flight":16,"failed":2,"skipped":0,"total":400,)"
      R"("per_second":4.0}],)"
      R"("endpoints":[{"name":"local","in_flight":16,"limit":16,"state":"limit"}],)"
      R"("tokens":{"in":120000,"out":45200},"cost":0.42})");
}

TEST(ProgressEvent, NamesThatAreNoUtf8) {
  ProgressView view;
  view.columns = {{"a\xff\n", 0, 0, 0, 0, 1, std::nullopt}};
  const std::string event = progress_event(view);
  EXPECT_EQ(event.find('\n'), std::string::npos);
  EXPECT_TRUE(Json::accept(event));
}

TEST(TimeLeft, IsThatOfTheSlowest) {
  ProgressView view = some_view();
  EXPECT_EQ(time_left(view), 99200ms);  // 400 less 150 and the 2 that are dropped
  view.columns[1].rate = 0.5;           // 400 less 202 and the 2 that are dropped
  EXPECT_EQ(time_left(view), 392s);
  view.columns[1].rate = 0.0;
  EXPECT_EQ(time_left(view), std::nullopt);
  view.columns[1].rate.reset();
  EXPECT_EQ(time_left(view), std::nullopt);
}

// A record that takes long holds up the writing of all that follow, and not their cells.
TEST(TimeLeft, CountsCellsAndNotRecordsThatWait) {
  ProgressView view;
  view.columns = {{"text", 988, 12, 0, 0, 1000, 1.0}};
  view.records_total = 1000;
  view.records_done = 475;
  view.record_rate = 1.0;
  EXPECT_EQ(time_left(view), 12s);
  view.record_rate = 0.0;
  EXPECT_EQ(time_left(view), 12s);
}

TEST(RateMeter, IsTheRateOfTheLastSeconds) {
  RateMeter meter(10s);
  EXPECT_EQ(meter.rate(), std::nullopt);
  meter.add(0s, 0);
  EXPECT_EQ(meter.rate(), std::nullopt);
  for (int i = 1; i <= 100; ++i) meter.add(1s * i, static_cast<std::uint64_t>(i) * 5);
  EXPECT_DOUBLE_EQ(meter.rate().value(), 5.0);
  for (int i = 1; i <= 10; ++i) meter.add(100s + 1s * i, 500);
  EXPECT_DOUBLE_EQ(meter.rate().value(), 0.0);
}

TEST(RateMeter, ManyMomentsTakeNoMoreRoomThanItsWindow) {
  RateMeter meter(10s);
  for (std::uint64_t i = 0; i <= 100'000; ++i) {
    meter.add(std::chrono::milliseconds(i), i);
  }
  EXPECT_NEAR(meter.rate().value(), 1000.0, 50.0);
}

}  // namespace
}  // namespace dovetail::pipeline
