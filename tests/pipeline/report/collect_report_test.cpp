#include "pipeline/report/collect_report.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "example_run.h"
#include "support/temp_folder.h"

namespace dovetail::pipeline {
namespace {

using testing::ElementsAre;

const ColumnReport& column(const ReportData& data, const std::string& name) {
  for (const ColumnReport& one : data.columns) {
    if (one.info.name == name) return one;
  }
  throw std::runtime_error("no column " + name);
}

// A run of one column.
class OneColumn {
 public:
  OneColumn() : store_(Store::open(folder_ / "run.db", OpenMode::kCreate).value()) {
    const std::vector<ColumnSpec> columns{{"a", {1, 1}, false}};
    EXPECT_TRUE(store_->reconcile(columns));
  }
  void put(std::uint64_t record, CellState state, std::string json) {
    store_->put(CellResult{record, 0, state, std::move(json), {}}, {});
  }
  ReportData report(const CollectOptions& options = {}) {
    EXPECT_TRUE(store_->flush());
    return collect_report(*store_, {}, options).value();
  }

 private:
  test::TempFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST(CollectReport, CountsEveryCell) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", 1000);
  const ReportData data = collect_report(*store, example_infos()).value();
  const auto counts = store->counts().value();
  const std::uint64_t dropped = 1000 / 41;
  EXPECT_EQ(data.dropped, dropped);
  EXPECT_EQ(data.finished, 1000 - dropped);
  EXPECT_EQ(data.open, 0U);
  ASSERT_EQ(data.columns.size(), counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(data.columns[i].states, counts[i]) << i;
  EXPECT_EQ(column(data, "answer").records_dropped, dropped);

  // Against a sum over the records, read one by one.
  std::uint64_t prompt = 0, completion = 0, cost = 0, asked = 0, retried = 0;
  for (std::uint64_t record = 0; record < 1000; ++record) {
    const auto cells = store->read_record(record).value();
    for (const CellResult& cell : cells) {
      prompt += cell.provenance.prompt_tokens;
      completion += cell.provenance.completion_tokens;
      cost += cell.provenance.cost;
      asked += cell.provenance.attempts > 0;
      retried += cell.provenance.attempts > 1;
    }
  }
  EXPECT_EQ(data.prompt_tokens, prompt);
  EXPECT_EQ(data.completion_tokens, completion);
  EXPECT_EQ(data.cost, cost);
  std::uint64_t found_asked = 0, found_retried = 0, latencies = 0;
  for (const ColumnReport& one : data.columns) {
    found_asked += one.asked;
    found_retried += one.retried;
    latencies += one.latency_us.count();
  }
  EXPECT_EQ(found_asked, asked);
  EXPECT_EQ(latencies, asked);
  EXPECT_EQ(found_retried, retried);
}

TEST(CollectReport, KnowsValuesScoresAndOrigins) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", 1000);
  const ReportData data = collect_report(*store, example_infos()).value();
  EXPECT_EQ(column(data, "topic").texts.distinct(), 5U);
  EXPECT_EQ(column(data, "difficulty").numbers.count(), 1000U);
  EXPECT_EQ(column(data, "difficulty").numbers.greatest(), 5);
  const ColumnReport& verdict = column(data, "verdict");
  ASSERT_EQ(verdict.rubrics.size(), 2U);
  EXPECT_EQ(verdict.rubrics[0].name, "correct");
  EXPECT_EQ(verdict.rubrics[0].numbers, verdict.states[0]);
  EXPECT_THAT(verdict.rubrics[1].options, ElementsAre("\"kind\"", "\"rude\""));
  EXPECT_EQ(verdict.rubrics[1].scores.count_of("\"kind\"") +
                verdict.rubrics[1].scores.count_of("\"rude\""),
            verdict.states[0]);
  ASSERT_EQ(data.origins.size(), 2U);
  EXPECT_EQ(data.origins[1].model, "judge");
  EXPECT_EQ(column(data, "question").origins.at(1), 1000U);
}

TEST(CollectReport, GroupsErrorsThatDifferInNumbersOnly) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", 1000);
  const ReportData data = collect_report(*store, example_infos()).value();
  ASSERT_EQ(data.errors.size(), 2U);
  EXPECT_EQ(data.errors[0].count, 34U);
  EXPECT_EQ(data.errors[1].count, 24U);
  EXPECT_EQ(data.errors[1].record, 40U);
  EXPECT_EQ(data.errors[1].example, "answer: no JSON at position 280: found \"40\"");
}

TEST(CollectReport, SamplesAreWholeRecordsAndAlwaysTheSame) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", 500);
  CollectOptions options;
  options.samples = 5;
  const ReportData first = collect_report(*store, example_infos(), options).value();
  const ReportData second = collect_report(*store, {}, options).value();
  ASSERT_EQ(first.samples.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(first.samples[i].record, second.samples[i].record);
    EXPECT_EQ(first.samples[i].cells.size(), 8U);
    if (i > 0) {
      EXPECT_LT(first.samples[i - 1].record, first.samples[i].record);
    }
    for (const SampleCell& cell : first.samples[i].cells) {
      EXPECT_NE(cell.state, CellState::kDropped);
    }
  }
}

