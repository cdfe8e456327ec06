// What a resumed run makes anew, and what a run tells its caller.
#include <gmock/gmock.h>

#include "pipeline/face/face_fixture.h"

namespace dovetail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Calls {
  CallCount first, second, other;
};

// `second` needs what `first` makes, `other` neither.
PipelineSummary run(const FaceFolder& folder, Calls& calls, bool resume,
                    const std::string& version = "1", const std::string& fields = "",
                    bool blocks = false, const std::string& common = "") {
  const auto counting = [](CallCount& count, std::string value) {
    return [&count, value](const ColumnCell& cell) -> Result<Json> {
      count.add(cell.record);
      return Json(value);
    };
  };
  PipelineRunOptions options;
  options.resume = resume;
  return folder.run("records: 20\ncolumns:\n  - {name: first, type: first" + fields + common +
                        "}\n"
                        "  - {name: second, type: second, of: [first]}\n"
                        "  - {name: other, type: other}\n",
                    {type_of("first", counting(calls.first, "v" + version), blocks, version),
                     type_of("second", counting(calls.second, "second")),
                     type_of("other", counting(calls.other, "other"))},
                    options);
}

TEST(OwnTypeResume, MakesAnewWhatHasChanged) {
  const FaceFolder folder;
  Calls calls;
  run(folder, calls, false);
  const auto counts = [&] {
    return std::vector<std::uint64_t>{calls.first.all(), calls.second.all(), calls.other.all()};
  };
  EXPECT_THAT(counts(), ElementsAre(20, 20, 20));
  EXPECT_THAT(run(folder, calls, true).remade, IsEmpty());
  EXPECT_THAT(counts(), ElementsAre(20, 20, 20));
  // When and on which thread a cell is made is no matter of its value.
  EXPECT_THAT(run(folder, calls, true, "1", "", true, ", drop: true, priority: 3").remade,
              IsEmpty());
  EXPECT_THAT(counts(), ElementsAre(20, 20, 20));
  EXPECT_THAT(run(folder, calls, true, "2").remade, ElementsAre("first", "second"));
  EXPECT_THAT(counts(), ElementsAre(40, 40, 20));
  EXPECT_THAT(folder.text("results.jsonl"), HasSubstr("\"first\":\"v2\""));
  EXPECT_THAT(run(folder, calls, true, "2", ", salt: 1").remade, ElementsAre("first", "second"));
  EXPECT_THAT(counts(), ElementsAre(60, 60, 20));
  EXPECT_THAT(run(folder, calls, true, "2", ", salt: 1").remade, IsEmpty());
  EXPECT_THAT(counts(), ElementsAre(60, 60, 20));
}

TEST(OwnTypeResume, FinishedCellsAreNotMadeAgain) {
  const FaceFolder folder;
  CallCount calls;
  const auto type = type_of("count", [&](const ColumnCell& cell) -> Result<Json> {
    calls.add(cell.record);
    return Json(cell.record);
  });
  const std::string yaml = "records: 500\nwindow: 10\ncolumns: [{name: a, type: count}]\n";
  PipelineRunOptions options;
  std::uint64_t told = 0;
  options.on_record = [&](const PipelineRecord& record) -> Status {
    EXPECT_EQ(record.record, told++);
    EXPECT_EQ(record.row, Json({{"a", record.record}}));
    return {};
  };
  options.stop = [&] { return calls.all() >= 100 ? PipelineStop::kFinish : PipelineStop::kNone; };
  const PipelineSummary stopped = folder.run(yaml, {type}, options);
  EXPECT_EQ(stopped.end, PipelineEnd::kStopped);
  EXPECT_EQ(stopped.why, "it was asked to stop");
  EXPECT_GE(stopped.state.finished, 100U);
  EXPECT_LT(stopped.state.finished, 500U);

  const auto pipeline = folder.read(yaml, {type});
  ASSERT_TRUE(pipeline);
  PipelineRunOptions place;
  place.output = folder.output();
  const auto counts = pipeline->counts(place);
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ((*counts)[0].values, stopped.state.columns[0].values);

  told = 0;
  options.stop = nullptr;
  options.resume = true;
  const PipelineSummary whole = folder.run(yaml, {type}, options);
  EXPECT_EQ(whole.end, PipelineEnd::kComplete);
  EXPECT_EQ(told, 500U);
  EXPECT_EQ(calls.all(), 500U);
  EXPECT_EQ(calls.most(), 1U);
  EXPECT_GT(whole.elapsed, stopped.elapsed);
}

