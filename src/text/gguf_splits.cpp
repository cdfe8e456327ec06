#include "text/gguf_splits.h"

#include <algorithm>
#include <string>

#include "load/quote.h"

namespace dovetail::text {
namespace {

// The expressions are those of the models' own tokenizer.json, where llama.cpp spells them
// otherwise because of what its matcher lacks.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kUfakzeka =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuAsian =
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
// Its own spelling intersects sets: letters but for Han.
constexpr std::string_view kKimiK2 =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Letters, marks, punctuation and symbols after digits and Chinese and Japanese were cut out.
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSpark25 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
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
constexpr std::string_view kAfmoeAsian =
    R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{e7f}\x{e80}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)";

constexpr std::string_view kDigitRun = R"(\p{N}+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
// In a piece that is a run of digits: groups of three, counted from its end. A lookahead in the
// whole text would walk the rest of a run at every group.
constexpr std::string_view kThreesFromTheEnd = R"(\A\p{N}{1,2}(?=(?:\p{N}{3})++\z)|\p{N}{1,3})";
// A run of digits before the end of a word, and its groups. Other pieces may have digits, too,
// which are not grouped here.
constexpr std::string_view kWholeNumber = R"((?<!\d)\d++\b)";
constexpr std::string_view kWholeNumberThrees =
    R"(\A(?=\d++\z)\d{1,3}?(?=(?:\d{3})*+\z)|\G(?!\A)\d{3})";

// What a file that names "default", or nothing, is split by where such files come from: llama.cpp.
constexpr std::string_view kDefaultPunctuation = R"([\p{P}$+<=>^~|]+)";
constexpr std::string_view kFalconPunctuation = R"([\p{P}$+<=>^~|`]+)";
constexpr std::string_view kWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kAsciiThrees = "[0-9][0-9][0-9]";
constexpr std::string_view kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";
constexpr std::string_view kLines = R"([^\n]+|\n+)";
constexpr std::string_view kLineEnd = R"([\r\n])";
// \s+$ where no line ends within a piece, without trying every place of a run anew.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s++$)";

struct SplitFlags {
  bool nfc = false;          // as the models' own tokenizer.json does and llama.cpp does not
  bool space_marks = false;  // text with U+2581 for spaces in place of stand-ins of bytes
  bool ignore_merges = false;
  bool add_bos = false;
  bool needs_bos = false;
};

struct SplitRow {
  std::vector<std::string_view> names;
  std::vector<std::string_view> splits;  // each isolates its matches, one after the other
  SplitFlags flags = {};
};

const std::vector<SplitRow>& split_rows() {
  static const std::vector<SplitRow> table = {
      {{"default"}, {kDefaultPunctuation, kWords, kDigitRun, kAsciiThrees}},
      {{"gpt-2", "gpt2", "phi-2", "roberta-bpe", "modern-bert", "jina-es", "jina-de", "jina-v1-en",
        "jina-v2-es", "jina-v2-de", "jina-v2-code", "gigachat", "a.x-4.0", "mellum", "exaone4",
        "jais", "trillion", "granite-docling"},
       {kGpt2Expression}},
      {{"mpt", "olmo"}, {kGpt2Expression}, {.nfc = true}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {kLlama3},
       {.ignore_merges = true, .add_bos = true}},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
      {{"glm4", "glm5"}, {kLlama3}, {.ignore_merges = true}},
      {{"jais-2"}, {kJais2}},
      {{"minicpm5"}, {kThreeDigits, kMiniCpm5}, {.ignore_merges = true}},
      {{"qwen2"}, {kQwen2}, {.nfc = true}},
      {{"deepseek-r1-qwen", "stablelm2", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open",
        "grok-2"},
       {kQwen2}},
      {{"qwen35"}, {kQwen35}},
      {{"laguna"}, {kLines, kQwen2}},
      {{"ufakzeka"}, {kUfakzeka}},
      {{"seed-coder"}, {kSeedCoder}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
      {{"exaone-moe"}, {kExaoneMoe}},
      {{"deepseek-llm"},
       {kLineEnd, kDeepSeekLetters, kDeepSeekPunctuation, kTrailingSpace, kDeepSeekCjk, kDigitRun}},
      {{"deepseek-coder"}, {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, kDigit}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       {kThreeDigits, kDeepSeek3Cjk, kDeepSeek3}},
      {{"spark2_5"}, {kThreeDigits, kDeepSeek3Cjk, kSpark25, kDigit}},
      {{"afmoe"}, {kDigitRun, kThreesFromTheEnd, kAfmoeAsian, kDeepSeek3}},
      {{"youtu"}, {kYoutuAsian, kYoutu}, {.ignore_merges = true}},
      {{"kimi-k2"}, {kKimiK2}},
      {{"falcon"}, {kFalconPunctuation, kWords, kAsciiThrees}},
      {{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {kDigit, kGpt2Expression}},
      {{"command-r"}, {kDigit, kGpt2Expression}, {.nfc = true}},
      {{"tiny_aya", "cohere2moe"}, {kWholeNumber, kWholeNumberThrees, kGpt4o}},
      {{"superbpe"}, {kDigitRun, kThreesFromTheEnd}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
      {{"viking"}, {kBloom, kDigit}},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", kDigit,
        R"([\p{P}!-/:-@\[-`{-~])", kGpt2Expression},
       {.add_bos = true}},
      {{"tekken"}, {kTekken}, {.ignore_merges = true, .add_bos = true}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {kGpt4o}},
      {{"granite-embed-multi-97m"}, {kGpt4o}, {.ignore_merges = true}},
      {{"gemma4", "granite-embed-multi-311m"}, {kLines}, {.space_marks = true, .needs_bos = true}},
      {{"sarvam-moe"}, {kLines}, {.space_marks = true}},
  };
  return table;
}

Result<GgufSplits> build_splits(const SplitRow& row) {
  GgufSplits out;
  for (const std::string_view expression : row.splits) {
    auto pattern = Pattern::regex(expression, "tokenizer.ggml.pre");
    if (!pattern) return fail(pattern.error());
    out.pre_tokenizer.steps.emplace_back(
        SplitStep{std::move(*pattern), SplitBehavior::kIsolated, false});
  }
  out.byte_level = !row.flags.space_marks;
  if (row.flags.nfc) out.normalizer.steps.emplace_back(NormalizationForm::kNfc);
  if (out.byte_level) {
    out.pre_tokenizer.steps.emplace_back(ByteLevelStep{});
  } else {
    out.normalizer.steps.emplace_back(ReplaceText{Pattern::literal(" "), std::string(kSpaceMark)});
  }
  out.ignore_merges = row.flags.ignore_merges;
  out.add_bos = row.flags.add_bos;
  out.needs_bos = row.flags.needs_bos;
  return out;
}

}  // namespace

std::vector<std::string_view> gguf_split_names() {
  std::vector<std::string_view> names;
  for (const SplitRow& row : split_rows())
    names.insert(names.end(), row.names.begin(), row.names.end());
  return names;
}

Result<GgufSplits> gguf_splits(std::string_view name) {
  for (const SplitRow& row : split_rows()) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end())
      return build_splits(row);
  }
  std::string valid;
  for (const std::string_view known : gguf_split_names()) {
    valid.append(valid.empty() ? "" : ", ").append(known);
  }
  return fail(ErrorKind::kUnsupported, "tokenizer.ggml.pre: {}; valid: {}", load::quote(name),
              valid);
}

}  // namespace dovetail::text
