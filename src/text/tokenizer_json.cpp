#include <algorithm>
#include <cmath>

#include "load/quote.h"
#include "text/json_node.h"
#include "text/pipeline_json.h"
#include "text/tokenizer_impl.h"

namespace dovetail::text {
namespace {

// A template of more ids than this around a text is no tokenizer's.
constexpr std::size_t kMostTemplateIds = 4096;
// Words of WordPiece; in a longer one every character may cost a walk along the longest token.
constexpr std::size_t kMostWordCharacters = 65536;

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const nlohmann::json& root, const nlohmann::json* config)
      : root_{&root, "tokenizer.json"}, config_{config, "tokenizer_config.json"} {}

  Result<std::shared_ptr<const Tokenizer::Impl>> run() {
    Status status = read_pipeline();
    if (status) status = read_model();
    if (status) status = read_added_tokens();
    if (status) status = read_post_processor(root_.member("post_processor"));
    if (status) status = read_config();
    if (!status) return fail(status.error());
    impl_->collect_end_ids({});
    return std::shared_ptr<const Tokenizer::Impl>(std::move(impl_));
  }

 private:
  Status read_pipeline() {
    auto normalizer = read_normalizer(root_.member("normalizer"));
    if (!normalizer) return fail(normalizer.error());
    auto pre_tokenizer = read_pre_tokenizer(root_.member("pre_tokenizer"));
    if (!pre_tokenizer) return fail(pre_tokenizer.error());
    auto decoder = read_decoder(root_.member("decoder"));
    if (!decoder) return fail(decoder.error());
    impl_->normalizer = std::move(*normalizer);
    impl_->pre_tokenizer = std::move(*pre_tokenizer);
    impl_->decoder = std::move(*decoder);
    return {};
  }

  // Ids may have gaps, but not so many that memory follows a number instead of the file.
  Status read_id(const JsonNode& node, std::size_t entries, TokenId& id) const {
    const std::size_t most = std::min<std::size_t>(4 * entries + 1024, 0x7FFFFFFE);
    std::size_t value = 0;
    if (!node.present()) return node.invalid(fmt::format("an id from 0 to {}", most));
    if (auto status = node.read(value, most); !status) return status;
    id = static_cast<TokenId>(value);
    return {};
  }

  std::size_t entries() const {
    std::size_t count = 0;
    for (const JsonNode& node :
         {root_.member("model").member("vocab"), root_.member("added_tokens")}) {
      if (node.present()) count += node.value->size();
    }
    return count;
  }

  Status put(Vocabulary& vocabulary, std::string_view text, TokenId id,
             const JsonNode& where) const {
    if (vocabulary.has(id) && vocabulary.text(id) != text) {
      return fail(ErrorKind::kInvalid, "{}: id {} of {} is {}'s too; valid: one token for an id",
                  where.path, id, load::quote(text), load::quote(vocabulary.text(id)));
    }
    vocabulary.put(text, id);
    return {};
  }

  Status read_model() {
    const JsonNode model = root_.member("model");
    if (auto status = model.require_object(); !status) return status;
    std::string type;
    if (auto status = model.member("type").read(type); !status) return status;
    if (type.empty() && model.member("merges").present()) type = "BPE";  // files before 0.8
    if (type.empty() && model.member("max_input_chars_per_word").present()) type = "WordPiece";
    if (type == "BPE") return read_bpe(model);
    if (type == "WordPiece") return read_wordpiece(model);
    if (type == "Unigram") return read_unigram(model);
    return model.member("type").invalid("BPE, Unigram, WordPiece", ErrorKind::kUnsupported);
  }

  // {"token": id, ...}
  Status read_vocabulary(const JsonNode& vocab) {
    if (auto status = vocab.require_object(); !status) return status;
    if (vocab.value->empty()) return vocab.invalid("at least one token");
    const std::size_t count = entries();
    for (const auto& [token, value] : vocab.value->items()) {
      TokenId id = 0;
      const JsonNode node{&value, fmt::format("{}[{}]", vocab.path, load::quote(token))};
      if (auto status = read_id(node, count, id); !status) return status;
      if (auto status = put(impl_->model_vocabulary, token, id, vocab); !status) return status;
    }
    impl_->vocabulary = impl_->model_vocabulary;
    return {};
  }

