#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/quote.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_impl.h"

namespace dovetail::text {
namespace {

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters, marks, punctuation and symbols after digits and Chinese and Japanese were cut out.
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3Cjk =
    R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view kDeepSeekCjk =
    R"([\x{4e00}-\x{9fa5}\x{0800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";

// Cased letters but for those of scripts and blocks that the model's own list of ranges leaves out:
// Armenian and Georgian small letters, late additions to Latin and Cyrillic, mathematical letters.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?(?:(?![\x{560}-\x{588}\x{10c7}\x{10cd}\x{10d0}-\x{10ff}\x{1c80}-\x{1c88}\x{2d00}-\x{2d2d}\x{a790}-\x{a7fa}\x{ab30}-\x{ab68}\x{10570}-\x{105bc}\x{16e40}-\x{16e7f}\x{1d400}-\x{1d7ff}\x{1df00}-\x{1dfff}])[\p{Lu}\p{Ll}\p{Lt}])++)";
constexpr std::string_view kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
// What a file that names "default", or nothing, is split by where such files come from: llama.cpp.
constexpr std::string_view kDefaultPunctuation = R"([\p{P}$+<=>^~|]+)";
constexpr std::string_view kDefaultWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
// \s+$ where no line ends within a piece, without trying every place of a run anew.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s++$)";

struct Row {
  std::string_view name;
  std::vector<std::string_view> splits;  // each isolates its matches, one after the other
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"default", {kDefaultPunctuation, kDefaultWords, "\\p{N}+", "[0-9][0-9][0-9]"}},
      {"gpt-2", {kGpt2Expression}},
      {"gpt2", {kGpt2Expression}},
      {"llama-bpe", {kLlama3}, false, true, true},
      {"llama3", {kLlama3}, false, true, true},
      {"llama-v3", {kLlama3}, false, true, true},
      {"qwen2", {kQwen2}, true},
      {"deepseek-r1-qwen", {kQwen2}},
      {"deepseek-llm",
       {"[\\r\\n]", kDeepSeekLetters, kDeepSeekPunctuation, kTrailingSpace, kDeepSeekCjk,
        "\\p{N}+"}},
      {"deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepSeekCjk, "\\p{N}"}},
      {"deepseek-v3", {"\\p{N}{1,3}", kDeepSeek3Cjk, kDeepSeek3}},
      {"smollm", {"\\p{N}", kGpt2Expression}},
      {"starcoder", {"\\p{N}", kGpt2Expression}},
      {"tekken", {kTekken}, false, true, true},
      {"gpt-4o", {kGpt4o}},
  };
  return table;
}

// What a name in tokenizer.ggml.pre stands for.
struct GgufSplits {
  PreTokenizer pre_tokenizer;  // ends in bytes to stand-ins
  Normalizer normalizer;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

Result<GgufSplits> gguf_splits(std::string_view name) {
  for (const Row& row : rows()) {
    if (row.name != name) continue;
    GgufSplits out;
    for (const std::string_view expression : row.splits) {
      auto pattern = Pattern::regex(expression, "tokenizer.ggml.pre");
      if (!pattern) return fail(pattern.error());
      out.pre_tokenizer.steps.emplace_back(
          SplitStep{std::move(*pattern), SplitBehavior::kIsolated, false});
    }
    out.pre_tokenizer.steps.emplace_back(ByteLevelStep{});
    if (row.nfc) out.normalizer.steps.emplace_back(NormalizationForm::kNfc);
    out.ignore_merges = row.ignore_merges;
    out.add_bos = row.add_bos;
    return out;
  }
  std::string valid;
  for (const Row& row : rows()) valid.append(valid.empty() ? "" : ", ").append(row.name);
  return fail(ErrorKind::kUnsupported, "tokenizer.ggml.pre: {}; valid: {}", load::quote(name),
              valid);
}

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

class TokenizerGgufReader {
 public:
  explicit TokenizerGgufReader(const load::GgufTokenizer& data) : data_(data) {}

