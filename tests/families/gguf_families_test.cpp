// The models of tests/golden/models as GGUF files describe the same layers, and have the same
// tensors, as the folders.

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "families/converted_models.h"
#include "families/open_model.h"
#include "families/read_config.h"
#include "load/expect_error.h"
#include "load/json_fields.h"
#include "support/places.h"

namespace dovetail::families {
namespace {

using nlohmann::json;

const std::filesystem::path kModels =
    std::filesystem::path(test::source_dir()) / "tests" / "golden" / "models";

// Converters multiply Falcon-H1's weights by them.
void drop_factors(ModelConfig& config, LayerConfig& layer) {
  config.embedding_scale = config.logit_scale = 1.0F;
  MambaConfig& mamba = *layer.beside;
  mamba.log_rates = false;
  for (float* of :
       {&mamba.gate_scale, &mamba.input_scale, &mamba.write_scale, &mamba.read_scale,
        &mamba.step_scale, &layer.beside_scale, &layer.mixer_norms.scale, &layer.mlp_norms.scale,
        &std::get<MlpConfig>(layer.mlp).gate_scale, &std::get<AttentionConfig>(layer.mixer).scale})
    *of = 1.0F;
}

// Without what only the formats tell apart: a norm's weights less by one, which elements pair, and
// whether YaRN's borders are whole.
ModelConfig in_common(ModelConfig config) {
  const auto plain = [](NormConfig& norm) { norm.offset = 0.0F; };
  plain(config.output_norm);
  for (RopeConfig& rope : config.ropes) {
    // Converters write llama3's scaling as divisors.
    const bool divided = rope.scaling == RopeScaling::kNone && !rope.frequency_divisors.empty();
    if (rope.scaling == RopeScaling::kLlama3 || divided) {
      const float theta = rope.theta;
      rope = RopeConfig();
      rope.theta = theta;
    }
    rope.interleaved = false;
    rope.truncate = true;
  }
  std::vector<LayerConfig*> layers;
  for (LayerConfig& layer : config.layers) layers.push_back(&layer);
  if (config.draft_layer) layers.push_back(&*config.draft_layer);
  for (LayerConfig* of : layers) {
    LayerConfig& layer = *of;
    for (SublayerConfig* half : {&layer.mixer_norms, &layer.mlp_norms}) {
      plain(half->before);
      plain(half->behind);
    }
    if (auto* attention = std::get_if<AttentionConfig>(&layer.mixer)) plain(attention->norm);
    if (auto* mamba = std::get_if<MambaConfig>(&layer.mixer)) mamba->log_rates = false;
    if (layer.beside) drop_factors(config, layer);
  }
  return config;
}

class GgufFamilies : public testing::TestWithParam<Converted> {};

TEST_P(GgufFamilies, DescribeTheModelsOfTheFolders) {
  const auto folder = open_model(kModels / GetParam().folder);
  ASSERT_TRUE(folder) << folder.error().message;
  const Bytes bytes = Converter(**folder, GetParam()).convert().bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig wanted = in_common((*folder)->config);
  const ModelConfig got = in_common(model->config);
  EXPECT_EQ(got.family, wanted.family);
  EXPECT_EQ(got.embedding_scale, wanted.embedding_scale);
  EXPECT_EQ(got.logit_scale, wanted.logit_scale);
  EXPECT_EQ(got.logit_softcap, wanted.logit_softcap);
  EXPECT_EQ(got.max_context, wanted.max_context);
  EXPECT_EQ(got.output_norm, wanted.output_norm);
  EXPECT_EQ(got.tied_embeddings, wanted.tied_embeddings);
  EXPECT_EQ(got.ropes, wanted.ropes);
  EXPECT_EQ(got.layers, wanted.layers);
  EXPECT_EQ(got.layer_inputs, wanted.layer_inputs);
  EXPECT_EQ(model->config.ropes.front().interleaved, GetParam().interleaved);
  ASSERT_EQ(model->tensors.size(), (*folder)->tensors.size());
  for (const auto& [name, tensor] : (*folder)->tensors) {
    if (name.ends_with(".ssm_a_log")) {
      const std::string rates = name.substr(0, name.size() - std::string("_log").size());
      ASSERT_TRUE(model->tensors.contains(rates)) << rates;
      std::vector<float> wanted_rates = floats_of(tensor);
      for (float& rate : wanted_rates) rate = -std::exp(rate);
      EXPECT_EQ(floats_of(model->tensors.at(rates)), wanted_rates) << rates;
      continue;
    }
    ASSERT_TRUE(model->tensors.contains(name)) << name;
    const TensorView& other = model->tensors.at(name);
    EXPECT_EQ(data_of(other), data_of(tensor)) << name;
    EXPECT_EQ(other.rows, tensor.rows) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufFamilies, testing::ValuesIn(kConverted), [](const auto& run) {
  std::string name = run.param.folder;
  std::erase(name, '-');
  return name;
});

// Qwen's layer that drafts tokens, as llama.cpp's converter writes it; what the rest of the file
// holds is not compared.
Converted qwen_drafts(const std::string& folder, const std::string& architecture) {
  return {folder,
          architecture,
          [](GgufBuilder& b, const std::string& p) {
            const bool next = p == "qwen3next.";
            b.set_u32(p + "rope.dimension_count", next ? 16 : 8);
            b.set_u32(p + "ssm.conv_kernel", 4);
            b.set_u32(p + "ssm.state_size", 16);
            b.set_u32(p + "ssm.group_count", 2);
            b.set_u32(p + "ssm.time_step_rank", 4);
            b.set_u32(p + "ssm.inner_size", 64);
            b.set_u32(p + "full_attention_interval", 4);
            if (!next)
              b.set_numbers<std::int32_t>(p + "rope.dimension_sections", GgufType::kInt32,
                                          {2, 1, 1, 0});
            if (p == "qwen35.") return;
            b.set_u32(p + "expert_count", 4);
            b.set_u32(p + "expert_used_count", 2);
            b.set_u32(p + "expert_feed_forward_length", 24);
            b.set_u32(p + "expert_shared_feed_forward_length", 40);
          },
          {{"ffn_norm", "post_attention_norm"}, {"ssm_a_log", "ssm_a"}}};
}

class GgufDrafts : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  GgufDrafts() : folder(*open_model(kModels / GetParam().first)) {}
  GgufBuilder converted() const {
    return Converter(*folder, qwen_drafts(GetParam().first, GetParam().second)).convert();
  }
  std::shared_ptr<const ModelSource> folder;
};

TEST_P(GgufDrafts, AreThoseOfTheFolders) {
  const Bytes bytes = converted().bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.layers.size(), 4U);
  ASSERT_TRUE(folder->config.draft_layer.has_value());
  EXPECT_EQ(in_common(model->config).draft_layer, in_common(folder->config).draft_layer);
  std::size_t parts = 0;
  for (const auto& [name, tensor] : folder->tensors) {
    if (!name.starts_with("blk.4.")) continue;
    ++parts;
    ASSERT_TRUE(model->tensors.contains(name)) << name;
    EXPECT_EQ(data_of(model->tensors.at(name)), data_of(tensor)) << name;
  }
  EXPECT_GE(parts, 15U);
}

// A list of the layers with states may have one for the layer that drafts, or none.
TEST_P(GgufDrafts, MayBeListed) {
  for (const std::vector<std::uint8_t>& listed :
       {std::vector<std::uint8_t>{1, 1, 1, 0, 0}, std::vector<std::uint8_t>{1, 1, 1, 0}}) {
    GgufBuilder builder = converted();
    builder.set_numbers<std::uint8_t>(
        std::string(GetParam().second) + ".attention.recurrent_layers", GgufType::kBool, listed);
    const Bytes bytes = builder.bytes();
    const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->config.layers.size(), 4U);
    EXPECT_TRUE(model->config.draft_layer.has_value());
  }
}

