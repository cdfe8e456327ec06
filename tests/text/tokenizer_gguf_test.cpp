#include <gtest/gtest.h>

#include <filesystem>

#include "families/open_model.h"
#include "load/model_source.h"
#include "support/byte_tokenizer.h"
#include "support/places.h"
#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

using nlohmann::json;
using testing::golden_json;
using testing::golden_strings;
using testing::read_file;
using testing::to_gguf;
using testing::to_gguf_marked;
using testing::to_gguf_wordpiece;

struct Flavour {
  const char* json;  // the golden tokenizer
  const char* pre;   // tokenizer.ggml.pre
};

class GgufBytePairs : public ::testing::TestWithParam<Flavour> {};

TEST_P(GgufBytePairs, GivesTheIdsAndTextsOfTheJson) {
  const auto& flavour = GetParam();
  auto json = nlohmann::json::parse(golden_json(flavour.json));
  // GGUF knows no flags of added tokens; take them out on both sides. The library takes the é of an
  // added token for a stand-in of a byte and tears it, where GGUF's tokens are plain text.
  auto& added = json["added_tokens"];
  for (std::size_t i = added.size(); i-- > 0;) {
    if (added[i]["content"] == "Café") added.erase(i);
  }
  for (auto& token : added) {
    token["lstrip"] = token["rstrip"] = token["single_word"] = token["normalized"] = false;
  }
  const auto from_json = Tokenizer::from_json(json.dump(), "");
  ASSERT_TRUE(from_json) << from_json.error().message;
  auto data = to_gguf(json, flavour.pre);
  data.add_bos = false;
  const auto from_gguf = Tokenizer::from_gguf(data);
  ASSERT_TRUE(from_gguf) << from_gguf.error().message;
  std::size_t tokens = 0;
  for (const std::string& text : golden_strings()) {
    for (const bool parse : {true, false}) {
      const EncodeOptions options{.add_special = false, .parse_special = parse};
      const auto ids = from_json->encode(text, options);
      EXPECT_EQ(from_gguf->encode(text, options), ids) << repair_utf8(text);
      EXPECT_EQ(from_gguf->decode(ids, false), from_json->decode(ids, false));
      EXPECT_EQ(from_gguf->decode(ids, true), from_json->decode(ids, true));
      tokens += ids.size();
    }
  }
  EXPECT_GT(tokens, 1000U);
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufBytePairs,
    ::testing::Values(Flavour{"gpt2", "gpt-2"}, Flavour{"llama3", "llama-bpe"},
                      Flavour{"qwen2", "qwen2"}, Flavour{"deepseek-v3", "deepseek-v3"},
                      Flavour{"deepseek-coder", "deepseek-coder"},
                      Flavour{"deepseek-llm", "deepseek-llm"}, Flavour{"tekken", "tekken"},
                      Flavour{"starcoder", "starcoder"}, Flavour{"starcoder", "refact"},
                      Flavour{"starcoder", "smollm"}, Flavour{"llama3", "glm4"},
                      Flavour{"gpt2", "exaone4"}, Flavour{"qwen35", "qwen35"},
                      Flavour{"gpt-4o", "gpt-4o"}, Flavour{"seed-coder", "seed-coder"},
                      Flavour{"falcon", "falcon"}, Flavour{"command-r", "command-r"}));

// What a pair of tokenizers makes of all golden strings, added tokens and specials included.
void expect_same(const Tokenizer& gguf, const Tokenizer& json) {
  std::size_t tokens = 0;
  for (const std::string& text : golden_strings()) {
    for (const bool parse : {true, false}) {
      const EncodeOptions options{.add_special = true, .parse_special = parse};
      const auto ids = json.encode(text, options);
      EXPECT_EQ(gguf.encode(text, options), ids) << repair_utf8(text);
      for (const bool skip : {true, false}) {
        EXPECT_EQ(gguf.decode(ids, skip), json.decode(ids, skip)) << repair_utf8(text);
      }
      tokens += ids.size();
    }
  }
  EXPECT_GT(tokens, 1000U);
}