TEST(OwnTypeResume, FailedCellsAreMadeAgainWhenAskedFor) {
  const FaceFolder folder;
  bool works = false;
  const auto type = type_of("moody", [&](const ColumnCell& cell) -> Result<Json> {
    if (!works && cell.record % 2 == 1) throw std::runtime_error("not today");
    return Json(cell.record);
  });
  const std::string yaml = "records: 4\ncolumns: [{name: a, type: moody}]\n";
  EXPECT_EQ(folder.run(yaml, {type}).state.dropped, 2U);
  works = true;
  EXPECT_EQ(folder.run(yaml, {type}, resuming()).state.dropped, 2U);
  PipelineRunOptions options = resuming();
  options.retry_failed = true;
  EXPECT_EQ(folder.run(yaml, {type}, options).state.dropped, 0U);
  EXPECT_EQ(folder.text("results.jsonl"), "{\"a\":0}\n{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
}

TEST(PipelineFace, ErrorsOfTheCallersFunctionsEndTheRun) {
  const FaceFolder folder;
  const std::string yaml = "records: 30\ncolumns: [{name: a, type: expression, value: x}]\n";
  const auto pipeline = folder.read(yaml, {});
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  PipelineRunOptions options;
  options.output = folder.output();
  const auto error_of = [&] {
    const auto summary = pipeline->run(options);
    options = {};
    options.output = folder.output();
    options.resume = true;
    return summary ? "" : summary.error().message;
  };
  options.on_record = [](const PipelineRecord& record) -> Status {
    if (record.record == 7) return fail(ErrorKind::kIo, "the disk is full");
    return {};
  };
  EXPECT_EQ(error_of(), "the disk is full");
  options.on_record = [](const PipelineRecord&) -> Status { throw std::runtime_error("oh"); };
  EXPECT_EQ(error_of(), "on_record() threw: oh");
  options.on_progress = [](const PipelineState&) { throw std::runtime_error("oh"); };
  EXPECT_EQ(error_of(), "on_progress() threw: oh");
  options.stop = []() -> PipelineStop { throw std::runtime_error("oh"); };
  EXPECT_EQ(error_of(), "stop() threw: oh");
  options.resume = false;
  EXPECT_THAT(error_of(), HasSubstr("run.db"));
  EXPECT_EQ(error_of(), "");
  const std::string text = folder.text("results.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 30);
}

TEST(PipelineFace, TellsWhatTheFileSays) {
  const FaceFolder folder;
  const auto pipeline = folder.read(
      "name: words\nrecords: 4\n"
      "figures: [{name: even, share_of: '{{ n % 2 == 0 }}'}]\n"
      "columns:\n"
      "  - {name: b, type: number, of: [a]}\n"
      "  - {name: a, type: expression, value: x, drop: true}\n"
      "  - {name: n, type: number}\n",
      {type_of("number",
               [](const ColumnCell& cell) -> Result<Json> { return Json(cell.record); })});
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  EXPECT_EQ(pipeline->name(), "words");
  EXPECT_EQ(pipeline->records(), 4U);
  ASSERT_EQ(pipeline->columns().size(), 3U);
  const PipelineColumn& a = pipeline->columns()[0];
  const PipelineColumn& b = pipeline->columns()[1];
  EXPECT_EQ(a.name + " " + a.type, "a expression");
  EXPECT_TRUE(a.dropped);
  EXPECT_EQ(b.name + " " + b.type, "b number");
  EXPECT_THAT(b.needs, ElementsAre("a"));
  PipelineRunOptions options;
  options.output = folder.output();
  options.format = PipelineFormat::kCsv;
  options.report = false;
  std::uint64_t last = 0;
  options.on_progress = [&](const PipelineState& state) { last = state.finished; };
  const auto summary = pipeline->run(options);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(last, 4U);
  EXPECT_EQ(folder.text("results.csv"), "b,n\r\n0,0\r\n1,1\r\n2,2\r\n3,3\r\n");
  EXPECT_FALSE(std::filesystem::exists(folder.output() / "report.html"));
  ASSERT_EQ(summary->figures.size(), 1U);
  EXPECT_EQ(summary->figures[0].name, "even");
  EXPECT_EQ(summary->figures[0].hits, 2U);
  EXPECT_EQ(summary->figures[0].of, 4U);
}

TEST(PipelineFace, RefusesTypesThatAreBuiltIn) {
  const FaceFolder folder;
  const auto pipeline = folder.read(
      "records: 1\ncolumns: [{name: a, type: expression, value: x}]\n",
      {type_of("expression", [](const ColumnCell&) -> Result<Json> { return Json(1); })});
  ASSERT_FALSE(pipeline);
  EXPECT_EQ(pipeline.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(pipeline.error().message, HasSubstr("'expression': this type is built in"));
  EXPECT_EQ(Pipeline::read("/nowhere.yaml").error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace dovetail
