#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "text/gguf_splits.h"
#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

using nlohmann::json;
using testing::golden_json;
using testing::golden_names;
using testing::golden_strings;
using testing::to_gguf;
using testing::to_gguf_marked;
using testing::to_gguf_wordpiece;

constexpr int kJsonMutants = 2400;
constexpr int kGgufMutants = 2000;

class TokenizerMutator {
 public:
  explicit TokenizerMutator(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }

  std::string bytes(std::string text) {
    for (std::size_t i = 1 + below(4); i-- > 0 && !text.empty();) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(20));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(30)));
          break;
        default:
          text[at] = "{}[]\",:0-9\\"[below(11)];
      }
    }
    return text;
  }

  json odd_value() {
    switch (below(14)) {
      case 0:
        return nullptr;
      case 1:
        return -1;
      case 2:
        return 4294967296.0;
      case 3:
        return 18446744073709551615U;
      case 4:
        return "";
      case 5:
        return json::array();
      case 6:
        return json::object();
      case 7:
        return true;
      case 8:
        return 1e308;
      case 9:
        return "(a+)+$|\\";
      case 10:
        return {{"Regex", "(?:\\w|\\s)*\\d*(?=x)"}};
      case 11:
        return {{"type", "Split"}, {"pattern", {{"Regex", "a*?"}}}, {"behavior", "Contiguous"}};
      case 12:
        return std::string(100, 'a');
      default:
        return static_cast<int>(below(3000));
    }
  }

  // Damages one value somewhere in the tree.
  void tree(json& root) {
    json* node = &root;
    while (node->is_structured() && !node->empty() && !chance(8)) {
      auto child = node->begin();
      std::advance(child, static_cast<std::ptrdiff_t>(below(node->size())));
      node = &*child;
    }
    if (node->is_array() && !node->empty() && chance(2)) {
      node->push_back((*node)[below(node->size())]);
    } else if (node->is_object() && !node->empty() && chance(2)) {
      auto member = node->begin();
      std::advance(member, static_cast<std::ptrdiff_t>(below(node->size())));
      node->erase(member);
    } else if (node->is_string() && chance(2)) {
      *node = repair_utf8(bytes(node->get<std::string>()));
    } else {
      *node = odd_value();
    }
  }

  void gguf(load::GgufTokenizer& data) {
    const auto text = [&](std::vector<std::string>& list) {
      if (list.empty()) return;
      std::string& entry = list[below(list.size())];
      entry = chance(5) ? std::string() : bytes(entry);
    };
    const auto id = [&]() -> std::int32_t {
      return chance(2) ? static_cast<std::int32_t>(below(2000))
                       : std::numeric_limits<std::int32_t>::max();
    };
    switch (below(14)) {
      case 0:
        data.tokens.resize(below(data.tokens.size() + 50));
        break;
      case 1:
      case 2:
        text(data.tokens);
        break;
      case 3:
        text(data.merges);
        break;
      case 4:
        data.token_types.resize(below(data.token_types.size() + 5));
        break;
      case 5:
        if (!data.token_types.empty()) {
          data.token_types[below(data.token_types.size())] =
              static_cast<std::int32_t>(below(12)) - 3;
        }
        break;
      case 6:
        if (!data.scores.empty()) {
          const float odd[] = {std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity(), -1e38F, 0.0F};
          data.scores[below(data.scores.size())] = odd[below(4)];
        }
        break;
      case 7:
        data.bos = id();
        data.add_bos = chance(2);
        break;
      case 8:
        data.eos = chance(2) ? id() : -id();
        data.add_eos = chance(2);
        break;
      case 9:
        data.unknown = id();
        break;
      case 10: {
        const auto names = gguf_split_names();
        data.pre = chance(2) ? std::string(names[below(names.size())]) : bytes(data.pre);
      } break;
      case 11:
        data.cls = chance(2) ? std::nullopt : std::optional(id());
        data.separator = chance(2) ? std::nullopt : std::optional(id());
        data.lowercase = chance(2);
        data.remove_extra_whitespaces = chance(2);
        data.charsmap = bytes(data.charsmap);
        break;
      case 12:
        if (!data.tokens.empty()) {
          data.tokens[below(data.tokens.size())] =
              chance(2) ? std::string(5000, 'a') : std::string("[UNK]");
        }
        break;
      default:
        data.add_space_prefix = chance(2);
        if (chance(2)) data.model = std::array{"gpt2", "gemma4", "bert", "t5"}[below(4)];
    }
  }

 private:
  std::mt19937 random_;
};