TEST(CollectReport, ShowsTheFirstDroppedRecordsAndCountsReasons) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", 500);
  CollectOptions options;
  options.dropped = 3;
  const ReportData data = collect_report(*store, example_infos(), options).value();
  ASSERT_EQ(data.drops.size(), 1U) << "cells that failed have dropped no record";
  EXPECT_EQ(data.drops[0].column, 5U);
  EXPECT_EQ(data.drops[0].count, 12U);
  EXPECT_EQ(data.drops[0].record, 40U);
  EXPECT_EQ(data.accepted, std::nullopt);
  ASSERT_EQ(data.first_dropped.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const Sample& sample = data.first_dropped[i];
    EXPECT_EQ(sample.record, 40 + 41 * i);
    EXPECT_THAT(sample.reason, testing::EndsWith(fmt::format("found \"{}\"", sample.record)));
    ASSERT_EQ(sample.cells.size(), 6U) << "what had been made of it";
    EXPECT_TRUE(sample.cells[4].value.is_string());
    EXPECT_EQ(sample.cells[5].state, CellState::kDropped);
  }
}

TEST(CollectReport, CountsWhatTheTargetRefuses) {
  OneColumn run;
  for (std::uint64_t i = 0; i < 20; ++i) run.put(i, CellState::kValue, std::to_string(i));
  CollectOptions options;
  options.target = 6;
  options.dropped = 2;
  options.refusal = [](const Json& row) {
    return row["a"].get<int>() % 2 == 0 ? "" : "target_accepted: odd";
  };
  const ReportData data = run.report(options);
  EXPECT_EQ(data.accepted, 6U);
  ASSERT_EQ(data.drops.size(), 1U);
  EXPECT_EQ(data.drops[0].column, std::nullopt);
  EXPECT_EQ(data.drops[0].count, 5U) << "10 is the sixth that counts: nothing behind it does";
  ASSERT_EQ(data.first_dropped.size(), 2U);
  EXPECT_EQ(data.first_dropped[1].record, 3U);
  EXPECT_EQ(data.first_dropped[1].cells[0].value, Json(3));
}

// The first column's reason is the record's, as in the file of dropped records.
TEST(CollectReport, ARecordIsDroppedForOneReason) {
  const test::TempFolder folder;
  const auto store = Store::open(folder / "run.db", OpenMode::kCreate).value();
  const std::vector<ColumnSpec> columns{{"a", {1, 1}, false}, {"b", {2, 2}, false}};
  ASSERT_TRUE(store->reconcile(columns));
  store->put(CellResult{0, 1, CellState::kDropped, "late", {}}, {});
  store->put(CellResult{0, 0, CellState::kDropped, "early", {}}, {});
  ASSERT_TRUE(store->flush());
  const ReportData data = collect_report(*store, {}).value();
  ASSERT_EQ(data.drops.size(), 1U);
  EXPECT_EQ(data.drops[0].example, "early");
  EXPECT_EQ(data.first_dropped[0].reason, "early");
  EXPECT_EQ(data.columns[0].records_dropped, 1U);
  EXPECT_EQ(data.columns[1].records_dropped, 0U);
}

TEST(CollectReport, ManyKindsOfReasonsAreCounted) {
  OneColumn run;
  for (std::uint64_t i = 0; i < 50; ++i) {
    run.put(i, CellState::kDropped, fmt::format("error {:x>{}}", "", 1 + i));
  }
  CollectOptions options;
  options.most_errors = 10;
  options.most_value = 8;
  const ReportData data = run.report(options);
  EXPECT_EQ(data.drops.size(), 10U);
  EXPECT_EQ(data.other_drops, 40U);
  ASSERT_EQ(data.first_dropped.size(), 5U);
  EXPECT_EQ(data.first_dropped[4].cells[0].text, "error xx");
  EXPECT_EQ(data.first_dropped[4].cells[0].left_out, 3U);
}

TEST(CollectReport, LongValuesAreCutBetweenCharacters) {
  OneColumn run;
  run.put(0, CellState::kValue, "\"xxxxxxxxxäöü\"");
  CollectOptions options;
  options.most_value = 12;
  const ReportData data = run.report(options);
  ASSERT_EQ(data.samples.size(), 1U);
  EXPECT_EQ(data.samples[0].cells[0].text, "xxxxxxxxxä");
  EXPECT_EQ(data.samples[0].cells[0].left_out, 4U);
  EXPECT_EQ(data.columns[0].length.greatest(), 12U);  // characters, of all of it
}