TEST(GgufWordPiece, GivesTheIdsAndTextsOfTheJson) {
  const json tree = json::parse(golden_json("wordpiece"));
  const auto from_json = Tokenizer::from_json(tree.dump(), "");
  ASSERT_TRUE(from_json) << from_json.error().message;
  auto data = to_gguf_wordpiece(tree);
  const auto from_gguf = Tokenizer::from_gguf(data);
  ASSERT_TRUE(from_gguf) << from_gguf.error().message;
  expect_same(*from_gguf, *from_json);
  EXPECT_TRUE(from_gguf->adds_bos());
  EXPECT_EQ(from_gguf->bos(), data.cls);

  // Special tokens are found by their spellings; BOS and EOS of the file change nothing.
  data.cls = data.separator = data.unknown = std::nullopt;
  data.add_bos = data.add_eos = false;
  const auto by_name = Tokenizer::from_gguf(data);
  ASSERT_TRUE(by_name) << by_name.error().message;
  expect_same(*by_name, *from_json);
}

TEST(GgufWordPiece, ReadsHowTextIsNormalized) {
  json tree = json::parse(golden_json("wordpiece"));
  auto data = to_gguf_wordpiece(tree);
  for (const auto& [lowercase, strip] : std::initializer_list<std::pair<bool, json>>{
           {false, nullptr}, {false, true}, {true, false}}) {
    data.lowercase = lowercase;
    data.strip_accents = strip.is_null() ? std::nullopt : std::optional(strip.get<bool>());
    tree["normalizer"]["lowercase"] = lowercase;
    tree["normalizer"]["strip_accents"] = strip;
    const auto from_json = Tokenizer::from_json(tree.dump(), "");
    const auto from_gguf = Tokenizer::from_gguf(data);
    ASSERT_TRUE(from_json && from_gguf);
    expect_same(*from_gguf, *from_json);
  }
}

TEST(GgufMarkedBpe, GivesTheIdsAndTextsOfTheJson) {
  const json tree = json::parse(golden_json("gemma"));
  const auto from_json = Tokenizer::from_json(tree.dump(), "");
  ASSERT_TRUE(from_json) << from_json.error().message;
  auto data = to_gguf_marked(tree);
  data.bos = tree["model"]["vocab"]["<bos>"].get<TokenId>();
  data.unknown = tree["model"]["vocab"]["<unk>"].get<TokenId>();
  data.add_bos = false;  // files say so by mistake
  const auto from_gguf = Tokenizer::from_gguf(data);
  ASSERT_TRUE(from_gguf) << from_gguf.error().message;
  std::size_t tokens = 0;
  for (const std::string& text : golden_strings()) {
    const auto ids = from_json->encode(text);
    EXPECT_EQ(from_gguf->encode(text), ids) << repair_utf8(text);
    EXPECT_EQ(from_gguf->decode(ids), from_json->decode(ids)) << repair_utf8(text);
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 1000U);
  EXPECT_TRUE(from_gguf->adds_bos());
}

TEST(GgufUnigram, GivesTheIdsOfSentencePiece) {
  const auto strings = golden_strings();
  const auto models = testing::golden_unigrams();
  ASSERT_EQ(models.size(), 3U);
  for (const auto& model : models) {
    auto data = testing::to_gguf_unigram(model);
    const auto tokenizer = Tokenizer::from_gguf(data);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (std::size_t i = 0; i < strings.size(); ++i) {
      auto ids = model["ids"][i].get<std::vector<TokenId>>();
      EXPECT_EQ(tokenizer->encode(strings[i], {.add_special = false, .parse_special = false}), ids)
          << "string " << i << ": " << repair_utf8(strings[i]);
      ids.push_back(2);  // EOS ends a text where the file does not say; nothing begins it
      EXPECT_EQ(tokenizer->encode(strings[i], {.parse_special = false}), ids);
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("The little boat")), "The little boat");
    EXPECT_EQ(tokenizer->encode("<s>", {.add_special = false}), (std::vector<TokenId>{1}));
    data.add_bos = true;
    data.add_eos = false;
    EXPECT_EQ(Tokenizer::from_gguf(data)->encode(""), (std::vector<TokenId>{1}));
  }
}

