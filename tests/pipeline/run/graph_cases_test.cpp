#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

constexpr const char* kGraphModels = R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g}
  judge: {endpoint: "http://localhost:1/v1", model: j}
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
)";

std::string text_column(const std::string& name, const std::string& model,
                        const std::string& prompt, const std::string& more = "") {
  return fmt::format("  - {{name: {}, type: llm-text, model: {}, prompt: \"{}\"{}}}\n", name, model,
                     prompt, more);
}

PipelineSpec graph(int records, const std::string& columns, const std::string& top = "") {
  return spec_of(fmt::format("records: {}\n{}{}{}", records, top, kGraphModels, columns));
}

// Six columns, each made of the one before it, by two models in turn.
TEST(GraphCases, AChainOfDepthSix) {
  std::string columns;
  std::string need = "i";
  for (int depth = 1; depth <= 6; ++depth) {
    const std::string name = fmt::format("c{}", depth);
    columns += text_column(name, depth % 2 == 1 ? "gen" : "judge",
                           fmt::format("{}{{{{ {} }}}}", depth, need));
    need = name;
  }
  for (const char* top : {"", "order: fair\n", "window: 1\n", "window: 7\n"}) {
    const PipelineSpec spec = graph(150, columns, top);
    const RunFolder folder;
    ScriptedModel gen(5, writes()), judge(2, writes());
    const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
    ASSERT_TRUE(is_lawful(session)) << top;
    ASSERT_EQ(session.lines.size(), 150U);
    for (int i = 0; i < 150; ++i) {
      std::string expected = fmt::format("{{\"i\":{}", i);
      std::string value = std::to_string(i);
      for (int depth = 1; depth <= 6; ++depth) {
        value = fmt::format("<{}{}>", depth, value);
        expected += fmt::format(",\"c{}\":\"{}\"", depth, value);
      }
      EXPECT_EQ(session.lines[static_cast<std::size_t>(i)], expected + "}") << top;
    }
    EXPECT_EQ(gen.asked().size(), 450U);
    EXPECT_EQ(judge.asked().size(), 450U);
  }
}

TEST(GraphCases, ADiamond) {
  const PipelineSpec spec =
      graph(200, text_column("top", "gen", "top {{ i }}") +
                     text_column("left", "judge", "left {{ top }}") +
                     text_column("right", "gen", "right {{ top }}") +
                     text_column("bottom", "judge", "{{ right }} and {{ left }}"));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  ASSERT_EQ(session.lines.size(), 200U);
  for (int i = 0; i < 200; ++i) {
    const std::string top = fmt::format("<top {}>", i);
    const std::string left = fmt::format("<left {}>", top), right = fmt::format("<right {}>", top);
    EXPECT_EQ(
        session.lines[static_cast<std::size_t>(i)],
        fmt::format(R"({{"i":{},"top":"{}","left":"{}","right":"{}","bottom":"<{} and {}>"}})", i,
                    top, left, right, right, left));
  }
  EXPECT_EQ(gen.asked().size(), 400U);
  EXPECT_EQ(judge.asked().size(), 400U);
}