// What every tokenizer must do, however odd the file it came from.
void exercise(const Result<Tokenizer>& tokenizer, const std::vector<std::string>& texts,
              TokenizerMutator& mutator, int& built) {
  if (!tokenizer) {
    EXPECT_FALSE(tokenizer.error().message.empty());
    EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos) << tokenizer.error().message;
    return;
  }
  ++built;
  for (int i = 0; i < 4; ++i) {
    const std::string& text = texts[mutator.below(texts.size())];
    const auto ids = tokenizer->encode(
        text, {.add_special = mutator.chance(2), .parse_special = mutator.chance(2)});
    for (const TokenId id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(static_cast<std::size_t>(id), tokenizer->vocab_size());
    }
    const std::string decoded = tokenizer->decode(ids, false);
    EXPECT_TRUE(is_valid_utf8(decoded));
    StreamDecoder stream(*tokenizer, false);
    std::string streamed;
    for (const TokenId id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    EXPECT_EQ(streamed, decoded);
  }
  for (const TokenId id : tokenizer->end_ids()) EXPECT_FALSE(tokenizer->token_text(id).empty());
}

TEST(TokenizerMutation, DamagedJsonGivesAnErrorOrATokenizer) {
  TokenizerMutator mutator(20240229);
  const auto texts = golden_strings();
  std::vector<std::string> files;
  std::vector<json> trees;
  for (const std::string& name : golden_names()) {
    files.push_back(golden_json(name));
    trees.push_back(json::parse(files.back()));
  }
  int built = 0;
  for (int i = 0; i < kJsonMutants; ++i) {
    const std::size_t which = mutator.below(files.size());
    std::string file;
    if (mutator.chance(3)) {
      file = mutator.bytes(files[which]);
    } else {
      json tree = trees[which];
      for (std::size_t k = 1 + mutator.below(3); k-- > 0;) mutator.tree(tree);
      file = tree.dump();
    }
    SCOPED_TRACE("mutant " + std::to_string(i));
    exercise(Tokenizer::from_json(file, ""), texts, mutator, built);
  }
  // Neither side may be empty, or nothing was tested.
  EXPECT_GT(built, kJsonMutants / 20);
  EXPECT_LT(built, kJsonMutants - kJsonMutants / 20);
}

TEST(TokenizerMutation, DamagedGgufGivesAnErrorOrATokenizer) {
  TokenizerMutator mutator(7);
  const auto texts = golden_strings();
  std::vector<load::GgufTokenizer> sources;
  for (const char* name : {"gpt2", "qwen2", "deepseek-v3"}) {
    sources.push_back(to_gguf(json::parse(golden_json(name)), name));
  }
  // Score-based BPE over the pieces of a vocabulary with byte tokens.
  auto pieces = to_gguf(json::parse(golden_json("llama2")), "");
  pieces.model = "llama";
  pieces.merges.clear();
  for (std::size_t id = 0; id < pieces.tokens.size(); ++id) {
    pieces.scores.push_back(-static_cast<float>(id));
    if (id >= 3 && id < 259) pieces.token_types[id] = 6;
  }
  pieces.bos = 1;
  pieces.eos = 2;
  pieces.unknown = 0;
  sources.push_back(pieces);
  sources.push_back(pieces);
  for (const auto& model : testing::golden_unigrams()) {
    sources.push_back(testing::to_gguf_unigram(model));
  }
  sources.push_back(to_gguf_marked(json::parse(golden_json("gemma"))));
  sources.push_back(to_gguf_wordpiece(json::parse(golden_json("wordpiece"))));
  sources.push_back(to_gguf_wordpiece(json::parse(golden_json("wordpiece-cased"))));
  int built = 0;
  for (int i = 0; i < kGgufMutants; ++i) {
    load::GgufTokenizer data = sources[mutator.below(sources.size())];
    for (std::size_t k = 1 + mutator.below(3); k-- > 0;) mutator.gguf(data);
    SCOPED_TRACE("mutant " + std::to_string(i));
    exercise(Tokenizer::from_gguf(data), texts, mutator, built);
  }
  EXPECT_GT(built, kGgufMutants / 20);
  EXPECT_LT(built, kGgufMutants - kGgufMutants / 20);
}

}  // namespace
}  // namespace dovetail::text
