#include "text/gguf_splits.h"

#include <array>
#include <vector>

#include "load/quote.h"

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

}  // namespace

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

}  // namespace dovetail::text
