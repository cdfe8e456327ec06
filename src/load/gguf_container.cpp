#include "load/gguf_container.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "load/gguf.h"
#include "load/gguf_fields.h"
#include "load/mapped_file.h"
#include "load/quote.h"
#include "load/recommended_sampling.h"

namespace dovetail::load {

namespace {

constexpr std::uint32_t kMostShards = 99999;  // five digits in the file name

struct SplitInfo {
  std::uint32_t number = 0;  // from 0
  std::uint32_t count = 1;
  std::optional<std::uint32_t> tensors;  // of all shards together
};

Result<SplitInfo> read_split_info(const GgufFile& gguf, const std::string& file) {
  GgufFields fields(gguf, file);
  SplitInfo split;
  split.count = fields.optional_count("split.count", 0, kMostShards).value_or(0);
  if (split.count == 0) split.count = 1;
  split.number = fields.optional_count("split.no", 0, split.count - 1).value_or(0);
  split.tensors =
      fields.optional_count("split.tensors.count", 0, std::numeric_limits<std::int32_t>::max());
  if (auto status = fields.status(); !status) return fail(status.error());
  return split;
}

Status check_shard(const SplitInfo& split, const SplitInfo& first, std::size_t index,
                   const std::string& file) {
  if (split.count != first.count) {
    return fail(ErrorKind::kInvalid, "{}: metadata 'split.count': {}; valid: {}, as in shard 1",
                file, split.count, first.count);
  }
  if (split.number != index) {
    return fail(ErrorKind::kInvalid, "{}: metadata 'split.no': {}; valid: {}, as the name says",
                file, split.number, index);
  }
  return {};
}

struct SplitName {
  std::string prefix;
  std::uint32_t number = 1;  // from 1
  std::uint32_t count = 1;
};

std::optional<std::uint32_t> parse_five_digits(std::string_view text) {
  std::uint32_t value = 0;
  if (text.size() != 5) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return value;
}

// Takes "model-00002-of-00005.gguf" apart.
std::optional<SplitName> parse_split_name(std::string_view name) {
  constexpr std::string_view kMiddle = "-of-";
  constexpr std::string_view kEnding = ".gguf";
  constexpr std::size_t kTail = 1 + 5 + kMiddle.size() + 5 + kEnding.size();
  if (name.size() <= kTail || !name.ends_with(kEnding)) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, kMiddle.size()) != kMiddle) return std::nullopt;
  const auto number = parse_five_digits(tail.substr(1, 5));
  const auto count = parse_five_digits(tail.substr(6 + kMiddle.size(), 5));
  if (!number || !count) return std::nullopt;
  return SplitName{std::string(name.substr(0, name.size() - kTail)), *number, *count};
}

struct OpenShards {
  std::vector<NamedBytes> shards;
  std::vector<std::shared_ptr<const void>> mappings;

  Status add(const std::filesystem::path& path) {
    auto mapped = MappedFile::open(path);
    if (!mapped) return fail(mapped.error());
    shards.push_back({path.string(), (*mapped)->bytes()});
    mappings.push_back(*std::move(mapped));
    return {};
  }
};

std::string name_of_model(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  if (const auto split = parse_split_name(file)) return split->prefix;
  return path.extension() == ".gguf" ? path.stem().string() : file;
}

