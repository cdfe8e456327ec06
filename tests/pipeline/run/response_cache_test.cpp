#include "pipeline/run/response_cache.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <set>
#include <utility>

namespace dovetail::pipeline {
namespace {

ModelSpec remote_model() {
  ModelSpec model;
  RemoteModel remote;
  remote.model = "m";
  remote.extra_body = {{"top_a", 1}};
  model.where = remote;
  model.sampling.values[sampling_row("temperature")] = 0.5;
  return model;
}

// Keys stay what they are: the answers of older runs are found by them.
TEST(ResponseKeys, AreOfTheJsonOfAllThatAnAnswerDependsOn) {
  SamplingSpec sampling;
  sampling.max_tokens = 7;
  sampling.stop = {"a\"b"};
  const Json schema = {{"type", "object"}};
  ModelRequest request;
  request.messages = {{"system", "be \"short\"\n"}, {"user", "what is \xc3\xa4 and \xff?"}};
  request.sampling = sampling;
  request.seed = 12345;
  request.schema = schema;
  const std::string text =
      "[[\"m\",{\"top_a\":1}],[0.5,null,null,null,null,[]],"
      "[[\"system\",\"be \\\"short\\\"\\n\"],[\"user\",\"what is \xc3\xa4 and \xef\xbf\xbd?\"]],"
      "\"\",[null,null,null,null,7,[\"a\\\"b\"]],12345,{\"type\":\"object\"}]";
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const ResponseKeys keys(remote_model(), sampling, schema, {});
  EXPECT_EQ(keys.of(request), (Hash128{hash.high64, hash.low64}));
}

TEST(ResponseKeys, DifferWhereARequestDoes) {
  const ResponseKeys keys(remote_model(), {}, Json(), {});
  ModelRequest request;
  request.prompt = "a";
  const Hash128 one = keys.of(request);
  EXPECT_EQ(keys.of(request), one);
  ModelRequest other = request;
  other.seed = 1;
  EXPECT_NE(keys.of(other), one);
  other = request;
  other.prompt = "b";
  EXPECT_NE(keys.of(other), one);
  other = request;
  other.messages = {{"user", "a"}};
  EXPECT_NE(keys.of(other), one);
  ModelSpec model = remote_model();
  SamplingSpec bounded;
  bounded.reasoning_budget = 0;
  const auto unspoken = ResponseKeys(remote_model(), bounded, Json(), {}).of(request);
  EXPECT_NE(unspoken, one);
  bounded.reasoning_budget_message = "So:";
  EXPECT_NE(ResponseKeys(remote_model(), bounded, Json(), {}).of(request), unspoken);
  model.sampling.values[sampling_row("top_p")] = 0.5;
  EXPECT_NE(ResponseKeys(model, {}, Json(), {}).of(request), one);
}

TEST(ResponseKeys, DifferByEachSamplingParameter) {
  const ModelRequest request;
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (const SamplingRow& row : kSamplingRows) {
    SamplingSpec sampling;
    sampling.values[row] = 0.5 + 0.5 * static_cast<double>(row.whole());
    const Hash128 key = ResponseKeys(remote_model(), sampling, Json(), {}).of(request);
    EXPECT_TRUE(keys.emplace(key.high, key.low).second) << row.name;
  }
}

TEST(ResponseKeys, KnowWhatAModelOfThisProcessIsHeldTo) {
  AnswerPattern pattern;
  pattern.regex = "yes|no";
  ModelSpec local;
  local.where = LocalModel{};
  const ModelRequest request;
  EXPECT_NE(ResponseKeys(local, {}, Json(), pattern).of(request),
            ResponseKeys(local, {}, Json(), {}).of(request));
  EXPECT_EQ(ResponseKeys(remote_model(), {}, Json(), pattern).of(request),
            ResponseKeys(remote_model(), {}, Json(), {}).of(request));
}

TEST(ResponseText, IsReadBack) {
  ModelAnswer answer;
  answer.text = "{\"a\": \"\xc3\xa4\n\"} {}";
  answer.cut = true;
  answer.usage.prompt_tokens = 3;
  answer.usage.completion_tokens = 4;
  const auto read = read_response(response_text(answer));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text, answer.text);
  EXPECT_TRUE(read->cut);
  EXPECT_EQ(read->usage.prompt_tokens, 3U);
  EXPECT_EQ(read->usage.completion_tokens, 4U);
  EXPECT_FALSE(read_response("[1]"));
}

}  // namespace
}  // namespace dovetail::pipeline
