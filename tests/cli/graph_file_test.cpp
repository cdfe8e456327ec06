#include "cli/graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/places.h"

namespace dovetail::cli {
namespace {

using cores::AccessMode;
using cores::Region;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  const auto program = parse_graph(text, "g.yaml");
  if (program) return "";
  EXPECT_EQ(program.error().kind, ErrorKind::kInvalid);
  return program.error().message;
}

TEST(GraphFile, ReadsTasks) {
  const auto program = parse_graph(R"(
buffers: {x: 4096, y: 100}
tasks:
  - {name: norm, shape: V, cost: 2.5, reads: x, writes: ["y[0:10]", "y[20:30]"]}
  - name: expert
    shape: 1C2V
    blocks: 8
    together: true
    cost: 20
    after: norm
    updates: {buffer: x, offset: 8, element: 4, counts: [2, 3], strides: [64, 8]}
  - {name: barrier, shape: none, after: [norm, expert]}
  - {name: all, shape: group, cost: 0.001}
)",
                                   "g.yaml");
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->size(), 4U);
  const study::ProgramTask& norm = (*program)[0];
  EXPECT_EQ(norm.name, "norm");
  EXPECT_EQ(norm.shape, cores::kVectorTask);
  EXPECT_EQ(norm.takes, 2500U);
  EXPECT_EQ(norm.blocks, 1U);
  ASSERT_EQ(norm.accesses.size(), 3U);
  EXPECT_EQ(norm.accesses[0].mode, AccessMode::kRead);
  EXPECT_EQ(norm.accesses[0].region.end(), 4096U);
  EXPECT_EQ(norm.accesses[2].mode, AccessMode::kWrite);
  EXPECT_EQ(norm.accesses[2].region, Region(norm.accesses[1].region.buffer(), 20, 10));
  const study::ProgramTask& expert = (*program)[1];
  EXPECT_EQ(expert.shape, (cores::TaskShape{1, 2, false}));
  EXPECT_EQ(expert.blocks, 8U);
  EXPECT_TRUE(expert.together);
  EXPECT_THAT(expert.after, ElementsAre(0));
  ASSERT_EQ(expert.accesses.size(), 1U);
  EXPECT_EQ(expert.accesses[0].mode, AccessMode::kReadWrite);
  EXPECT_EQ(expert.accesses[0].region.begin(), 8U);
  EXPECT_EQ(expert.accesses[0].region.end(), 8U + 64 + 16 + 4);
  EXPECT_THAT((*program)[2].after, ElementsAre(0, 1));
  EXPECT_FALSE(study::has_lanes((*program)[2].shape));
  EXPECT_EQ((*program)[3].shape, cores::kWholeGroup);
  EXPECT_EQ((*program)[3].takes, 1U);
}

