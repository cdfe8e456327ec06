#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/sampling_table.h"
#include "cli/chat_history.h"
#include "cli/conversation.h"
#include "cli/message_lines.h"
#include "cli/sampling_settings.h"
#include "support/sampling_samples.h"

namespace dovetail::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Each message of the lines, with its number of lines; a quoted one in brackets.
std::vector<std::string> messages_of(const std::vector<std::string>& lines) {
  MessageLines reader;
  std::vector<std::string> messages;
  for (const std::string& line : lines) {
    if (std::optional<TypedMessage> message = reader.add(line))
      messages.push_back(message->quoted ? "[" + message->text + "]" : message->text);
  }
  if (reader.pending()) messages.emplace_back("...");
  return messages;
}

TEST(MessageLines, PutsLinesTogether) {
  EXPECT_THAT(messages_of({"a", "", "b"}), ElementsAre("a", "", "b"));
  EXPECT_THAT(messages_of({"a\\", "b\\", "c", "d"}), ElementsAre("a\nb\nc", "d"));
  EXPECT_THAT(messages_of({"a\\"}), ElementsAre("..."));
  EXPECT_THAT(messages_of({"\\", "a"}), ElementsAre("\na"));
  EXPECT_THAT(messages_of({"\"\"\"a", "b\\", "", "c\"\"\" ", "d"}),
              ElementsAre("[a\nb\\\n\nc]", "d"));
  EXPECT_THAT(messages_of({"\"\"\"", "", "a", "\"\"\""}), ElementsAre("[\na]"));
  EXPECT_THAT(messages_of({"\"\"\"/help\"\"\""}), ElementsAre("[/help]"));
  EXPECT_THAT(messages_of({"\"\"\"\"\"\""}), ElementsAre("[]"));
  EXPECT_THAT(messages_of({"say \"\"\"x\"\"\""}), ElementsAre("say \"\"\"x\"\"\""));
  EXPECT_THAT(messages_of({"pasted \\\nlines"}), ElementsAre("pasted \\\nlines"));
}

TEST(MessageLines, ForgetsWhatIsCleared) {
  MessageLines reader;
  EXPECT_FALSE(reader.add("\"\"\"a"));
  reader.clear();
  EXPECT_FALSE(reader.pending());
  const std::optional<TypedMessage> message = reader.add("b");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->text, "b");
  EXPECT_FALSE(message->quoted);
}

TEST(Conversation, TakesExchangesBack) {
  Conversation talk("be brief");
  EXPECT_EQ(talk.system(), "be brief");
  EXPECT_FALSE(talk.remove_exchange());
  talk.add_user("1");
  talk.add_answer("one");
  talk.add_user("2");
  EXPECT_TRUE(talk.ends_with_user());
  talk.add_answer("two");
  EXPECT_TRUE(talk.remove_answer());
  EXPECT_TRUE(talk.ends_with_user());
  EXPECT_EQ(talk.messages().size(), 4U);
  EXPECT_TRUE(talk.remove_exchange());
  EXPECT_EQ(talk.messages().back().at("content"), "one");
  EXPECT_TRUE(talk.remove_exchange());
  EXPECT_FALSE(talk.remove_exchange());
  EXPECT_EQ(talk.messages().size(), 1U);
  EXPECT_EQ(Conversation().system(), "");
}

TEST(Conversation, ReadsWhatItWrites) {
  Conversation talk("x");
  talk.add_user("é\n\"");
  talk.add_answer("ok");
  const std::string written = talk.to_request("m");
  EXPECT_EQ(Json::parse(written).at("model"), "m");
  const Result<Conversation> read = Conversation::from_json(written);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->messages(), talk.messages());
  EXPECT_EQ(Conversation::from_json(talk.messages().dump())->messages(), talk.messages());
}

TEST(Conversation, ReadsPartsAndMissingContents) {
  const Result<Conversation> read = Conversation::from_json(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null, "name": "n"}])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->messages()[0].at("content"), "ab");
  EXPECT_EQ(read->messages()[1].at("content"), "");
  EXPECT_EQ(read->messages()[1].at("name"), "n");
}

