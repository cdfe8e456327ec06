#include "text/pipeline_json.h"

#include "text/bert.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

// What a stage may do to one text is bounded by what its steps may do; a file with more is no
// tokenizer's.
constexpr std::size_t kMostSteps = 64;
constexpr std::size_t kLongestContent = 256;

// \w+|[^\w\s]+ with the \w of Rust's regular expressions, which the library uses here alone:
// letters, marks, Nd, Nl, Pc, alphabetic symbols and the joiners.
constexpr std::string_view kWordsOrSymbols =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}]+|[^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}\s]+)";

// {"String": ...} or {"Regex": ...}.
Result<Pattern> read_pattern(const JsonNode& node) {
  std::string text;
  if (const JsonNode literal = node.member("String"); literal.present()) {
    if (auto status = literal.read(text); !status) return fail(status.error());
    return Pattern::literal(text);
  }
  const JsonNode regex = node.member("Regex");
  if (!regex.present()) return node.invalid(R"({"String": ...} or {"Regex": ...})");
  if (auto status = regex.read(text); !status) return fail(status.error());
  return Pattern::regex(text, regex.path);
}

Status read_character(const JsonNode& node, std::string& out) {
  if (auto status = node.require(out); !status) return status;
  if (out.empty() || code_point_at(out, 0).size != out.size()) return node.invalid("one character");
  return {};
}

Status read_content(const JsonNode& node, std::string& out) {
  if (auto status = node.require(out); !status) return status;
  if (out.size() > kLongestContent) {
    return node.invalid(fmt::format("at most {} bytes", kLongestContent));
  }
  return {};
}

Status read_prepend(const JsonNode& node, PrependScheme& scheme, bool& split) {
  std::string name;
  if (auto status = node.member("prepend_scheme").read(name); !status) return status;
  bool add_prefix_space = true;  // the older spelling
  const Status status = all_of(
      {node.member("add_prefix_space").read(add_prefix_space), node.member("split").read(split)});
  if (!status) return status;
  if (name.empty()) {
    scheme = add_prefix_space ? PrependScheme::kAlways : PrependScheme::kNever;
  } else if (name == "always") {
    scheme = PrependScheme::kAlways;
  } else if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never") {
    scheme = PrependScheme::kNever;
  } else {
    return node.member("prepend_scheme").invalid("always, first, never");
  }
  return {};
}

// Walks a stage: a single step, or a Sequence of them under `list`.
template <class Step, class Read>
Status read_steps(const JsonNode& node, std::string_view list, std::vector<Step>& steps,
                  const Read& read) {
  if (!node.present()) return {};
  if (auto status = node.require_object(); !status) return status;
  std::string type;
  if (auto status = node.member("type").require(type); !status) return status;
  if (type == "Sequence") {
    const JsonNode members = node.member(list);
    if (auto status = members.require_array(); !status) return status;
    for (std::size_t i = 0; i < members.value->size(); ++i) {
      if (auto status = read_steps(members.element(i), list, steps, read); !status) return status;
    }
    return {};
  }
  if (steps.size() >= kMostSteps) {
    return node.invalid(fmt::format("at most {} steps", kMostSteps));
  }
  return read(node, type, steps);
}

Status read_bert_normalizer(const JsonNode& node, std::vector<NormalizerStep>& steps) {
  BertNormalization options;
  bool strip_accents = false;
  const JsonNode strip = node.member("strip_accents");
  const Status status =
      all_of({node.member("clean_text").read(options.clean_text),
              node.member("handle_chinese_chars").read(options.handle_chinese_chars),
              node.member("lowercase").read(options.lowercase), strip.read(strip_accents)});
  if (!status) return status;
  if (strip.present()) options.strip_accents = strip_accents;
  append_bert_normalizer(options, steps);
  return {};
}

