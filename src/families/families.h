#pragma once

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
};

// One for each file of this folder that is called after a family.
extern const Reader kLlama;
extern const Reader kMistral;
extern const Reader kMixtral;
extern const Reader kQwen2;
extern const Reader kQwen3;
extern const Reader kQwen3Moe;

}  // namespace dovetail::families
