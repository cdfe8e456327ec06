// Runs of pipelines with columns of a program's own types.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <set>
#include <thread>

#include "pipeline/face/face_fixture.h"

namespace dovetail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ColumnType word_count() {
  ColumnType type;
  type.name = "word-count";
  type.version = "1";
  type.fields = {{"column", ColumnFieldKind::kColumn, true}, {"note", ColumnFieldKind::kTemplate}};
  type.open = [](const Json& fields) -> Result<OpenedColumn> {
    OpenedColumn opened;
    opened.make = [column = fields["column"].get<std::string>()](const ColumnCell& cell) -> Json {
      std::istringstream words(cell.row.at(column).get<std::string>());
      Json value = {{"count", std::distance(std::istream_iterator<std::string>(words), {})}};
      if (cell.texts.contains("note")) value["note"] = cell.texts["note"];
      return value;
    };
    return opened;
  };
  return type;
}

TEST(OwnTypeRun, MakesValuesOfWhatItNeeds) {
  const FaceFolder folder;
  const PipelineSummary summary = folder.run(
      "records: 2\n"
      "columns:\n"
      "  - {name: n, type: word-count, column: text, note: 'of {{ kind }}'}\n"
      "  - {name: twice, type: expression, as: integer, value: '{{ 2 * n.count }}'}\n"
      "  - {name: text, type: expression, value: 'one two  three'}\n"
      "  - {name: kind, type: expression, value: words, drop: true}\n",
      {word_count()});
  EXPECT_EQ(summary.end, PipelineEnd::kComplete);
  EXPECT_EQ(summary.state.finished, 2U);
  const std::string line =
      "{\"text\":\"one two  three\",\"n\":{\"count\":3,\"note\":\"of words\"},\"twice\":6}\n";
  EXPECT_EQ(folder.text("results.jsonl"), line + line);
  EXPECT_TRUE(std::filesystem::exists(folder.output() / "report.html"));
}

// What is in a row depends on the schedule, and what a maker sees does not.
TEST(OwnTypeRun, SeesNothingButWhatItNeeds) {
  const FaceFolder folder;
  std::set<std::string> seen;
  folder.run(
      "records: 3\n"
      "columns:\n"
      "  - {name: a, type: expression, value: a}\n"
      "  - {name: b, type: expression, value: b}\n"
      "  - {name: c, type: look, of: [b], skip_if: \"{{ a == 'x' }}\"}\n",
      {type_of("look", [&](const ColumnCell& cell) -> Result<Json> {
        for (const auto& [name, value] : cell.row.items()) seen.insert(name);
        return Json(1);
      })});
  EXPECT_THAT(seen, ElementsAre("b"));
}

TEST(OwnTypeRun, IsSkippedLikeOthers) {
  const FaceFolder folder;
  const auto show = type_of("show", [](const ColumnCell& cell) { return cell.row; });
  folder.run(
      "records: 1\n"
      "columns:\n"
      "  - {name: a, type: expression, value: a, skip_if: 'true'}\n"
      "  - {name: b, type: show, of: [a]}\n"
      "  - {name: c, type: show, of: [a, b], propagate_skip: false}\n"
      "  - {name: d, type: show, skip_if: '{{ c.b == none }}', of: [c]}\n"
      "  - {name: e, type: expression, value: '{{ d }}'}\n"
      "  - {name: f, type: show}\n",
      {show});
  EXPECT_EQ(
      folder.text("results.jsonl"),
      "{\"a\":null,\"b\":null,\"c\":{\"a\":null,\"b\":null},\"d\":null,\"e\":null,\"f\":{}}\n");
}

