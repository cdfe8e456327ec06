#include "cli/input_record.h"

#include <gtest/gtest.h>

#include "base/sampling_table.h"
#include "support/sampling_samples.h"

namespace dovetail::cli {
namespace {

// Letters are tokens; a chat is its roles and contents.
RecordContext context() {
  RecordContext made;
  made.encode = [](const std::string& text) {
    return std::vector<TokenId>(text.begin(), text.end());
  };
  made.encode_chat = [](const Json& messages) -> Result<std::vector<TokenId>> {
    std::string text;
    for (const Json& message : messages) {
      if (message["role"] == "tool") return fail(ErrorKind::kInvalid, "the template has no tools");
      text +=
          message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + ";";
    }
    return std::vector<TokenId>(text.begin(), text.end());
  };
  made.defaults.max_tokens = 99;
  made.defaults.stop = {"default"};
  return made;
}

std::string text(const InputRecord& record) {
  return {record.request.prompt.begin(), record.request.prompt.end()};
}

TEST(ReadRecord, TakesWhatALineLeavesOutFromTheDefaults) {
  const auto record = read_record(R"({"prompt": "1+1="})", 5, context());
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->index, 5U);
  EXPECT_EQ(text(*record), "1+1=");
  EXPECT_TRUE(record->id.is_null());
  EXPECT_FALSE(record->expect);
  EXPECT_FALSE(record->request.sampling.seed);
  EXPECT_EQ(record->request.max_tokens, 99);
  EXPECT_EQ(record->request.stop, (std::vector<std::string>{"default"}));
}

TEST(ReadRecord, ReadsEveryField) {
  const auto record = read_record(
      R"({"id": "a-1", "prompt": [1, 2], "expect": " 2\n", "metadata": {"of": ["mine"]},
          "max_tokens": 8, "min_tokens": 1, "temperature": 0.5, "top_k": 3, "top_p": 0.9,
          "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 2,
          "logit_bias": {"7": -100}, "seed": 18446744073709551615, "stop": ["a", "b"],
          "stop_token_ids": [3], "ignore_eos": true, "logprobs": 2, "n": 4,
          "priority": -2, "timeout": 1.5, "user": "me", "cache_salt": "s"})",
      0, context());
  ASSERT_TRUE(record) << record.error().message;
  const Request& request = record->request;
  const SamplingParams& sampling = request.sampling;
  EXPECT_EQ(record->id, "a-1");
  EXPECT_EQ(record->expect, " 2\n");
  EXPECT_EQ(record->metadata.dump(), R"({"of":["mine"]})");
  EXPECT_EQ(request.prompt, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(request.max_tokens, 8);
  EXPECT_EQ(request.min_tokens, 1);
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.min_p, 0.1F);
  EXPECT_EQ(sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(sampling.presence_penalty, -1.0F);
  EXPECT_EQ(sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, -100.0F}}));
  EXPECT_EQ(sampling.seed, 18446744073709551615ULL);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_ids, (std::vector<TokenId>{3}));
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.logprobs, 2);
  EXPECT_EQ(request.n, 4);
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(request.tenant, "me");
  EXPECT_EQ(request.cache_salt, "s");
}

TEST(ReadRecord, NullIsAsGoodAsNoField) {
  const auto record =
      read_record(R"({"prompt": "x", "messages": null, "stop": null, "id": null})", 0, context());
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->request.stop, (std::vector<std::string>{"default"}));
}

TEST(ReadRecord, MakesChats) {
  EXPECT_EQ(
      text(*read_record(R"({"messages": [{"role": "user", "content": "hi"}]})", 0, context())),
      "user:hi;");
  RecordContext chat = context();
  chat.chat = true;
  EXPECT_EQ(text(*read_record(R"({"prompt": "hi"})", 0, chat)), "user:hi;");
  chat.system = "be kind";
  EXPECT_EQ(text(*read_record(R"({"prompt": "hi"})", 0, chat)), "system:be kind;user:hi;");
}

TEST(ReadRecord, GivesEachRecordItsOwnSeed) {
  RecordContext seeded = context();
  seeded.defaults.sampling.seed = 40;
  EXPECT_EQ(read_record(R"({"prompt": "x"})", 0, seeded)->request.sampling.seed, 40U);
  EXPECT_EQ(read_record(R"({"prompt": "x"})", 2, seeded)->request.sampling.seed, 42U);
  EXPECT_EQ(read_record(R"({"prompt": "x", "seed": 7})", 2, seeded)->request.sampling.seed, 7U);
}