// A small SentencePiece vocabulary: unknown, BOS, EOS, 256 bytes, then pieces with scores.
load::GgufTokenizer sentence_pieces() {
  load::GgufTokenizer data;
  data.model = "llama";
  const auto put = [&](std::string token, float score, std::int32_t type) {
    data.tokens.push_back(std::move(token));
    data.scores.push_back(score);
    data.token_types.push_back(type);
  };
  put("<unk>", 0, 2);
  put("<s>", 0, 3);
  put("</s>", 0, 3);
  for (int byte = 0; byte < 256; ++byte) put(fmt::format("<0x{:02X}>", byte), 0, 6);
  put("<|eot_id|>", 0, 3);
  put("[TOOL]", 0, 4);
  float score = -1;
  for (const char* piece : {"▁a", "b", "▁ab", "ba", "a", "▁", "▁▁", "é", "cd", "c", "d", "bc"}) {
    put(piece, score--, 1);
  }
  data.bos = 1;
  data.eos = 2;
  data.unknown = 0;
  return data;
}

std::vector<std::string> spelled(const Tokenizer& tokenizer, std::string_view text,
                                 EncodeOptions options = {}) {
  std::vector<std::string> out;
  for (const TokenId id : tokenizer.encode(text, options)) {
    out.emplace_back(tokenizer.token_text(id));
  }
  return out;
}

TEST(GgufSentencePiece, MergesByScoreAndFallsBackToBytes) {
  const auto tokenizer = Tokenizer::from_gguf(sentence_pieces());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  using Strings = std::vector<std::string>;
  EXPECT_EQ(spelled(*tokenizer, ""), (Strings{"<s>"}));
  EXPECT_EQ(spelled(*tokenizer, "ab"), (Strings{"<s>", "▁ab"}));
  EXPECT_EQ(spelled(*tokenizer, "aba"), (Strings{"<s>", "▁ab", "a"}));
  // "▁a" has a higher score than "▁▁".
  EXPECT_EQ(spelled(*tokenizer, " a"), (Strings{"<s>", "▁", "▁a"}));
  // "cd" has a higher score than "bc".
  EXPECT_EQ(spelled(*tokenizer, "bcd"), (Strings{"<s>", "▁", "b", "cd"}));
  EXPECT_EQ(spelled(*tokenizer, "é\n"), (Strings{"<s>", "▁", "é", "<0x0A>"}));
  EXPECT_EQ(spelled(*tokenizer, "ü"), (Strings{"<s>", "▁", "<0xC3>", "<0xBC>"}));
  EXPECT_EQ(spelled(*tokenizer, "a</s>a"), (Strings{"<s>", "▁a", "</s>", "▁a"}));
  EXPECT_EQ(spelled(*tokenizer, "</s>a", {.add_special = false, .parse_special = false}).front(),
            "▁");
  EXPECT_EQ(spelled(*tokenizer, "[TOOL]a", {.add_special = false, .parse_special = false}),
            (Strings{"[TOOL]", "▁a"}));
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(std::vector<TokenId>(tokenizer->end_ids().begin(), tokenizer->end_ids().end()),
            (std::vector<TokenId>{2, 259}));
}

TEST(GgufSentencePiece, AddsNoSpaceWhereTheFileSaysSo) {
  auto data = sentence_pieces();
  data.add_space_prefix = false;
  data.add_bos = false;
  data.add_eos = true;
  const auto tokenizer = Tokenizer::from_gguf(data);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(spelled(*tokenizer, "ba"), (std::vector<std::string>{"ba", "</s>"}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" ba")), " ba");
  EXPECT_FALSE(tokenizer->adds_bos());
}

