#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/run/ordered_emitter.h"
#include "pipeline/run/runner.h"
#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

TEST(Emission, AnErrorOfTheWriterEndsTheRun) {
  const PipelineSpec spec = spec_of(judged_pipeline(100));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  auto store = Store::open((folder.path() / "run.db").string(), OpenMode::kCreate);
  ASSERT_TRUE(store);
  std::vector<ColumnSpec> columns;
  for (const ColumnDescription& column : spec.columns) columns.push_back({column.name, {}, false});
  ASSERT_TRUE((*store)->reconcile(columns));
  RunPorts ports;
  ports.models = {gen.client(), judge.client()};
  ports.draw = [](ColumnId, RecordId record, Json& row) {
    row["i"] = record;
    return Status();
  };
  ports.store = store->get();
  ports.emit = [](const FinishedRecord& record) -> Status {
    if (record.record < 10) return {};
    return fail(ErrorKind::kIo, "results.jsonl: no space left");
  };
  const auto ended = run_pipeline(spec, ports);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "results.jsonl: no space left");
}

TEST(Emission, AnErrorAfterRecordsWerePassedOnEndsTheRun) {
  const PipelineSpec spec = spec_of(judged_pipeline(100));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
  RunPorts ports;
  ports.models = {gen.client(), judge.client()};
  ports.store = store.get();
  ports.emitted = [] { return Status(fail(ErrorKind::kIo, "results.jsonl: no space left")); };
  const Session session = run_with(spec, std::move(ports));
  ASSERT_FALSE(session.progress);
  EXPECT_EQ(session.progress.error().message, "results.jsonl: no space left");
  EXPECT_FALSE(session.lines.empty());
}

// With commits an hour apart, nothing but haste ends it.
TEST(Emission, TheEndWaitsForNoFurtherCommit) {
  const PipelineSpec spec = spec_of(judged_pipeline(20));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  StoreOptions options;
  options.commit_every = std::chrono::hours(1);
  const auto store = Store::open((folder.path() / "run.db").string(), OpenMode::kCreate, options);
  ASSERT_TRUE(store);
  std::vector<ColumnSpec> columns;
  for (const ColumnDescription& column : spec.columns) columns.push_back({column.name, {}, false});
  ASSERT_TRUE((*store)->reconcile(columns));
  std::size_t emitted = 0;
  RunPorts ports;
  ports.models = {gen.client(), judge.client()};
  ports.store = store->get();
  ports.emitted = [&] {
    ++emitted;
    return Status();
  };
  const Session session = run_with(spec, std::move(ports));
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines.size(), 20U);
  EXPECT_GE(emitted, 1U);
}

// A run of twelve records, the first of which is not answered before others have been emitted, or
// ten seconds have passed.
Session run_with_a_slow_first(const PipelineSpec& spec, Store& store, bool in_order, bool resumes,
                              int stop_after = 1000) {
  std::mutex mutex;
  std::condition_variable emitted;
  int count = 0;
  ScriptedModel gen(4, [&](const ModelRequest& request) {
    if (prompt_of(request) == "write 0" && !in_order) {
      std::unique_lock lock(mutex);
      emitted.wait_for(lock, std::chrono::seconds(10), [&] { return count > 0; });
    }
    return answer(fmt::format("<{}>", prompt_of(request)));
  });
  ScriptedModel judge(4, [](const ModelRequest&) { return answer("yes"); });
  RunPorts ports;
  ports.store = &store;
  ports.models = {gen.client(), judge.client()};
  ports.in_order = in_order;
  ports.resumes = resumes;
  ports.emitted = [&]() -> Status {
    const std::lock_guard lock(mutex);
    ++count;
    emitted.notify_all();
    return {};
  };
  ports.stop = [&] {
    const std::lock_guard lock(mutex);
    return count >= stop_after ? StopLevel::kFinish : StopLevel::kNone;
  };
  return run_with(spec, ports);
}

