#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

using testing::golden_json;
using testing::golden_names;
using testing::golden_strings;
using testing::load_golden;
using testing::to_gguf;
using testing::to_gguf_marked;
using testing::to_gguf_wordpiece;

struct Named {
  std::string name;
  Tokenizer tokenizer;
};

std::vector<Named> all_tokenizers() {
  std::vector<Named> out;
  for (const std::string& name : golden_names()) out.push_back({name, load_golden(name).tokenizer});
  for (const char* name : {"gpt2", "qwen2"}) {
    auto gguf = Tokenizer::from_gguf(to_gguf(nlohmann::json::parse(golden_json(name)), name));
    if (!gguf) throw std::runtime_error(gguf.error().message);
    out.push_back({std::string("gguf ") + name, std::move(*gguf)});
  }
  for (const auto& data : {to_gguf_wordpiece(nlohmann::json::parse(golden_json("wordpiece"))),
                           to_gguf_marked(nlohmann::json::parse(golden_json("gemma"))),
                           testing::to_gguf_unigram(testing::golden_unigrams()[0])}) {
    auto gguf = Tokenizer::from_gguf(data);
    if (!gguf) throw std::runtime_error(gguf.error().message);
    out.push_back({"gguf " + data.model, std::move(*gguf)});
  }
  return out;
}

void check_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip,
                  TextPosition position) {
  StreamDecoder stream(tokenizer, skip, position);
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == ids.size() / 2) {
      StreamDecoder copy = stream;  // a copy goes on from where its source was
      stream = std::move(copy);
    }
    const std::string part = stream.push(ids[i]);
    RC_ASSERT(is_valid_utf8(part));
    text += part;
  }
  const std::string rest = stream.finish();
  RC_ASSERT(is_valid_utf8(rest));
  RC_ASSERT(text + rest == tokenizer.decode(ids, skip, position));
}

TEST(StreamDecoder, GivesWholeCharactersThatAddUpToDecode) {
  for (const Named& named : all_tokenizers()) {
    SCOPED_TRACE(named.name);
    const auto size = static_cast<TokenId>(named.tokenizer.vocab_size());
    const auto ok = rc::check(named.name, [&] {
      // Low ids are bytes and characters, from which broken and whole characters arise.
      const auto low = rc::gen::inRange<TokenId>(-2, std::min(size, 300));
      const auto any = rc::gen::inRange<TokenId>(0, size + 2);
      const auto ids = *rc::gen::container<std::vector<TokenId>>(rc::gen::oneOf(low, any));
      check_stream(named.tokenizer, ids, *rc::gen::arbitrary<bool>(),
                   *rc::gen::element(TextPosition::kStart, TextPosition::kContinuation));
    });
    EXPECT_TRUE(ok);
  }
}

// A text that is cut anywhere is its beginning, up to the last whole character.
TEST(StreamDecoder, CutsBetweenCharacters) {
  int checked = 0;
  for (const Named& named : all_tokenizers()) {
    SCOPED_TRACE(named.name);
    const Tokenizer& tokenizer = named.tokenizer;
    const auto ids =
        tokenizer.encode("a\u8001\U0001F600\u00E9 b\U0001F680", {.add_special = false});
    const std::string whole = tokenizer.decode(ids);
    if (whole.find("\uFFFD") != std::string::npos) continue;  // it has not all of the characters
    std::string last;
    for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
      StreamDecoder stream(tokenizer);
      std::string text;
      for (std::size_t i = 0; i < cut; ++i) text += stream.push(ids[i]);
      text += stream.cut();
      EXPECT_TRUE(whole.starts_with(text)) << "cut at " << cut << ": " << text;
      last = text;
    }
    EXPECT_EQ(last, whole);
    ++checked;
  }
  EXPECT_GE(checked, 10);
}

TEST(StreamDecoder, ContinuesAPrompt) {
  // Where the text of a prompt ends in a whole character, the continuation is what decode() adds.
  for (const char* name : {"gpt2", "llama2", "metaspace-always", "metaspace-first", "wordpiece"}) {
    const Tokenizer tokenizer = load_golden(name).tokenizer;
    const auto ids = tokenizer.encode("The little boat went out on the morning tide 老 x",
                                      {.add_special = false});
    const std::string whole = tokenizer.decode(ids);
    for (std::size_t cut = 1; cut < ids.size(); ++cut) {
      const std::string head = tokenizer.decode(std::span(ids).first(cut));
      if (head.find("\uFFFD") != std::string::npos) continue;
      EXPECT_EQ(
          head + tokenizer.decode(std::span(ids).subspan(cut), true, TextPosition::kContinuation),
          whole)
          << name << " cut at " << cut;
    }
  }
}

