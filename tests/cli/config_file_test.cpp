#include "cli/config_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/engine_options.h"
#include "cli/values.h"

namespace dovetail::cli {
namespace {

// Two commands with the option kinds that there are.
struct Parsed {
  EngineOptions engine;
  std::string text;
  std::optional<float> number;
  std::vector<std::string> stop;
  bool flag = false;
};

Command make(const std::string& name, Parsed& to, bool with_number) {
  Command command;
  command.name = name;
  command.options = std::make_unique<CLI::App>();
  CLI::App& app = *command.options;
  add_engine_options(app, to.engine, {engine::OptionGroup::kSize});
  add_text(app, "-s,--system", to.text, "")->envname("DOVETAIL_TEST_SYSTEM");
  const auto read_number = [&to](const std::string& text) -> Status {
    const Result<float> value = parse_number(text, 0.0F, 2.0F);
    if (!value) return fail(value.error());
    to.number = *value;
    return {};
  };
  if (with_number) add_value(app, "--temperature", kNumber, read_number, "");
  add_value(
      app, "--stop", kText,
      [&to](const std::string& text) -> Status {
        to.stop.push_back(text);
        return {};
      },
      "", true);
  app.add_flag("--chat", to.flag);
  app.add_option("--config", "");
  return command;
}

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() {
    commands_.push_back(make("run", run_, true));
    commands_.push_back(make("serve", serve_, false));
  }
  ~ConfigFile() override { std::filesystem::remove(path_); }

  Status apply(const std::string& toml, std::vector<std::string> arguments = {},
               std::size_t command = 0) {
    std::ofstream(path_) << toml;
    arguments.insert(arguments.begin(), {"--config", path_});
    std::reverse(arguments.begin(), arguments.end());
    commands_[command].options->parse(arguments);
    return apply_config(commands_[command], commands_);
  }

  std::string path_ = std::filesystem::temp_directory_path() /
                      ("dovetail-config-" + std::to_string(getpid()) + ".toml");
  Parsed run_, serve_;
  std::vector<Command> commands_;
};

TEST_F(ConfigFile, SetsEveryKindOfOption) {
  const Status ok = apply(
      "max-num-seqs = 7\n"
      "system = \"be brief\"\n"
      "kv-memory = \"2G\"\n"
      "[run]\n"
      "temperature = 1\n"
      "stop = [\"\\n\", \"[END]\"]\n"
      "chat = true\n");
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(run_.engine.max_num_seqs, 7U);
  EXPECT_EQ(run_.engine.kv_memory, 2ULL << 30);
  EXPECT_EQ(run_.text, "be brief");
  EXPECT_EQ(run_.number, 1.0F);
  EXPECT_EQ(run_.stop, (std::vector<std::string>{"\n", "[END]"}));
  EXPECT_TRUE(run_.flag);
}

TEST_F(ConfigFile, TheCommandLineWins) {
  const Status ok = apply("max-num-seqs = 7\nstop = \"a\"\nchat = true\nmax-context = 9\n",
                          {"--max-num-seqs", "3", "--stop", "b", "--chat=false"});
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(run_.engine.max_num_seqs, 3U);
  EXPECT_EQ(run_.stop, (std::vector<std::string>{"b"}));
  EXPECT_FALSE(run_.flag);
  EXPECT_EQ(run_.engine.max_context, 9U);  // an option's second name
}

TEST_F(ConfigFile, TheEnvironmentGoesBeforeTheFile) {
  setenv("DOVETAIL_TEST_SYSTEM", "from the environment", 1);
  const Status ok = apply("system = \"from the file\"\n");
  unsetenv("DOVETAIL_TEST_SYSTEM");
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(run_.text, "from the environment");
}

TEST_F(ConfigFile, ACommandsTableGoesBeforeTheTopLevel) {
  const std::string toml =
      "temperature = 0.5\nmax-num-seqs = 7\n[serve]\nmax-num-seqs = 9\n[run]\nchat = false\n";
  ASSERT_TRUE(apply(toml));
  EXPECT_EQ(run_.engine.max_num_seqs, 7U);
  const Status ok = apply(toml, {}, 1);  // that command has no --temperature: not for it
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(serve_.engine.max_num_seqs, 9U);
}

TEST_F(ConfigFile, NamesFileLineAndKey) {
  const struct {
    const char* toml;
    const char* message;
  } table[] = {
      {"\nmax_num_seqs = 1\n", ":2: unknown key max_num_seqs, did you mean max-num-seqs"},
      {"colour = 1\n", ":1: unknown key colour, expected a long option name such as max-num-seqs"},
      {"[serve]\ntemperature = 1\n",
       ":2: unknown key serve.temperature, expected a long option "
       "name such as max-num-seqs"},
      {"[rum]\n", ":1: [rum] is no command, expected a table of run, serve"},
      {"run = 3\n", ":1: run: 3 is no valid value, expected a table"},
      {"help = true\n", ":1: unknown key help, expected a long option name such as max-num-seqs"},
      {"max-num-seqs = \"7\"\n", ":1: max-num-seqs: '7' is no valid value, expected an integer"},
      {"max-num-seqs = 1.5\n", ":1: max-num-seqs: 1.5 is no valid value, expected an integer"},
      {"max-num-seqs = 0\n", ":1: max-num-seqs: '0' is out of range, expected 1 to 65536"},
      {"max-num-seqs = [1]\n",
       ":1: max-num-seqs: a table or an array is no valid value, expected an integer"},
      {"system = 3\n", ":1: system: 3 is no valid value, expected a string"},
      {"chat = \"yes\"\n", ":1: chat: 'yes' is no valid value, expected true or false"},
      {"stop = [\"a\", 1]\n",
       ":1: stop: 1 is no valid value, expected a string or an array of strings"},
      {"kv-memory = \"4 gigs\"\n",
       ":1: kv-memory: '4 gigs' is no size, expected bytes such as 4G, 512M or 65536"},
      {"[run]\ntemperature = true\n", ":2: temperature: true is no valid value, expected a number"},
      {"[run]\ntemperature = 3\n", ":2: temperature: '3' is out of range, expected 0 to 2"},
      {"max-context = 2\nmax-model-len = 2\n",
       ":2: max-model-len: it is another name of max-context, which is set already"},
      {"system = \"a\"\nsystem = \"b\"\n", ":2: "},
      {"system = \n", ":1: "},
  };
  for (const auto& [toml, message] : table) {
    for (Command& command : commands_) command.options->clear();
    const Status ok = apply(toml);
    ASSERT_FALSE(ok) << toml;
    EXPECT_EQ(ok.error().message.substr(0, path_.size() + std::string(message).size()),
              path_ + message)
        << toml;
    EXPECT_EQ(ok.error().message.find('\n'), std::string::npos);
  }
}

TEST_F(ConfigFile, ChecksTablesOfOtherCommands) {
  EXPECT_FALSE(apply("[serve]\nmax-num-seqs = \"x\"\n"));
}

TEST_F(ConfigFile, AMissingFileIsAnError) {
  commands_[0].options->parse(std::vector<std::string>{"/nowhere/dovetail.toml", "--config"});
  const Status ok = apply_config(commands_[0], commands_);
  ASSERT_FALSE(ok);
  EXPECT_EQ(ok.error().message.substr(0, 23), "/nowhere/dovetail.toml:");
}

}  // namespace
}  // namespace dovetail::cli
