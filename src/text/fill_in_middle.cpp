#include "text/fill_in_middle.h"

#include <string_view>
#include <variant>

namespace dovetail::text {
namespace {

struct Spelling {
  std::string_view prefix, suffix;
  std::string_view middle;  // empty: there is none
  bool suffix_first;
};

constexpr Spelling kSpellings[] = {
    // Qwen2.5-Coder, Qwen3-Coder, CodeGemma
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", false},
    // StarCoder, Granite Code
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", false},
    // SantaCoder
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false},
    // CodeLlama
    {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", false},
    // DeepSeek-Coder, DeepSeek-V2 and V3
    {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>",
     false},
    // CodeGeeX4, GLM-4
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", false},
    // Codestral
    {"[PREFIX]", "[SUFFIX]", "", true},
};

constexpr std::string_view kRepositories[] = {"<|repo_name|>",  // Qwen2.5-Coder
                                              "<repo_name>",    // StarCoder2
                                              "<reponame>"};    // StarCoder, Granite Code
constexpr std::string_view kFiles[] = {"<|file_sep|>", "<file_sep>", "<filename>"};

std::optional<TokenId> first_of(std::span<const std::string_view> spellings,
                                const Tokenizer& tokenizer) {
  for (const std::string_view spelling : spellings)
    if (const auto id = tokenizer.find(spelling)) return id;
  return std::nullopt;
}

std::optional<FillInMiddle> find_middle(const Tokenizer& tokenizer,
                                        const load::GgufTokenizer* gguf) {
  if (gguf != nullptr && gguf->fim_prefix && gguf->fim_suffix && gguf->fim_middle)
    return FillInMiddle{*gguf->fim_prefix, *gguf->fim_suffix, gguf->fim_middle, false};
  for (const Spelling& spelling : kSpellings) {
    const auto prefix = tokenizer.find(spelling.prefix);
    const auto suffix = tokenizer.find(spelling.suffix);
    const auto middle = tokenizer.find(spelling.middle);
    if (!prefix || !suffix || (!middle && !spelling.middle.empty())) continue;
    return FillInMiddle{*prefix, *suffix, spelling.middle.empty() ? std::nullopt : middle,
                        spelling.suffix_first};
  }
  return std::nullopt;
}

}  // namespace

std::vector<TokenId> FillInMiddle::prompt(std::span<const TokenId> before,
                                          std::span<const TokenId> after) const {
  std::vector<TokenId> ids;
  ids.reserve(before.size() + after.size() + 3);
  const auto add = [&ids](TokenId begin, std::span<const TokenId> part) {
    ids.push_back(begin);
    ids.insert(ids.end(), part.begin(), part.end());
  };
  if (suffix_first) add(suffix, after);
  add(prefix, before);
  if (!suffix_first) add(suffix, after);
  if (middle) ids.push_back(*middle);
  return ids;
}

std::optional<FillInMiddle> find_fill_in_middle(const Tokenizer& tokenizer,
                                                const load::ModelSource& source) {
  const auto* gguf = std::get_if<load::GgufTokenizer>(&source.tokenizer);
  auto found = find_middle(tokenizer, gguf);
  if (!found) return found;
  if (gguf != nullptr) {
    found->repository = gguf->fim_repository;
    found->file = gguf->fim_file;
  }
  if (!found->repository) found->repository = first_of(kRepositories, tokenizer);
  if (!found->file) found->file = first_of(kFiles, tokenizer);
  return found;
}

}  // namespace dovetail::text