// Names of general.file_type, as llama.cpp numbers and calls them (llama_ftype).
struct FileType {
  std::uint32_t number;
  std::string_view name;
};
constexpr FileType kFileTypes[] = {
    {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
    {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
    {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
    {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},
};

// Empty: the file does not say, or a number that has no name here.
std::string read_file_type(GgufFields& fields) {
  const auto number =
      fields.optional_count("general.file_type", 0, std::numeric_limits<std::uint32_t>::max());
  for (const FileType& type : kFileTypes)
    if (number == type.number) return std::string(type.name);
  return {};
}

// The names under which llama.cpp's converter writes what generation_config.json recommends.
void read_recommended_sampling(GgufFields& fields, GenerationDefaults& defaults) {
  for (const SamplingRow& row : kSamplingRows) {
    if (!row.recommended()) continue;
    const std::string key = fmt::format("general.sampling.{}", row.gguf_key);
    defaults.sampling[row] = read_recommended(fields, key, row);
  }
}

}  // namespace

Result<Container> read_gguf_container(std::span<const NamedBytes> shards) {
  if (shards.empty()) return fail(ErrorKind::kInvalid, "no GGUF files; valid: at least one");
  std::vector<GgufFile> files;
  std::optional<SplitInfo> first;
  Container out;
  StoredTensors& stored = out.tensors;
  for (const NamedBytes& shard : shards) {
    auto parsed = parse_gguf(shard.bytes, shard.name);
    if (!parsed) return fail(parsed.error());
    const auto split = read_split_info(*parsed, shard.name);
    if (!split) return fail(split.error());
    if (!first) {
      first = *split;
      if (first->count != shards.size()) {
        return fail(ErrorKind::kInvalid, "{}: metadata 'split.count': {}; valid: the {} shards",
                    shard.name, first->count, shards.size());
      }
    }
    if (auto status = check_shard(*split, *first, files.size(), shard.name); !status) {
      return fail(status.error());
    }
    for (const GgufTensor& tensor : parsed->tensors) {
      const bool added =
          stored
              .emplace(tensor.name, StoredTensor{shard.name, tensor.name, tensor.stored_type,
                                                 tensor.type, tensor.shape, tensor.data})
              .second;
      if (!added) {
        return fail(ErrorKind::kInvalid, "{}: tensor {}: given in another shard too; valid: once",
                    shard.name, quote(tensor.name));
      }
    }
    files.push_back(*std::move(parsed));
  }
  const GgufFile& head = files.front();
  const std::string& name = shards.front().name;
  if (first->count > 1 && first->tensors && *first->tensors != stored.size()) {
    return fail(ErrorKind::kInvalid,
                "{}: metadata 'split.tensors.count': {}; valid: the {} tensors of all shards", name,
                *first->tensors, stored.size());
  }

  out.name = name;
  out.place = name;
  out.format = fmt::format("GGUF v{}", head.version);
  out.configuration = std::move(files.front());
  return out;
}

Status read_gguf_extras(const Container& container, ModelSource& source) {
  const auto& head = std::get<GgufFile>(container.configuration);
  auto tokenizer = parse_gguf_tokenizer(head, source.config.vocab_size, container.name);
  if (!tokenizer) return fail(tokenizer.error());
  if (*tokenizer) {
    auto& ends = source.generation.eos_ids;
    for (const auto& id : {(*tokenizer)->eos, (*tokenizer)->eot, (*tokenizer)->eom}) {
      if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
    }
    source.tokenizer = std::move(**tokenizer);
  }
  GgufFields fields(head, container.name);
  read_recommended_sampling(fields, source.generation);
  source.quantization = read_file_type(fields);
  if (const auto text = fields.optional_string("tokenizer.chat_template")) {
    source.chat_template = std::string(*text);
  }
  return fields.status();
}

namespace {

Result<OpenShards> open_shards(const std::filesystem::path& path) {
  OpenShards open;
  if (auto status = open.add(path); !status) return fail(status.error());
  const auto parsed = parse_gguf(open.shards.front().bytes, path.string());
  if (!parsed) return fail(parsed.error());
  const auto split = read_split_info(*parsed, path.string());
  if (!split) return fail(split.error());
  if (split->count > 1) {
    const auto name = parse_split_name(path.filename().string());
    if (!name || name->count != split->count || name->number != split->number + 1) {
      return fail(ErrorKind::kInvalid,
                  "{}: file name of shard {} of {}; valid: a name that ends in "
                  "-{:05}-of-{:05}.gguf, so that the other shards can be found",
                  path.string(), split->number + 1, split->count, split->number + 1, split->count);
    }
    open = {};
    for (std::uint32_t i = 1; i <= split->count; ++i) {
      const std::string shard =
          fmt::format("{}-{:05}-of-{:05}.gguf", name->prefix, i, split->count);
      if (auto status = open.add(path.parent_path() / shard); !status) {
        return fail(status.error());
      }
    }
  }
  return open;
}

}  // namespace

Result<MappedFiles> map_gguf_files(const std::filesystem::path& path) {
  auto open = open_shards(path);
  if (!open) return fail(open.error());
  MappedFiles out{std::move(open->shards), {}, name_of_model(path), std::move(open->mappings), {}};
  const auto beside = path.parent_path() / fmt::format("mtp-{}.gguf", out.model_name);
  std::error_code error;
  if (!std::filesystem::exists(beside, error)) return out;
  auto drafts = open_shards(beside);
  if (!drafts) return fail(drafts.error());
  out.drafts = std::move(drafts->shards);
  for (auto& mapping : drafts->mappings) out.weights.push_back(std::move(mapping));
  return out;
}

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
  // The second name is that of older files.
  const auto read_either = [&](std::string_view key, std::string_view older) {
    const auto id = read_id(fields, key, count);
    return id ? id : read_id(fields, older, count);
  };
  out.fim_prefix = read_either("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id");
  out.fim_suffix = read_either("tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id");
  out.fim_middle = read_either("tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id");
  out.fim_repository = read_id(fields, "tokenizer.ggml.fim_rep_token_id", count);
  out.fim_file = read_id(fields, "tokenizer.ggml.fim_sep_token_id", count);
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