  Result<std::shared_ptr<const Tokenizer::Impl>> run() {
    Status status = read_common();
    if (status) {
      if (data_.model == "llama") {
        status = read_llama();
      } else if (data_.model == "gpt2") {
        status = read_gpt2();
      } else {
        status = fail(ErrorKind::kUnsupported, "tokenizer.ggml.model: {}; valid: llama, gpt2",
                      load::quote(data_.model));
      }
    }
    if (status) status = read_added_tokens();
    if (status) status = add_bos_and_eos();
    if (!status) return fail(status.error());
    std::vector<TokenId> ends;
    if (data_.eot) ends.push_back(*data_.eot);
    if (data_.eom) ends.push_back(*data_.eom);
    impl_->collect_end_ids(std::move(ends));
    return std::shared_ptr<const Tokenizer::Impl>(std::move(impl_));
  }

 private:
  TokenType type(std::size_t id) const {
    return data_.token_types.empty() ? TokenType::kNormal
                                     : static_cast<TokenType>(data_.token_types[id]);
  }
  bool is_control(std::size_t id) const {
    return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown;
  }

  Status check_id(std::string_view field, std::optional<std::int32_t> id) const {
    if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < data_.tokens.size())) return {};
    return fail(ErrorKind::kInvalid, "{}: {}; valid: 0 to {}", field, *id, data_.tokens.size() - 1);
  }

  Status read_common() {
    const std::size_t count = data_.tokens.size();
    if (count == 0) {
      return fail(ErrorKind::kInvalid, "tokenizer.ggml.tokens: empty; valid: at least one token");
    }
    if (!data_.token_types.empty() && data_.token_types.size() != count) {
      return fail(ErrorKind::kInvalid, "tokenizer.ggml.token_type: {} types; valid: {}",
                  data_.token_types.size(), count);
    }
    if (!data_.scores.empty() && data_.scores.size() != count) {
      return fail(ErrorKind::kInvalid, "tokenizer.ggml.scores: {} scores; valid: {}",
                  data_.scores.size(), count);
    }
    for (std::size_t i = 0; i < data_.scores.size(); ++i) {
      if (std::isnan(data_.scores[i])) {
        return fail(ErrorKind::kInvalid, "tokenizer.ggml.scores[{}]: not a number; valid: numbers",
                    i);
      }
    }
    const std::array<std::pair<std::string_view, std::optional<std::int32_t>>, 6> ids = {{
        {"tokenizer.ggml.bos_token_id", data_.bos},
        {"tokenizer.ggml.eos_token_id", data_.eos},
        {"tokenizer.ggml.eot_token_id", data_.eot},
        {"tokenizer.ggml.eom_token_id", data_.eom},
        {"tokenizer.ggml.unknown_token_id", data_.unknown},
        {"tokenizer.ggml.padding_token_id", data_.padding},
    }};
    for (const auto& [field, id] : ids) {
      if (auto status = check_id(field, id); !status) return status;
    }
    impl_->special.resize(count);
    for (std::size_t id = 0; id < count; ++id) {
      impl_->vocabulary.put(data_.tokens[id], static_cast<TokenId>(id));
      impl_->special[id] = is_control(id);
    }
    impl_->model_vocabulary = impl_->vocabulary;
    return {};
  }