TEST(GgufSentencePiece, DropsTheFirstSpaceOnlyAtTheStart) {
  const auto tokenizer = Tokenizer::from_gguf(sentence_pieces());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::vector<TokenId> ids = tokenizer->encode("  a ba");
  EXPECT_EQ(tokenizer->decode(ids), "  a ba");
  EXPECT_EQ(tokenizer->decode(ids, false), "<s>   a ba");
  EXPECT_EQ(tokenizer->decode(ids, true, TextPosition::kContinuation), "   a ba");
  // Bytes that are no UTF-8.
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{3 + 0xE4, 3 + 0xB8, 3 + 0x41}), "\uFFFDA");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{-1, 100000, 3 + 0x41}), "A");
}

// The spaces after Phi-3's own tokens go, as its tokenizer.json says and a GGUF file cannot.
TEST(GgufSentencePiece, StripsWhatFollowsTheTokensOfPhi3) {
  auto data = sentence_pieces();
  const std::size_t first = data.tokens.size();
  for (const char* token : {"<|user|>", "<|endoftext|>", "<|placeholder1|>"}) {
    data.tokens.emplace_back(token);
    data.scores.push_back(0);
    data.token_types.push_back(3);
  }
  using Strings = std::vector<std::string>;
  const EncodeOptions plain{.add_special = false};
  const auto phi3 = Tokenizer::from_gguf(data);
  ASSERT_TRUE(phi3) << phi3.error().message;
  EXPECT_EQ(spelled(*phi3, "<|user|>\n a", plain), (Strings{"<|user|>", "▁a"}));
  EXPECT_EQ(spelled(*phi3, "<|endoftext|> a", plain), (Strings{"<|endoftext|>", "▁", "▁a"}));
  EXPECT_EQ(spelled(*phi3, "<s> a", plain), (Strings{"<s>", "▁", "▁a"}));
  data.tokens[first + 2] = "<|other|>";
  const auto other = Tokenizer::from_gguf(data);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(spelled(*other, "<|user|> a", plain), (Strings{"<|user|>", "▁", "▁a"}));
}

TEST(GgufEndIds, AreThoseOfTheFamily) {
  struct Row {
    const char* what;
    std::vector<std::string> specials;  // control tokens from id 273 on
    std::vector<TokenId> ends;          // beside </s>, 2, and <|eot_id|>, 259
  };
  const Row rows[] = {
      {"Phi", {"<|end|>", "<|user|>"}, {273}},
      {"gpt-oss", {"<|end|>", "<|return|>", "<|call|>", "<|start|>"}, {274, 275}},
      {"Gemma 4", {"<|turn>", "<turn|>"}, {274}},
      {"Solar", {"<|end|>", "<|flush|>", "<|calls|>"}, {274, 275}},
      {"Kimi", {"[EOT]", "[EOS]", "[BOS]"}, {273, 274}},
  };
  for (const Row& row : rows) {
    auto data = sentence_pieces();
    for (const std::string& token : row.specials) {
      data.tokens.push_back(token);
      data.scores.push_back(0);
      data.token_types.push_back(3);
    }
    const auto tokenizer = Tokenizer::from_gguf(data);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    std::vector<TokenId> ends = {2, 259};
    ends.insert(ends.end(), row.ends.begin(), row.ends.end());
    EXPECT_EQ(std::vector<TokenId>(tokenizer->end_ids().begin(), tokenizer->end_ids().end()), ends)
        << row.what;
  }
  // Gemma 4 waits for a tool behind a token that is text.
  auto data = sentence_pieces();
  data.tokens.emplace_back("<|tool_response>");
  data.scores.push_back(0);
  data.token_types.push_back(4);
  EXPECT_EQ(Tokenizer::from_gguf(data)->end_ids().back(), 273);
}