TEST(CollectReport, ManyKindsOfErrorsAreCounted) {
  OneColumn run;
  for (std::uint64_t i = 0; i < 50; ++i) {
    run.put(i, CellState::kFailed, fmt::format("error {:x>{}}", "", i + 1));
  }
  CollectOptions options;
  options.most_errors = 10;
  const ReportData data = run.report(options);
  EXPECT_EQ(data.errors.size(), 10U);
  EXPECT_EQ(data.other_errors, 40U);
}

TEST(CollectReport, TheFileNamesTheOrderAndColumnsThatAreNotThereYet) {
  OneColumn run;
  run.put(3, CellState::kValue, "true");
  const test::TempFolder folder;
  const auto store = Store::open(folder / "run.db", OpenMode::kCreate).value();
  const std::vector<ColumnSpec> columns{{"a", {1, 1}, false}, {"b", {2, 2}, false}};
  ASSERT_TRUE(store->reconcile(columns));
  store->put(CellResult{0, 0, CellState::kValue, "1", {}}, {});
  ASSERT_TRUE(store->flush());
  const std::vector<ColumnInfo> infos{{"c", "llm-text", "m", {}}, {"b", "sampler", "", {}}};
  const ReportData data = collect_report(*store, infos).value();
  ASSERT_EQ(data.columns.size(), 3U);
  EXPECT_EQ(data.columns[0].info.name, "c");
  EXPECT_EQ(data.columns[1].info.name, "b");
  EXPECT_EQ(data.columns[2].info.name, "a");
  EXPECT_EQ(data.columns[2].states[0], 1U);
  EXPECT_EQ(data.finished, 0U);
  EXPECT_EQ(data.open, 1U);
  EXPECT_TRUE(data.samples.empty());
}

TEST(CollectReport, IsAlsoHowFarTheRunIs) {
  const test::TempFolder folder;
  const auto store = example_store(folder / "run.db", 100);
  ReportData data = collect_report(*store, example_infos()).value();
  data.records = 250;
  data.wall_us = 12'000'000;
  EXPECT_THAT(
      progress_line(progress_of(data)),
      testing::StartsWith("records 100/250 (40.0%), 2 dropped; topic 100; difficulty 100; seconds "
                          "100; id 100; question 100; answer 100, 2 failed; verdict 98"));
}

TEST(CollectReport, CountsWhatPassedAndWhatWasCut) {
  const test::TempFolder folder;
  auto store = Store::open((folder / "run.db").string(), OpenMode::kCreate).value();
  const std::vector<ColumnSpec> columns = {{"text", {1, 1}, false}, {"check", {2, 2}, true}};
  ASSERT_TRUE(store->reconcile(columns));
  const auto put = [&](std::uint64_t record, std::uint32_t column, CellState state,
                       const std::string& json, bool cut = false) {
    Provenance provenance;
    if (column == 0) provenance.attempts = 1;
    provenance.cut = cut;
    store->put({record, column, state, json, provenance}, {});
  };
  for (std::uint64_t record = 0; record < 4; ++record) {
    put(record, 0, CellState::kValue, "\"x\"", record == 2);
  }
  put(0, 1, CellState::kValue, R"({"valid":true,"reason":null})");
  put(1, 1, CellState::kValue, R"({"valid":false,"reason":"no"})");
  put(2, 1, CellState::kFailed, "check: it cannot be started");
  put(3, 1, CellState::kSkipped, "");
  ASSERT_TRUE(store->flush());
  const std::vector<ColumnInfo> infos = {{"text", "llm-text", "m", {}},
                                         {"check", "validation", "", {}}};
  const auto data = collect_report(*store, infos);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->columns[0].cut, 1U);
  EXPECT_EQ(data->columns[1].cut, 0U);
  EXPECT_EQ(data->columns[1].passed, 1U);
  EXPECT_EQ(data->columns[1].not_passed, 2U);
}

TEST(EndpointReport, SaysThatMaxParallelHeldIt) {
  const auto held = [](std::uint64_t at_most, std::uint64_t otherwise, std::uint32_t most) {
    EndpointReport endpoint{"e", "m", Activity(), most};
    endpoint.activity.sample(0, 16, 16, SlotCause::kMaxParallel);
    endpoint.activity.sample(at_most, 3, 16, SlotCause::kNothingReady);
    endpoint.activity.end(at_most + otherwise);
    return held_text(endpoint);
  };
  EXPECT_EQ(held(99'900, 100, 16), "held by your max_parallel (16) for 99 % of the time");
  EXPECT_EQ(held(1000, 0, 0), "held by your max_parallel for 100 % of the time");
  EXPECT_EQ(held(500, 500, 16), "held by your max_parallel (16) for 50 % of the time");
  EXPECT_EQ(held(499, 501, 16), "");
  EXPECT_EQ(held_text({"e", "m", Activity(), 16}), "");
}

}  // namespace
}  // namespace dovetail::pipeline
