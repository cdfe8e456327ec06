#include "load/sentence_modules.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "load/json_fields.h"
#include "load/limits.h"
#include "load/quote.h"

namespace dovetail::load {
namespace {

using nlohmann::json;

// Enough for any folder; each is a file to map.
constexpr std::size_t kMostModules = 16;

// The last part of a class's name: "Dense" of "sentence_transformers.models.Dense".
std::string_view class_of(std::string_view type) { return type.substr(type.rfind('.') + 1); }

// A folder right in the model's.
bool is_folder_name(std::string_view path) {
  return !path.empty() && path != "." && path != ".." &&
         path.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

struct PoolingName {
  std::string_view field;  // that is true
  std::string_view value;  // of pooling_mode, in the newer spelling
  Pooling pooling;
};
constexpr PoolingName kPoolings[] = {{"pooling_mode_mean_tokens", "mean", Pooling::kMean},
                                     {"pooling_mode_cls_token", "cls", Pooling::kFirst},
                                     {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast}};

struct FunctionName {
  std::string_view name;
  HeadFunction function;
};
constexpr FunctionName kFunctions[] = {{"torch.nn.modules.linear.Identity", HeadFunction::kNone},
                                       {"torch.nn.modules.activation.Tanh", HeadFunction::kTanh},
                                       {"torch.nn.modules.activation.GELU", HeadFunction::kGelu}};

}  // namespace

Result<ModulePlaces> read_module_places(const NamedText& modules) {
  const auto list = parse_json_array(modules.text, modules.name, kLargestConfig);
  if (!list) return fail(list.error());
  if (list->size() > kMostModules) {
    return fail(ErrorKind::kInvalid, "{}: {} modules; valid: at most {}", modules.name,
                list->size(), kMostModules);
  }
  ModulePlaces out;
  bool normalized = false;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json& module = (*list)[i];
    if (!module.is_object()) {
      return fail(ErrorKind::kInvalid, "{}: [{}]: {}; valid: an object", modules.name, i,
                  text_of(module));
    }
    JsonFields fields(module, modules.name, fmt::format("[{}].", i));
    const std::string type = fields.optional_string("type").value_or("");
    const std::string path = fields.optional_string("path").value_or("");
    const std::string_view kind = class_of(type);
    const bool first = i == 0;
    if (kind == "Transformer" && first) {
      if (!path.empty())
        fields.reject("path", quote(path), "\"\": the model's own folder", ErrorKind::kUnsupported);
    } else if (kind == "Pooling" && out.pooling.empty() && out.dense.empty() && !first) {
      out.pooling = path;
    } else if (kind == "Dense" && !out.pooling.empty() && !normalized) {
      out.dense.push_back(path);
    } else if (kind == "Normalize" && !out.pooling.empty()) {
      normalized = true;
      continue;
    } else {
      fields.reject("type", quote(type),
                    "Transformer, Pooling, any number of Dense, and Normalize, in this order",
                    ErrorKind::kUnsupported);
    }
    if (!first && !is_folder_name(path))
      fields.reject("path", quote(path), "the name of a folder in the model's");
    if (auto status = fields.status(); !status) return fail(status.error());
  }
  return out;
}

Result<Pooling> read_pooling(const NamedText& config) {
  const auto object = parse_json_object(config.text, config.name, kLargestConfig);
  if (!object) return fail(object.error());
  JsonFields fields(*object, config.name);
  std::optional<Pooling> found;
  for (const auto& entry : object->items()) {
    const std::string& field = entry.key();
    if (!field.starts_with("pooling_mode_") || entry.value() != true) continue;
    const auto* known = std::find_if(std::begin(kPoolings), std::end(kPoolings),
                                     [&](const PoolingName& name) { return name.field == field; });
    if (known == std::end(kPoolings) || found) {
      fields.reject(field, "true",
                    "false, and one of pooling_mode_mean_tokens, pooling_mode_cls_token and "
                    "pooling_mode_lasttoken true",
                    ErrorKind::kUnsupported);
      continue;
    }
    found = known->pooling;
  }
  if (const auto mode = fields.optional_string("pooling_mode")) {
    const auto* known = std::find_if(std::begin(kPoolings), std::end(kPoolings),
                                     [&](const PoolingName& name) { return name.value == *mode; });
    if (known == std::end(kPoolings) || found) {
      fields.reject("pooling_mode", quote(*mode),
                    "mean, cls or lasttoken, and no pooling_mode_... that is true",
                    ErrorKind::kUnsupported);
    } else {
      found = known->pooling;
    }
  }
  if (auto status = fields.status(); !status) return fail(status.error());
  return found.value_or(Pooling::kMean);
}

Result<HeadConfig> read_dense(const NamedText& config, std::string name) {
  const auto object = parse_json_object(config.text, config.name, kLargestConfig);
  if (!object) return fail(object.error());
  JsonFields fields(*object, config.name);
  HeadConfig out;
  out.name = std::move(name);
  out.size = fields.required_count("out_features", 1, kLargestHiddenSize);
  out.bias = fields.optional_bool("bias").value_or(true);
  for (const char* place : {"module_input_name", "module_output_name"}) {
    const std::string what = fields.optional_string(place).value_or("sentence_embedding");
    if (what != "sentence_embedding")
      fields.reject(place, quote(what), "'sentence_embedding'", ErrorKind::kUnsupported);
  }
  const std::string function =
      fields.optional_string("activation_function").value_or("torch.nn.modules.activation.Tanh");
  const auto* known =
      std::find_if(std::begin(kFunctions), std::end(kFunctions),
                   [&](const FunctionName& candidate) { return candidate.name == function; });
  if (known == std::end(kFunctions)) {
    fields.reject("activation_function", quote(function),
                  "torch.nn.modules.linear.Identity, torch.nn.modules.activation.Tanh, "
                  "torch.nn.modules.activation.GELU",
                  ErrorKind::kUnsupported);
  } else {
    out.function = known->function;
  }
  if (auto status = fields.status(); !status) return fail(status.error());
  return out;
}

}  // namespace dovetail::load
