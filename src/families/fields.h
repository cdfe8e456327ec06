#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "load/container.h"
#include "load/gguf_fields.h"
#include "load/json_fields.h"

namespace dovetail::families {

// One fact of a configuration, as each format names it: the key of a GGUF file's metadata without
// the architecture before it, and the field of a config.json. Empty where a format has none.
struct Key {
  std::string_view gguf;
  std::string_view hf;
};

// Typed access to a configuration of either format. The first failure sticks, names the field of
// the format at hand, and every failed access yields zero or nothing, so that a family reads all it
// needs and status() is asked once.
class Fields {
 public:
  // `family` is what the configuration calls the model: general.architecture, or model_type.
  // `tensors` are by GGUF name. `text` is what of a config.json is read, and `prefix` goes before
  // its fields in errors. All must outlive the object.
  Fields(const load::Container& container, const load::StoredTensors& tensors, std::string family,
         const nlohmann::json* text, std::string prefix);

  bool gguf() const { return gguf_.has_value(); }
  // There are no tensors, and has_tensor() says nothing of the model.
  bool described() const { return described_; }
  const std::string& family() const { return family_; }
  // This family's config.json calls a field by another name than its readers do.
  void spell(std::string_view hf, std::string_view here) { spellings_.emplace_back(hf, here); }
  // What this family's config.json means that does not give the field.
  void suppose(std::string_view hf, std::uint32_t value) { supposed_.emplace_back(hf, value); }
  // A flag of the config.json that the one at hand lies in, if it lies in one.
  std::optional<bool> outer_flag(std::string_view hf);
  bool wrapped() const { return outer_.has_value(); }
  bool has(Key key) const;
  bool is_array(Key key) const;
  bool is_null(Key key) const;  // given as null, in a config.json
  std::size_t tensors() const { return tensors_.size(); }
  bool has_tensor(const std::string& name) const { return tensors_.contains(name); }
  const load::StoredTensor* tensor(const std::string& name) const;

  // Integers within [low, high].
  std::uint32_t required_count(Key key, std::uint32_t low, std::uint32_t high);
  std::optional<std::uint32_t> count(Key key, std::uint32_t low, std::uint32_t high);
  // The same; a GGUF file may also have an array, of one number for all layers.
  std::uint32_t required_uniform(Key key, std::uint32_t low, std::uint32_t high);
  std::optional<std::uint32_t> uniform(Key key, std::uint32_t low, std::uint32_t high);
  // Finite numbers within [low, high].
  float required_number(Key key, float low, float high);
  std::optional<float> number(Key key, float low, float high);
  std::optional<bool> flag(Key key);
  std::optional<std::string> text(Key key);
  // A member of config.json as it is; nullptr in a GGUF file, and where absent or null.
  const nlohmann::json* member(std::string_view hf);
  // A number up to `high` for each layer, from an array of a GGUF file; empty where absent.
  std::vector<std::uint32_t> counts(Key key, std::size_t layers, std::uint32_t high);
  // A truth for each layer; empty where absent. In a GGUF file an array of bools or whole numbers.
  std::vector<bool> flags(Key key, std::size_t layers);

  // Records a failure of this field unless there was one before.
  void reject(Key key, std::string_view value, std::string_view valid,
              ErrorKind kind = ErrorKind::kUnsupported);
  void take_failure(const Status& status);
  Status status() const;

  // Whether anything asked for this field of the format at hand; says that it may say anything.
  bool asked(Key key) const;
  void ask(Key key) { static_cast<void>(name(key)); }

  // For readers of what the formats have not in common; names of GGUF keys are whole.
  load::GgufFields& of_gguf() { return *gguf_; }
  load::JsonFields& of_json() { return *json_; }
  const std::string& file() const { return file_; }
  std::string gguf_key(std::string_view rest);

 private:
  // The whole name of the field, which counts as asked for; "" where the format has none.
  std::string name(Key key);
  // As this config.json spells it.
  std::string_view spelled(std::string_view hf) const;
  // What is supposed where it is neither given nor null.
  std::optional<std::uint32_t> supposed(Key key) const;

  std::string file_;
  std::string family_;
  const load::StoredTensors& tensors_;
  bool described_;
  std::optional<load::GgufFields> gguf_;
  std::optional<load::JsonFields> json_;
  std::optional<load::JsonFields> outer_;
  std::vector<std::string> asked_;
  std::vector<std::pair<std::string_view, std::string_view>> spellings_;
  std::vector<std::pair<std::string_view, std::uint32_t>> supposed_;
  std::optional<Error> error_;  // taken from elsewhere, GGUF
};

}  // namespace dovetail::families