// Without what stands before and behind the layer there is nothing to draft with, and no more.
TEST_P(GgufDrafts, AreLeftAloneWhereTheyAreNoWholeLayer) {
  for (const char* part : {"eh_proj", "shared_head_norm"}) {
    GgufBuilder builder = converted();
    std::erase_if(builder.tensors, [part](const auto& tensor) {
      return tensor.name == fmt::format("blk.4.nextn.{}.weight", part);
    });
    const Bytes bytes = builder.bytes();
    const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_FALSE(model->config.draft_layer.has_value()) << part;
    EXPECT_FALSE(model->tensors.contains("blk.4.attn_q.weight")) << part;
  }
}

INSTANTIATE_TEST_SUITE_P(Qwen, GgufDrafts,
                         testing::Values(std::pair{"qwen3-next-tiny", "qwen3next"},
                                         std::pair{"qwen3-5-tiny", "qwen35"},
                                         std::pair{"qwen3-5-moe-tiny", "qwen35moe"}),
                         [](const auto& run) { return std::string(run.param.second); });

TEST(GgufSmolLm3, HasNoPositionsInEveryFourthLayer) {
  const Bytes bytes = tiny_gguf({.architecture = "smollm3", .layers = 5}).bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  std::vector<std::int32_t> ropes;
  for (const LayerConfig& layer : model->config.layers) ropes.push_back(layer.attention()->rope);
  EXPECT_EQ(ropes, (std::vector<std::int32_t>{0, 0, 0, -1, 0}));
  EXPECT_TRUE(model->config.ropes.front().interleaved);
}