TEST(StreamDecoder, HoldsBackNothingThatIsCertain) {
  const Tokenizer tokenizer = load_golden("gpt2").tokenizer;
  const auto ids = tokenizer.encode("boat 😀 x", {.add_special = false});
  StreamDecoder stream(tokenizer);
  std::string text;
  std::vector<TokenId> seen;
  for (const TokenId id : ids) {
    text += stream.push(id);
    seen.push_back(id);
    std::string certain = tokenizer.decode(seen);
    while (certain.ends_with("\uFFFD")) certain.resize(certain.size() - 3);
    EXPECT_EQ(text, certain);
  }
  EXPECT_EQ(stream.finish(), "");
}

TEST(Tokenizer, ByteLevelRoundTripsEveryText) {
  for (const char* name : {"gpt2", "llama3", "deepseek-v3", "tekken", "starcoder"}) {
    const Tokenizer tokenizer = load_golden(name).tokenizer;
    EXPECT_TRUE(rc::check(name, [&] {
      const auto text = *rc::gen::string<std::string>();
      const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = false});
      RC_ASSERT(tokenizer.decode(ids, false) == repair_utf8(text));
    }));
  }
}

TEST(Tokenizer, TakesLongRunsInItsStride) {
  // Quadratic behaviour would hang here.
  std::vector<std::string> texts;
  for (const std::string_view unit :
       {"a", " ", "\n", "1", ".", "\xF0\x9F\x98\x80", "\xE8\x80\x81", "ab ", " x", "\xFF",
        "\u0323\u0301", "\r\n ", "'s", "lefty ", "<|im_start|>"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    texts.push_back(text + "x");
  }
  for (const Named& named : all_tokenizers()) {
    SCOPED_TRACE(named.name);
    for (const std::string& text : texts) {
      const auto ids = named.tokenizer.encode(text);
      EXPECT_LE(ids.size(), 3 * text.size() + 8);
      EXPECT_TRUE(is_valid_utf8(named.tokenizer.decode(ids, false)));
    }
  }
}

TEST(Utf8Repair, AgreesWithItselfInAnyPortions) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = *rc::gen::container<std::string>(
        rc::gen::map(rc::gen::oneOf(rc::gen::inRange(0, 256),
                                    rc::gen::element(0xE0, 0xED, 0xF0, 0xF4, 0x80, 0x9F, 0xBF)),
                     [](int byte) { return static_cast<char>(byte); }));
    Utf8Repair repair;
    std::string out;
    for (const char byte : bytes) {
      repair.push(std::string_view(&byte, 1), out);
      RC_ASSERT(is_valid_utf8(out));
    }
    repair.finish(out);
    RC_ASSERT(out == repair_utf8(bytes));
  }));
}

TEST(Utf8Repair, ReplacesEveryMaximalPart) {
  // Unicode 15, table 3-8 and the like; what Python's errors="replace" gives.
  const std::pair<std::string, std::string> rows[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xED\xA0\x80\x41", "\uFFFD\uFFFD\uFFFDA"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
       "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFD"
       "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF0\x9F\x98", "\uFFFD"},
      {"\xC3\xA9\xC3", "é\uFFFD"},
  };
  for (const auto& [bytes, text] : rows) EXPECT_EQ(repair_utf8(bytes), text);
}

TEST(TokenBytes, AddUpToTheText) {
  for (const Named& named : all_tokenizers()) {
    SCOPED_TRACE(named.name);
    const auto bytes = named.tokenizer.token_bytes();
    ASSERT_TRUE(bytes) << bytes.error().message;
    ASSERT_EQ(bytes->size(), named.tokenizer.vocab_size());
    int compared = 0;
    const auto compare = [&](const std::vector<TokenId>& ids) {
      std::string text;
      for (const TokenId id : ids) text += (*bytes)[static_cast<std::size_t>(id)];
      if (!is_valid_utf8(text)) return;
      ++compared;
      EXPECT_EQ(text, named.tokenizer.decode(ids, true, TextPosition::kContinuation));
    };
    for (const std::string& text : golden_strings()) compare(named.tokenizer.encode(text));
    EXPECT_GT(compared, 0);
    for (std::size_t id = 0; id < bytes->size(); ++id) compare({static_cast<TokenId>(id)});
    const auto size = static_cast<TokenId>(named.tokenizer.vocab_size());
    EXPECT_TRUE(rc::check(named.name, [&] {
      compare(*rc::gen::container<std::vector<TokenId>>(rc::gen::inRange<TokenId>(0, size)));
    }));
  }
}

}  // namespace
}  // namespace dovetail::text