TEST(GgufErrors, NameTheFieldAndWhatWouldBeValid) {
  struct Row {
    const char* what;
    void (*damage)(load::GgufTokenizer&);
    const char* message;
  };
  const Row rows[] = {
      {"model", [](auto& d) { d.model = "rwkv"; },
       "tokenizer.ggml.model: 'rwkv'; valid: llama, gpt2, gemma4, bert, t5"},
      {"no tokens", [](auto& d) { d.tokens.clear(); }, "tokenizer.ggml.tokens: empty"},
      {"scores", [](auto& d) { d.scores.pop_back(); }, "tokenizer.ggml.scores: 272 scores"},
      {"no scores", [](auto& d) { d.scores.clear(); }, "tokenizer.ggml.scores: missing"},
      {"types", [](auto& d) { d.token_types.pop_back(); }, "tokenizer.ggml.token_type: 272 types"},
      {"bos", [](auto& d) { d.bos = 5000; }, "tokenizer.ggml.bos_token_id: 5000; valid: 0 to 272"},
      {"negative", [](auto& d) { d.eos = -7; }, "tokenizer.ggml.eos_token_id: -7"},
      {"add_bos", [](auto& d) { d.add_bos = true, d.bos.reset(); }, "tokenizer.ggml.add_bos_token"},
      {"bytes",
       [](auto& d) {
         d.tokens[3 + 0xE4] = std::string("x");
         d.unknown.reset();
       },
       "<0xE4> is missing"},
      {"pre", [](auto& d) { d.model = "gpt2", d.pre = "falcon-9"; },
       "tokenizer.ggml.pre: 'falcon-9'; valid: default, gpt-2, gpt2, phi-2"},
      {"merge", [](auto& d) { d.model = "gpt2", d.merges = {"ab"}; },
       "tokenizer.ggml.merges[0]: 'ab'; valid: two tokens"},
      {"merge of no token",
       [](auto& d) {
         d.model = "gpt2", d.merges = {"b c", "b zz"};
       },
       "tokenizer.ggml.merges[1]: 'zz' is no token"},
      {"marked merge of no token", [](auto& d) { d.model = "gemma4", d.merges = {"b zz"}; },
       "tokenizer.ggml.merges[0]: 'zz' is no token"},
      {"no scores of pieces", [](auto& d) { d.model = "t5", d.scores.clear(); },
       "tokenizer.ggml.scores: missing; valid: one for each of the 273 tokens"},
      {"no unknown piece",
       [](auto& d) {
         d.model = "t5", d.tokens[0] = "x";
         d.unknown.reset();
       },
       "tokenizer.ggml.unknown_token_id: missing; valid: an id, or a token '<unk>'"},
      {"nothing normal", [](auto& d) { d.model = "t5", d.token_types.assign(d.tokens.size(), 3); },
       "tokenizer.ggml.token_type: no normal token"},
      {"huge piece",
       [](auto& d) {
         d.model = "t5";
         d.tokens[270] = std::string(5000, 'x');
       },
       "tokenizer.ggml.tokens[270]: 5000 bytes; valid: at most 4096"},
      {"character map",
       [](auto& d) {
         d.model = "t5";
         d.charsmap = std::string("\xFF\xFF\0\0abcd", 8);
       },
       "tokenizer.ggml.precompiled_charsmap: a trie of 65535 bytes in 8 bytes"},
      {"no unknown word", [](auto& d) { d.model = "bert", d.unknown.reset(); },
       "tokenizer.ggml.unknown_token_id: missing; valid: an id, or a token '[UNK]'"},
      {"no start", [](auto& d) { d.model = "bert", d.bos.reset(), d.separator = 2; },
       "tokenizer.ggml.cls_token_id: missing; valid: an id, or a token '[CLS]'"},
      {"no separator", [](auto& d) { d.model = "bert", d.cls = 1; },
       "tokenizer.ggml.seperator_token_id: missing; valid: an id, or a token '[SEP]'"},
      {"cls", [](auto& d) { d.model = "bert", d.cls = 5000; },
       "tokenizer.ggml.cls_token_id: 5000; valid: 0 to 272"},
      {"separator", [](auto& d) { d.model = "bert", d.separator = -2; },
       "tokenizer.ggml.seperator_token_id: -2; valid: 0 to 272"},
      {"huge word",
       [](auto& d) {
         d.model = "bert", d.cls = 1, d.separator = 2;
         d.tokens[270] = std::string(5000, 'x');
       },
       "tokenizer.ggml.tokens[270]: 5000 bytes; valid: at most 4096"},
  };
  for (const Row& row : rows) {
    auto data = sentence_pieces();
    row.damage(data);
    const auto tokenizer = Tokenizer::from_gguf(data);
    ASSERT_FALSE(tokenizer) << row.what;
    EXPECT_NE(tokenizer.error().message.find(row.message), std::string::npos)
        << row.what << ": " << tokenizer.error().message;
  }
}

