#pragma once

#include <cstdint>
#include <string_view>

#include "families/fields.h"
#include "load/model_config.h"

namespace dovetail::families {

// What a family says of its rotary embedding; the configuration says the rest.
struct RopeRules {
  std::uint32_t head_dim = 0;
  float theta = 10000.0F;  // where a config.json gives none
  bool interleaved_in_gguf =
      false;  // pairs are neighbours in GGUF files, as llama's converter does
  bool interleaved_in_hf = false;
  float partial = 1.0F;         // the part of a head that turns where a config.json says nothing
  bool may_be_partial = false;  // whether any but 1 is right
  float whole = 1.0F;           // what beside 1 a config.json may call all of `head_dim`
  Key base = {"rope.freq_base", "rope_theta"};
  std::string_view layer_type =
      {};              // whose member of rope_parameters it is, if those are one for each
  bool scaled = true;  // whether rope scaling is for these layers
  Key dims = {"rope.dimension_count", ""};
  bool proportional = false;  // whether a config.json may have that type
};

// Rotary embedding over a whole head of which `part` turns, by frequencies that are `factor` times
// slower: the pairs behind have divisors that let them stand.
void turn_part(load::RopeConfig& rope, std::uint32_t head_dim, float part, float factor = 1.0F);

// YaRN makes `config.max_context` longer. LongRoPE's factors are for contexts up to and beyond
// original_context.
load::RopeConfig read_rope(Fields& fields, const RopeRules& rules, load::ModelConfig& config);

// How much queries grow with their position, and in steps of how many positions
// (AttentionConfig::temperature): those of rope.original_context, unless a GGUF file has a length
// of its own for it. A scale of 0: they do not grow.
struct Temperature {
  float scale = 0.0F;
  std::uint32_t context = 0;
};
Temperature read_temperature(Fields& fields, const load::RopeConfig& rope);

}  // namespace dovetail::families
