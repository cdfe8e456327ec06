#include "laws/exactness_models.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dovetail::laws {

using kernels::DataType;
using load::AttentionConfig;
using load::LayerConfig;
using load::ModelConfig;

test::RandomModelOptions of(std::string_view family, DataType type, std::uint32_t window) {
  test::RandomModelOptions options = test::options_of(family);
  options.type = type;
  options.sliding_window = window;
  options.tied_embeddings = family == "qwen2";
  if (kernels::info(type).elements_per_block > 32) {
    options.hidden_size = options.intermediate_size = 256;
    options.head_dim = 64;
    options.layers = 1;
  }
  return options;
}

test::RandomModelOptions with_experts(std::string_view family, DataType type, std::uint32_t experts,
                                      std::uint32_t used) {
  test::RandomModelOptions options = of(family, type);
  options.intermediate_size = 192;
  options.experts = experts;
  options.experts_used = used;
  options.experts_normalized = family == "mixtral";
  return options;
}

namespace {

// No size is a multiple of any vector's width, and a tile of queries needs several walks over the
// context.
test::RandomModelOptions odd(DataType type) {
  test::RandomModelOptions options = of("qwen3", type, 37);
  options.hidden_size = 70;
  options.intermediate_size = 53;
  options.heads = 10;
  options.kv_heads = 2;
  options.head_dim = 22;
  options.vocab_size = 101;
  return options;
}

// A model of four layers, each made of the usual one.
template <class Change>
test::RandomModelOptions four_layers(DataType type, Change change) {
  test::RandomModelOptions options = of("llama", type);
  options.layers = 4;
  options.change = [change](ModelConfig& config) {
    for (std::size_t i = 0; i < config.layers.size(); ++i) change(config, config.layers[i], i);
  };
  return options;
}

// Windows in three of four layers, two rotations, norms before and behind, GeGLU, caps: Gemma.
test::RandomModelOptions gemma_parts() {
  return four_layers(DataType::kF16, [](ModelConfig& config, LayerConfig& layer, std::size_t i) {
    config.embedding_scale = 8.0F;
    config.logit_softcap = 30.0F;
    config.ropes.resize(2);
    config.ropes[1].theta = 1e6F;
    const load::NormConfig norm = {.kind = load::NormKind::kRms, .offset = 1.0F};
    layer.mixer_norms = {norm, norm, {}};
    layer.mlp_norms = {norm, norm, {}};
    auto& attention = std::get<AttentionConfig>(layer.mixer);
    attention.window = i == 3 ? 0 : 19;
    attention.rope = i == 3 ? 1 : 0;
    attention.softcap = 20.0F;
    attention.query_key_norm = load::QueryKeyNorm::kHead;
    attention.norm = norm;
    std::get<load::MlpConfig>(layer.mlp).activation = load::Activation::kGeluTanh;
  });
}

// Values of the keys' matrix, heads of two sizes, layers that have others' keys and values, an
// input by the token, experts beside a feed-forward in the later two: Gemma 4.
test::RandomModelOptions gemma4_parts(DataType type) {
  return four_layers(type, [](ModelConfig& config, LayerConfig& layer, std::size_t i) {
    const load::NormConfig norm = {.kind = load::NormKind::kRms};
    config.ropes.resize(2);
    config.ropes[1].frequency_divisors = {1.0F,  1.0F,  1.0F,  1.0F,  1e30F, 1e30F, 1e30F, 1e30F,
                                          1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F};
    config.layer_inputs.size = 32;
    config.layer_inputs.norm = norm;
    layer.mixer_norms = layer.mlp_norms = {norm, norm, {}};
    layer.scaled = true;
    const bool full = i % 2 == 1;
    auto& attention = std::get<AttentionConfig>(layer.mixer);
    attention.window = full ? 0 : 19;
    attention.rope = full ? 1 : 0;
    attention.head_dim = full ? 32 : 16;
    attention.kv_heads = full ? 1 : 2;
    attention.scale = 0.3F;
    attention.query_key_norm = load::QueryKeyNorm::kHead;
    attention.norm = norm;
    if (i < 2) attention.value_norm = norm;
    if (i == 1) attention.values_of_keys = true;
    if (i >= 2) attention.shares = static_cast<std::int32_t>(i) - 2;
    auto& mlp = std::get<load::MlpConfig>(layer.mlp);
    mlp.activation = load::Activation::kGeluTanh;
    if (i < 2) return;
    load::ExpertsConfig experts;
    experts.count = 5;
    experts.used = 2;
    experts.size = 64;
    experts.normalized = experts.scaled = true;
    experts.activation = load::Activation::kGeluTanh;
    experts.shared_size = 96;
    experts.apart = norm;
    layer.mlp = experts;
  });
}

// A gate for each head, norms behind the rotation, short convolutions between: LFM3, Hunyuan.
test::RandomModelOptions gated_heads() {
  return four_layers(DataType::kQ8_0, [](ModelConfig& config, LayerConfig& layer, std::size_t i) {
    const load::NormConfig norm = {.kind = load::NormKind::kRms};
    auto& attention = std::get<AttentionConfig>(layer.mixer);
    attention.window = i == 2 ? 23 : 0;
    attention.gate = i == 0 ? load::AttentionGate::kHeads : load::AttentionGate::kElements;
    attention.query_key_norm = load::QueryKeyNorm::kTurnedHead;
    attention.norm = norm;
    layer.mixer_norms = layer.mlp_norms = {norm, norm, {}};
    if (i % 2 == 0) return;
    load::ShortConvConfig convolution;
    convolution.channels = config.hidden_size;
    convolution.convolution = 7;
    layer.mixer = convolution;
  });
}

// Sinks, biases everywhere, windows in every second layer, clamped experts: gpt-oss.
test::RandomModelOptions gpt_oss_parts() {
  return four_layers(DataType::kQ8_0, [](ModelConfig&, LayerConfig& layer, std::size_t i) {
    auto& attention = std::get<AttentionConfig>(layer.mixer);
    attention.window = i % 2 == 0 ? 23 : 0;
    attention.sinks = attention.bias = attention.output_bias = true;
    load::ExpertsConfig experts;
    experts.count = 5;
    experts.used = 2;
    experts.size = 96;
    experts.normalized = experts.bias = true;
    experts.activation = load::Activation::kClampedSwiglu;
    layer.mlp = experts;
  });
}

// Gated DeltaNet in three of four layers, an output gate, a part of each head turned: Qwen3.5; with
// a shared expert Qwen3-Next. With a layer that drafts, what layers add to a row is small, so that
// it is often right.
test::RandomModelOptions hybrid_parts(DataType type, bool experts, bool drafts) {
  return four_layers(
      type, [experts, drafts](ModelConfig& config, LayerConfig& layer, std::size_t i) {
        config.ropes.front().dims = 4;
        if (drafts) {
          const load::NormConfig norm = {.kind = load::NormKind::kRms, .offset = 1.0F};
          config.embedding_scale = 8.0F;
          layer.mixer_norms = {norm, {}, {}, 0.1F};
          layer.mlp_norms = layer.mixer_norms;
          config.output_norm = norm;
        }
        if (experts) {
          load::ExpertsConfig some;
          some.count = 5;
          some.used = 2;
          some.size = 64;
          some.normalized = some.shared_gated = true;
          some.shared_size = 48;
          layer.mlp = some;
        }
        auto& attention = std::get<AttentionConfig>(layer.mixer);
        attention.gate = load::AttentionGate::kWithQueries;
        if (drafts) {
          attention.query_key_norm = load::QueryKeyNorm::kHead;
          attention.norm = layer.mixer_norms.before;
          config.draft_layer = layer;
        }
        if (i == 3) return;
        load::DeltaConfig delta;
        delta.key_heads = 2;
        delta.value_heads = 4;
        delta.key_dim = 24;
        delta.value_dim = 16;
        layer.mixer = delta;
      });
}

// Mamba-2 in three of four layers, with and without a norm behind it, and experts with a shared one
// in two: Granite 4.0 H.
test::RandomModelOptions mamba_parts(DataType type) {
  return four_layers(type, [](ModelConfig&, LayerConfig& layer, std::size_t i) {
    layer.mixer_norms.scale = layer.mlp_norms.scale = 0.7F;
    if (i >= 2) {
      load::ExpertsConfig experts;
      experts.count = 5;
      experts.used = 2;
      experts.size = 64;
      experts.normalized = true;
      experts.shared_size = 32;
      layer.mlp = experts;
    }
    if (i == 2) return;
    load::MambaConfig mamba;
    mamba.heads = 6;
    mamba.head_dim = i == 0 ? 16 : 32;
    mamba.groups = i == 0 ? 1 : 2;
    mamba.state_dim = i == 0 ? 40 : 16;
    mamba.convolution = i == 3 ? 3 : 4;
    mamba.convolution_bias = i != 3;
    if (i != 3) mamba.norm = {.kind = load::NormKind::kRms};
    layer.mixer = mamba;
  });
}

// Kimi Delta Attention, latent attention without positions in one layer of four, and experts behind
// the first: Kimi Linear.
test::RandomModelOptions kimi_parts(DataType type) {
  return four_layers(type, [](ModelConfig&, LayerConfig& layer, std::size_t i) {
    if (i > 0) {
      load::ExpertsConfig experts;
      experts.count = 5;
      experts.used = 2;
      experts.size = 64;
      experts.gate = load::ExpertGate::kSigmoid;
      experts.normalized = experts.picks_biased = true;
      experts.shared_size = 32;
      layer.mlp = experts;
    }
    if (i == 2) {
      load::LatentConfig latent;
      latent.heads = 3;
      latent.latent_dim = 64;
      latent.rope_dim = 32;
      latent.key_dim = latent.value_dim = 32;
      latent.scale = 0.125F;
      latent.rope = -1;
      latent.norm = layer.mixer_norms.before;
      layer.mixer = latent;
      return;
    }
    load::KimiDeltaConfig delta;
    delta.heads = i == 0 ? 2 : 4;
    delta.head_dim = i == 0 ? 64 : 32;
    delta.convolution = i == 3 ? 3 : 4;
    layer.mixer = delta;
  });
}

// Layers of one sublayer each: Mamba-2, experts without gates, attention, and last a feed-forward
// without a gate, which the rows without outputs never see: Nemotron-H.
test::RandomModelOptions single_parts(DataType type) {
  test::RandomModelOptions options =
      four_layers(type, [](ModelConfig&, LayerConfig& layer, std::size_t i) {
        if (i == 0 || i == 4) {
          load::MambaConfig mamba;
          mamba.heads = 4;
          mamba.head_dim = 24;
          mamba.groups = 2;
          mamba.state_dim = 16;
          mamba.norm = {.kind = load::NormKind::kRms};
          layer.mixer = mamba;
        } else if (i == 1) {
          load::ExpertsConfig experts;
          experts.count = 6;
          experts.used = 2;
          experts.size = 64;
          experts.gate = load::ExpertGate::kSigmoid;
          experts.normalized = experts.picks_biased = true;
          experts.scale = 2.5F;
          experts.shared_size = 32;
          experts.gated = false;
          experts.activation = load::Activation::kRelu2;
          layer.mlp = experts;
        }
        const bool mixes = i == 0 || i == 2 || i == 4;
        if (mixes) {
          layer.mlp = std::monostate();
          layer.mlp_norms = {};
        } else {
          layer.mixer = std::monostate();
          layer.mlp_norms = layer.mixer_norms;
          layer.mixer_norms = {};
        }
        if (i < 5 || mixes) return;
        load::MlpConfig mlp;
        mlp.size = 96;
        mlp.gated = false;
        mlp.activation = load::Activation::kRelu2;
        layer.mlp = mlp;
      });
  options.layers = 7;
  return options;
}

// Mamba-2 beside attention in every layer, all of it scaled: Falcon-H1.
test::RandomModelOptions beside_parts(DataType type) {
  return four_layers(type, [](ModelConfig&, LayerConfig& layer, std::size_t i) {
    load::MambaConfig mamba;
    mamba.heads = 4;
    mamba.head_dim = 24;
    mamba.groups = 2;
    mamba.state_dim = 16;
    mamba.gate_scale = 0.7F;
    mamba.input_scale = 1.2F;
    mamba.write_scale = 0.9F;
    mamba.read_scale = 1.1F;
    mamba.step_scale = 0.8F;
    if (i % 2 == 1) mamba.norm = {.kind = load::NormKind::kRms};
    mamba.norm_first = i == 3;
    layer.mixer_norms.scale = 0.9F;
    layer.beside = mamba;
    layer.beside_scale = 0.6F;
    layer.mlp_norms.scale = 0.5F;
    std::get<load::MlpConfig>(layer.mlp).gate_scale = 0.8F;
  });
}

// Convolutions between gates in three of four layers, experts by sigmoids in two: LFM2.
test::RandomModelOptions convolution_parts() {
  return four_layers(DataType::kF16, [](ModelConfig& config, LayerConfig& layer, std::size_t i) {
    if (i >= 2) {
      load::ExpertsConfig experts;
      experts.count = 5;
      experts.used = 2;
      experts.size = 64;
      experts.gate = load::ExpertGate::kSigmoid;
      experts.normalized = experts.picks_biased = true;
      layer.mlp = experts;
    }
    if (i != 2) layer.mixer = load::ShortConvConfig{config.hidden_size, i == 0 ? 3U : 4U};
  });
}

// Latent attention, a dense layer and then experts in groups with a shared one beside them:
// DeepSeek. `v3`: queries of low rank, sigmoids with biases, heads' matrices apart, a layer that
// drafts. `top`: an indexer picks so many positions, as in V3.2; 0: there is none.
test::RandomModelOptions latent_parts(DataType type, bool v3, std::uint32_t top = 0) {
  test::RandomModelOptions options =
      four_layers(type, [v3, top](ModelConfig& config, LayerConfig& layer, std::size_t i) {
        config.ropes.front().interleaved = true;
        load::LatentConfig latent;
        latent.heads = 5;
        latent.latent_dim = 32;
        latent.rope_dim = 8;
        latent.key_dim = 32;
        latent.value_dim = v3 ? 32 : 40;  // rows of values fill blocks of Q8_0
        latent.scale = 0.16F;
        latent.norm = {.kind = load::NormKind::kRms};
        latent.query_rank = v3 ? 32 : 0;
        latent.split = v3;
        if (top > 0) {
          latent.index_heads = 3;
          latent.index_dim = 16;
          latent.index_top = top;
          latent.index_norm = {.kind = load::NormKind::kLayer, .bias = true};
        }
        layer.mixer = latent;
        if (i == 0) return;
        load::ExpertsConfig experts;
        experts.count = 8;
        experts.used = 3;
        experts.size = 32;
        experts.groups = 4;
        experts.groups_used = 2;
        experts.groups_by_two = v3;
        experts.gate = v3 ? load::ExpertGate::kSigmoid : load::ExpertGate::kSoftmax;
        experts.picks_biased = experts.normalized = v3;
        experts.least_sum = 1e-20F;
        experts.scale = 1.5F;
        experts.shared_size = 64;
        layer.mlp = experts;
        if (v3) config.draft_layer = layer;
      });
  if (v3) options.heads = 4;
  return options;
}

// Windows, compressed entries of two kinds (those of more than 16 positions in slices),
// hyper-connections, experts by the token's number, and a layer that drafts: DeepSeek-V4.
test::RandomModelOptions compressed_parts(DataType type, std::uint32_t ratio) {
  test::RandomModelOptions options = of("llama", type);
  options.layers = 4;
  options.change = [ratio](ModelConfig& config) {
    const std::uint32_t ratios[] = {0, 4, ratio, 4};
    test::make_compressed(config, 21, ratios);
  };
  return options;
}

// Feed-forwards beside attention, layer norms without biases, pairs of neighbours, windows and
// layers without positions, scaled logits: Cohere.
test::RandomModelOptions parallel_parts() {
  return four_layers(DataType::kBF16, [](ModelConfig& config, LayerConfig& layer, std::size_t i) {
    const load::NormConfig norm = {.kind = load::NormKind::kLayer};
    config.output_norm = norm;
    config.logit_scale = 0.5F;
    config.ropes.front().interleaved = true;
    layer.parallel = true;
    layer.mixer_norms = {norm, {}, {}};
    layer.mlp_norms = {};
    auto& attention = std::get<AttentionConfig>(layer.mixer);
    attention.window = i == 3 ? 0 : 21;
    attention.rope = i == 3 ? -1 : 0;
  });
}

// A context that is longer than LongRoPE's short one, in which most sequences begin: Phi-4-mini.
test::RandomModelOptions longrope_parts() {
  return four_layers(DataType::kF32, [](ModelConfig& config, LayerConfig&, std::size_t) {
    load::RopeConfig& rope = config.ropes.front();
    rope.scaling = load::RopeScaling::kLongRope;
    rope.dims = 12;
    rope.original_context = 32;
    rope.attention_factor = 1.2F;
    rope.frequency_divisors = {1.0F, 1.0F, 1.1F, 1.2F, 1.3F, 1.4F};
    rope.long_divisors = {1.0F, 1.5F, 2.0F, 3.0F, 5.0F, 8.0F};
  });
}

// Layers without positions, norms of rows, norms behind sums, a plain feed-forward with biases,
// temperatures and scales.
test::RandomModelOptions other_parts() {
  return four_layers(DataType::kF32, [](ModelConfig& config, LayerConfig& layer, std::size_t i) {
    const load::NormConfig norm = {.kind = load::NormKind::kLayer, .bias = true};
    config.embedding_norm = config.output_norm = norm;
    config.logit_scale = 0.25F;
    auto& attention = std::get<AttentionConfig>(layer.mixer);
    attention.rope = i % 2 == 0 ? 0 : -1;
    attention.query_key_norm = load::QueryKeyNorm::kRow;
    attention.norm = {.kind = load::NormKind::kRms};
    attention.temperature = 0.3F;
    attention.temperature_context = 16;
    layer.mixer_norms = {{}, {}, norm, 0.5F};
    layer.mlp_norms = {norm, {}, {}, 0.7F};
    load::MlpConfig mlp;
    mlp.size = 80;
    mlp.gated = false;
    mlp.bias = true;
    mlp.activation = i % 2 == 0 ? load::Activation::kRelu2 : load::Activation::kGelu;
    if (i == 2) mlp.xielu.emplace();
    layer.mlp = mlp;
  });
}

}  // namespace