TEST(ReadRecord, NamesFieldValueAndWhatIsValid) {
  const std::string deep(200, '[');
  const struct {
    std::string line;
    std::string message;
  } table[] = {
      {"", "byte 1: it is no valid JSON, expected one object per line"},
      {"{\"prompt\": \"x\"", "byte 15: it is no valid JSON, expected one object per line"},
      {"{\"prompt\": \"\xFF\"}", "byte 13: it is no valid JSON, expected one object per line"},
      {R"({"prompt": "x"} {})", "byte 17: it is no valid JSON, expected one object per line"},
      {R"({"prompt": "x", "temperature": 1e999})",
       "a number is out of range, expected numbers that 64 bits can hold"},
      {R"(["x"])", R"(expected an object with "prompt", got an array of 1 elements)"},
      {"7", R"(expected an object with "prompt", got 7)"},
      {"{}", R"(it has neither, expected one of "prompt" and "messages")"},
      {R"({"prompt": "x", "messages": [{"role": "user", "content": ""}]})",
       R"(it has both, expected one of "prompt" and "messages")"},
      {R"({"prompt": "x", "prompt": "y"})", "prompt: the field stands there twice"},
      {R"({"prompt": "x", "max_token": 3})",
       R"(unknown field "max_token", did you mean max_tokens, min_tokens)"},
      {R"({"prompt": 3})", "prompt: expected a string or an array of token ids, got 3"},
      {R"({"prompt": [1, "a"]})", "prompt[1]: expected an integer from 0 to 2147483647, got \"a\""},
      {R"({"prompt": [-1]})",
       "prompt[0]: -1 is out of range; expected an integer from 0 to 2147483647"},
      {R"({"prompt": "x", "id": 1.5})", "id: expected a string or an integer, got 1.5"},
      {R"({"prompt": "x", "temperature": "hot"})",
       "temperature: expected a number from 0 to 100, got \"hot\""},
      {R"({"prompt": "x", "temperature": -0.1})",
       "temperature: -0.1 is out of range; expected a number from 0 to 100"},
      {R"({"prompt": "x", "top_p": 0})",
       "top_p: 0 is out of range; expected a number above 0 and at most 1"},
      {R"({"prompt": "x", "max_tokens": 1.5})",
       "max_tokens: expected an integer from 0 to 2147483647, got 1.5"},
      {R"({"prompt": "x", "max_tokens": 18446744073709551615})",
       "max_tokens: 18446744073709551615 is out of range; expected an integer from 0 to "
       "2147483647"},
      {R"({"prompt": "x", "seed": 1.5})", "seed: expected an integer of 64 bits, got 1.5"},
      {R"({"prompt": "x", "stop": ["a", ""]})", "stop: \"\" has 0 bytes; expected 1 to 1024"},
      {R"({"prompt": "x", "logit_bias": {"a": 1}})",
       "logit_bias: \"a\" is not a token id; expected \"0\" to \"2147483647\""},
      {R"({"prompt": "x", "logit_bias": {"1": 101}})",
       "logit_bias[\"1\"]: 101 is out of range; expected a number from -100 to 100"},
      {R"({"prompt": "x", "ignore_eos": 1})", "ignore_eos: expected true or false, got 1"},
      {R"({"prompt": "x", "logprobs": 21})",
       "logprobs: 21 is out of range; expected an integer from 0 to 20"},
      {R"({"prompt": "x", "n": 0})", "n: 0 is out of range; expected an integer from 1 to 128"},
      {R"({"prompt": "x", "priority": 1001})",
       "priority: 1001 is out of range; expected an integer from -1000 to 1000"},
      {R"({"prompt": "x", "timeout": 0})",
       "timeout: 0 is out of range; expected a number above 0 and at most 31536000"},
      {R"({"prompt": "x", "user": 1})", "user: expected a string, got 1"},
      {R"({"prompt": "x", "expect": 3})", "expect: expected a string, got 3"},
      {R"({"messages": []})",
       "messages: expected a non-empty array of messages, got an array of 0 elements"},
      {R"({"messages": [{"role": "user"}]})",
       R"(messages[0]: expected an object with the strings "role" and "content", )"
       "got an object of 1 members"},
      {R"({"messages": [{"role": "tool", "content": ""}]})", "the template has no tools"},
      {R"({"prompt": "x", "metadata": )" + deep + std::string(200, ']') + "}",
       "it is nested too deeply, expected at most 64 levels"},
  };
  for (const auto& [line, message] : table) {
    const auto record = read_record(line, 0, context());
    ASSERT_FALSE(record) << line;
    EXPECT_EQ(record.error().message, message) << line;
  }
}

TEST(ReadRecord, ListsTheFieldsWhereNoneIsNear) {
  const auto record = read_record(R"({"prompt": "x", "category": "sums"})", 0, context());
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().message.substr(0, 54),
            "unknown field \"category\", expected one of id, prompt, ");
  EXPECT_NE(record.error().message.find("fields of your own go into metadata"), std::string::npos);
}

TEST(ReadRecord, ReadsTheTableOfSamplingParameters) {
  const auto line = [](const SamplingRow& row, double value) {
    const std::string number =
        row.whole() ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
    return fmt::format(R"({{"prompt": "x", "{}": {}}})", row.name, number);
  };
  for (const SamplingRow& row : kSamplingRows) {
    const auto record = read_record(line(row, test::sample_of(row)), 0, context());
    ASSERT_TRUE(record) << record.error().message;
    EXPECT_EQ(sampling_value(record->request.sampling, row), test::sample_of(row)) << row.name;
    for (const double value : {test::too_little(row), test::too_much(row)}) {
      const auto refused = read_record(line(row, value), 0, context());
      ASSERT_FALSE(refused) << row.name;
      EXPECT_TRUE(refused.error().message.starts_with(fmt::format("{}: ", row.name)))
          << refused.error().message;
      EXPECT_NE(refused.error().message.find(fmt::format(" {:.0f}", row.most)), std::string::npos)
          << refused.error().message;
    }
  }
}

}  // namespace
}  // namespace dovetail::cli