  Status read_wordpiece(const JsonNode& model) {
    const JsonNode vocab = model.member("vocab");
    if (auto status = read_vocabulary(vocab); !status) return status;
    // A search walks at most one token from each character of a word.
    for (const auto& [token, value] : vocab.value->items()) {
      if (token.size() <= kLongestAddedToken) continue;
      return fail(ErrorKind::kInvalid, "{}: {}: {} bytes; valid: at most {}", vocab.path,
                  load::quote(token), token.size(), kLongestAddedToken);
    }
    WordPieceOptions options;
    options.continuing_prefix = "##";
    std::string unknown = "[UNK]";
    const JsonNode unk_token = model.member("unk_token");
    const Status status = all_of({
        unk_token.read(unknown),
        model.member("continuing_subword_prefix").read(options.continuing_prefix),
        model.member("max_input_chars_per_word").read(options.longest_word, kMostWordCharacters),
    });
    if (!status) return status;
    const auto unknown_id = impl_->model_vocabulary.find(unknown);
    if (!unknown_id || unknown.empty()) {
      return fail(ErrorKind::kInvalid, "{}: {}; valid: a token of model.vocab", unk_token.path,
                  load::quote(unknown));
    }
    options.unknown = *unknown_id;
    impl_->model = WordPiece(impl_->model_vocabulary, options);
    return {};
  }

  Status read_bpe(const JsonNode& model) {
    const JsonNode vocab = model.member("vocab");
    if (auto status = read_vocabulary(vocab); !status) return status;
    if (const JsonNode dropout = model.member("dropout");
        dropout.present() && !(dropout.value->is_number() && dropout.value->get<double>() == 0.0)) {
      return dropout.invalid("null", ErrorKind::kUnsupported);
    }
    BpeOptions options;
    std::string unknown;
    const Status status = all_of({
        model.member("unk_token").read(unknown),
        model.member("continuing_subword_prefix").read(options.continuing_subword_prefix),
        model.member("end_of_word_suffix").read(options.end_of_word_suffix),
        model.member("fuse_unk").read(options.fuse_unknown),
        model.member("byte_fallback").read(options.byte_fallback),
        model.member("ignore_merges").read(options.ignore_merges),
    });
    if (!status) return status;
    if (model.member("unk_token").present()) {
      options.unknown = impl_->model_vocabulary.find(unknown);
      if (!options.unknown) return model.member("unk_token").invalid("a token of model.vocab");
    }
    std::vector<std::pair<std::string, std::string>> merges;
    const JsonNode list = model.member("merges");
    if (auto read = read_merges(list, merges); !read) return read;
    auto bpe = Bpe::create(impl_->model_vocabulary, merges, options, list.path);
    if (!bpe) return fail(bpe.error());
    impl_->model = std::move(*bpe);
    return {};
  }