std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases;
#define DOVETAIL_CASE(type) cases.push_back({"Llama" #type, of("llama", DataType::k##type)});
  DOVETAIL_WEIGHT_TYPES(DOVETAIL_CASE)
#undef DOVETAIL_CASE
  std::vector<ModelCase> parts = {{"MistralWindow", of("mistral", DataType::kBF16, 21)},
                                  {"Qwen2", of("qwen2", DataType::kQ8_0)},
                                  {"Qwen3", of("qwen3", DataType::kBF16)},
                                  {"Mixtral", with_experts("mixtral", DataType::kBF16, 4, 2)},
                                  {"Qwen3Moe", with_experts("qwen3_moe", DataType::kQ8_0, 7, 3)},
                                  {"OddSizesF32", odd(DataType::kF32)},
                                  {"OddSizesBF16", odd(DataType::kBF16)},
                                  {"GemmaParts", gemma_parts()},
                                  {"GatedHeadsQ8_0", gated_heads()},
                                  {"Gemma4PartsBF16", gemma4_parts(DataType::kBF16)},
                                  {"Gemma4PartsQ8_0", gemma4_parts(DataType::kQ8_0)},
                                  {"GptOssParts", gpt_oss_parts()},
                                  {"Hybrid", hybrid_parts(DataType::kQ8_0, false, false)},
                                  {"HybridDrafts", hybrid_parts(DataType::kF16, false, true)},
                                  {"HybridExperts", hybrid_parts(DataType::kBF16, true, true)},
                                  {"KimiPartsBF16", kimi_parts(DataType::kBF16)},
                                  {"KimiPartsQ8_0", kimi_parts(DataType::kQ8_0)},
                                  {"MambaPartsBF16", mamba_parts(DataType::kBF16)},
                                  {"MambaPartsQ8_0", mamba_parts(DataType::kQ8_0)},
                                  {"SinglePartsBF16", single_parts(DataType::kBF16)},
                                  {"SinglePartsQ8_0", single_parts(DataType::kQ8_0)},
                                  {"BesidePartsBF16", beside_parts(DataType::kBF16)},
                                  {"BesidePartsQ8_0", beside_parts(DataType::kQ8_0)},
                                  {"ConvolutionParts", convolution_parts()},
                                  {"LatentPartsF32", latent_parts(DataType::kF32, false)},
                                  {"LatentPartsBF16", latent_parts(DataType::kBF16, false)},
                                  {"LatentPartsQ8_0", latent_parts(DataType::kQ8_0, true)},
                                  {"PickedPartsF32", latent_parts(DataType::kF32, true, 12)},
                                  {"PickedPartsQ8_0", latent_parts(DataType::kQ8_0, true, 40)},
                                  {"CompressedPartsF32", compressed_parts(DataType::kF32, 32)},
                                  {"CompressedPartsBF16", compressed_parts(DataType::kBF16, 16)},
                                  {"CompressedPartsQ8_0", compressed_parts(DataType::kQ8_0, 48)},
                                  {"ParallelParts", parallel_parts()},
                                  {"LongRopeParts", longrope_parts()},
                                  {"OtherParts", other_parts()}};
  std::move(parts.begin(), parts.end(), std::back_inserter(cases));
  return cases;
}

}  // namespace dovetail::laws