Status read_normalizer_step(const JsonNode& node, const std::string& type,
                            std::vector<NormalizerStep>& steps) {
  if (type == "NFC") {
    steps.emplace_back(NormalizationForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(NormalizationForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(NormalizationForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(NormalizationForm::kNfkd);
  } else if (type == "Lowercase") {
    steps.emplace_back(Lowercase{});
  } else if (type == "StripAccents") {
    steps.emplace_back(StripAccents{});
  } else if (type == "Nmt") {
    steps.emplace_back(NmtCleanup{});
  } else if (type == "BertNormalizer") {
    return read_bert_normalizer(node, steps);
  } else if (type == "Strip") {
    StripWhiteSpace strip;
    const Status status = all_of(
        {node.member("strip_left").read(strip.left), node.member("strip_right").read(strip.right)});
    if (!status) return status;
    steps.emplace_back(strip);
  } else if (type == "Prepend") {
    PrependText prepend;
    if (auto status = read_content(node.member("prepend"), prepend.text); !status) return status;
    steps.emplace_back(std::move(prepend));
  } else if (type == "Replace") {
    auto pattern = read_pattern(node.member("pattern"));
    if (!pattern) return fail(pattern.error());
    std::string content;
    if (auto status = read_content(node.member("content"), content); !status) return status;
    steps.emplace_back(ReplaceText{std::move(*pattern), std::move(content)});
  } else if (type == "Precompiled") {
    const JsonNode map = node.member("precompiled_charsmap");
    if (!map.present()) return {};  // the library takes null and the absent map as none
    std::string base64;
    if (auto status = map.read(base64); !status) return status;
    auto charsmap = Charsmap::parse(base64, map.path);
    if (!charsmap) return fail(charsmap.error());
    steps.emplace_back(std::move(*charsmap));
  } else {
    return node.member("type").invalid(
        "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, BertNormalizer, Prepend, "
        "Replace, "
        "Precompiled, Sequence",
        ErrorKind::kUnsupported);
  }
  return {};
}

Status read_behavior(const JsonNode& node, SplitBehavior& out) {
  std::string name;
  if (auto status = node.read(name); !status) return status;
  if (name == "Removed") {
    out = SplitBehavior::kRemoved;
  } else if (name == "Isolated") {
    out = SplitBehavior::kIsolated;
  } else if (name == "MergedWithPrevious") {
    out = SplitBehavior::kMergedWithPrevious;
  } else if (name == "MergedWithNext") {
    out = SplitBehavior::kMergedWithNext;
  } else if (name == "Contiguous") {
    out = SplitBehavior::kContiguous;
  } else if (!name.empty()) {
    return node.invalid("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  }
  return {};
}

Status read_split(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  auto pattern = read_pattern(node.member("pattern"));
  if (!pattern) return fail(pattern.error());
  SplitStep split{std::move(*pattern), SplitBehavior::kIsolated, false};
  const JsonNode behavior = node.member("behavior");
  if (!behavior.present()) return behavior.invalid("Isolated or another behavior");
  const Status status =
      all_of({read_behavior(behavior, split.behavior), node.member("invert").read(split.invert)});
  if (!status) return status;
  steps.emplace_back(std::move(split));
  return {};
}

Status read_pre_tokenizer_step(const JsonNode& node, const std::string& type,
                               std::vector<PreTokenizerStep>& steps) {
  const auto add = [&](std::variant<Pattern, CharacterKind> at, SplitBehavior behavior,
                       bool invert = false) {
    steps.emplace_back(SplitStep{std::move(at), behavior, invert});
  };
  if (type == "Split") return read_split(node, steps);
  if (type == "ByteLevel") {
    ByteLevelStep step;
    step.add_prefix_space = true;
    bool use_regex = true;
    const Status status = all_of({node.member("add_prefix_space").read(step.add_prefix_space),
                                  node.member("use_regex").read(use_regex)});
    if (!status) return status;
    if (use_regex) {
      auto pattern = Pattern::regex(kGpt2Expression, node.path);
      if (!pattern) return fail(pattern.error());
      step.split.push_back(std::move(*pattern));
    }
    steps.emplace_back(std::move(step));
  } else if (type == "Metaspace") {
    MetaspaceStep step;
    const Status status = all_of({read_character(node.member("replacement"), step.replacement),
                                  read_prepend(node, step.prepend, step.split)});
    if (!status) return status;
    steps.emplace_back(std::move(step));
  } else if (type == "WhitespaceSplit") {
    add(CharacterKind::kWhiteSpace, SplitBehavior::kRemoved);
  } else if (type == "Whitespace") {
    auto pattern = Pattern::regex(kWordsOrSymbols, node.path);
    if (!pattern) return fail(pattern.error());
    add(std::move(*pattern), SplitBehavior::kRemoved, true);
  } else if (type == "BertPreTokenizer") {
    append_bert_pre_tokenizer(steps);
  } else if (type == "Digits") {
    bool individual = false;
    if (auto status = node.member("individual_digits").read(individual); !status) return status;
    add(CharacterKind::kNumber, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  } else if (type == "Punctuation") {
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (auto status = read_behavior(node.member("behavior"), behavior); !status) return status;
    add(CharacterKind::kPunctuation, behavior);
  } else if (type == "CharDelimiterSplit") {
    std::string delimiter;
    if (auto status = read_character(node.member("delimiter"), delimiter); !status) return status;
    add(Pattern::literal(delimiter), SplitBehavior::kRemoved);
  } else {
    return node.member("type").invalid(
        "Split, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Digits, "
        "Punctuation, CharDelimiterSplit, Sequence",
        ErrorKind::kUnsupported);
  }
  return {};
}

Status read_decoder_step(const JsonNode& node, const std::string& type,
                         std::vector<DecoderStep>& steps) {
  if (type == "ByteLevel") {
    steps.emplace_back(DecodeByteLevel{});
  } else if (type == "ByteFallback") {
    steps.emplace_back(DecodeByteFallback{});
  } else if (type == "Fuse") {
    steps.emplace_back(DecodeFuse{});
  } else if (type == "WordPiece") {
    DecodeWordPiece step;
    const Status status = all_of(
        {node.member("prefix").read(step.prefix), node.member("cleanup").read(step.cleanup)});
    if (!status) return status;
    steps.emplace_back(std::move(step));
  } else if (type == "Metaspace") {
    DecodeMetaspace step;
    PrependScheme scheme = PrependScheme::kAlways;
    bool split = true;
    const Status status = all_of({read_character(node.member("replacement"), step.replacement),
                                  read_prepend(node, scheme, split)});
    if (!status) return status;
    step.strip_first = scheme != PrependScheme::kNever;
    steps.emplace_back(std::move(step));
  } else if (type == "Strip") {
    DecodeStrip step;
    constexpr std::size_t kMost = 65536;
    const Status status = all_of({read_character(node.member("content"), step.content),
                                  node.member("start").read(step.start, kMost),
                                  node.member("stop").read(step.stop, kMost)});
    if (!status) return status;
    steps.emplace_back(std::move(step));
  } else if (type == "Replace") {
    auto pattern = read_pattern(node.member("pattern"));
    if (!pattern) return fail(pattern.error());
    std::string content;
    if (auto status = read_content(node.member("content"), content); !status) return status;
    steps.emplace_back(DecodeReplace{std::move(*pattern), std::move(content)});
  } else {
    return node.member("type").invalid(
        "ByteLevel, ByteFallback, Fuse, Metaspace, WordPiece, Strip, Replace, Sequence",
        ErrorKind::kUnsupported);
  }
  return {};
}

}  // namespace

Result<Normalizer> read_normalizer(const JsonNode& node) {
  Normalizer out;
  if (auto status = read_steps(node, "normalizers", out.steps, read_normalizer_step); !status) {
    return fail(status.error());
  }
  return out;
}

Result<PreTokenizer> read_pre_tokenizer(const JsonNode& node) {
  PreTokenizer out;
  if (auto status = read_steps(node, "pretokenizers", out.steps, read_pre_tokenizer_step);
      !status) {
    return fail(status.error());
  }
  return out;
}

Result<Decoder> read_decoder(const JsonNode& node) {
  std::vector<DecoderStep> steps;
  if (auto status = read_steps(node, "decoders", steps, read_decoder_step); !status) {
    return fail(status.error());
  }
  if (!node.present()) steps.emplace_back(DecodeSpaces{});
  return Decoder(std::move(steps));
}

}  // namespace dovetail::text
