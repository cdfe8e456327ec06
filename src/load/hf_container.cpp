#include "load/hf_container.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "load/join_parts.h"
#include "load/json_fields.h"
#include "load/mapped_file.h"
#include "load/quote.h"
#include "load/recommended_sampling.h"
#include "load/safetensors.h"
#include "load/sentence_modules.h"

namespace dovetail::load {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// A file right in the folder, and nothing that leads out of it.
bool is_shard_name(const json& file) {
  if (!file.is_string()) return false;
  const auto& name = file.get_ref<const std::string&>();
  return name.ends_with(".safetensors") && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// The weight_map of an index: tensor name to file name.
Result<json> parse_weight_map(const NamedText& index) {
  auto object = parse_json_object(index.text, index.name, kLargestConfig);
  if (!object) return fail(object.error());
  const auto map = object->find("weight_map");
  if (map == object->end() || !map->is_object() || map->empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: weight_map: {}; valid: an object of tensor names and file names", index.name,
                map == object->end() ? "missing" : text_of(*map));
  }
  for (const auto& [tensor, file] : map->items()) {
    if (!is_shard_name(file)) {
      return fail(ErrorKind::kInvalid,
                  "{}: weight_map: {} for tensor {}; valid: the name of a .safetensors file in the "
                  "same folder",
                  index.name, text_of(file), quote(tensor));
    }
  }
  return std::move(*map);
}

// Every tensor lies in the file that the index names, and the files hold no others.
Status check_index(const NamedText& index, const HuggingFaceFiles& files,
                   std::span<const std::vector<SafetensorsTensor>> shards) {
  const auto map = parse_weight_map(index);
  if (!map) return fail(map.error());
  std::size_t found = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fs::path(files.weights[i].name).filename().string();
    for (const SafetensorsTensor& tensor : shards[i]) {
      const auto entry = map->find(tensor.name);
      if (entry == map->end() || *entry != file) {
        return fail(ErrorKind::kInvalid, "{}: weight_map: {} for tensor {}; valid: {}, where it is",
                    index.name, entry == map->end() ? "missing" : text_of(*entry),
                    quote(tensor.name), quote(file));
      }
      ++found;
    }
  }
  if (found == map->size()) return {};
  std::unordered_set<std::string_view> present;
  for (const auto& shard : shards) {
    for (const SafetensorsTensor& tensor : shard) present.insert(tensor.name);
  }
  for (const auto& [name, file] : map->items()) {
    if (!present.contains(name)) {
      return fail(ErrorKind::kInvalid,
                  "{}: weight_map: {} for tensor {}; valid: a file that holds the tensor",
                  index.name, text_of(file), quote(name));
    }
  }
  return {};
}

Result<Quantization> read_quantization_file(const NamedText& text) {
  const auto object = parse_json_object(text.text, text.name, kLargestConfig);
  if (!object) return fail(object.error());
  JsonFields fields(*object, text.name);
  const Quantization out = read_modelopt_quantization(fields, text.name);
  if (auto status = fields.status(); !status) return fail(status.error());
  return out;
}

// What to name when a tensor is missing.
std::string place_of_weights(const HuggingFaceFiles& files) {
  if (files.weights.size() == 1) return files.weights.front().name;
  if (files.index) return files.index->name;
  return fs::path(files.config.name).parent_path().string();
}

