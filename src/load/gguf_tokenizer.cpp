#include "load/gguf_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "load/gguf_fields.h"
#include "load/quote.h"

namespace dovetail::load {
namespace {

constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

std::optional<std::int32_t> read_id(GgufFields& fields, std::string_view key, std::size_t tokens) {
  const auto id = fields.optional_count(key, 0, kNoId);
  if (!id || *id == kNoId) return std::nullopt;  // -1 as uint32: the converter's "none"
  if (*id >= tokens) {
    fields.reject(key, fmt::format("{}", *id), fmt::format("below the {} tokens", tokens));
    return std::nullopt;
  }
  return static_cast<std::int32_t>(*id);
}

}  // namespace

Result<std::optional<GgufTokenizer>> parse_gguf_tokenizer(const GgufFile& gguf,
                                                          std::uint32_t vocab_size,
                                                          std::string_view file) {
  GgufFields fields(gguf, std::string(file));
  const auto model = fields.optional_string("tokenizer.ggml.model");
  if (auto status = fields.status(); !status) return fail(status.error());
  if (!model || *model == "none" || *model == "no_vocab") return std::nullopt;
  if (*model != "llama" && *model != "gpt2" && *model != "gemma4" && *model != "bert" &&
      *model != "t5") {
    fields.reject("tokenizer.ggml.model", quote(*model), "llama, gpt2, gemma4, bert, t5, none",
                  ErrorKind::kUnsupported);
    return fail(fields.status().error());
  }
  GgufTokenizer out;
  out.model = *model;
  out.pre = fields.optional_string("tokenizer.ggml.pre").value_or("default");
  out.tokens = fields.strings("tokenizer.ggml.tokens");
  out.scores = fields.floats("tokenizer.ggml.scores");
  out.token_types = fields.int32s("tokenizer.ggml.token_type");
  out.merges = fields.strings("tokenizer.ggml.merges");
  const std::size_t count = out.tokens.size();
  if (count == 0 || count > vocab_size) {
    fields.reject("tokenizer.ggml.tokens", fmt::format("{} tokens", count),
                  fmt::format("1 to {}, the rows of the embedding", vocab_size));
  }
  if (!out.scores.empty() && out.scores.size() != count) {
    fields.reject("tokenizer.ggml.scores", fmt::format("{} scores", out.scores.size()),
                  fmt::format("one for each of the {} tokens", count));
  }
  for (const float score : out.scores) {
    if (std::isnan(score)) {
      fields.reject("tokenizer.ggml.scores", "not a number", "numbers");
      break;
    }
  }
  if (!out.token_types.empty() && out.token_types.size() != count) {
    fields.reject("tokenizer.ggml.token_type", fmt::format("{} types", out.token_types.size()),
                  fmt::format("one for each of the {} tokens", count));
  }
  const auto odd = std::find_if(out.token_types.begin(), out.token_types.end(),
                                [](std::int32_t type) { return type < 0 || type > 6; });
  if (odd != out.token_types.end()) {
    fields.reject("tokenizer.ggml.token_type", fmt::format("type {}", *odd), "0 to 6");
  }
  out.bos = read_id(fields, "tokenizer.ggml.bos_token_id", count);
  out.eos = read_id(fields, "tokenizer.ggml.eos_token_id", count);
  out.eot = read_id(fields, "tokenizer.ggml.eot_token_id", count);
  out.eom = read_id(fields, "tokenizer.ggml.eom_token_id", count);
  out.unknown = read_id(fields, "tokenizer.ggml.unknown_token_id", count);
  out.padding = read_id(fields, "tokenizer.ggml.padding_token_id", count);
  out.cls = read_id(fields, "tokenizer.ggml.cls_token_id", count);
  out.separator = read_id(fields, "tokenizer.ggml.seperator_token_id", count);  // as it is spelled
  out.add_bos = fields.optional_bool("tokenizer.ggml.add_bos_token");
  out.add_eos = fields.optional_bool("tokenizer.ggml.add_eos_token");
  out.add_space_prefix = fields.optional_bool("tokenizer.ggml.add_space_prefix");
  out.remove_extra_whitespaces = fields.optional_bool("tokenizer.ggml.remove_extra_whitespaces");
  out.pair_template = fields.optional_string("tokenizer.chat_template.rerank").value_or("");
  out.charsmap = fields.bytes("tokenizer.ggml.precompiled_charsmap");
  out.lowercase = fields.optional_bool("tokenizer.ggml.normalizer.lowercase");
  out.strip_accents = fields.optional_bool("tokenizer.ggml.normalizer.strip_accents");
  if (auto status = fields.status(); !status) return fail(status.error());
  return out;
}

}  // namespace dovetail::load