  Status read_llama() {
    const std::size_t count = data_.tokens.size();
    if (data_.scores.empty()) {
      return fail(ErrorKind::kInvalid,
                  "tokenizer.ggml.scores: missing; valid: one for each of the {} tokens", count);
    }
    std::vector<std::optional<TokenId>> byte_tokens(256);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      byte_tokens[byte] = impl_->vocabulary.find(byte_token(static_cast<std::uint8_t>(byte)));
      if (!byte_tokens[byte]) {
        byte_tokens[byte] = impl_->vocabulary.find(std::string(1, static_cast<char>(byte)));
      }
    }
    std::vector<std::optional<char>> byte_of(count);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (byte_tokens[byte]) {
        const auto id = static_cast<std::size_t>(*byte_tokens[byte]);
        if (type(id) == TokenType::kByte) byte_of[id] = static_cast<char>(byte);
      }
    }
    auto model = SentencePieceBpe::create(data_.scores, byte_tokens, data_.unknown);
    if (!model) return fail(model.error());
    impl_->model = std::move(*model);

    const Pattern mark = Pattern::literal(kSpaceMark);
    for (std::size_t id = 0; id < count; ++id) {
      const std::string& token = data_.tokens[id];
      if (byte_of[id]) {
        impl_->decoded.emplace_back(1, *byte_of[id]);
      } else if (is_control(id) || type(id) == TokenType::kUserDefined) {
        impl_->decoded.push_back(token);
      } else {
        impl_->decoded.push_back(mark.replace(token, " "));
      }
    }
    const bool prefix = data_.add_space_prefix.value_or(true);
    if (prefix) impl_->normalizer.steps.emplace_back(PrependText{" "});
    impl_->normalizer.steps.emplace_back(
        ReplaceText{Pattern::literal(" "), std::string(kSpaceMark)});
    std::vector<DecoderStep> steps = {DecodeUtf8{}};
    if (prefix) steps.emplace_back(DecodeStrip{" ", 1, 0});
    impl_->decoder = Decoder(std::move(steps));
    default_add_bos_ = true;
    return {};
  }

  Status read_gpt2() {
    auto splits = gguf_splits(data_.pre.empty() ? "default" : std::string_view(data_.pre));
    if (!splits) return fail(splits.error());
    impl_->pre_tokenizer = std::move(splits->pre_tokenizer);
    impl_->normalizer = std::move(splits->normalizer);
    default_add_bos_ = splits->add_bos;

    std::vector<std::pair<std::string, std::string>> merges;
    merges.reserve(data_.merges.size());
    for (std::size_t i = 0; i < data_.merges.size(); ++i) {
      const std::string& merge = data_.merges[i];
      const auto space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 == merge.size()) {
        return fail(ErrorKind::kInvalid,
                    "tokenizer.ggml.merges[{}]: {}; valid: two tokens with a space between", i,
                    load::quote(merge));
      }
      merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    BpeOptions options;
    options.ignore_merges = splits->ignore_merges;
    options.unknown = data_.unknown;
    auto model = Bpe::create(impl_->vocabulary, merges, options, "tokenizer.ggml.merges");
    if (!model) return fail(model.error());
    impl_->model = std::move(*model);

    for (std::size_t id = 0; id < data_.tokens.size(); ++id) {
      const bool raw = is_control(id) || type(id) == TokenType::kUserDefined;
      impl_->decoded.push_back(raw ? data_.tokens[id] : alphabet_to_bytes(data_.tokens[id]));
    }
    impl_->decoder = Decoder({DecodeUtf8{}});
    return {};
  }

  Status read_added_tokens() {
    std::vector<AddedToken> added;
    for (std::size_t id = 0; id < data_.tokens.size(); ++id) {
      const bool user_defined = type(id) == TokenType::kUserDefined;
      if (!is_control(id) && !user_defined) continue;
      // Bytes that are no character never stand in a text; looking for them would tear characters.
      if (!is_valid_utf8(data_.tokens[id])) continue;
      AddedToken token;
      token.id = static_cast<TokenId>(id);
      token.content = data_.tokens[id];
      token.normalized = false;
      token.special = !user_defined;
      added.push_back(std::move(token));
    }
    auto tokens = AddedTokens::create(std::move(added), impl_->normalizer);
    if (!tokens) return fail(tokens.error());
    impl_->added = std::move(*tokens);
    return {};
  }

  Status add_bos_and_eos() {
    impl_->bos = data_.bos;
    impl_->eos = data_.eos;
    if (data_.add_bos.value_or(default_add_bos_)) {
      if (data_.bos) {
        impl_->before.push_back(*data_.bos);
      } else if (data_.add_bos) {
        return fail(
            ErrorKind::kInvalid,
            "tokenizer.ggml.add_bos_token: true without tokenizer.ggml.bos_token_id; valid: "
            "both or false");
      }
    }
    if (data_.add_eos.value_or(false)) {
      if (!data_.eos) {
        return fail(
            ErrorKind::kInvalid,
            "tokenizer.ggml.add_eos_token: true without tokenizer.ggml.eos_token_id; valid: "
            "both or false");
      }
      impl_->after.push_back(*data_.eos);
    }
    return {};
  }

  const load::GgufTokenizer& data_;
  std::shared_ptr<Tokenizer::Impl> impl_ = std::make_shared<Tokenizer::Impl>();
  bool default_add_bos_ = false;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer::Impl>> read_gguf_tokenizer(
    const load::GgufTokenizer& data) {
  return TokenizerGgufReader(data).run();
}

}  // namespace dovetail::text