  static Status read_merges(const JsonNode& list,
                            std::vector<std::pair<std::string, std::string>>& merges) {
    if (auto status = list.require_array(); !status) return status;
    merges.reserve(list.value->size());
    for (std::size_t i = 0; i < list.value->size(); ++i) {
      const nlohmann::json& merge = (*list.value)[i];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const auto space = text.find(' ');
        if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
          merges.emplace_back(text.substr(0, space), text.substr(space + 1));
          continue;
        }
      }
      return list.element(i).invalid(R"("left right" or ["left", "right"])");
    }
    return {};
  }

  Status read_unigram(const JsonNode& model) {
    const JsonNode vocab = model.member("vocab");
    if (auto status = vocab.require_array(); !status) return status;
    const std::size_t count = vocab.value->size();
    if (count == 0) return vocab.invalid("at least one token");
    std::vector<double> scores;
    scores.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const nlohmann::json& entry = (*vocab.value)[i];
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
          !entry[1].is_number() || !std::isfinite(entry[1].get<double>())) {
        return vocab.element(i).invalid("[token, score]");
      }
      const auto& token = entry[0].get_ref<const std::string&>();
      if (token.size() > kLongestAddedToken) {
        return vocab.element(i).invalid(
            fmt::format("a token of at most {} bytes", kLongestAddedToken));
      }
      scores.push_back(entry[1].get<double>());
      impl_->model_vocabulary.put(token, static_cast<TokenId>(i));
    }
    impl_->vocabulary = impl_->model_vocabulary;
    const JsonNode unk_id = model.member("unk_id");
    std::size_t unknown = 0;
    if (!unk_id.present()) return unk_id.invalid("the id of the unknown token");
    bool byte_fallback = false;
    const Status status = all_of(
        {unk_id.read(unknown, count - 1), model.member("byte_fallback").read(byte_fallback)});
    if (!status) return status;
    impl_->model = Unigram(impl_->model_vocabulary, std::move(scores),
                           static_cast<TokenId>(unknown), byte_fallback);
    return {};
  }

  Status read_added_tokens() {
    std::vector<AddedToken> tokens;
    const JsonNode list = root_.member("added_tokens");
    if (list.present()) {
      if (auto status = list.require_array(); !status) return status;
      const std::size_t count = entries();
      for (std::size_t i = 0; i < list.value->size(); ++i) {
        const JsonNode node = list.element(i);
        if (auto status = node.require_object(); !status) return status;
        AddedToken token;
        Status status = all_of({
            read_id(node.member("id"), count, token.id),
            node.member("content").require(token.content),
            node.member("single_word").read(token.single_word),
            node.member("lstrip").read(token.lstrip),
            node.member("rstrip").read(token.rstrip),
            node.member("special").read(token.special),
        });
        token.normalized = !token.special;
        if (status) status = node.member("normalized").read(token.normalized);
        if (!status) return status;
        if (token.content.empty()) continue;  // the library leaves these out
        const auto known = impl_->vocabulary.find(token.content);
        if (known && *known != token.id) {
          return node.member("id").invalid(fmt::format("{}, the id of {} in the vocabulary", *known,
                                                       load::quote(token.content)));
        }
        if (auto taken = put(impl_->vocabulary, token.content, token.id, node); !taken)
          return taken;
        tokens.push_back(std::move(token));
      }
    }
    impl_->special.resize(impl_->vocabulary.size());
    for (const AddedToken& token : tokens) {
      if (token.special) impl_->special[static_cast<std::size_t>(token.id)] = true;
    }
    spell_normalized(tokens);
    auto added = AddedTokens::create(std::move(tokens), impl_->normalizer);
    if (!added) return fail(added.error());
    impl_->added = std::move(*added);
    return {};
  }

  // Added tokens that are looked for in the normalized text are decoded as they stand there.
  void spell_normalized(const std::vector<AddedToken>& tokens) {
    if (impl_->normalizer.steps.empty()) return;
    for (std::size_t id = 0; id < impl_->vocabulary.size(); ++id) {
      impl_->decoded.emplace_back(impl_->vocabulary.text(static_cast<TokenId>(id)));
    }
    for (const AddedToken& token : tokens) {
      if (!token.normalized) continue;
      impl_->decoded[static_cast<std::size_t>(token.id)] =
          impl_->normalizer.normalize(token.content);
    }
  }

  Status read_post_processor(const JsonNode& node) {
    if (!node.present()) return {};
    if (auto status = node.require_object(); !status) return status;
    std::string type;
    if (auto status = node.member("type").require(type); !status) return status;
    if (type == "ByteLevel") return {};  // offsets only
    if (type == "TemplateProcessing") return read_template(node);
    if (type == "Sequence") {
      const JsonNode list = node.member("processors");
      if (auto status = list.require_array(); !status) return status;
      for (std::size_t i = 0; i < list.value->size(); ++i) {
        if (auto status = read_post_processor(list.element(i)); !status) return status;
      }
      return {};
    }
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      std::vector<TokenId> cls, sep;
      const Status status =
          all_of({read_pair(node.member("cls"), cls), read_pair(node.member("sep"), sep)});
      if (!status) return status;
      wrap(cls, sep);
      Tokenizer::Impl::PairForm pair{cls, sep, sep, std::nullopt};
      if (type == "BertProcessing") {
        pair.typed = sep.size();
      } else {
        pair.between.insert(pair.between.end(), sep.begin(), sep.end());
      }
      impl_->pair = std::move(pair);
      return {};
    }
    return node.member("type").invalid(
        "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing, Sequence",
        ErrorKind::kUnsupported);
  }

  void wrap(const std::vector<TokenId>& before, const std::vector<TokenId>& after) {
    impl_->before.insert(impl_->before.begin(), before.begin(), before.end());
    impl_->after.insert(impl_->after.end(), after.begin(), after.end());
  }

  Status known_id(const JsonNode& node, std::vector<TokenId>& out) const {
    TokenId id = 0;
    if (auto status = read_id(node, entries(), id); !status) return status;
    if (!impl_->vocabulary.has(id)) return node.invalid("an id of the vocabulary");
    out.push_back(id);
    return {};
  }

  // ["</s>", 2]
  Status read_pair(const JsonNode& node, std::vector<TokenId>& out) const {
    if (!node.present() || !node.value->is_array() || node.value->size() != 2) {
      return node.invalid("[token, id]");
    }
    return known_id(node.element(1), out);
  }

  Status read_template(const JsonNode& node) {
    const JsonNode single = node.member("single");
    if (auto status = single.require_array(); !status) return status;
    std::vector<TokenId> before, after;
    std::size_t texts = 0;
    for (std::size_t i = 0; i < single.value->size(); ++i) {
      const JsonNode part = single.element(i);
      if (part.member("Sequence").present()) {
        std::string which;
        const JsonNode id = part.member("Sequence").member("id");
        if (auto status = id.require(which); !status) return status;
        if (which != "A") return id.invalid("A");
        ++texts;
        continue;
      }
      std::string name;
      const JsonNode id = part.member("SpecialToken").member("id");
      if (auto status = id.require(name); !status) return status;
      const JsonNode ids = node.member("special_tokens").member(name).member("ids");
      if (auto status = ids.require_array(); !status) return status;
      for (std::size_t k = 0; k < ids.value->size(); ++k) {
        if (before.size() + after.size() >= kMostTemplateIds) {
          return single.invalid(fmt::format("at most {} ids", kMostTemplateIds));
        }
        if (auto status = known_id(ids.element(k), texts == 0 ? before : after); !status) {
          return status;
        }
      }
    }
    if (texts != 1) {
      return fail(ErrorKind::kUnsupported, "{}: sequence A {} times; valid: once", single.path,
                  texts);
    }
    wrap(before, after);
    return read_pair_template(node);
  }

  // Of a template that has both texts once, in their order; others are not for pairs.
  Status read_pair_template(const JsonNode& node) {
    const JsonNode pair = node.member("pair");
    if (!pair.present()) return {};
    if (auto status = pair.require_array(); !status) return status;
    Tokenizer::Impl::PairForm form;
    std::vector<TokenId>* places[] = {&form.before, &form.between, &form.after};
    std::size_t texts = 0;
    bool in_order = true;
    bool second = false;  // the part before was of type 1
    for (std::size_t i = 0; i < pair.value->size(); ++i) {
      const JsonNode part = pair.element(i);
      const bool is_text = part.member("Sequence").present();
      const JsonNode content = part.member(is_text ? "Sequence" : "SpecialToken");
      std::string name;
      std::size_t type = 0;
      Status status = content.member("id").require(name);
      if (status) status = content.member("type_id").read(type, kMostTemplateIds);
      if (!status) return status;
      if (type > 1) return {};
      if (is_text) {
        in_order = in_order && texts < 2 && name == (texts == 0 ? "A" : "B");
        ++texts;
      }
      if (!in_order) return {};
      // Types change once, between the texts or with the second of them.
      if (type == 1 && !second) {
        if (texts == 0 || (texts == 1 && is_text)) return {};
        form.typed = form.between.size();
      }
      if (type == 0 && second) return {};
      second = type == 1;
      if (is_text) continue;
      const JsonNode ids = node.member("special_tokens").member(name).member("ids");
      if (auto bad = ids.require_array(); !bad) return bad;
      for (std::size_t k = 0; k < ids.value->size(); ++k) {
        std::vector<TokenId>& to = *places[texts];
        if (to.size() >= kMostTemplateIds)
          return pair.invalid(fmt::format("at most {} ids", kMostTemplateIds));
        if (auto bad = known_id(ids.element(k), to); !bad) return bad;
      }
    }
    if (texts == 2) impl_->pair = std::move(form);
    return {};
  }

  // A token of tokenizer_config.json: its text, or an object with it as `content`.
  Status read_named(std::string_view key, std::optional<TokenId>& out) const {
    const JsonNode node = config_.member(key);
    if (!node.present()) return {};
    const JsonNode content = node.value->is_object() ? node.member("content") : node;
    std::string text;
    if (auto status = content.require(text); !status) return status;
    out = impl_->vocabulary.find(text);
    if (!out) return content.invalid("a token of tokenizer.json");
    return {};
  }

  Status read_config() {
    std::string tokenizer_class;
    bool add_bos = false;
    bool add_eos = false;
    const Status status = all_of({
        read_named("bos_token", impl_->bos),
        read_named("eos_token", impl_->eos),
        config_.member("tokenizer_class").read(tokenizer_class),
        config_.member("add_bos_token").read(add_bos),
        config_.member("add_eos_token").read(add_eos),
    });
    if (!status) return status;
    // `transformers` builds the template of this class from these two, whatever tokenizer.json
    // says.
    if (tokenizer_class.starts_with("LlamaTokenizer")) {
      const auto set = [&](std::string_view key, bool wanted, std::optional<TokenId> token,
                           std::vector<TokenId>& ids) {
        if (!config_.member(key).present()) return;
        ids.clear();
        if (wanted && token) ids.push_back(*token);
      };
      set("add_bos_token", add_bos, impl_->bos, impl_->before);
      set("add_eos_token", add_eos, impl_->eos, impl_->after);
    }
    if (!impl_->bos && !impl_->before.empty()) impl_->bos = impl_->before.front();
    return {};
  }

  JsonNode root_;
  JsonNode config_;
  std::shared_ptr<Tokenizer::Impl> impl_ = std::make_shared<Tokenizer::Impl>();
};

}  // namespace

Result<std::shared_ptr<const Tokenizer::Impl>> read_json_tokenizer(
    std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  auto root = load::parse_json_object(tokenizer_json, "tokenizer.json", load::kLargestTokenizer);
  if (!root) return fail(root.error());
  if (tokenizer_config_json.empty()) return TokenizerJsonReader(*root, nullptr).run();
  auto config =
      load::parse_json_object(tokenizer_config_json, "tokenizer_config.json", load::kLargestConfig);
  if (!config) return fail(config.error());
  return TokenizerJsonReader(*root, &*config).run();
}

}  // namespace dovetail::text