TEST(Stories260K, GivesTheIdsAndTextsOfTheReference) {
  const std::string folder = test::shared_dir() + "/models/stories260K";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto source = families::open_model(folder + "/stories260K-F32.gguf");
  ASSERT_TRUE(source) << source.error().message;
  const auto tokenizer = Tokenizer::create(**source);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto golden = nlohmann::json::parse(read_file(folder + "/stories260K-golden-F32.json"));
  ASSERT_EQ(golden.size(), 5U);
  for (const auto& run : golden) {
    const auto prompt = run["prompt"].get<std::string>();
    const auto prompt_ids = run["prompt_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(prompt), prompt_ids);
    EXPECT_EQ(tokenizer->decode(prompt_ids), prompt);
    StreamDecoder stream(*tokenizer, true, TextPosition::kContinuation);
    std::string text;
    for (const auto& id : run["ids"]) text += stream.push(id.get<TokenId>());
    text += stream.finish();
    EXPECT_EQ(text, run["text"].get<std::string>());
  }
}

TEST(Stories260K, FolderAndGgufAgree) {
  const std::string folder = test::shared_dir() + "/models/stories260K";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto gguf = families::open_model(folder + "/stories260K-F32.gguf");
  const auto hf = families::open_model(folder + "/hf");
  ASSERT_TRUE(gguf && hf);
  const auto one = Tokenizer::create(**gguf);
  const auto other = Tokenizer::create(**hf);
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(one->vocab_size(), other->vocab_size());
  EXPECT_EQ(one->bos(), other->bos());
  EXPECT_EQ(one->eos(), other->eos());
  for (const char* text : {"Once upon a time", "Lily said: \"Hi!\"\nTom ran.", "été 老", ""}) {
    EXPECT_EQ(one->encode(text), other->encode(text)) << text;
  }
}

// Digits in threes, whatever merges there are; GPT-2's split keeps them together.
TEST(GgufSplits, DefaultCutsDigitsAndPunctuation) {
  load::GgufTokenizer data = test::byte_tokenizer();
  const auto first = static_cast<TokenId>(data.tokens.size());
  data.tokens.insert(data.tokens.end(), {"12", "123", "1234", "a.", "a.b"});
  data.token_types.resize(data.tokens.size(), 1);
  data.merges = {"1 2", "12 3", "123 4", "a .", "a. b"};
  const auto encode = [&](const char* pre, std::string_view text) {
    data.pre = pre;
    return Tokenizer::from_gguf(data)->encode(text);
  };
  EXPECT_EQ(encode("default", "1234"), (std::vector<TokenId>{first + 1, '4'}));
  EXPECT_EQ(encode("gpt-2", "1234"), (std::vector<TokenId>{first + 2}));
  EXPECT_EQ(encode("default", "12 a.b"), (std::vector<TokenId>{first, ' ', 'a', '.', 'b'}));
}

}  // namespace
}  // namespace dovetail::text