// More columns than a word has bits, all of one, and one of all.
TEST(GraphCases, AFanOutOfTwoHundredColumns) {
  constexpr int kWidth = 200;
  constexpr int kRecords = 12;
  std::string columns, all;
  for (int column = 0; column < kWidth; ++column) {
    const std::string name = fmt::format("f{}", column);
    columns += text_column(name, column % 2 == 0 ? "gen" : "judge",
                           fmt::format("{} of {{{{ i }}}}", column));
    all += fmt::format("{{{{ {} }}}}", name);
  }
  columns += fmt::format("  - {{name: all, type: expression, value: \"{}\"}}\n", all);
  const PipelineSpec spec = graph(kRecords, columns, "window: 5\n");
  const RunFolder folder;
  ScriptedModel gen(8, writes()), judge(3, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  ASSERT_EQ(session.lines.size(), static_cast<std::size_t>(kRecords));
  for (int i = 0; i < kRecords; ++i) {
    Json expected = {{"i", i}};
    std::string joined;
    for (int column = 0; column < kWidth; ++column) {
      const std::string value = fmt::format("<{} of {}>", column, i);
      expected[fmt::format("f{}", column)] = value;
      joined += value;
    }
    expected["all"] = joined;
    EXPECT_EQ(session.lines[static_cast<std::size_t>(i)], expected.dump());
  }
  EXPECT_EQ(gen.asked().size() + judge.asked().size(), static_cast<std::size_t>(kWidth) * kRecords);
  // Resumed, it asks for nothing.
  ScriptedModel silent(1, writes());
  const Session again = run_session(spec, folder.path(), {silent.client(), silent.client()});
  ASSERT_TRUE(is_lawful(again));
  EXPECT_EQ(again.lines, session.lines);
  EXPECT_TRUE(silent.asked().empty());
}

// a -> b -> c -> d -> e, where b is skipped for every third record.
std::string chain_with_a_skip(const std::string& c_more) {
  return text_column("a", "gen", "a {{ i }}") +
         text_column("b", "judge", "b {{ a }}", ", skip_if: \"{{ i % 3 == 1 }}\"") +
         text_column("c", "gen", "c {{ 'nothing' if b is none else b }}", c_more) +
         text_column("d", "judge", "d {{ c }}") +
         "  - {name: e, type: expression, as: integer, value: \"{{ d | length }}\"}\n";
}

TEST(GraphCases, ASkipInTheMiddleOfAChainTakesWhatFollows) {
  const PipelineSpec spec = graph(30, chain_with_a_skip(""));
  const RunFolder folder;
  ScriptedModel gen(3, writes()), judge(3, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  ASSERT_EQ(session.lines.size(), 30U);
  EXPECT_EQ(session.lines[0],
            R"({"i":0,"a":"<a 0>","b":"<b <a 0>>","c":"<c <b <a 0>>>","d":"<d <c <b <a 0>>>>",)"
            R"("e":17})");
  for (int i = 1; i < 30; i += 3) {
    EXPECT_EQ(session.lines[static_cast<std::size_t>(i)],
              fmt::format(R"({{"i":{0},"a":"<a {0}>","b":null,"c":null,"d":null,"e":null}})", i));
  }
  EXPECT_EQ(gen.asked().size(), 30U + 20U);
  EXPECT_EQ(judge.asked().size(), 20U + 20U);
  for (const std::size_t column : {2U, 3U, 4U, 5U}) {
    EXPECT_EQ(session.progress->columns[column].skipped, 10U);
    EXPECT_EQ(session.progress->columns[column].values, 20U);
  }
  EXPECT_EQ(session.progress->finished, 30U);
}

TEST(GraphCases, ASkipInTheMiddleOfAChainEndsWhereAColumnWantsNull) {
  const PipelineSpec spec = graph(30, chain_with_a_skip(", propagate_skip: false"));
  const RunFolder folder;
  ScriptedModel gen(3, writes()), judge(3, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  ASSERT_EQ(session.lines.size(), 30U);
  for (int i = 1; i < 30; i += 3) {
    EXPECT_EQ(session.lines[static_cast<std::size_t>(i)],
              fmt::format(R"({{"i":{0},"a":"<a {0}>","b":null,"c":"<c nothing>",)"
                          R"("d":"<d <c nothing>>","e":15}})",
                          i));
  }
  EXPECT_EQ(session.lines[3].find("null"), std::string::npos);
  EXPECT_EQ(gen.asked().size(), 30U + 30U);
  EXPECT_EQ(judge.asked().size(), 20U + 30U);
  EXPECT_EQ(session.progress->columns[2].skipped, 10U);
  EXPECT_EQ(session.progress->columns[3].skipped, 0U);
}

// Both fail while the other one is under way; what is written down must not depend on which was
// first, nor on whether the record comes from the store.
TEST(GraphCases, ARecordThatIsDroppedTwiceHasOneReason) {
  const PipelineSpec spec = graph(
      1, text_column("one", "gen", "one {{ i }}") + text_column("two", "judge", "two {{ i }}"));
  for (const bool one_is_first : {true, false}) {
    const RunFolder folder;
    std::mutex mutex;
    std::condition_variable news;
    int begun = 0, ended = 0;
    const auto fails = [&](bool first) {
      return [&, first](const ModelRequest& request) -> Result<ModelAnswer> {
        std::unique_lock lock(mutex);
        ++begun;
        news.notify_all();
        news.wait(lock, [&] { return begun == 2 && (first || ended == 1); });
        ++ended;
        news.notify_all();
        // The first answer has been heard, or will be before this one.
        return fail(ErrorKind::kInvalid, "no {}", prompt_of(request));
      };
    };
    ScriptedModel gen(1, fails(one_is_first)), judge(1, fails(!one_is_first));
    const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
    ASSERT_TRUE(is_lawful(session));
    EXPECT_EQ(session.lines, std::vector<std::string>{"- one: no one 0"}) << one_is_first;
    ScriptedModel silent(1, writes());
    const Session again = run_session(spec, folder.path(), {silent.client(), silent.client()});
    ASSERT_TRUE(is_lawful(again));
    EXPECT_EQ(again.lines, session.lines);
    EXPECT_TRUE(silent.asked().empty());
  }
}

}  // namespace
}  // namespace dovetail::pipeline