// Without a window nothing slides, whatever the pattern says.
TEST(GgufGemma3, MayHaveNoWindow) {
  const auto folder = open_model(kModels / "gemma3-tiny");
  ASSERT_TRUE(folder) << folder.error().message;
  Converted how = *std::find_if(std::begin(kConverted), std::end(kConverted),
                                [](const Converted& c) { return c.folder == "gemma3-tiny"; });
  how.keys = [](GgufBuilder&, const std::string&) {};
  const Bytes bytes = Converter(**folder, how).convert().bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  for (const LayerConfig& layer : model->config.layers) {
    EXPECT_EQ(layer.attention()->window, 0U);
    EXPECT_EQ(layer.attention()->rope, 0);
    EXPECT_EQ(layer.attention()->scale, 0.25F);
  }
}

struct BadFamily {
  std::string name;
  std::string folder;
  std::function<void(json&)> change;
  std::string message;
};

class FamilyConfig : public testing::TestWithParam<BadFamily> {};

TEST_P(FamilyConfig, IsRefusedByName) {
  std::ifstream file(kModels / GetParam().folder / "config.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  json config = json::parse(with_python_words(text));
  GetParam().change(config);
  expect_error(read_hf_config(config.dump(), "config.json"), "config.json: ", GetParam().message);
}

const BadFamily kBadFamilies[] = {
    {"Phi3LongRopeWithoutFactors", "phi3-tiny",
     [](json& c) {
       c["rope_scaling"] = {{"type", "su"}};
     },
     "rope_scaling.short_factor: missing; valid: a list of 4 numbers above 0"},
    {"Phi3LongRopeMiscounted", "phi3-longrope-tiny",
     [](json& c) { c["rope_scaling"]["long_factor"].erase(0); },
     "rope_scaling.long_factor: an array of 5; valid: a list of 6 numbers above 0"},
    {"Phi3LongRopeOfZero", "phi3-longrope-tiny",
     [](json& c) { c["rope_scaling"]["short_factor"][2] = 0; },
     "rope_scaling.short_factor: 0; valid: a list of 6 numbers above 0"},
    {"Phi3LongRopeAsYarn", "phi3-longrope-tiny",
     [](json& c) { c["rope_scaling"]["type"] = "yarn"; },
     "rope_scaling.type: 'yarn'; valid: 'longrope' beside long_factor"},
    {"CohereNormsOfHeads", "cohere-tiny", [](json& c) { c["use_qk_norm"] = true; },
     "use_qk_norm: true; valid: false"},
    {"CohereBias", "cohere-tiny", [](json& c) { c["attention_bias"] = true; },
     "attention_bias: true; valid: false"},
    {"CohereScale", "cohere-tiny", [](json& c) { c["logit_scale"] = 0; },
     "logit_scale: 0; valid: a number from"},
    {"Cohere2Part", "cohere2-tiny", [](json& c) { c["rotary_pct"] = 0.5; },
     "rotary_pct: 0.5; valid: 1"},
    {"GraniteHybridKind", "granite-h-tiny", [](json& c) { c["layer_types"][1] = "conv"; },
     "layer_types: 'conv'; valid: a list of 'attention' and 'mamba' for 4 layers"},
    {"GraniteHybridOfFewer", "granite-h-tiny", [](json& c) { c["layer_types"].erase(0); },
     "layer_types: an array of 3; valid: a list of 'attention' and 'mamba' for 4 layers"},
    {"GraniteHybridAllMamba", "granite-h-tiny", [](json& c) { c["layer_types"][2] = "mamba"; },
     "layers with attention: none; valid: one at least"},
    {"GraniteMambaHeads", "granite-h-tiny", [](json& c) { c["mamba_d_head"] = 8; },
     "mamba_d_head: 8; valid: 16, since 4 heads are 2 times hidden_size 32"},
    {"GraniteMambaShare", "granite-h-tiny",
     [](json& c) {
       c["mamba_d_head"] = "auto";
       c["mamba_n_heads"] = 3;
     },
     "mamba_n_heads: 3; valid: a divisor of 2 times hidden_size 32"},
    {"GraniteMambaGroups", "granite-h-tiny", [](json& c) { c["mamba_n_groups"] = 3; },
     "mamba_n_groups: 3; valid: a divisor of the 4 heads"},
    {"GraniteMambaState", "granite-h-tiny", [](json& c) { c["mamba_d_state"] = 1025; },
     "mamba_d_state: 1025; valid: an integer from 1 to 1024"},
    {"GraniteMambaPositions", "granite-h-tiny", [](json& c) { c["mamba_d_conv"] = 9; },
     "mamba_d_conv: 9; valid: an integer from 2 to 8"},
    {"GraniteMambaBias", "granite-h-tiny", [](json& c) { c["mamba_proj_bias"] = true; },
     "mamba_proj_bias: true; valid: false"},
    {"GraniteMambaSteps", "granite-h-tiny",
     [](json& c) {
       c["time_step_limit"] = {0.001, 0.1};
     },
     "time_step_limit: [0.001,0.1]; valid: [0.0, Infinity]"},
    {"GraniteHybridOfNothing", "granite-hybrid-tiny", [](json& c) { c.erase("layer_types"); },
     "layer_types: missing; valid: a list of 'attention'"},
    {"NemotronPattern", "nemotron-h-tiny", [](json& c) { c["hybrid_override_pattern"] = "M-*Mx"; },
     "hybrid_override_pattern: 'M-*Mx'; valid: a text of the letters M, *, - and E"},
    {"NemotronPatternOfFewer", "nemotron-h-tiny",
     [](json& c) { c["hybrid_override_pattern"] = "M-*M"; },
     "num_hidden_layers: 5; valid: the 4 layers of the list of their kinds"},
    {"NemotronKind", "nemotron-h-tiny",
     [](json& c) {
       c["layers_block_type"] = {"mamba", "mlp", "attention", "mamba", "conv"};
     },
     "layers_block_type: 'conv'; valid: a list of 'mamba', 'attention', 'mlp', 'moe'"},
    {"NemotronActivation", "nemotron-h-tiny", [](json& c) { c["mlp_hidden_act"] = "silu"; },
     "mlp_hidden_act: 'silu'; valid: 'relu2'"},
    {"NemotronBias", "nemotron-h-tiny", [](json& c) { c["use_bias"] = true; },
     "use_bias: true; valid: false"},
    {"NemotronSteps", "nemotron-h-tiny",
     [](json& c) {
       c["time_step_limit"] = {0.0, 1.0};
     },
     "time_step_limit: [0.0,1.0]; valid: [0.0, Infinity]"},
    {"NemotronLatents", "nemotron-h-moe-tiny", [](json& c) { c["moe_latent_size"] = 16; },
     "moe_latent_size: 16; valid: null: experts of whole rows"},
    {"FalconHeads", "falcon-h1-tiny", [](json& c) { c["mamba_n_heads"] = 4; },
     "mamba_d_head: 16; valid: 12, since 4 heads are the 48 of all heads"},
    {"FalconFactors", "falcon-h1-tiny",
     [](json& c) {
       c["ssm_multipliers"] = {1.0, 2.0, 3.0};
     },
     "ssm_multipliers: [1.0,2.0,3.0]; valid: a list of 5 numbers above 0"},
    {"FalconFactor", "falcon-h1-tiny", [](json& c) { c["key_multiplier"] = -1; },
     "key_multiplier: -1; valid: a number from"},
    {"FalconBias", "falcon-h1-tiny", [](json& c) { c["projectors_bias"] = true; },
     "projectors_bias: true; valid: false"},
    {"GraniteHybridPositions", "granite-hybrid-tiny",
     [](json& c) { c["position_embedding_type"] = "learned"; },
     "position_embedding_type: 'learned'; valid: 'rope', 'nope'"},
    {"GraniteExperts", "granite-moe-tiny", [](json& c) { c.erase("num_local_experts"); },
     "num_local_experts: missing; valid: an integer from 1 to 1024"},
    {"Lfm2Bias", "lfm2-tiny", [](json& c) { c["conv_bias"] = true; },
     "conv_bias: true; valid: false"},
    {"Lfm2Positions", "lfm2-tiny", [](json& c) { c["conv_L_cache"] = 1; },
     "conv_L_cache: 1; valid: an integer from 2 to 8"},
    {"Lfm2LayerBeyondTheLast", "lfm2-tiny",
     [](json& c) {
       c["full_attn_idxs"] = {1, 3};
     },
     "full_attn_idxs: 3; valid: a list of numbers of the 3 layers"},
    {"Lfm2LayersOfAnotherKind", "lfm2-tiny",
     [](json& c) {
       c["layer_types"] = {"conv", "sliding_attention", "conv"};
     },
     "layer_types: 'sliding_attention'; valid: conv, full_attention"},
    {"Lfm2WithoutAttention", "lfm2-tiny", [](json& c) { c["full_attn_idxs"] = json::array(); },
     "layers with attention: none; valid: one at least"},
    {"Lfm2ScaledExperts", "lfm2-moe-tiny", [](json& c) { c["routed_scaling_factor"] = 2; },
     "routed_scaling_factor: 2; valid: 1"},
    {"Lfm2SizeHuge", "lfm2-tiny",
     [](json& c) {
       c["intermediate_size"] = 1U << 20U;
       c["block_ffn_dim_multiplier"] = 1000;
     },
     "block_ffn_dim_multiplier: 1000; valid: a feed-forward of 1 to 1048576"},
    {"Phi3PartOfAPair", "phi3-tiny", [](json& c) { c["partial_rotary_factor"] = 0.2; },
     "partial_rotary_factor: 0.2; valid: an even number of the 16 elements of a head"},
    {"Glm4NoPart", "glm4-tiny", [](json& c) { c["partial_rotary_factor"] = 0; },
     "partial_rotary_factor: 0; valid: an even number"},
    {"WindowZero", "gemma3-tiny", [](json& c) { c["sliding_window"] = 0; },
     "sliding_window: 0; valid: an integer from 1"},
    {"WindowHuge", "gemma3-tiny", [](json& c) { c["sliding_window"] = 1ULL << 63U; },
     "sliding_window: 9223372036854775808; valid: an integer from 1"},
    {"PatternNegative", "gemma3-tiny", [](json& c) { c["sliding_window_pattern"] = -1; },
     "sliding_window_pattern: -1; valid: an integer from 0"},
    {"LayersMiscounted", "exaone4-tiny", [](json& c) { c["layer_types"].erase(0); },
     "layer_types: an array of 2; valid: a list of 3 names"},
    {"LayersOfAnotherKind", "gpt-oss-tiny", [](json& c) { c["layer_types"][1] = "chunked"; },
     "layer_types: 'chunked'; valid: full_attention, sliding_attention"},
    {"SlidingWithoutWindow", "exaone4-tiny", [](json& c) { c["sliding_window"] = nullptr; },
     "sliding_window: missing; valid: a number of positions"},
    {"HeadsNotOfGroups", "gemma2-tiny", [](json& c) { c["num_key_value_heads"] = 3; },
     "number of key-value heads: 3; valid: a divisor of the 4 heads"},
    {"BothWays", "gemma3-tiny", [](json& c) { c["use_bidirectional_attention"] = true; },
     "use_bidirectional_attention: true; valid: false"},
    {"Activation", "gemma2-tiny", [](json& c) { c["hidden_activation"] = "relu"; },
     "hidden_activation: 'relu'; valid: 'gelu_pytorch_tanh'"},
    {"LocalScaling", "olmo3-tiny",
     [](json& c) { c["rope_parameters"]["sliding_attention"]["rope_type"] = "yarn"; },
     "rope_parameters.sliding_attention.rope_type: 'yarn'; valid: 'default' for these layers"},
    {"NoPositionsMiscounted", "smollm3-tiny", [](json& c) { c["no_rope_layers"] = {1}; },
     "no_rope_layers: an array of 1; valid: a list of 3 values"},
    {"NoPositionsOfText", "smollm3-tiny",
     [](json& c) {
       c["no_rope_layers"] = {"yes", 1, 1};
     },
     "no_rope_layers: 'yes'; valid: 0 or 1"},
    {"GraniteBias", "granite-tiny", [](json& c) { c["attention_bias"] = true; },
     "attention_bias: true; valid: false"},
    {"GraniteScale", "granite-tiny", [](json& c) { c["logits_scaling"] = 0; },
     "logits_scaling: 0; valid: a number from"},
    {"Temperature", "ministral3-tiny",
     [](json& c) { c["rope_parameters"]["llama_4_scaling_beta"] = -1; },
     "rope_parameters.llama_4_scaling_beta: -1; valid: a number from 0"},
    {"Clamp", "gpt-oss-tiny", [](json& c) { c["swiglu_limit"] = 5.0; },
     "swiglu_limit: 5; valid: 7"},
    {"MoreUsedThanThereAre", "gpt-oss-tiny", [](json& c) { c["num_experts_per_tok"] = 5; },
     "experts used by a token: 5; valid: 1 to 4"},
};

INSTANTIATE_TEST_SUITE_P(Bad, FamilyConfig, testing::ValuesIn(kBadFamilies),
                         [](const auto& run) { return run.param.name; });

// A pattern that is longer than the model lets all layers slide.
TEST(Gemma3Pattern, MayBeLongerThanTheModel) {
  std::ifstream file(kModels / "gemma3-tiny" / "config.json");
  json config = json::parse(file);
  config["sliding_window_pattern"] = 1000;
  const auto parsed = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(parsed) << parsed.error().message;
  for (const LayerConfig& layer : parsed->layers) EXPECT_EQ(layer.attention()->window, 16U);
}

}  // namespace
}  // namespace dovetail::families