TEST(Conversation, RefusesWhatIsNoConversation) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "byte 1: it is no valid JSON, expected a JSON array of messages"},
      {"[3, hello]", "byte 5: it is no valid JSON"},
      {"[1e999]", "a number is out of range"},
      {"{}", "it has no messages"},
      {R"({"messages": 3})", "it has no messages"},
      {"[]", "it has no messages"},
      {"[3]", "messages[0].role"},
      {R"([{"role": "user", "content": "x"}, {"content": "x"}])", "messages[1].role"},
      {R"([{"role": "user", "content": 3}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "image_url"}]}])", "a part is no text"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Conversation> read = Conversation::from_json(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(message));
  }
}

class ChatHistoryFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "history.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path() const { return (folder_ / "state" / "dovetail" / "history").string(); }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(ChatHistoryFile, KeepsWhatWasTyped) {
  {
    Result<ChatHistory> history = ChatHistory::open(path());
    ASSERT_TRUE(history) << history.error().message;
    EXPECT_TRUE(history->entries().empty());
    for (const char* entry : {"a", "a", " ", "two\nlines \"é\"", "a"})
      EXPECT_TRUE(history->add(entry));
    EXPECT_TRUE(history->add(std::string(ChatHistory::kMaxEntryBytes + 1, 'x')));
  }
  struct stat file = {};
  ASSERT_EQ(::stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(fs::path(path()).parent_path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0700U);
  EXPECT_THAT(ChatHistory::open(path())->entries(), ElementsAre("a", "two\nlines \"é\"", "a"));
}

TEST_F(ChatHistoryFile, LeavesOutWhatIsDamaged) {
  ASSERT_TRUE(ChatHistory::open(path())->add("a"));
  std::ofstream(path(), std::ios::app) << "\"cut\n{}\n\n\"b\"\n";
  EXPECT_THAT(ChatHistory::open(path())->entries(), ElementsAre("a", "b"));
}

TEST_F(ChatHistoryFile, IsBounded) {
  ASSERT_TRUE(ChatHistory::open(path()));
  {
    std::ofstream file(path());
    for (std::size_t i = 0; i < 2 * ChatHistory::kMaxEntries; ++i) file << '"' << i << "\"\n";
  }
  const Result<ChatHistory> history = ChatHistory::open(path());
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_EQ(history->entries().size(), ChatHistory::kMaxEntries);
  EXPECT_EQ(history->entries().back(), "1999");
  const std::string text = content();
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            ChatHistory::kMaxEntries);
  struct stat file = {};
  ASSERT_EQ(::stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0600U);
}

TEST_F(ChatHistoryFile, SaysWhereItCannotBe) {
  std::ofstream(folder_ / "file") << "x";
  const Result<ChatHistory> history = ChatHistory::open((folder_ / "file" / "a" / "b").string());
  ASSERT_FALSE(history);
  EXPECT_THAT(history.error().message, HasSubstr("file"));
}

// An App as of a command, with what was given to it.
struct GivenSampling {
  explicit GivenSampling(std::vector<std::string> arguments) {
    add_sampling_options(app, options, "1");
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  }
  CLI::App app;
  SamplingOptions options;
};

TEST(SamplingSettings, BeginsWithWhatWasGivenAndChanges) {
  const GivenSampling parsed({"--top-k", "7", "--stop", "a", "--stop", "b", "--ignore-eos"});
  Result<SamplingSettings> settings = SamplingSettings::create(parsed.app);
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->options().values[sampling_row("top_k")], 7);
  EXPECT_THAT(settings->options().stop, ElementsAre("a", "b"));
  EXPECT_TRUE(settings->options().ignore_eos);
  EXPECT_TRUE(settings->set("temperature", "0.5"));
  EXPECT_TRUE(settings->set("stop", "c"));
  EXPECT_TRUE(settings->set("ignore-eos", "false"));
  EXPECT_TRUE(settings->set("top-k", "default"));
  EXPECT_EQ(settings->options().values[sampling_row("temperature")], 0.5F);
  EXPECT_THAT(settings->options().stop, ElementsAre("c"));
  EXPECT_FALSE(settings->options().ignore_eos);
  EXPECT_EQ(settings->options().values[sampling_row("top_k")], std::nullopt);
}

