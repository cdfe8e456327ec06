// Two texts behind each other, as cross-encoders take them: tools/golden/make_pairs.py.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"

namespace dovetail::text {
namespace {

using nlohmann::json;

// The index of the first token of the second type, 0 where there is none.
std::size_t second_of(const json& types) {
  const auto found = std::find(types.begin(), types.end(), 1);
  return found == types.end() ? 0 : static_cast<std::size_t>(found - types.begin());
}

TEST(TokenizerPair, AreThoseOfTheLibrary) {
  const json cases = testing::golden_pairs();
  ASSERT_GE(cases.size(), 8U);
  for (const json& each : cases) {
    const auto name = each["tokenizer"].get<std::string>();
    json file = json::parse(testing::golden_json(name));
    if (each.contains("post_processor")) file["post_processor"] = each["post_processor"];
    const auto tokenizer = Tokenizer::from_json(file.dump(), "");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (const json& pair : each["pairs"]) {
      const auto got = tokenizer->encode_pair(pair["first"].get<std::string>(),
                                              pair["second"].get<std::string>());
      ASSERT_TRUE(got) << name << ": " << got.error().message;
      EXPECT_EQ(got->ids, pair["ids"].get<std::vector<TokenId>>()) << name << " " << pair.dump();
      // An empty second text may leave no token of its type.
      if (second_of(pair["types"]) != 0) {
        EXPECT_EQ(got->second, second_of(pair["types"])) << name << " " << pair.dump();
      }
    }
  }
}

// Control tokens that are spelled in a text are text.
TEST(TokenizerPair, LeavesControlTokensAlone) {
  const Tokenizer tokenizer = testing::load_golden("wordpiece").tokenizer;
  const TokenId separator = *tokenizer.find("[SEP]");
  const auto pair = tokenizer.encode_pair("a [SEP] b", "[SEP]");
  ASSERT_TRUE(pair);
  EXPECT_EQ(std::count(pair->ids.begin(), pair->ids.end(), separator), 2);
}

TEST(TokenizerPair, NeedAForm) {
  const auto pair = testing::load_golden("qwen2").tokenizer.encode_pair("a", "b");
  ASSERT_FALSE(pair.has_value());
  EXPECT_EQ(pair.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(pair.error().message.find("no form for two texts"), std::string::npos);
}

// Files of GGUF say nothing of pairs: BERT's and XLM-RoBERTa's are known by their kinds.
TEST(TokenizerPair, OfGgufAreThoseOfTheModels) {
  const json file = json::parse(testing::golden_json("wordpiece"));
  const auto from_json = Tokenizer::from_json(file.dump(), "");
  const auto from_gguf = Tokenizer::from_gguf(testing::to_gguf_wordpiece(file));
  ASSERT_TRUE(from_json && from_gguf);
  const auto wanted = from_json->encode_pair("the boat", "a kettle sings");
  const auto got = from_gguf->encode_pair("the boat", "a kettle sings");
  ASSERT_TRUE(wanted && got);
  EXPECT_EQ(got->ids, wanted->ids);
  EXPECT_EQ(got->second, wanted->second);

  load::GgufTokenizer roberta = testing::to_gguf_unigram(testing::golden_unigrams().front());
  roberta.bos = 1;
  roberta.eos = 2;
  roberta.add_bos = roberta.add_eos = true;
  const auto unigram = Tokenizer::from_gguf(roberta);
  ASSERT_TRUE(unigram) << unigram.error().message;
  const auto pair = unigram->encode_pair("the boat", "a kettle");
  ASSERT_TRUE(pair) << pair.error().message;
  std::vector<TokenId> ids = {1};
  for (const char* text : {"the boat", "a kettle"}) {
    if (ids.size() > 1) ids.insert(ids.end(), {2, 2});
    const std::vector<TokenId> own = unigram->encode(text, {.add_special = false});
    ids.insert(ids.end(), own.begin(), own.end());
  }
  ids.push_back(2);
  EXPECT_EQ(pair->ids, ids);
  EXPECT_EQ(pair->second, 0U);
}

// A template has the two in its text, and control tokens beside them.
TEST(TokenizerPair, OfATemplateAreItsTokens) {
  load::GgufTokenizer data = testing::to_gguf(json::parse(testing::golden_json("qwen2")), "qwen2");
  data.pair_template = "<|im_start|>Query: {query}\nDocument: {document}<|im_end|>\n";
  const auto tokenizer = Tokenizer::from_gguf(data);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto pair = tokenizer->encode_pair("the boat", "a kettle");
  ASSERT_TRUE(pair) << pair.error().message;
  EXPECT_EQ(pair->ids, tokenizer->encode("<|im_start|>Query: the boat\nDocument: a "
                                         "kettle<|im_end|>\n",
                                         {.add_special = false}));
  EXPECT_EQ(pair->second, 0U);
  for (const char* bad : {"{document}", "{query}", "{document} {query}"}) {
    data.pair_template = bad;
    const auto refused = Tokenizer::from_gguf(data);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("tokenizer.chat_template.rerank: "), std::string::npos);
  }
}

}  // namespace
}  // namespace dovetail::text