// Bad values, errors and exceptions, on the thread that dispatches and on others.
TEST(OwnTypeRun, FailsByThePolicyOfItsColumn) {
  for (const bool blocks : {false, true}) {
    const FaceFolder folder;
    const auto bad = type_of(
        "bad",
        [](const ColumnCell& cell) -> Result<Json> {
          if (cell.record == 1) return fail(ErrorKind::kInvalid, "no luck");
          if (cell.record == 2) throw std::runtime_error("no file");
          if (cell.record == 3) throw 7;
          if (cell.record == 4) return Json{{"x", {1.0, std::nan("")}}};
          if (cell.record == 5) return Json("\xff");
          if (cell.record == 6) return Json{{"\xff", 1}};
          if (cell.record == 7) return Json(Json::value_t::discarded);
          if (cell.record == 8) return Json::binary({1, 2});
          if (cell.record == 9) return cell.row.at("other");
          return Json(cell.record);
        },
        blocks);
    const auto yaml = [](const std::string& policy) {
      return "records: 10\ncolumns: [{name: a, type: bad, on_failure: " + policy + "}]\n";
    };
    const PipelineSummary kept = folder.run(yaml("keep"), {bad});
    EXPECT_EQ(kept.state.finished, 10U);
    EXPECT_EQ(kept.state.columns[0].failed, 9U);
    std::string lines = "{\"a\":0}\n";
    for (int i = 1; i < 10; ++i) lines += "{\"a\":null}\n";
    EXPECT_EQ(folder.text("results.jsonl"), lines);

    PipelineRunOptions options;
    options.output = folder.output() / "drop";
    std::vector<std::string> reasons;
    options.on_record = [&](const PipelineRecord& record) -> Status {
      reasons.emplace_back(record.reason);
      return {};
    };
    const PipelineSummary dropped = folder.run(yaml("drop"), {bad}, options);
    EXPECT_EQ(dropped.state.finished, 1U);
    EXPECT_EQ(dropped.state.dropped, 9U);
    EXPECT_THAT(
        reasons,
        ElementsAre("", "a: no luck", "a: bad threw: no file",
                    "a: bad threw something that is no std::exception",
                    "a: bad has made a number that is not finite, which JSON cannot hold",
                    "a: bad has made a text that is no UTF-8, which JSON cannot hold",
                    "a: bad has made a key that is no UTF-8, which JSON cannot hold",
                    "a: bad has made what could not be parsed, which JSON cannot hold",
                    "a: bad has made binary data, which JSON cannot hold", HasSubstr("'other'")));
    EXPECT_EQ(FaceFolder::text_of(dropped.results), "{\"a\":0}\n");
    EXPECT_THAT(FaceFolder::text_of(dropped.dropped), HasSubstr("\"reason\":\"a: no luck\""));
  }
}

// A blocking maker waits for another one, and for cells that the dispatching thread makes.
TEST(OwnTypeRun, BlockingOnesRunBesideOthers) {
  const FaceFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, quick = 0;
  bool met = false;
  const auto slow = type_of(
      "slow",
      [&](const ColumnCell&) -> Result<Json> {
        std::unique_lock lock(mutex);
        met = met || ++inside >= 2;
        changed.notify_all();
        const bool came =
            changed.wait_for(lock, std::chrono::seconds(60), [&] { return met && quick >= 2; });
        --inside;
        if (!came) return fail(ErrorKind::kTimeout, "alone");
        return Json(1);
      },
      true);
  const auto fast = type_of("fast", [&](const ColumnCell&) -> Result<Json> {
    const std::lock_guard lock(mutex);
    ++quick;
    changed.notify_all();
    return Json(2);
  });
  const PipelineSummary summary = folder.run(
      "records: 20\ncolumns: [{name: a, type: slow}, {name: b, type: fast}]\n", {slow, fast});
  EXPECT_EQ(summary.state.finished, 20U);
  EXPECT_EQ(summary.state.columns[0].values, 20U);
  EXPECT_EQ(quick, 20);
}