TEST(GraphFile, SaysWhatIsWrongWhere) {
  struct Case {
    std::string text;  // of the tasks' list, or of the whole where it begins with a letter
    const char* place;
    const char* says;
  };
  std::string many = "x";
  for (int i = 1; i < 10'000; ++i) many += ", x";
  for (const Case& one : {
           Case{"tasks: []", "g.yaml:1:1: /tasks: ", "expected a list of tasks"},
           Case{"buffers: {x: 1}", "g.yaml:1:1: /tasks: ", "expected a list of tasks"},
           Case{"task: []", "g.yaml:1:1: /task: ", "did you mean tasks?"},
           Case{"buffers: {x: 0}", "g.yaml:1:11: /buffers/x: ", "0; valid: an integer from 1"},
           Case{"buffers: {x: big}", "g.yaml:1:11: /buffers/x: ", "\"big\"; valid: an integer"},
           Case{"- {shape: V, cost: 1}", "g.yaml:3:3: /tasks/0/name: ", "missing; valid: a string"},
           Case{"- {name: a, shape: 2X, cost: 1}",
                "g.yaml:3:13: /tasks/0/shape: ", "'2X' is no shape of a task, expected C, V"},
           Case{"- {name: a, shape: V}", "/tasks/0/cost: ", "expected the microseconds"},
           Case{"- {name: a, shape: V, cost: 0}", "/tasks/0/cost: ", "from 0.001 to"},
           Case{"- {name: a, shape: V, cost: 1e300}", "/tasks/0/cost: ", "from 0.001 to"},
           Case{"- {name: a, shape: none, cost: 1}", "/tasks/0/cost: ", "leave it out"},
           Case{"- {name: a, shape: V, cost: 1, blocks: 0}", "/tasks/0/blocks: ", "from 1 to"},
           Case{"- {name: a, shape: V, cost: 1, blocks: 1e18}", "/tasks/0/blocks: ", "from 1 to"},
           Case{"- {name: a, shape: V, cost: 1, blocks: 600000}\n"
                "- {name: b, shape: V, cost: 1, blocks: 600000}",
                "g.yaml:4:32: /tasks/1/blocks: ", "1200000 blocks up to here, expected at most"},
           Case{"- {name: a, shape: V, cost: 1}\n- {name: a, shape: V, cost: 1}",
                "g.yaml:4:4: /tasks/1/name: ", "a second task 'a'"},
           Case{"- {name: a, shape: V, cost: 1, after: a}",
                "/tasks/0/after: ", "'a' is no task before this one"},
           Case{"- {name: first, shape: V, cost: 1}\n- {name: b, shape: V, cost: 1, after: fist}",
                "g.yaml:4:32: /tasks/1/after: ", "did you mean first?"},
           Case{"- {name: a, shape: V, cost: 1, colour: red}", "/tasks/0/colour: ", "unknown key"},
           Case{"- {name: a, shape: V, cost: 1, reads: hiden}", "g.yaml:3:32: /tasks/0/reads: ",
                "'hiden' is none of the buffers; did you mean hidden?"},
           Case{"- {name: a, shape: V, cost: 1, reads: 7}", "/tasks/0/reads: ", "7 is no buffer"},
           Case{"- {name: a, shape: V, cost: 1, reads: [x, 'x[0:65]']}",
                "g.yaml:3:43: /tasks/0/reads/1: ", "expected x[BEGIN:END] with 0 <= BEGIN < END"},
           Case{"- {name: a, shape: V, cost: 1, reads: x, writes: [" + many + "]}",
                "g.yaml:3:42: /tasks/0/writes: ", "10001 accesses of this task with those before"},
           Case{"- {name: a, shape: V, cost: 1, reads: 'x[8:8]'}", "/reads: ", "BEGIN < END <= 64"},
           Case{"- {name: a, shape: V, cost: 1, reads: 'x['}", "/reads: ", "BEGIN < END <= 64"},
           Case{"- {name: a, shape: V, cost: 1, reads: 'x[1:'}", "/reads: ", "BEGIN < END <= 64"},
           Case{"- {name: a, shape: V, cost: 1, reads: 'x[1:2'}", "/reads: ", "BEGIN < END <= 64"},
           Case{"- {name: a, shape: V, cost: 1, reads: 'x[1:2]]'}", "/reads: ", "BEGIN < END"},
           Case{"- {name: a, shape: V, cost: 1, reads: 'x[0:99999999999999999999]'}",
                "/reads: ", "BEGIN < END <= 64"},
           Case{"- {name: a, shape: V, cost: 1, writes: {buffer: x}}",
                "/writes/counts: ", "expected a list of numbers"},
           Case{"- {name: a, shape: V, cost: 1, writes: {buffer: x, counts: [2], strides: [1, 2]}}",
                "/writes/strides: ", "2 of them for 1 counts"},
           Case{"- {name: a, shape: V, cost: 1, writes: {buffer: x, counts: [2], strides: [64]}}",
                "/tasks/0/writes: ", "ends at byte 65, and 'x' has 64"},
           Case{"- {name: a, shape: V, cost: 1, writes: {buffer: x, counts: [1,1,1,1,1,1], "
                "strides: [1,1,1,1,1,1]}}",
                "/writes/counts: ", "up to 5 whole numbers"},
           Case{"- {name: a, shape: V, cost: 1, writes: {buffer: x, counts: [-1], strides: [1]}}",
                "/writes/counts: ", "from 1 to 64"},
           Case{"- [a", "g.yaml:", "end of sequence"},
       }) {
    std::string text = one.text;
    if (text.starts_with('-')) text = "buffers: {x: 64, hidden: 8}\ntasks:\n" + text + "\n";
    const std::string message = refusal(text);
    EXPECT_THAT(message, StartsWith("g.yaml:")) << text;
    EXPECT_THAT(message, HasSubstr(one.place)) << text;
    EXPECT_THAT(message, HasSubstr(one.says)) << text;
  }
}

TEST(GraphFile, TheBundledExampleIsOne) {
  std::ifstream file(test::source_dir() + "/examples/core_groups/moe_layer.yaml");
  std::ostringstream text;
  text << file.rdbuf();
  const auto program = parse_graph(text.str(), "moe_layer.yaml");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_GT(program->size(), 400U);
}

}  // namespace
}  // namespace dovetail::cli