// "chat_template" is a string, or a list of {name, template} of which "default" is meant.
Result<std::optional<std::string>> read_chat_template(const NamedText& config) {
  const auto object = parse_json_object(config.text, config.name, kLargestConfig);
  if (!object) return fail(object.error());
  const auto reject = [&](std::string_view value) {
    return fail(ErrorKind::kInvalid,
                "{}: chat_template: {}; valid: a string, or a list of objects with name and "
                "template",
                config.name, value);
  };
  const auto found = object->find("chat_template");
  if (found == object->end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return reject(text_of(*found));
  for (const json& entry : *found) {
    const auto name = entry.is_object() ? entry.find("name") : entry.end();
    if (name == entry.end() || !name->is_string()) return reject(text_of(entry));
    if (*name != "default") continue;
    const auto text = entry.find("template");
    if (text == entry.end() || !text->is_string()) return reject(text_of(entry));
    return text->get<std::string>();
  }
  return std::nullopt;
}

// The files of a folder, mapped.
class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {}

  bool has(std::string_view name) const {
    std::error_code error;
    return fs::exists(path_ / name, error);
  }

  Result<NamedText> text(std::string_view name) {
    auto bytes = map(name, texts_);
    if (!bytes) return fail(bytes.error());
    return NamedText{std::move(bytes->name),
                     {reinterpret_cast<const char*>(bytes->bytes.data()), bytes->bytes.size()}};
  }

  Status text_if_there(std::string_view name, std::optional<NamedText>& out) {
    if (!has(name)) return {};
    auto found = text(name);
    if (!found) return fail(found.error());
    out = *std::move(found);
    return {};
  }

  Result<NamedBytes> weights(std::string_view name) { return map(name, weights_); }

  std::vector<std::string> names_ending(std::string_view ending) const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
      std::string name = it->path().filename().string();
      if (name.ends_with(ending)) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::vector<std::shared_ptr<const void>> take_weight_mappings() { return std::move(weights_); }
  std::vector<std::shared_ptr<const void>> take_text_mappings() { return std::move(texts_); }

 private:
  Result<NamedBytes> map(std::string_view name, std::vector<std::shared_ptr<const void>>& keep) {
    const fs::path path = path_ / name;
    auto mapped = MappedFile::open(path);
    if (!mapped) return fail(mapped.error());
    NamedBytes out{path.string(), (*mapped)->bytes()};
    keep.push_back(*std::move(mapped));
    return out;
  }

  fs::path path_;
  std::vector<std::shared_ptr<const void>> texts_;
  std::vector<std::shared_ptr<const void>> weights_;
};

// A dense layer behind the pooling, the tensors of the N-th as "modules.N.linear.weight".
Status add_dense(const DenseFiles& files, Container& out) {
  const std::size_t number = out.head.size();
  auto layer = read_dense(files.config, fmt::format("dense.{}", number));
  if (!layer) return fail(layer.error());
  out.head.push_back(*std::move(layer));
  auto tensors = parse_safetensors(files.weights.bytes, files.weights.name);
  if (!tensors) return fail(tensors.error());
  out.shards.push_back(*std::move(tensors));
  for (const SafetensorsTensor& tensor : out.shards.back()) {
    out.tensors.emplace(fmt::format("modules.{}.{}", number, tensor.name),
                        StoredTensor{files.weights.name, tensor.name, tensor.stored_type,
                                     tensor.type, tensor.shape, tensor.data});
  }
  return {};
}

// Which files hold the weights: model.safetensors, those of the index, or else the shards that
// their names show (a folder may hold the weights a second time in another layout), or else all.
Result<std::vector<std::string>> weight_files(const Folder& folder, const std::string& path,
                                              const std::optional<NamedText>& index) {
  if (folder.has(kSingleFile)) return std::vector<std::string>{std::string(kSingleFile)};
  if (index) return files_of_index(*index);
  std::vector<std::string> names = folder.names_ending(".safetensors");
  const auto is_shard = [](const std::string& name) { return name.starts_with("model-"); };
  if (std::any_of(names.begin(), names.end(), is_shard)) {
    std::erase_if(names, [&](const std::string& name) { return !is_shard(name); });
  }
  if (names.empty()) {
    return fail(ErrorKind::kNotFound, "{}: no weights; valid: {}, or {} and its files", path,
                kSingleFile, kIndexFile);
  }
  return names;
}

// What stands behind the transformer, of sentence-transformers.
Status map_modules(Folder& folder, HuggingFaceFiles& files) {
  std::optional<NamedText> modules;
  if (auto status = folder.text_if_there("modules.json", modules); !status) return status;
  if (!modules) return folder.text_if_there("1_Pooling/config.json", files.pooling);
  const auto places = read_module_places(*modules);
  if (!places) return fail(places.error());
  if (!places->pooling.empty()) {
    auto pooling = folder.text(places->pooling + "/config.json");
    if (!pooling) return fail(pooling.error());
    files.pooling = *std::move(pooling);
  }
  for (const std::string& place : places->dense) {
    auto config = folder.text(place + "/config.json");
    if (!config) return fail(config.error());
    auto weights = folder.weights(place + "/model.safetensors");
    if (!weights) return fail(weights.error());
    files.dense.push_back({*std::move(config), *std::move(weights)});
  }
  return {};
}

