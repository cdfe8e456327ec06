#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/columns/one_column.h"
#include "pipeline/run/column_work.h"
#include "pipeline/run/columns/command.h"

namespace dovetail::pipeline {
namespace {

Result<Json> value_of(const ColumnDescription& column, const Json& row) {
  return evaluate(column, row, 0, 0);
}

TEST(Validation, JudgesTheValueOfAnotherColumn) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"schema: {type: integer}", "3", R"({"valid":true,"reason":null})"},
      {"schema: {type: integer}", R"("3")", R"({"valid":false,"reason":"\"3\" is no integer"})"},
      {"schema: {type: integer}, parse_json: true", R"("3")", R"({"valid":true,"reason":null})"},
      {"schema: {type: integer}, parse_json: true", R"("x")",
       R"({"valid":false,"reason":"\"x\" is no JSON"})"},
      {"schema: {type: integer}, parse_json: true", "3",
       R"({"valid":false,"reason":"3 is no text"})"},
      {"schema: {type: integer}", "null", R"({"valid":false,"reason":"null is no integer"})"},
      {"regex: '^[a-z]+$'", R"("abc")", R"({"valid":true,"reason":null})"},
      {"regex: '^[a-z]+$'", R"("a1")",
       R"({"valid":false,"reason":"\"a1\" does not match ^[a-z]+$"})"},
      {"regex: x", "7", R"({"valid":false,"reason":"7 is no text"})"},
      {"command: [grep, -q, needle]", R"("hay needle hay")", R"({"valid":true,"reason":null})"},
      {"command: [grep, -q, needle]", R"("hay")",
       R"({"valid":false,"reason":"grep ended with 1"})"},
      {"shell: true, command: 'read line; echo \"bad: $line\" >&2; exit 3'", R"({"x":1})",
       R"({"valid":false,"reason":"bad: {\"x\":1}"})"},
      {"shell: true, command: 'kill -9 $$'", "1",
       R"({"valid":false,"reason":"/bin/sh was ended by signal 9"})"},
      {"shell: true, command: 'sleep 1000 & sleep 1000', timeout: 0.05", "1",
       R"({"valid":false,"reason":"/bin/sh did not end within 0.05 s"})"},
      {"shell: true, command: 'printf \"\\377x\"; exit 1'", "1",
       "{\"valid\":false,\"reason\":\"\xEF\xBF\xBDx\"}"},
  };
  for (const auto& [check, value, result] : cases) {
    const ColumnDescription column = one_column("type: validation, column: a, " + check);
    const auto judged = value_of(column, {{"a", Json::parse(value)}});
    ASSERT_TRUE(judged) << check << "\n" << judged.error().message;
    EXPECT_EQ(judged->dump(), result) << check;
    EXPECT_EQ(column.blocks(), check.find("command") != std::string::npos);
  }
}

TEST(Validation, FailsWhereTheValueIsRequiredToBeValid) {
  const ColumnDescription column =
      one_column("type: validation, column: a, regex: x, require: true");
  EXPECT_EQ(value_of(column, {{"a", "x"}}).value().dump(), R"({"valid":true,"reason":null})");
  const auto judged = value_of(column, {{"a", "y"}});
  ASSERT_FALSE(judged);
  EXPECT_EQ(judged.error().message, "a is not valid: \"y\" does not match x");
}

TEST(Validation, IsNoVerdictWhereItCannotBeGiven) {
  const auto missing =
      value_of(one_column("type: validation, column: a, command: [/no/such/program]"), {{"a", 1}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kIo);
  EXPECT_EQ(missing.error().message,
            "/no/such/program: cannot be started: No such file or directory");
  const auto slow = value_of(one_column("type: validation, column: a, regex: '^(a+)+$'"),
                             {{"a", std::string(50, 'a') + "b"}});
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().kind, ErrorKind::kExhausted);
}

CommandCheck shell(const std::string& command) {
  return {{"/bin/sh", "-c", command}, "/", std::chrono::milliseconds(60'000)};
}

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(RunCommand, PassesOnInputAndOutput) {
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(run_command(shell("wc -c"), large).value().output, "3145728\n");
  EXPECT_EQ(run_command(shell("cat /dev/stdin; echo e >&2"), "in").value().output, "ine\n");
  EXPECT_EQ(run_command(shell("true"), large).value().exit_code, 0) << "nobody reads it";
  EXPECT_EQ(run_command(shell("cat"), large).value().output.size(), 64U << 10U);
  EXPECT_EQ(run_command(shell("pwd"), "").value().output, "/\n");
}

// Whether a process ends, or is a zombie that nobody waits for.
bool ends(int process) {
  for (int round = 0; round < 1000; ++round) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string number, name, letter;
    if (!(stat >> number >> name >> letter) || letter == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(RunCommand, WithholdsVariables) {
  ::setenv("DOVETAIL_TEST_KEY", "secret", 1);
  ::setenv("DOVETAIL_TEST_KEY_2", "open", 1);
  CommandCheck check = shell("echo $DOVETAIL_TEST_KEY/$DOVETAIL_TEST_KEY_2");
  EXPECT_EQ(run_command(check, "").value().output, "secret/open\n");
  check.withheld = {"DOVETAIL_TEST_KEY"};
  EXPECT_EQ(run_command(check, "").value().output, "/open\n");
}

// Of all models, whichever the column's value comes from.
TEST(Validation, CommandsDoNotGetTheKeysOfEndpoints) {
  ::setenv("DOVETAIL_TEST_KEY", "secret", 1);
  const auto spec = parse_pipeline(
      "records: 1\n"
      "models: {m: {endpoint: 'http://x', model: a, api_key_env: DOVETAIL_TEST_KEY}}\n"
      "columns:\n"
      "  - {name: a, type: expression, value: x}\n"
      "  - {name: c, type: validation, column: a, shell: true,\n"
      "     command: 'test -z \"$DOVETAIL_TEST_KEY\"'}\n",
      "/tmp/f.yaml", nullptr);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(value_of(spec->columns.back(), {{"a", "x"}}).value().dump(),
            R"({"valid":true,"reason":null})");
}

TEST(RunCommand, LeavesNothingBehind) {
  const std::size_t before = open_files();
  const auto end = run_command(shell("sleep 1000 & echo $!; exit 4"), "");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 4);
  EXPECT_TRUE(ends(std::stoi(end->output)));
  EXPECT_FALSE(run_command({{"/no/such"}, "/", std::chrono::milliseconds(1)}, ""));
  EXPECT_EQ(open_files(), before);
}

TEST(RunCommand, MayRunOnSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> outputs(4);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) {
        outputs[i] += run_command(shell("cat"), std::to_string(i)).value().output;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(outputs, (std::vector<std::string>{"00000", "11111", "22222", "33333"}));
}

}  // namespace
}  // namespace dovetail::pipeline