TEST(SamplingSettings, RefusesAsTheCommandLineDoes) {
  Result<SamplingSettings> settings = SamplingSettings::create(GivenSampling({}).app);
  ASSERT_TRUE(settings);
  ASSERT_TRUE(settings->set("top-p", "0.5"));
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"temprature", "1"}, "unknown setting 'temprature', did you mean temperature"},
      {{"xyzzy", "1"}, "expected one of temperature, top-k"},
      {{"top-p", "2"}, "top-p: '2' is out of range, expected above 0 to 1"},
      {{"seed", "x"}, "seed: 'x' is no integer"},
      {{"help", ""}, "unknown setting 'help'"},
      {{"temp", "1"}, "unknown setting 'temp', did you mean temperature"},
      {{"ignore-eos", "maybe"}, "ignore-eos: 'maybe', expected true or false"},
  };
  for (const auto& [given, message] : cases) {
    const Status ok = settings->set(given.first, given.second);
    ASSERT_FALSE(ok) << given.first;
    EXPECT_THAT(ok.error().message, HasSubstr(message));
    EXPECT_EQ(settings->options().values[sampling_row("top_p")], 0.5F);
  }
}

TEST(SamplingSettings, ReadsQuotedValuesAsJson) {
  Result<SamplingSettings> settings = SamplingSettings::create(GivenSampling({}).app);
  ASSERT_TRUE(settings);
  for (const auto& [value, stop] : std::vector<std::pair<const char*, const char*>>{
           {R"("\n ")", "\n "}, {R"("default")", "default"}, {R"(\n)", "\\n"}, {"\"", "\""}}) {
    ASSERT_TRUE(settings->set("stop", value)) << value;
    EXPECT_THAT(settings->options().stop, ElementsAre(stop));
  }
  const Status wrong = settings->set("stop", R"("a"b")");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            R"(stop: '"a"b"' is no JSON string, expected one such as "\n", or )"
            "a text without quotes around it");
}

TEST(SamplingSettings, AreAllShown) {
  std::vector<std::string> shown;
  for (const auto& [name, value] : sampling_values(Request(), {})) shown.push_back(name);
  EXPECT_EQ(shown, SamplingSettings::names());
}

TEST(SamplingSettings, ReadTheTableOfSamplingParameters) {
  for (const SamplingRow& row : kSamplingRows) {
    const std::string name = option_name(row);
    const double sample = test::sample_of(row);
    const GivenSampling parsed({"--" + name, sampling_text(row, sample)});
    Result<SamplingSettings> settings = SamplingSettings::create(parsed.app);
    ASSERT_TRUE(settings) << settings.error().message;
    // What is given goes before what the model's makers recommend.
    load::GenerationDefaults recommended;
    recommended.sampling[row] = row.neutral();
    const Request request = default_request(settings->options(), recommended, 0.5F);
    EXPECT_EQ(sampling_value(request.sampling, row), sample) << name;
    const auto shown = sampling_values(request, settings->options());
    EXPECT_THAT(shown, testing::Contains(std::pair(name, sampling_text(row, sample))));
    const Status refused = settings->set(name, fmt::format("{:.0f}", test::too_little(row)));
    ASSERT_FALSE(refused) << name;
    EXPECT_THAT(refused.error().message, testing::StartsWith(name + ": '"));
    EXPECT_THAT(refused.error().message, HasSubstr(fmt::format(" to {:.0f}", row.most)));
  }
}

}  // namespace
}  // namespace dovetail::cli