TEST(Emission, UnorderedRecordsAreEmittedAsTheyFinish) {
  const PipelineSpec spec = spec_of(fmt::format("records: 12\nwindow: 4\n{}{}", R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g}
  judge: {endpoint: "http://localhost:1/v1", model: j}
)",
                                                kJudgedColumns));
  const RunFolder in_order, unordered;
  const auto first = open_run(spec, in_order.path(), OpenMode::kCreate);
  const Session expected = run_with_a_slow_first(spec, *first, true, false);
  ASSERT_TRUE(is_lawful(expected));
  ASSERT_EQ(expected.lines.size(), 12U);

  const auto second = open_run(spec, unordered.path(), OpenMode::kCreate);
  const Session stopped = run_with_a_slow_first(spec, *second, false, false, 1);
  EXPECT_TRUE(is_lawful(stopped));
  ASSERT_FALSE(stopped.lines.empty());
  EXPECT_NE(stopped.lines.front(), expected.lines.front()) << "the first record is slow";

  // Each record once, and the same of it, also by a run that was stopped in between.
  const Session resumed = run_with_a_slow_first(spec, *second, false, true);
  EXPECT_TRUE(is_lawful(resumed));
  EXPECT_THAT(resumed.lines, ::testing::UnorderedElementsAreArray(expected.lines));
  // And in order again, where that is asked for.
  const Session ordered = run_with_a_slow_first(spec, *second, true, true);
  EXPECT_TRUE(is_lawful(ordered));
  EXPECT_EQ(ordered.lines, expected.lines);
}

TEST(OrderedEmitter, ReadsBackWhatItDidNotKeep) {
  const PipelineSpec spec = spec_of(judged_pipeline(50));
  const RunFolder folder;
  auto store = Store::open((folder.path() / "run.db").string(), OpenMode::kCreate);
  ASSERT_TRUE(store);
  std::vector<ColumnSpec> columns;
  for (const ColumnDescription& column : spec.columns) columns.push_back({column.name, {}, false});
  ASSERT_TRUE((*store)->reconcile(columns));
  std::vector<std::string> lines;
  OrderedEmitter emitter(
      spec, **store,
      [&](const FinishedRecord& record) -> Status {
        lines.push_back(record.reason.empty() ? record.row.dump() : record.reason);
        return {};
      },
      2);
  for (RecordId record = 49;; --record) {
    std::vector<CellResult> cells = {
        {record, 0, CellState::kValue, std::to_string(record), {}},
        {record, 1, CellState::kValue, "\"t\"", {.cut = record % 2 == 1}},
        {record,
         2,
         record == 7 ? CellState::kDropped : CellState::kSkipped,
         record == 7 ? "why" : "",
         {}},
        {record, 3, CellState::kValue, "1", {}},
    };
    (*store)->put(cells, {});
    ASSERT_TRUE((*store)->flush());
    auto opened = restore(spec, cells);
    ASSERT_TRUE(opened);
    emitter.add(record, 50 - record, *std::move(opened));
    ASSERT_TRUE(emitter.durable(49 - record));
    if (record == 0) break;
    EXPECT_TRUE(lines.empty());
  }
  EXPECT_TRUE(lines.empty()) << "the last batch is not durable";
  EXPECT_TRUE(emitter.durable(50, 20).value());
  EXPECT_EQ(lines.size(), 20U);
  EXPECT_FALSE(emitter.durable(50, 30).value());
  ASSERT_EQ(lines.size(), 50U);
  EXPECT_EQ(lines[7], "why");
  EXPECT_EQ(lines[49], R"({"i":49,"text":"t","text_cut":true,"grade":null,"size":1})");
  EXPECT_EQ(lines[48], R"({"i":48,"text":"t","text_cut":false,"grade":null,"size":1})");
}

}  // namespace
}  // namespace dovetail::pipeline