// The seed is of the run, the column and the record.
TEST(OwnTypeRun, SeedsDependOnNothingElse) {
  const auto seeds = [](const std::string& head, const std::string& names) {
    const FaceFolder folder;
    std::mutex mutex;
    std::set<std::uint64_t> all;
    folder.run(head + "columns: [" + names + "]\n",
               {type_of("draw", [&](const ColumnCell& cell) -> Result<Json> {
                 const std::lock_guard lock(mutex);
                 all.insert(cell.seed);
                 return Json(cell.seed);
               })});
    return all;
  };
  const auto plain = seeds("records: 50\n", "{name: a, type: draw}");
  EXPECT_EQ(plain.size(), 50U);
  EXPECT_EQ(plain, seeds("records: 50\nwindow: 1\n", "{name: a, type: draw}"));
  for (const auto& other : {seeds("records: 50\nrandom_seed: 1\n", "{name: a, type: draw}"),
                            seeds("records: 50\n", "{name: b, type: draw}")}) {
    for (const std::uint64_t seed : other) EXPECT_FALSE(plain.contains(seed));
  }
}

// A run of makers of both kinds that is resumed with windows of other sizes has the same bytes.
TEST(OwnTypeRun, TheScheduleNeverChangesTheAnswer) {
  const auto types = [] {
    const auto value = [](const ColumnCell& cell) -> Result<Json> {
      if (cell.seed % 17 == 0) return fail(ErrorKind::kInvalid, "unlucky {}", cell.record);
      return Json{{"seed", cell.seed % 1000}, {"row", cell.row}};
    };
    return std::vector<ColumnType>{
        type_of("quick", value),
        type_of(
            "slow",
            [=](const ColumnCell& cell) {
              std::this_thread::sleep_for(std::chrono::microseconds(cell.seed % 300));
              return value(cell);
            },
            true)};
  };
  const auto yaml = [](const std::string& window) {
    return "records: 800\n" + window +
           "columns:\n"
           "  - {name: n, type: sampler, sampler: integer, params: {low: 0, high: 9}}\n"
           "  - {name: a, type: slow, of: [n], on_failure: keep}\n"
           "  - {name: b, type: quick, of: [n]}\n"
           "  - {name: c, type: slow, of: [a, b], skip_if: '{{ n == 3 }}'}\n"
           "  - {name: d, type: quick, of: [c, a], priority: -1, propagate_skip: false}\n";
  };
  const FaceFolder wide;
  wide.run(yaml(""), types());
  const std::string results = wide.text("results.jsonl"), dropped = wide.text("dropped.jsonl");
  EXPECT_GT(std::count(results.begin(), results.end(), '\n'), 500);
  EXPECT_GT(std::count(dropped.begin(), dropped.end(), '\n'), 50);
  for (const char* window : {"window: 1\n", "window: 7\norder: fair\n"}) {
    const FaceFolder narrow;
    narrow.run(yaml(window), types());
    EXPECT_EQ(narrow.text("results.jsonl"), results) << window;
    EXPECT_EQ(narrow.text("dropped.jsonl"), dropped) << window;
  }
  const FaceFolder broken;
  PipelineRunOptions options;
  for (int session = 0;; ++session) {
    ASSERT_LT(session, 50);
    int left = 150;
    options.on_record = [&](const PipelineRecord& record) -> Status {
      if (record.record >= static_cast<std::uint64_t>(session) * 100) --left;
      return {};
    };
    options.stop = [&] { return left <= 0 ? PipelineStop::kNow : PipelineStop::kNone; };
    const PipelineSummary summary =
        broken.run(yaml(session % 2 == 0 ? "window: 50\n" : ""), types(), options);
    options.resume = true;
    if (summary.end == PipelineEnd::kComplete) break;
    EXPECT_EQ(summary.end, PipelineEnd::kStopped);
  }
  EXPECT_EQ(broken.text("results.jsonl"), results);
  EXPECT_EQ(broken.text("dropped.jsonl"), dropped);
}

}  // namespace
}  // namespace dovetail
