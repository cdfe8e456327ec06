#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/quote.h"
#include "text/bert.h"
#include "text/byte_alphabet.h"
#include "text/gguf_splits.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_impl.h"

namespace dovetail::text {
namespace {

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
        status = read_bpe(data_.pre.empty() ? "default" : std::string_view(data_.pre));
      } else if (data_.model == "gemma4") {
        status = read_bpe("gemma4");
      } else if (data_.model == "bert") {
        status = read_bert();
      } else if (data_.model == "t5") {
        status = read_unigram();
      } else {
        status = fail(ErrorKind::kUnsupported,
                      "tokenizer.ggml.model: {}; valid: llama, gpt2, gemma4, bert, t5",
                      load::quote(data_.model));
      }
    }
    if (status) status = read_added_tokens();
    if (status && data_.model != "bert") status = add_bos_and_eos();
    if (status && !data_.pair_template.empty()) status = read_pair_template();
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
    const std::array<std::pair<std::string_view, std::optional<std::int32_t>>, 8> ids = {{
        {"tokenizer.ggml.bos_token_id", data_.bos},
        {"tokenizer.ggml.eos_token_id", data_.eos},
        {"tokenizer.ggml.eot_token_id", data_.eot},
        {"tokenizer.ggml.eom_token_id", data_.eom},
        {"tokenizer.ggml.unknown_token_id", data_.unknown},
        {"tokenizer.ggml.padding_token_id", data_.padding},
        {"tokenizer.ggml.cls_token_id", data_.cls},
        {"tokenizer.ggml.seperator_token_id", data_.separator},
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
    auto model = SentencePieceBpe::create(data_.scores, byte_tokens, data_.unknown);
    if (!model) return fail(model.error());
    impl_->model = std::move(*model);

    decode_marks(byte_tokens);
    const bool prefix = data_.add_space_prefix.value_or(true);
    if (prefix) impl_->normalizer.steps.emplace_back(PrependText{" "});
    impl_->normalizer.steps.emplace_back(
        ReplaceText{Pattern::literal(" "), std::string(kSpaceMark)});
    impl_->decoder = decoder_of_marks(prefix);
    default_add_bos_ = true;
    return {};
  }

  // What tokens stand for where they have U+2581 for spaces; `byte_tokens` has those of 256 bytes.
  void decode_marks(const std::vector<std::optional<TokenId>>& byte_tokens) {
    std::vector<std::optional<char>> byte_of(data_.tokens.size());
    for (std::size_t byte = 0; byte < byte_tokens.size(); ++byte) {
      if (byte_tokens[byte]) {
        const auto id = static_cast<std::size_t>(*byte_tokens[byte]);
        if (type(id) == TokenType::kByte) byte_of[id] = static_cast<char>(byte);
      }
    }
    const Pattern mark = Pattern::literal(kSpaceMark);
    for (std::size_t id = 0; id < data_.tokens.size(); ++id) {
      const std::string& token = data_.tokens[id];
      if (byte_of[id]) {
        impl_->decoded.emplace_back(1, *byte_of[id]);
      } else if (is_control(id) || type(id) == TokenType::kUserDefined) {
        impl_->decoded.push_back(token);
      } else {
        impl_->decoded.push_back(mark.replace(token, " "));
      }
    }
  }

  // `prefix`: a text has one space more before it, which is not decoded.
  static Decoder decoder_of_marks(bool prefix) {
    std::vector<DecoderStep> steps = {DecodeUtf8{}};
    if (prefix) steps.emplace_back(DecodeStrip{" ", 1, 0});
    return Decoder(std::move(steps));
  }

  void decode_stand_ins() {
    for (std::size_t id = 0; id < data_.tokens.size(); ++id) {
      const bool raw = is_control(id) || type(id) == TokenType::kUserDefined;
      impl_->decoded.push_back(raw ? data_.tokens[id] : alphabet_to_bytes(data_.tokens[id]));
    }
  }

  Status read_bpe(std::string_view pre) {
    auto splits = gguf_splits(pre);
    if (!splits) return fail(splits.error());
    impl_->pre_tokenizer = std::move(splits->pre_tokenizer);
    impl_->normalizer = std::move(splits->normalizer);
    default_add_bos_ = splits->add_bos;
    needs_bos_ = splits->needs_bos;

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
    options.byte_fallback = !splits->byte_level;
    auto model = Bpe::create(impl_->vocabulary, merges, options, "tokenizer.ggml.merges");
    if (!model) return fail(model.error());
    impl_->model = std::move(*model);

    if (splits->byte_level) {
      decode_stand_ins();
    } else {
      std::vector<std::optional<TokenId>> byte_tokens;
      for (unsigned byte = 0; byte < 256; ++byte) {
        byte_tokens.push_back(impl_->vocabulary.find(byte_token(static_cast<std::uint8_t>(byte))));
      }
      decode_marks(byte_tokens);
    }
    impl_->decoder = Decoder({DecodeUtf8{}});
    return {};
  }

  // The id that the file gives under `field`, or that of the token with this spelling.
  Status special_id(std::string_view field, std::optional<TokenId> given, std::string_view spelling,
                    TokenId& out) const {
    const auto id = given ? given : impl_->vocabulary.find(spelling);
    if (!id) {
      return fail(ErrorKind::kInvalid, "{}: missing; valid: an id, or a token {}", field,
                  load::quote(spelling));
    }
    out = *id;
    return {};
  }

  // SentencePiece's Unigram. Spaces are U+2581 and pieces may cross them; what no text may become
  // (control tokens, padding of the vocabulary) is left out of the model.
  Status read_unigram() {
    const std::size_t count = data_.tokens.size();
    if (data_.scores.empty()) {
      return fail(ErrorKind::kInvalid,
                  "tokenizer.ggml.scores: missing; valid: one for each of the {} tokens", count);
    }
    TokenId unknown = 0;
    if (auto status =
            special_id("tokenizer.ggml.unknown_token_id", data_.unknown, "<unk>", unknown);
        !status) {
      return status;
    }
    // Tokens that are left out count for no score: the worst one tells what an unknown one costs.
    float best = -std::numeric_limits<float>::infinity();
    impl_->model_vocabulary = Vocabulary();
    for (std::size_t id = 0; id < count; ++id) {
      if (type(id) != TokenType::kNormal) continue;
      if (auto status = check_piece(id); !status) return status;
      impl_->model_vocabulary.put(data_.tokens[id], static_cast<TokenId>(id));
      best = std::max(best, data_.scores[id]);
    }
    if (impl_->model_vocabulary.size() == 0) {
      return fail(ErrorKind::kInvalid,
                  "tokenizer.ggml.token_type: no normal token; valid: at least one of type 1");
    }
    std::vector<double> scores;
    scores.reserve(count);
    for (std::size_t id = 0; id < count; ++id) {
      scores.push_back(type(id) == TokenType::kNormal ? data_.scores[id] : best);
    }
    impl_->model = Unigram(impl_->model_vocabulary, std::move(scores), unknown, false);
    if (!data_.charsmap.empty()) {
      auto map = Charsmap::from_bytes(data_.charsmap, "tokenizer.ggml.precompiled_charsmap");
      if (!map) return fail(map.error());
      impl_->normalizer.steps.emplace_back(std::move(*map));
    }
    if (auto status = add_space_steps(); !status) return status;
    decode_marks({});
    impl_->decoder = decoder_of_marks(data_.add_space_prefix.value_or(false));
    default_add_eos_ = true;
    return {};
  }

  // What SentencePiece does to spaces. U+2581 in a text is one of them only at the end.
  Status add_space_steps() {
    const bool merged = data_.remove_extra_whitespaces.value_or(false);
    const auto replace = [&](std::string_view expression, std::string_view content) -> Status {
      auto pattern = Pattern::regex(expression, "tokenizer.ggml.remove_extra_whitespaces");
      if (!pattern) return fail(pattern.error());
      impl_->normalizer.steps.emplace_back(ReplaceText{std::move(*pattern), std::string(content)});
      return {};
    };
    Status status;
    if (merged) status = replace(" {2,}", " ");
    if (status && merged) status = replace(R"(\A )", "");
    if (data_.add_space_prefix.value_or(false)) {
      impl_->normalizer.steps.emplace_back(PrependText{" "});
    }
    impl_->normalizer.steps.emplace_back(
        ReplaceText{Pattern::literal(" "), std::string(kSpaceMark)});
    if (status && merged) status = replace(R"((?<!\x{2581})\x{2581}++\z)", "");
    return status;
  }

  // A search walks at most one token from each place of a text.
  Status check_piece(std::size_t id) const {
    if (data_.tokens[id].size() <= kLongestAddedToken) return {};
    return fail(ErrorKind::kInvalid, "tokenizer.ggml.tokens[{}]: {} bytes; valid: at most {}", id,
                data_.tokens[id].size(), kLongestAddedToken);
  }

  // WordPiece's texts always stand between [CLS] and [SEP], whatever the file says of BOS and EOS.
  // What the file cannot say is as in the models' own tokenizer: the rest of the normalization, and
  // how long a word may be.
  Status read_bert() {
    TokenId cls = 0;
    TokenId separator = 0;
    WordPieceOptions options;
    options.word_prefix = kSpaceMark;
    const auto given = data_.bos ? data_.bos : data_.cls;
    Status status =
        special_id("tokenizer.ggml.unknown_token_id", data_.unknown, "[UNK]", options.unknown);
    if (status) status = special_id("tokenizer.ggml.cls_token_id", given, "[CLS]", cls);
    if (status) {
      status = special_id("tokenizer.ggml.seperator_token_id", data_.separator, "[SEP]", separator);
    }
    if (!status) return status;
    impl_->bos = cls;
    impl_->eos = data_.eos;
    impl_->before.push_back(cls);
    impl_->after.push_back(separator);
    impl_->pair = Tokenizer::Impl::PairForm{{cls}, {separator}, {separator}, 1};
    BertNormalization normalization;
    normalization.lowercase = data_.lowercase.value_or(true);
    normalization.strip_accents = data_.strip_accents;
    append_bert_normalizer(normalization, impl_->normalizer.steps);
    append_bert_pre_tokenizer(impl_->pre_tokenizer.steps);
    for (std::size_t id = 0; id < data_.tokens.size(); ++id) {
      status = check_piece(id);
      if (!status) return status;
    }
    impl_->model = WordPiece(impl_->vocabulary, options);
    // As tokenizer.json spells them, so that both are decoded alike.
    DecodeWordPiece decoder;
    for (std::size_t id = 0; id < data_.tokens.size(); ++id) {
      const std::string& token = data_.tokens[id];
      if (token.starts_with(kSpaceMark)) {
        impl_->decoded.push_back(token.substr(kSpaceMark.size()));
      } else {
        const bool raw = is_control(id) || type(id) == TokenType::kUserDefined;
        impl_->decoded.push_back(raw ? token : decoder.prefix + token);
      }
    }
    impl_->decoder = Decoder({std::move(decoder), DecodeUtf8{}});
    return {};
  }

  // Phi-3's tokenizer.json has white space vanish after its own tokens, which no field of GGUF
  // says; its vocabulary tells it.
  bool strips_after(const std::string& token) const {
    if (data_.model != "llama" || !impl_->vocabulary.find("<|placeholder1|>")) return false;
    return token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
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
      token.rstrip = strips_after(token.content);
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
    if (needs_bos_ || data_.add_bos.value_or(default_add_bos_)) {
      if (data_.bos) {
        impl_->before.push_back(*data_.bos);
      } else if (data_.add_bos.value_or(false)) {
        return fail(
            ErrorKind::kInvalid,
            "tokenizer.ggml.add_bos_token: true without tokenizer.ggml.bos_token_id; valid: "
            "both or false");
      }
    }
    if (data_.add_eos.value_or(default_add_eos_ && data_.eos)) {
      if (!data_.eos) {
        return fail(
            ErrorKind::kInvalid,
            "tokenizer.ggml.add_eos_token: true without tokenizer.ggml.eos_token_id; valid: "
            "both or false");
      }
      impl_->after.push_back(*data_.eos);
    }
    add_pair_form();
    return {};
  }

  Status read_pair_template() {
    constexpr std::string_view kQuery = "{query}";
    constexpr std::string_view kDocument = "{document}";
    const std::string_view whole = data_.pair_template;
    const std::size_t query = whole.find(kQuery);
    const std::size_t document = whole.find(kDocument);
    if (document == std::string_view::npos || query > document) {
      return fail(ErrorKind::kUnsupported,
                  "tokenizer.chat_template.rerank: {}; valid: a text with {} and then {}",
                  load::quote(whole), kQuery, kDocument);
    }
    impl_->pair_texts = Tokenizer::Impl::PairTexts{
        std::string(whole.substr(0, query)),
        std::string(whole.substr(query + kQuery.size(), document - query - kQuery.size())),
        std::string(whole.substr(document + kDocument.size()))};
    return {};
  }

  // Where a text stands between two tokens, the second of them separates two texts; of XLM-RoBERTa,
  // which has SentencePiece's Unigram, twice.
  void add_pair_form() {
    const std::vector<TokenId>& end = impl_->after;
    if (impl_->before.empty() || end.empty()) return;
    std::vector<TokenId> between = end;
    if (data_.model == "t5") between.insert(between.end(), end.begin(), end.end());
    impl_->pair = Tokenizer::Impl::PairForm{impl_->before, std::move(between), end, std::nullopt};
  }

  const load::GgufTokenizer& data_;
  std::shared_ptr<Tokenizer::Impl> impl_ = std::make_shared<Tokenizer::Impl>();
  bool default_add_bos_ = false;
  bool default_add_eos_ = false;
  bool needs_bos_ = false;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer::Impl>> read_gguf_tokenizer(
    const load::GgufTokenizer& data) {
  return TokenizerGgufReader(data).run();
}

}  // namespace dovetail::text
