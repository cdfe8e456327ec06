#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "families/fields.h"
#include "families/names.h"
#include "load/model_config.h"

namespace dovetail::families {

// Bytes that tensors view into and no file has.
using Owned = std::vector<std::shared_ptr<const void>>;

// How a family is read. `read` fills the configuration but for its family; what it finds wrong is a
// failure of the fields. Names are those that differ from the common ones (kCommonHfNames; a GGUF
// file's own). `adapt` is for what no name says: tensors that only this family stores in such a
// way.
struct Reader {
  void (*read)(Fields& fields, load::ModelConfig& config);
  Names hf_names = {};
  Names gguf_names = {};
  // Beginnings of stored names of tensors that are for something else than text.
  std::span<const std::string_view> spare = {};
  Status (*adapt)(load::StoredTensors& tensors, Owned& owned) = nullptr;
  // What stands before stored names where the model has a head beside it; without it they are the
  // same.
  std::string_view base = {};
  // Of a tensor of a folder, the name of one of a layer behind the model's `layers`, where it is of
  // a layer that drafts tokens and called otherwise; else as it is.
  std::string (*draft_name)(std::string stored, std::uint32_t layers) = nullptr;
};

// One for each family; most have a file of this folder.
extern const Reader kAfmoe;
extern const Reader kApertus;
extern const Reader kArcee;
extern const Reader kBailingMoe;
extern const Reader kBert;
extern const Reader kBertRanker;
extern const Reader kCohere;
extern const Reader kCohere2;
extern const Reader kDeepseek;
extern const Reader kDeepseekV4;
extern const Reader kDots1;
extern const Reader kErnie4_5;
extern const Reader kErnie4_5Moe;
extern const Reader kExaone4;
extern const Reader kExaoneMoe;
extern const Reader kFalconH1;
extern const Reader kGemma;
extern const Reader kGemma2;
extern const Reader kGemma3;
extern const Reader kGemma4;
extern const Reader kGemmaEmbedding;
extern const Reader kGlm4;
extern const Reader kGlm4Moe;
extern const Reader kGlm4v;
extern const Reader kGlm4vMoe;
extern const Reader kGptOss;
extern const Reader kGranite;
extern const Reader kGraniteHybrid;
extern const Reader kGraniteMoe;
extern const Reader kGraniteSwa;
extern const Reader kHunyuanDense;
extern const Reader kHunyuanMoe;
extern const Reader kInternLm3;
extern const Reader kKimiLinear;
extern const Reader kLfm2;
extern const Reader kLfm2Moe;
extern const Reader kLfm3;
extern const Reader kLlama;
extern const Reader kMellum;
extern const Reader kMinicpm;
extern const Reader kMinimaxM2;
extern const Reader kMinistral;
extern const Reader kMinistral3;
extern const Reader kMistral;
extern const Reader kMixtral;
extern const Reader kModernBert;
extern const Reader kModernBertRanker;
extern const Reader kNemotronH;
extern const Reader kNomicBert;
extern const Reader kOlmo2;
extern const Reader kOlmoe;
extern const Reader kPhi3;
extern const Reader kQwen2;
extern const Reader kQwen2Moe;
extern const Reader kQwen2Vl;
extern const Reader kQwen3;
extern const Reader kQwen3Moe;
extern const Reader kQwen3Next;
extern const Reader kQwen3Vl;
extern const Reader kQwen3VlMoe;
extern const Reader kQwen3_5;
extern const Reader kQwen3_5Moe;
extern const Reader kSeedOss;
extern const Reader kSmolLm3;
extern const Reader kStarcoder2;
extern const Reader kSolarOpen;
extern const Reader kStableLm;
extern const Reader kXlmRoberta;
extern const Reader kXlmRobertaRanker;

}  // namespace dovetail::families