// The configuration, and the texts beside it.
Status map_texts(Folder& folder, std::string_view name, HuggingFaceFiles& files,
                 bool with_others = true) {
  auto config = folder.text(name);
  if (!config) return fail(config.error());
  files.config = *std::move(config);
  if (!with_others) return {};
  for (const auto& [other, out] : {std::pair{"hf_quant_config.json", &files.quantization},
                                   std::pair{"generation_config.json", &files.generation},
                                   std::pair{"tokenizer.json", &files.tokenizer},
                                   std::pair{"tokenizer_config.json", &files.tokenizer_config},
                                   std::pair{"chat_template.jinja", &files.chat_template}}) {
    if (auto status = folder.text_if_there(other, *out); !status) return status;
  }
  return {};
}

std::string name_of_folder(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::weakly_canonical(path, error);
  return (error ? path : full).filename().string();
}

}  // namespace

Result<std::vector<std::string>> files_of_index(const NamedText& index) {
  const auto map = parse_weight_map(index);
  if (!map) return fail(map.error());
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) names.insert(file.get<std::string>());
  return std::vector<std::string>(names.begin(), names.end());
}

Result<Container> read_hf_container(const HuggingFaceFiles& files) {
  if (files.weights.empty() && !files.described) {
    return fail(ErrorKind::kNotFound, "{}: no weights beside it; valid: *.safetensors",
                files.config.name);
  }
  Container out;
  std::string_view text = files.config.text;
  std::string words;
  if (text.size() <= kLargestConfig) text = words = with_python_words(text);
  auto config = parse_json_object(text, files.config.name, kLargestConfig);
  if (!config) return fail(config.error());
  JsonFields fields(*config, files.config.name);
  out.quantization = read_quantization(fields, files.config.name);
  if (auto status = fields.status(); !status) return fail(status.error());
  if (!fields.has("quantization_config") && files.quantization) {
    auto quantization = read_quantization_file(*files.quantization);
    if (!quantization) return fail(quantization.error());
    out.quantization = *quantization;
  }
  out.name = files.config.name;
  out.place = place_of_weights(files);
  out.format = files.described ? "Hugging Face config.json" : "Hugging Face safetensors";
  out.described = files.described;
  out.configuration = std::make_shared<const json>(*std::move(config));
  for (const NamedBytes& file : files.weights) {
    auto tensors = parse_safetensors(file.bytes, file.name);
    if (!tensors) return fail(tensors.error());
    out.shards.push_back(*std::move(tensors));
  }
  if (files.index) {
    if (auto status = check_index(*files.index, files, out.shards); !status) {
      return fail(status.error());
    }
  }
  std::vector<std::string_view> names;
  for (const NamedBytes& file : files.weights) names.push_back(file.name);
  auto joined = join_parts(out.quantization, out.shards, names);
  if (!joined) return fail(joined.error());
  for (NamedTensor& tensor : *joined) {
    if (out.tensors.contains(tensor.name)) {
      return fail(ErrorKind::kInvalid, "{}: tensor {}: given twice; valid: once",
                  tensor.tensor.file, quote(tensor.tensor.stored_name));
    }
    out.tensors.emplace(std::move(tensor.name), std::move(tensor.tensor));
  }
  if (files.pooling) {
    auto pooling = read_pooling(*files.pooling);
    if (!pooling) return fail(pooling.error());
    out.pooling = *pooling;
  }
  for (const DenseFiles& dense : files.dense) {
    if (auto status = add_dense(dense, out); !status) return fail(status.error());
  }
  return out;
}

