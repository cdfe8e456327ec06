#pragma once

#include <span>
#include <string_view>

#include "families/fields.h"
#include "families/names.h"
#include "load/model_config.h"

namespace dovetail::families {

// How a family is read. `read` fills the configuration but for its family; what it finds wrong is a
// failure of the fields. Names are those that differ from the common ones (kCommonHfNames; a GGUF
// file's own).
struct Reader {
  void (*read)(Fields& fields, load::ModelConfig& config);
  Names hf_names = {};
  Names gguf_names = {};
  // Beginnings of stored names of tensors that are for something else than text.
  std::span<const std::string_view> spare = {};
};

// One for each file of this folder that is called after a family.
extern const Reader kBert;
extern const Reader kLlama;
extern const Reader kMistral;
extern const Reader kMixtral;
extern const Reader kQwen2;
extern const Reader kQwen3;
extern const Reader kQwen3Moe;
extern const Reader kQwen3Next;
extern const Reader kQwen3_5;
extern const Reader kQwen3_5Moe;

}  // namespace dovetail::families
