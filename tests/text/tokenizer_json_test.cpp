#include <gtest/gtest.h>

#include <functional>

#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"

namespace dovetail::text {
namespace {

using nlohmann::json;
using testing::golden_json;

json small() {
  return json::parse(R"({
    "added_tokens": [
      {"id": 5, "content": "<s>", "special": true, "normalized": false},
      {"id": 6, "content": "<|eot_id|>", "special": true, "normalized": false},
      {"id": 7, "content": "</s>", "special": true, "normalized": false}
    ],
    "normalizer": null,
    "pre_tokenizer": null,
    "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4},
              "merges": ["a b", ["ab", "c"]]}
  })");
}

TEST(TokenizerJson, ReadsBothSpellingsOfMerges) {
  const auto tokenizer = Tokenizer::from_json(small().dump(), "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("abcab"), (std::vector<TokenId>{4, 2}));
  EXPECT_EQ(tokenizer->encode("zab"), (std::vector<TokenId>{2}));  // no unknown token: dropped
  EXPECT_EQ(tokenizer->vocab_size(), 8U);
  EXPECT_EQ(tokenizer->find("abc"), 4);
  EXPECT_EQ(tokenizer->find("<s>"), 5);
  EXPECT_EQ(tokenizer->find("zz"), std::nullopt);
  EXPECT_EQ(tokenizer->token_text(4), "abc");
  EXPECT_EQ(tokenizer->token_text(-1), "");
  EXPECT_EQ(tokenizer->token_text(8), "");
  EXPECT_TRUE(tokenizer->is_special(5));
  EXPECT_FALSE(tokenizer->is_special(4));
  EXPECT_FALSE(tokenizer->is_special(99));
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_FALSE(tokenizer->adds_bos());
}

TEST(TokenizerJson, TakesBosAndEosFromTheConfig) {
  const auto tokenizer =
      Tokenizer::from_json(small().dump(), R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
                          "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->bos(), 5);
  EXPECT_EQ(tokenizer->eos(), 7);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("ab"), (std::vector<TokenId>{5, 2}));
  EXPECT_EQ(std::vector<TokenId>(tokenizer->end_ids().begin(), tokenizer->end_ids().end()),
            (std::vector<TokenId>{6, 7}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("abc</s>"), false), "<s>abc</s>");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("abc</s>"), true), "abc");
}

struct BadFile {
  const char* name;
  std::function<void(json&)> damage;
  const char* message;
};