Status read_hf_extras(const HuggingFaceFiles& files, const Container& container,
                      ModelSource& source) {
  if (files.generation) {
    auto defaults = parse_generation_config(files.generation->text, files.generation->name,
                                            source.config.vocab_size);
    if (!defaults) return fail(defaults.error());
    source.generation = *std::move(defaults);
  }
  auto ends = read_eos_ids(container, source.config.vocab_size);
  if (!ends) return fail(ends.error());
  if (source.generation.eos_ids.empty()) source.generation.eos_ids = *std::move(ends);

  if (files.tokenizer_config) {
    auto chat_template = read_chat_template(*files.tokenizer_config);
    if (!chat_template) return fail(chat_template.error());
    source.chat_template = *std::move(chat_template);
  }
  if (files.chat_template) source.chat_template = std::string(files.chat_template->text);
  if (files.tokenizer) {
    if (files.tokenizer->text.size() > kLargestTokenizer) {
      return fail(ErrorKind::kInvalid, "{}: {} bytes; valid: at most {}", files.tokenizer->name,
                  files.tokenizer->text.size(), kLargestTokenizer);
    }
    HuggingFaceTokenizer tokenizer;
    tokenizer.tokenizer_json = files.tokenizer->text;
    if (files.tokenizer_config) tokenizer.tokenizer_config_json = files.tokenizer_config->text;
    source.tokenizer = std::move(tokenizer);
  }
  return {};
}

Result<MappedFiles> map_hf_files(const fs::path& path) {
  Folder folder(path);
  if (!folder.has("config.json")) {
    return fail(ErrorKind::kNotFound,
                "{}: no config.json; valid: a Hugging Face folder with config.json and "
                "*.safetensors, or a .gguf file",
                path.string());
  }
  HuggingFaceFiles files;
  if (auto status = map_texts(folder, "config.json", files); !status) return fail(status.error());
  if (!folder.has(kSingleFile)) {
    if (auto status = folder.text_if_there(kIndexFile, files.index); !status) {
      return fail(status.error());
    }
  }
  if (auto status = map_modules(folder, files); !status) return fail(status.error());
  const auto names = weight_files(folder, path.string(), files.index);
  if (!names) return fail(names.error());
  for (const std::string& name : *names) {
    auto bytes = folder.weights(name);
    if (!bytes) return fail(bytes.error());
    files.weights.push_back(*std::move(bytes));
  }
  return MappedFiles{std::move(files),
                     {},
                     name_of_folder(path),
                     folder.take_weight_mappings(),
                     folder.take_text_mappings()};
}

bool is_hf_description(const fs::path& path) {
  const Folder folder(path);
  return folder.has("config.json") && !folder.has(kIndexFile) &&
         folder.names_ending(".safetensors").empty();
}

Result<MappedFiles> map_hf_description(const fs::path& path) {
  std::error_code error;
  const bool whole = fs::is_directory(path, error);
  Folder folder(whole ? path : path.parent_path());
  HuggingFaceFiles files;
  files.described = true;
  const bool usual = path.filename() == "config.json";
  std::string name = whole   ? name_of_folder(path)
                     : usual ? name_of_folder(fs::absolute(path, error).parent_path())
                             : path.stem().string();
  // What lies beside a file that is named by itself may be another model's.
  const std::string config = whole ? "config.json" : path.filename().string();
  if (auto status = map_texts(folder, config, files, whole); !status) return fail(status.error());
  return MappedFiles{std::move(files), {}, std::move(name), {}, folder.take_text_mappings()};
}

Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view file,
                                                   std::uint32_t vocab_size) {
  const auto object = parse_json_object(text, file, kLargestConfig);
  if (!object) return fail(object.error());
  JsonFields fields(*object, std::string(file));
  GenerationDefaults defaults;
  defaults.eos_ids = fields.optional_ids("eos_token_id", vocab_size);
  for (const SamplingRow& row : kSamplingRows) {
    if (row.recommended()) defaults.sampling[row] = read_recommended(fields, row.name, row);
  }
  if (auto status = fields.status(); !status) return fail(status.error());
  return defaults;
}

Result<std::vector<std::int32_t>> read_eos_ids(const Container& container,
                                               std::uint32_t vocab_size) {
  JsonFields fields(*std::get<std::shared_ptr<const nlohmann::json>>(container.configuration),
                    container.name);
  auto ids = fields.optional_ids("eos_token_id", vocab_size);
  if (auto status = fields.status(); !status) return fail(status.error());
  return ids;
}

}  // namespace dovetail::load
