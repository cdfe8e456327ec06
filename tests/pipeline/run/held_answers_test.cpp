// Answers of models in this process that are held to options.
#include <gtest/gtest.h>

#include <string>

#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

PipelineSpec judged(const std::string& model, const std::string& other) {
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("\"no\""), 4, other);
  return spec_of(
      fmt::format("records: 40\nmodels: {{gen: {{{0}}}, judge: {{{0}}}}}\n{1}", model, columns));
}

// An answer that was given under other options is another one, but not at an endpoint, which knows
// of none: what was paid for there is found again.
TEST(HeldAnswers, AreKeptWithWhatTheyWereHeldTo) {
  for (const auto& [model, asked_again] :
       {std::pair{"path: x", 40U}, std::pair{"endpoint: 'http://localhost:1/v1', model: j", 0U}}) {
    const RunFolder folder;
    ScriptedModel gen(4, writes()), judge(4, [](const ModelRequest&) { return answer("yes"); });
    const Session first =
        run_session(judged(model, "\"no\""), folder.path(), {gen.client(), judge.client()});
    ASSERT_TRUE(is_lawful(first));
    EXPECT_EQ(judge.asked().size(), 40U);
    const Session again =
        run_session(judged(model, "\"never\""), folder.path(), {gen.client(), judge.client()});
    ASSERT_TRUE(is_lawful(again));
    EXPECT_EQ(judge.asked().size(), 40U + asked_again) << model;
    EXPECT_EQ(again.progress->columns[2].from_cache, 40U - asked_again) << model;
    EXPECT_EQ(again.lines, first.lines);
  }
}

}  // namespace
}  // namespace dovetail::pipeline