TEST(TokenizerJson, RefusesByPath) {
  const BadFile rows[] = {
      {"model", [](json& j) { j["model"]["type"] = "WordLevel"; },
       "tokenizer.json.model.type: 'WordLevel'; valid: BPE, Unigram, WordPiece"},
      {"wordpiece without unknown", [](json& j) { j["model"]["type"] = "WordPiece"; },
       "model.unk_token: '[UNK]'; valid: a token of model.vocab"},
      {"wordpiece with another unknown",
       [](json& j) { j["model"]["type"] = "WordPiece", j["model"]["unk_token"] = "<unk>"; },
       "model.unk_token: '<unk>'; valid: a token of model.vocab"},
      {"endless words",
       [](json& j) {
         j["model"] = {{"type", "WordPiece"},
                       {"vocab", {{"[UNK]", 0}}},
                       {"max_input_chars_per_word", 100000}};
       },
       "model.max_input_chars_per_word: 100000; valid: an integer from 0 to 65536"},
      {"wordpiece with a huge token",
       [](json& j) {
         j["model"] = {{"type", "WordPiece"},
                       {"vocab", {{"[UNK]", 0}, {std::string(5000, 'x'), 1}}}};
       },
       "5000 bytes; valid: at most 4096"},
      {"wordpiece without tokens",
       [](json& j) {
         j["model"] = {{"type", "WordPiece"}, {"vocab", json::object()}};
       },
       "model.vocab: an object; valid: at least one token"},
      {"wordpiece with a list",
       [](json& j) {
         j["model"] = {{"type", "WordPiece"}, {"vocab", {"a", "b"}}};
       },
       "model.vocab: an array of 2; valid: an object"},
      {"accents",
       [](json& j) {
         j["normalizer"] = {{"type", "BertNormalizer"}, {"strip_accents", "yes"}};
       },
       "normalizer.strip_accents: 'yes'; valid: true or false"},
      {"cleanup",
       [](json& j) {
         j["decoder"] = {{"type", "WordPiece"}, {"cleanup", 1}};
       },
       "decoder.cleanup: 1; valid: true or false"},
      {"no model", [](json& j) { j.erase("model"); }, "tokenizer.json.model: missing"},
      {"dropout", [](json& j) { j["model"]["dropout"] = 0.1; },
       "tokenizer.json.model.dropout: 0.1"},
      {"huge id", [](json& j) { j["model"]["vocab"]["a"] = 2000000000; },
       "vocab['a']: 2000000000; valid: an integer from 0 to 1056"},
      {"negative id", [](json& j) { j["model"]["vocab"]["a"] = -1; }, "vocab['a']: -1"},
      {"text id", [](json& j) { j["model"]["vocab"]["a"] = "0"; }, "vocab['a']: '0'"},
      {"same id", [](json& j) { j["model"]["vocab"]["a"] = 1; }, "one token for an id"},
      {"merge of nothing", [](json& j) { j["model"]["merges"][0] = "a z"; },
       "tokenizer.json.model.merges[0]: 'z' is no token"},
      {"merge to nothing", [](json& j) { j["model"]["merges"][0] = "b a"; }, "'ba' is no token"},
      {"merge of one", [](json& j) { j["model"]["merges"][1] = "ab"; }, "model.merges[1]: 'ab'"},
      {"merge of three",
       [](json& j) {
         j["model"]["merges"][1] = {"a", "b", "c"};
       },
       "model.merges[1]: an array of 3"},
      {"unknown", [](json& j) { j["model"]["unk_token"] = "<unk>"; },
       "model.unk_token: '<unk>'; valid: a token of model.vocab"},
      {"flag", [](json& j) { j["model"]["byte_fallback"] = 1; },
       "model.byte_fallback: 1; valid: true or false"},
      {"added id", [](json& j) { j["added_tokens"][0]["id"] = 99999; },
       "added_tokens[0].id: 99999"},
      {"added taken", [](json& j) { j["added_tokens"][0]["id"] = 2; }, "one token for an id"},
      {"added other", [](json& j) { j["added_tokens"][0]["content"] = "ab"; },
       "added_tokens[0].id: 5; valid: 2"},
      {"added long", [](json& j) { j["added_tokens"][0]["content"] = std::string(5000, 'x'); },
       "5000 bytes; valid: at most 4096"},
      {"normalizer",
       [](json& j) {
         j["normalizer"] = {{"type", "RobertaNormalizer"}};
       },
       "tokenizer.json.normalizer.type: 'RobertaNormalizer'; valid: NFC"},
      {"nested",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", {{{"type", "UnicodeScripts"}}}}};
       },
       "tokenizer.json.pre_tokenizer.pretokenizers[0].type: 'UnicodeScripts'"},
      {"regex",
       [](json& j) {
         j["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a"}}}};
       },
       "tokenizer.json.pre_tokenizer.pattern.Regex: '(a'"},
      {"runaway regex",
       [](json& j) {
         j["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(?:a|aa)+$"}}}};
       },
       "too many steps"},
      {"nested set",
       [](json& j) {
         j["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "[a[bc]]"}}}};
       },
       "a set within a set at byte 2 is not supported"},
      {"behavior",
       [](json& j) {
         j["pre_tokenizer"] = {
             {"type", "Split"}, {"behavior", "Cut"}, {"pattern", {{"String", "a"}}}};
       },
       "pre_tokenizer.behavior: 'Cut'; valid: Removed"},
      {"decoder",
       [](json& j) {
         j["decoder"] = {{"type", "CTC"}};
       },
       "tokenizer.json.decoder.type: 'CTC'; valid: ByteLevel"},
      {"charsmap",
       [](json& j) {
         j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
       },
       "normalizer.precompiled_charsmap: a trie of 0 bytes in 3 bytes"},
      {"template",
       [](json& j) {
         j["post_processor"] = json::parse(
             R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
                 "special_tokens": {"<s>": {"ids": [5]}}})");
       },
       "post_processor.single: sequence A 0 times; valid: once"},
      {"template id",
       [](json& j) {
         j["post_processor"] = json::parse(
             R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}],
                 "special_tokens": {"<s>": {"ids": [900]}}})");
       },
       "special_tokens.<s>.ids[0]: 900; valid: an id of the vocabulary"},
      {"unigram without unknown",
       [](json& j) {
         j["model"] = {{"type", "Unigram"}, {"vocab", json::parse(R"([["a", -1]])")}};
       },
       "model.unk_id: missing"},
      {"unigram score",
       [](json& j) {
         j["model"] = {
             {"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::parse(R"([["a", "b"]])")}};
       },
       "model.vocab[0]: an array of 2; valid: [token, score]"},
  };
  for (const BadFile& row : rows) {
    json file = small();
    row.damage(file);
    const auto tokenizer = Tokenizer::from_json(file.dump(), "");
    ASSERT_FALSE(tokenizer) << row.name;
    EXPECT_NE(tokenizer.error().message.find(row.message), std::string::npos)
        << row.name << ": " << tokenizer.error().message;
  }
}

TEST(TokenizerJson, RefusesWhatIsNoJson) {
  EXPECT_FALSE(Tokenizer::from_json("", ""));
  EXPECT_FALSE(Tokenizer::from_json("[]", ""));
  EXPECT_FALSE(Tokenizer::from_json("{\"model\": ", ""));
  const auto deep = Tokenizer::from_json(std::string(100'000, '['), "");
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("nested more than 64 deep"), std::string::npos);
  EXPECT_FALSE(Tokenizer::from_json(small().dump(), "{\"bos_token\": \"<nope>\"}"));
  EXPECT_FALSE(Tokenizer::from_json(small().dump(), "3"));
}

// A code point's braces are no count.
TEST(TokenizerJson, RepeatsACodePoint) {
  json file = small();
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"behavior", "Isolated"},
                           {"pattern", {{"Regex", R"(\x{61}+|\x{62}{2})"}}}};
  const auto tokenizer = Tokenizer::from_json(file.dump(), "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("aab"), (std::vector<TokenId>{0, 0, 1}));  // not "a", "ab"
  file["pre_tokenizer"]["pattern"]["Regex"] = R"(\x{61}{2}+)";
  const auto counted = Tokenizer::from_json(file.dump(), "");
  ASSERT_FALSE(counted);
  EXPECT_NE(counted.error().message.find("+ after a counted repetition"), std::string::npos);
}

TEST(TokenizerJson, TreatsTheRestAsOnePieceWhereASplitRunsAway) {
  // Harmless on the probes at creation, without bound on this text.
  json file = json::parse(golden_json("gpt2"));
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"behavior", "Isolated"},
         {"invert", false},
         {"pattern", {{"Regex", "(?:q|qq)+(?=[yz])"}}}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto tokenizer = Tokenizer::from_json(file.dump(), "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::string text = "boat qqz " + std::string(400, 'q') + "! boat";
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

}  // namespace
}  // namespace dovetail::text
