#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "families/numbers_of.h"
#include "families/open_model.h"
#include "load/model_source.h"
#include "support/places.h"

namespace dovetail::families {
namespace {

using namespace load;

const std::filesystem::path kGoldenModelFolders =
    std::filesystem::path(test::source_dir()) / "tests" / "golden" / "models";

struct Golden {
  std::string folder;
  std::string family;
  RopeScaling scaling = RopeScaling::kNone;
  std::uint32_t sliding_window = 0;
  kernels::DataType type = kernels::DataType::kF32;
  float attention_factor = 1.0F;
  ExpertsConfig experts = {};
};

class GoldenModels : public testing::TestWithParam<Golden> {};

TEST_P(GoldenModels, OpenAsTheyWereMade) {
  const Golden& golden = GetParam();
  const auto opened = open_model(kGoldenModelFolders / golden.folder);
  ASSERT_TRUE(opened) << opened.error().message;
  const ModelSource& model = **opened;
  const DecoderNumbers config = numbers_of(model.config);
  EXPECT_EQ(model.name, golden.folder);
  EXPECT_EQ(config.family, golden.family);
  EXPECT_EQ(config.rope.scaling, golden.scaling);
  EXPECT_EQ(config.sliding_window, golden.sliding_window);
  EXPECT_FLOAT_EQ(config.rope.attention_factor, golden.attention_factor);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_TRUE(config.rope.frequency_divisors.empty());
  EXPECT_EQ(config.attention_bias, golden.family == "qwen2");
  EXPECT_EQ(config.qk_norm, golden.family == "qwen3" || golden.family == "qwen3_moe");
  EXPECT_EQ(config.experts.count, golden.experts.count);
  EXPECT_EQ(config.experts.used, golden.experts.used);
  EXPECT_EQ(config.experts.normalized, golden.experts.normalized);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(model.tokenizer));
  EXPECT_EQ(model.tensors.at("blk.0.attn_q.weight").type, golden.type);
  EXPECT_EQ(model.tensors.contains("output.weight"), !config.tied_embeddings);

  std::ifstream file(kGoldenModelFolders / golden.folder / "config.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(config.vocab_size, json.at("vocab_size"));
  EXPECT_EQ(config.layers, json.at("num_hidden_layers"));
  EXPECT_EQ(config.kv_heads, json.at("num_key_value_heads"));
  EXPECT_EQ(model.generation.eos_ids, std::vector<std::int32_t>{json.at("eos_token_id")});
}

const Golden kGoldenModels[] = {
    {"llama2-tiny", "llama"},
    {"llama3-tiny", "llama", RopeScaling::kLlama3},
    {"llama-linear-tiny", "llama", RopeScaling::kLinear},
    {"llama-yarn-tiny", "llama", RopeScaling::kYarn, 0, kernels::DataType::kF32, 1.1386294F},
    {"mistral-tiny", "mistral", RopeScaling::kNone, 16},
    {"mistral-f16-tiny", "mistral", RopeScaling::kNone, 0, kernels::DataType::kF16},
    {"qwen2-tiny", "qwen2"},
    {"qwen2-bf16-tiny", "qwen2", RopeScaling::kNone, 0, kernels::DataType::kBF16},
    {"qwen3-tiny", "qwen3"},
    {"qwen3-yarn-tiny", "qwen3", RopeScaling::kYarn, 0, kernels::DataType::kF32, 1.25F},
    {.folder = "qwen3-moe-tiny",
     .family = "qwen3_moe",
     .experts = {.count = 8, .used = 3, .normalized = true}},
    {.folder = "qwen3-moe-raw-tiny",
     .family = "qwen3_moe",
     .experts = {.count = 6, .used = 2, .normalized = false}},
    {.folder = "mixtral-tiny",
     .family = "mixtral",
     .experts = {.count = 4, .used = 2, .normalized = true}},
};

INSTANTIATE_TEST_SUITE_P(All, GoldenModels, testing::ValuesIn(kGoldenModels), [](const auto& run) {
  std::string name = run.param.folder;
  std::erase(name, '-');
  return name;
});

// Families whose layers differ: what each layer of the golden is made of, in short.
struct Composed {
  std::string folder;
  std::vector<std::string> layers;
};

std::string in_short(const NormConfig& norm) {
  return norm ? fmt::format("norm{}", norm.offset == 0.0F ? "" : "+1") : "";
}

std::string in_short(const ExpertsConfig& experts) {
  std::string out =
      fmt::format("|{} of {} experts of {}", experts.used, experts.count, experts.size);
  if (experts.shared_size != 0) out += fmt::format(" and {}", experts.shared_size);
  if (experts.gate == ExpertGate::kSigmoid) out += " by sigmoids";
  if (experts.gate == ExpertGate::kRootSoftplus) out += " by roots";
  if (experts.by_token) out += " by token";
  if (experts.limit != 0.0F) out += fmt::format(" within {}", experts.limit);
  if (experts.scale != 1.0F) out += fmt::format(" x{}", experts.scale);
  if (experts.scaled) out += " each scaled";
  if (experts.apart) out += " apart";
  if (experts.groups > 1)
    out += fmt::format(" of {}/{} groups", experts.groups_used, experts.groups);
  return experts.picks_biased ? out + ", biased" : out;
}

std::string in_short(const MambaConfig& mamba) {
  std::string out = fmt::format(
      "mamba {} of {}, {} of {}{}{}|", mamba.heads, mamba.head_dim, mamba.groups, mamba.state_dim,
      mamba.convolution_bias ? " biased" : "", mamba.norm ? " normed" : "");
  if (mamba.step_scale != 1.0F)
    out += fmt::format("{:.4} {:.4} {:.4} {:.4} {:.4}", mamba.gate_scale, mamba.input_scale,
                       mamba.write_scale, mamba.read_scale, mamba.step_scale);
  return out;
}

std::string in_short(const ModelConfig& config, const LayerConfig& layer) {
  if (!layer.mixes()) {
    const std::string norm = in_short(layer.mlp_norms.before);
    if (layer.experts() != nullptr)
      return norm + in_short(*layer.experts()) + (layer.experts()->gated ? "" : ", no gates");
    return fmt::format("{}|{} {}", norm, layer.dense()->gated ? "gated" : "plain",
                       layer.dense()->size);
  }
  std::string out = in_short(layer.mixer_norms.before) + "|";
  if (const DeltaConfig* delta = layer.delta()) {
    return out + fmt::format("delta {} of {}, {} of {}", delta->key_heads, delta->key_dim,
                             delta->value_heads, delta->value_dim);
  }
  if (const KimiDeltaConfig* delta = layer.kimi_delta()) {
    return out + fmt::format("kimi delta {} of {}, {} positions{}", delta->heads, delta->head_dim,
                             delta->convolution,
                             layer.experts() != nullptr ? in_short(*layer.experts()) : "");
  }
  if (layer.mamba() != nullptr && !layer.beside) {
    out += in_short(*layer.mamba());
    if (layer.mixer_norms.scale != 1.0F) out += fmt::format(" x{}", layer.mixer_norms.scale);
    return out + "|" + in_short(layer.mlp_norms.before) +
           (layer.experts() != nullptr ? in_short(*layer.experts()) : "");
  }
  if (const ShortConvConfig* convolution = layer.short_conv()) {
    return out + fmt::format("convolution {} of {}|{}|{}|{}{}", convolution->channels,
                             convolution->convolution, in_short(layer.mixer_norms.behind),
                             in_short(layer.mlp_norms.before), in_short(layer.mlp_norms.behind),
                             layer.experts() != nullptr ? in_short(*layer.experts()) : "");
  }
  if (const CompressedConfig* mixer = layer.compressed()) {
    const RopeConfig& rope = config.ropes.at(static_cast<std::size_t>(mixer->rope));
    return out + fmt::format(
                     "{} of {}+{}, window {}, by {}{}, {} of {} pick {}, {} groups of {}, "
                     "queries {}, scale {:.4}, rope {} x{} {:.4}{}",
                     mixer->heads, mixer->head_dim - mixer->rope_dim, mixer->rope_dim,
                     mixer->window, mixer->ratio, mixer->overlaps ? " overlapping" : "",
                     mixer->index_heads, mixer->index_dim, mixer->index_top, mixer->groups,
                     mixer->group_rank, mixer->query_rank, mixer->scale, rope.theta, rope.factor,
                     rope.attention_factor, in_short(*layer.experts()));
  }
  if (const LatentConfig* latent = layer.latent()) {
    const bool turns = latent->rope >= 0;
    const RopeConfig rope =
        turns ? config.ropes.at(static_cast<std::size_t>(latent->rope)) : RopeConfig();
    std::string picks;
    if (latent->index_heads > 0) {
      picks = fmt::format(", {} of {} pick {}", latent->index_heads, latent->index_dim,
                          latent->index_top);
    }
    const std::string positions =
        turns ? fmt::format("rope {} x{} {:.4}", rope.theta, rope.factor, rope.attention_factor)
              : "no positions";
    return out + fmt::format("latent {} of {}+{} and {}, {} queries {}{}, scale {:.4}, {}{}{}",
                             latent->heads, latent->key_dim, latent->rope_dim, latent->value_dim,
                             latent->latent_dim, latent->query_rank, picks, latent->scale,
                             positions, latent->temperature == 0.0F ? "" : " temperature",
                             layer.experts() != nullptr ? in_short(*layer.experts()) : "");
  }
  const AttentionConfig& attention = *layer.attention();
  if (attention.window != 0) out += fmt::format("window {} ", attention.window);
  if (attention.rope < 0) {
    out += "no positions ";
  } else {
    const RopeConfig& rope = config.ropes.at(static_cast<std::size_t>(attention.rope));
    out += fmt::format("rope {}", rope.theta);
    if (rope.dims != 0) out += fmt::format(" of {}", rope.dims);
    if (rope.interleaved) out += " neighbours";
    if (rope.scaling == RopeScaling::kLongRope) {
      out += fmt::format(" long beyond {} x{:.4}", rope.original_context, rope.attention_factor);
    } else if (rope.scaling != RopeScaling::kNone) {
      out += fmt::format(" x{}", rope.factor);
    }
    out += " ";
  }
  constexpr const char* kQueryKeyNorms[] = {"", "head norm ", "turned head norm ", "row norm "};
  out += kQueryKeyNorms[static_cast<int>(attention.query_key_norm)];
  if (attention.bias) out += "bias ";
  if (attention.output_bias) out += "output bias ";
  if (attention.sinks) out += "sinks ";
  if (attention.gate == AttentionGate::kWithQueries) out += "gated ";
  if (attention.gate == AttentionGate::kElements) out += "elements gated ";
  if (attention.softcap != 0.0F) out += fmt::format("cap {} ", attention.softcap);
  if (attention.temperature != 0.0F) {
    out +=
        fmt::format("temperature {} by {} ", attention.temperature, attention.temperature_context);
  }
  if (attention.gate == AttentionGate::kHeads) out += "heads gated ";
  if (attention.values_of_keys) out += "values of keys ";
  if (attention.value_norm) out += "value norm ";
  if (attention.shares >= 0) out += fmt::format("shares {} ", attention.shares);
  if (config.layer_inputs.size > 0) out += fmt::format("input {} ", config.layer_inputs.size);
  if (layer.scaled) out += "scaled ";
  if (layer.dense() != nullptr && layer.scaled)
    out += fmt::format("dense {} ", layer.dense()->size);
  out += fmt::format("scale {:.4}|{}", attention.scale, in_short(layer.mixer_norms.behind));
  if (layer.mixer_norms.scale != 1.0F) out += fmt::format(" x{:.4}", layer.mixer_norms.scale);
  if (layer.parallel) out += "|beside";
  if (layer.beside) {
    out += fmt::format("|x{:.4} {}|x{:.4} x{:.4}", layer.beside_scale, in_short(*layer.beside),
                       layer.dense()->gate_scale, layer.mlp_norms.scale);
  }
  out += "|" + in_short(layer.mlp_norms.before) + "|" + in_short(layer.mlp_norms.behind);
  if (layer.dense() != nullptr && !layer.dense()->gated)
    out += fmt::format(", plain {}", layer.dense()->size);
  if (layer.dense() != nullptr && layer.dense()->xielu)
    out += fmt::format(" xielu {:.3} {:.3} {:.3}", layer.dense()->xielu->positive,
                       layer.dense()->xielu->negative, layer.dense()->xielu->linear);
  return layer.experts() != nullptr ? out + in_short(*layer.experts()) : out;
}

class ComposedModels : public testing::TestWithParam<Composed> {};

TEST_P(ComposedModels, HaveTheLayersOfTheirFamily) {
  const auto opened = open_model(kGoldenModelFolders / GetParam().folder);
  ASSERT_TRUE(opened) << opened.error().message;
  std::vector<std::string> layers;
  for (const LayerConfig& layer : (*opened)->config.layers) {
    layers.push_back(in_short((*opened)->config, layer));
  }
  EXPECT_EQ(layers, GetParam().layers);
}

const Composed kComposed[] = {
    {"cohere-tiny",
     {"norm|rope 10000 neighbours scale 0.3536||beside||",
      "norm|rope 10000 neighbours scale 0.3536||beside||"}},
    {"cohere2-tiny",
     {"norm|window 16 rope 10000 neighbours scale 0.3536||beside||",
      "norm|window 16 rope 10000 neighbours scale 0.3536||beside||",
      "norm|window 16 rope 10000 neighbours scale 0.3536||beside||",
      "norm|no positions scale 0.3536||beside||"}},
    {"exaone4-tiny",
     {"|window 16 rope 10000 x4 head norm scale 0.3536|norm||norm",
      "|no positions head norm scale 0.3536|norm||norm",
      "|window 16 rope 10000 x4 head norm scale 0.3536|norm||norm"}},
    {"apertus-tiny",
     {"norm|rope 10000 x8 head norm scale 0.3536||norm|, plain 48 xielu 0.685 1.06 0.491",
      "norm|rope 10000 x8 head norm scale 0.3536||norm|, plain 48 xielu 0.6 1.3 0.508"}},
    {"arcee-tiny",
     {"norm|rope 10000 x4 scale 0.25||norm|, plain 48",
      "norm|rope 10000 x4 scale 0.25||norm|, plain 48"}},
    {"starcoder2-tiny",
     {"norm|rope 10000 bias output bias scale 0.3536||norm|, plain 48",
      "norm|rope 10000 bias output bias scale 0.3536||norm|, plain 48"}},
    {"starcoder2-window-tiny",
     {"norm|window 16 rope 10000 scale 0.3536||norm|, plain 48",
      "norm|window 16 rope 10000 scale 0.3536||norm|, plain 48"}},
    {"gemma-tiny",
     {"norm+1|rope 10000 scale 0.25||norm+1|", "norm+1|rope 10000 scale 0.25||norm+1|"}},
    {"exaone-moe-tiny",
     {"norm|window 16 rope 10000 head norm scale 0.25||norm|",
      "norm|no positions head norm scale 0.25||norm||3 of 8 experts of 12 and 12 by sigmoids x2.5, "
      "biased",
      "norm|window 16 rope 10000 head norm scale 0.25||norm||3 of 8 experts of 12 and 12 by "
      "sigmoids x2.5, biased"}},
    {"solar-open-tiny",
     {"norm|rope 1000000 x2 scale 0.25||norm||3 of 8 experts of 12 and 12 by sigmoids x2.5, biased",
      "norm|rope 1000000 x2 scale 0.25||norm||3 of 8 experts of 12 and 12 by sigmoids x2.5, "
      "biased"}},
    {"internlm3-tiny", {"norm|rope 50000 scale 0.25||norm|", "norm|rope 50000 scale 0.25||norm|"}},
    {"stablelm-tiny",
     {"norm|rope 10000 of 2 bias scale 0.3536||norm|",
      "norm|rope 10000 of 2 bias scale 0.3536||norm|"}},
    {"stablelm-parallel-tiny",
     {"norm|rope 10000 of 4 scale 0.3536||beside||",
      "norm|rope 10000 of 4 scale 0.3536||beside||"}},
    {"gemma2-tiny",
     {"norm+1|window 16 rope 10000 cap 2 scale 0.2041|norm+1|norm+1|norm+1",
      "norm+1|rope 10000 cap 2 scale 0.2041|norm+1|norm+1|norm+1",
      "norm+1|window 16 rope 10000 cap 2 scale 0.2041|norm+1|norm+1|norm+1"}},
    {"gemma3-tiny",
     {"norm+1|window 16 rope 1000 head norm scale 0.2041|norm+1|norm+1|norm+1",
      "norm+1|rope 100000 x4 head norm scale 0.2041|norm+1|norm+1|norm+1",
      "norm+1|window 16 rope 1000 head norm scale 0.2041|norm+1|norm+1|norm+1"}},
    {"afmoe-tiny",
     {"norm|window 16 rope 10000 head norm elements gated scale 0.25|norm|norm|norm",
      "norm|window 16 rope 10000 head norm elements gated scale 0.25|norm|norm|norm|3 of 8 experts "
      "of 12 and 12 by sigmoids x2.5, biased",
      "norm|window 16 rope 10000 head norm elements gated scale 0.25|norm|norm|norm|3 of 8 experts "
      "of 12 and 12 by sigmoids x2.5, biased",
      "norm|no positions head norm elements gated scale 0.25|norm|norm|norm|3 of 8 experts of 12 "
      "and 12 by sigmoids x2.5, biased"}},
    {"bailing-moe-tiny",
     {"norm|rope 10000 of 8 head norm scale 0.25||norm|",
      "norm|rope 10000 of 8 head norm scale 0.25||norm||3 of 8 experts of 12 and 12 by sigmoids "
      "x2.5 of 2/4 groups, biased"}},
    {"mellum-tiny",
     {"norm|window 16 rope 1000 head norm scale 0.25||norm||3 of 8 experts of 12",
      "norm|rope 10000 x4 head norm scale 0.25||norm||3 of 8 experts of 12",
      "norm|window 16 rope 1000 head norm scale 0.25||norm||3 of 8 experts of 12"}},
    {"minicpm-tiny",
     {"norm|rope 10000 scale 0.3536| x0.9899|norm|",
      "norm|rope 10000 scale 0.3536| x0.9899|norm|"}},
    {"kimi-linear-tiny",
     {"norm|kimi delta 4 of 12, 4 positions",
      "norm|kimi delta 4 of 12, 4 positions|3 of 12 experts of 8 and 8 by sigmoids x2.446, biased",
      "norm|latent 4 of 16+8 and 16, 16 queries 0, scale 0.2041, no positions|3 of 12 experts of 8 "
      "and 8 by sigmoids x2.446, biased",
      "norm|kimi delta 4 of 12, 4 positions|3 of 12 experts of 8 and 8 by sigmoids x2.446, "
      "biased"}},
    {"youtu-tiny",
     {"norm|latent 4 of 12+8 and 12, 16 queries 24, scale 0.2236, rope 10000 x1 1",
      "norm|latent 4 of 12+8 and 12, 16 queries 24, scale 0.2236, rope 10000 x1 1"}},
    {"dots1-tiny",
     {"norm|rope 10000 head norm scale 0.25||norm|",
      "norm|rope 10000 head norm scale 0.25||norm||3 of 8 experts of 12 and 24 by sigmoids x2.5, "
      "biased"}},
    {"ernie4-5-moe-tiny",
     {"norm|rope 10000 neighbours scale 0.25||norm|",
      "norm|rope 10000 neighbours scale 0.25||norm|",
      "norm|rope 10000 neighbours scale 0.25||norm||3 of 8 experts of 12 and 24, biased"}},
    {"ernie4-5-tiny",
     {"norm|rope 10000 neighbours scale 0.25||norm|",
      "norm|rope 10000 neighbours scale 0.25||norm|"}},
    {"lfm3-tiny",
     {"norm|convolution 32 of 7|norm|norm|norm",
      "norm|rope 10000 head norm heads gated scale 0.25|norm|norm|norm",
      "norm|window 16 rope 1000 head norm heads gated scale 0.25|norm|norm|norm",
      "norm|convolution 32 of 7|norm|norm|norm"}},
    {"granite-swa-tiny",
     {"norm|no positions sinks scale 0.2| x0.5|norm|",
      "norm|window 16 rope 10000 sinks scale 0.2| x0.5|norm|",
      "norm|no positions sinks scale 0.2| x0.5|norm|",
      "norm|window 16 rope 500 sinks scale 0.2| x0.5|norm|"}},
    {"granite-swa-moe-tiny",
     {"norm|rope 10000 sinks scale 0.2| x0.5|norm||2 of 4 experts of 24 and 24",
      "norm|window 16 rope 10000 sinks scale 0.2| x0.5|norm||2 of 4 experts of 24 and 24"}},
    {"hunyuan-moe-tiny",
     {"norm|rope 874339.3 turned head norm scale 0.25||norm||3 of 8 experts of 24 and 24",
      "norm|rope 874339.3 turned head norm scale 0.25||norm||3 of 8 experts of 24 and 24"}},
    {"hunyuan-tiny",
     {"norm|rope 874339.3 turned head norm scale 0.25||norm|",
      "norm|rope 874339.3 turned head norm scale 0.25||norm|"}},
    {"olmoe-tiny",
     {"norm|rope 10000 row norm scale 0.3536||norm||3 of 8 experts of 12",
      "norm|rope 10000 row norm scale 0.3536||norm||3 of 8 experts of 12"}},
    {"qwen2-5-vl-tiny",
     {"norm|rope 10000 bias scale 0.3536||norm|", "norm|rope 10000 bias scale 0.3536||norm|"}},
    {"qwen2-moe-tiny",
     {"norm|rope 10000 bias scale 0.3536||norm||3 of 8 experts of 12 and 24",
      "norm|rope 10000 bias scale 0.3536||norm||3 of 8 experts of 12 and 24"}},
    {"qwen3-vl-moe-tiny",
     {"norm|rope 10000 head norm scale 0.25||norm||3 of 8 experts of 12",
      "norm|rope 10000 head norm scale 0.25||norm||3 of 8 experts of 12"}},
    {"qwen3-vl-tiny",
     {"norm|rope 10000 head norm scale 0.25||norm|",
      "norm|rope 10000 head norm scale 0.25||norm|"}},
    {"gemma4-tiny",
     {"norm|window 16 rope 1000 head norm value norm scaled dense 48 scale 1|norm|norm|norm",
      "norm|rope 100000 head norm values of keys value norm scaled dense 48 scale 1|norm|norm|norm",
      "norm|window 16 rope 1000 head norm value norm scaled dense 48 scale 1|norm|norm|norm",
      "norm|rope 100000 head norm values of keys value norm scaled dense 48 scale "
      "1|norm|norm|norm"}},
    {"gemma4-moe-tiny",
     {"norm|window 16 rope 1000 head norm value norm scaled scale 1|norm|norm|norm|3 of 6 experts "
      "of 24 and 48 each scaled apart",
      "norm|rope 100000 head norm values of keys value norm scaled scale 1|norm|norm|norm|3 of 6 "
      "experts of 24 and 48 each scaled apart"}},
    {"gemma4-ple-tiny",
     {"norm|window 16 rope 1000 head norm value norm input 12 scaled dense 48 scale "
      "1|norm|norm|norm",
      "norm|rope 100000 head norm value norm input 12 scaled dense 48 scale 1|norm|norm|norm",
      "norm|window 16 rope 1000 head norm value norm input 12 scaled dense 48 scale "
      "1|norm|norm|norm",
      "norm|rope 100000 head norm shares 1 input 12 scaled dense 96 scale 1|norm|norm|norm",
      "norm|window 16 rope 1000 head norm shares 2 input 12 scaled dense 96 scale 1|norm|norm|norm",
      "norm|rope 100000 head norm shares 1 input 12 scaled dense 96 scale 1|norm|norm|norm"}},
    {"glm4-tiny",
     {"norm|rope 10000 of 8 neighbours bias scale 0.25|norm|norm|norm",
      "norm|rope 10000 of 8 neighbours bias scale 0.25|norm|norm|norm"}},
    {"glm4-moe-tiny",
     {"norm|rope 10000 of 4 head norm bias scale 0.25||norm|",
      "norm|rope 10000 of 4 head norm bias scale 0.25||norm||3 of 8 experts of 12 and 12 by "
      "sigmoids "
      "x2.5, biased"}},
    {"glm4v-tiny",
     {"norm|rope 10000 of 8 neighbours bias scale 0.25|norm|norm|norm",
      "norm|rope 10000 of 8 neighbours bias scale 0.25|norm|norm|norm"}},
    {"glm4v-moe-tiny",
     {"norm|rope 10000 of 8 bias scale 0.25||norm|",
      "norm|rope 10000 of 8 bias scale 0.25||norm||3 of 8 experts of 12 and 12 by sigmoids x2.5, "
      "biased"}},
    {"gpt-oss-tiny",
     {"norm|window 16 rope 10000 x4 bias output bias sinks scale 0.25||norm||2 of 4 experts of 32",
      "norm|rope 10000 x4 bias output bias sinks scale 0.25||norm||2 of 4 experts of 32"}},
    {"gpt-oss-f16-tiny",
     {"norm|window 16 rope 10000 x4 bias output bias sinks scale 0.25||norm||2 of 4 experts of 24",
      "norm|rope 10000 x4 bias output bias sinks scale 0.25||norm||2 of 4 experts of 24"}},
    {"falcon-h1-tiny",
     {"norm|rope 10000 scale 0.1125| x0.72|x0.5 mamba 3 of 16, 1 of 20 biased|0.42 0.48 0.54 0.66 "
      "0.72|x0.6 x0.8|norm|",
      "norm|rope 10000 scale 0.1125| x0.72|x0.5 mamba 3 of 16, 1 of 20 biased|0.42 0.48 0.54 0.66 "
      "0.72|x0.6 x0.8|norm|"}},
    {"falcon-h1-normed-tiny",
     {"norm|rope 10000 scale 0.1125| x0.72|x0.5 mamba 4 of 16, 2 of 16 biased normed|0.42 0.48 "
      "0.54 0.66 0.72|x0.6 x0.8|norm|",
      "norm|rope 10000 scale 0.1125| x0.72|x0.5 mamba 4 of 16, 2 of 16 biased normed|0.42 0.48 "
      "0.54 0.66 0.72|x0.6 x0.8|norm|"}},
    {"granite-h-tiny",
     {"norm|mamba 4 of 16, 1 of 20 biased normed| x0.5|norm",
      "norm|mamba 4 of 16, 1 of 20 biased normed| x0.5|norm",
      "norm|no positions scale 0.2| x0.5|norm|",
      "norm|mamba 4 of 16, 1 of 20 biased normed| x0.5|norm"}},
    {"granite-h-moe-tiny",
     {"norm|mamba 8 of 8, 2 of 16 biased normed| x0.5|norm|2 of 4 experts of 24 and 40",
      "norm|no positions scale 0.2| x0.5|norm||2 of 4 experts of 24 and 40",
      "norm|mamba 8 of 8, 2 of 16 biased normed| x0.5|norm|2 of 4 experts of 24 and 40"}},
    {"nemotron-h-tiny",
     {"norm|mamba 4 of 16, 2 of 20 biased normed||", "norm|plain 48",
      "norm|no positions scale 0.25|||", "norm|mamba 4 of 16, 2 of 20 biased normed||",
      "norm|plain 48"}},
    {"nemotron-h-moe-tiny",
     {"norm|mamba 8 of 8, 2 of 20 biased normed||",
      "norm|3 of 8 experts of 24 and 40 by sigmoids x2.5, biased, no gates",
      "norm|no positions scale 0.25|||",
      "norm|3 of 8 experts of 24 and 40 by sigmoids x2.5, biased, no gates",
      "norm|mamba 8 of 8, 2 of 20 biased normed||"}},
    {"granite-hybrid-tiny",
     {"norm|rope 10000 scale 0.2| x0.5|norm|", "norm|rope 10000 scale 0.2| x0.5|norm|"}},
    {"granite-moe-tiny",
     {"norm|rope 10000 scale 0.2| x0.5|norm||2 of 4 experts of 24 and 40",
      "norm|rope 10000 scale 0.2| x0.5|norm||2 of 4 experts of 24 and 40"}},
    {"granite-tiny",
     {"norm|rope 10000 scale 0.2| x0.5|norm|", "norm|rope 10000 scale 0.2| x0.5|norm|"}},
    {"deepseek-v2-lite-tiny",
     {"norm|latent 4 of 16+16 and 16, 16 queries 0, scale 0.2326, rope 10000 x8 1",
      "norm|latent 4 of 16+16 and 16, 16 queries 0, scale 0.2326, rope 10000 x8 1|3 of 8 experts "
      "of 8 and 16",
      "norm|latent 4 of 16+16 and 16, 16 queries 0, scale 0.2326, rope 10000 x8 1|3 of 8 experts "
      "of 8 and 16"}},
    {"deepseek-v2-tiny",
     {"norm|latent 4 of 16+8 and 16, 16 queries 24, scale 0.2686, rope 10000 x8 1.053",
      "norm|latent 4 of 16+8 and 16, 16 queries 24, scale 0.2686, rope 10000 x8 1.053|3 of 12 "
      "experts of 8 and 8 x4 of 2/4 groups"}},
    {"deepseek-v3-tiny",
     {"norm|latent 2 of 8+16 and 12, 16 queries 16, scale 0.2978, rope 10000 x8 1",
      "norm|latent 2 of 8+16 and 12, 16 queries 16, scale 0.2978, rope 10000 x8 1|3 of 12 experts "
      "of 8 and 8 by sigmoids x2.5 of 2/4 groups, biased"}},
    {"glm5-tiny",
     {"norm|latent 2 of 8+16 and 12, 16 queries 16, 6 of 24 pick 8, scale 0.2041, rope 1000000 x1 "
      "1",
      "norm|latent 2 of 8+16 and 12, 16 queries 16, 6 of 24 pick 8, scale 0.2041, rope 1000000 x1 "
      "1|3 of 8 experts of 8 and 8 by sigmoids x2.5, biased"}},
    {"deepseek-v32-tiny",
     {"norm|latent 2 of 8+16 and 12, 16 queries 16, 6 of 24 pick 8, scale 0.2978, rope 10000 x8 1",
      "norm|latent 2 of 8+16 and 12, 16 queries 16, 6 of 24 pick 8, scale 0.2978, rope 10000 x8 "
      "1|3 of 12 experts of 8 and 8 by sigmoids x2.5 of 2/4 groups, biased"}},
    {"deepseek-v4-tiny",
     {"norm|4 of 32+32, window 128, by 0, 0 of 0 pick 0, 2 groups of 16, queries 32, scale 0.125, "
      "rope 10000 x1 1|2 of 8 experts of 32 and 32 by roots by token within 2 x1.5",
      "norm|4 of 32+32, window 128, by 4 overlapping, 4 of 32 pick 16, 2 groups of 16, queries 32, "
      "scale 0.125, rope 160000 x16 1|2 of 8 experts of 32 and 32 by roots by token within 2 x1.5",
      "norm|4 of 32+32, window 128, by 128, 0 of 0 pick 0, 2 groups of 16, queries 32, scale "
      "0.125, rope 160000 x16 1|2 of 8 experts of 32 and 32 by roots within 2 x1.5, biased",
      "norm|4 of 32+32, window 128, by 4 overlapping, 4 of 32 pick 16, 2 groups of 16, queries 32, "
      "scale 0.125, rope 160000 x16 1|2 of 8 experts of 32 and 32 by roots within 2 x1.5, biased",
      "norm|4 of 32+32, window 128, by 128, 0 of 0 pick 0, 2 groups of 16, queries 32, scale "
      "0.125, rope 160000 x16 1|2 of 8 experts of 32 and 32 by roots within 2 x1.5, biased"}},
    {"deepseek-v4-fp4-tiny",
     {"norm|4 of 32+32, window 128, by 0, 0 of 0 pick 0, 2 groups of 128, queries 128, scale "
      "0.125, "
      "rope 10000 x1 1|2 of 4 experts of 128 and 128 by roots by token within 2 x1.5",
      "norm|4 of 32+32, window 128, by 4 overlapping, 4 of 32 pick 16, 2 groups of 128, queries "
      "128, scale 0.125, rope 160000 x16 1|2 of 4 experts of 128 and 128 by roots within 2 x1.5, "
      "biased"}},
    {"glm4-moe-lite-tiny",
     {"norm|latent 4 of 24+8 and 32, 16 queries 24, scale 0.1768, rope 1000000 x1 1",
      "norm|latent 4 of 24+8 and 32, 16 queries 24, scale 0.1768, rope 1000000 x1 1|3 of 8 experts "
      "of 8 and 8 by sigmoids x1.8, biased"}},
    {"kimi-k2-tiny",
     {"norm|latent 4 of 8+16 and 16, 16 queries 24, scale 0.2978, rope 50000 x8 1",
      "norm|latent 4 of 8+16 and 16, 16 queries 24, scale 0.2978, rope 50000 x8 1|3 of 8 experts "
      "of 8 and 8 by sigmoids x2.827, biased",
      "norm|latent 4 of 8+16 and 16, 16 queries 24, scale 0.2978, rope 50000 x8 1|3 of 8 experts "
      "of 8 and 8 by sigmoids x2.827, biased"}},
    {"mistral4-tiny",
     {"norm|latent 4 of 8+8 and 16, 16 queries 24, scale 0.3648, rope 10000 x8 1 temperature|3 of "
      "8 experts of 8 and 8",
      "norm|latent 4 of 8+8 and 16, 16 queries 24, scale 0.3648, rope 10000 x8 1 temperature|3 of "
      "8 experts of 8 and 8"}},
    {"lfm2-moe-tiny",
     {"norm|convolution 32 of 3||norm|",
      "norm|rope 10000 head norm scale 0.3536||norm||2 of 4 experts of 24 by sigmoids, biased",
      "norm|convolution 32 of 3||norm||2 of 4 experts of 24 by sigmoids, biased"}},
    {"lfm2-tiny",
     {"norm|convolution 32 of 3||norm|", "norm|rope 10000 head norm scale 0.3536||norm|",
      "norm|convolution 32 of 3||norm|"}},
    {"minimax-m2-tiny",
     {"norm|rope 10000 of 8 row norm scale 0.25||norm||3 of 8 experts of 24 by sigmoids, biased",
      "norm|rope 10000 of 8 row norm scale 0.25||norm||3 of 8 experts of 24 by sigmoids, biased"}},
    {"ministral-tiny",
     {"norm|rope 10000 scale 0.25||norm|", "norm|window 16 rope 10000 scale 0.25||norm|"}},
    {"ministral3-tiny",
     {"norm|rope 10000 x8 temperature 0.1 by 16 scale 0.25||norm|",
      "norm|rope 10000 x8 temperature 0.1 by 16 scale 0.25||norm|"}},
    {"olmo2-tiny",
     {"|rope 10000 row norm scale 0.3536|norm||norm",
      "|rope 10000 row norm scale 0.3536|norm||norm"}},
    {"olmo3-tiny",
     {"|window 16 rope 20000 row norm scale 0.3536|norm||norm",
      "|rope 10000 x4 row norm scale 0.3536|norm||norm",
      "|window 16 rope 20000 row norm scale 0.3536|norm||norm"}},
    {"phi3-longrope-tiny",
     {"norm|rope 10000 of 12 long beyond 32 x1.265 scale 0.25||norm|",
      "norm|rope 10000 of 12 long beyond 32 x1.265 scale 0.25||norm|"}},
    {"phi3-tiny",
     {"norm|window 24 rope 10000 of 8 scale 0.25||norm|",
      "norm|window 24 rope 10000 of 8 scale 0.25||norm|"}},
    {"qwen2-window-tiny",
     {"norm|rope 10000 bias scale 0.3536||norm|",
      "norm|window 16 rope 10000 bias scale 0.3536||norm|",
      "norm|window 16 rope 10000 bias scale 0.3536||norm|"}},
    {"qwen3-window-tiny",
     {"norm|window 16 rope 10000 head norm scale 0.25||norm|",
      "norm|rope 10000 head norm scale 0.25||norm|",
      "norm|window 16 rope 10000 head norm scale 0.25||norm|"}},
    {"qwen3-5-moe-tiny",
     {"norm+1|delta 2 of 16, 4 of 16", "norm+1|delta 2 of 16, 4 of 16",
      "norm+1|delta 2 of 16, 4 of 16",
      "norm+1|rope 10000 of 8 head norm gated scale 0.1768||norm+1||2 of 4 experts of 24 and 40"}},
    {"qwen3-5-tiny",
     {"norm+1|delta 2 of 16, 4 of 16", "norm+1|delta 2 of 16, 4 of 16",
      "norm+1|delta 2 of 16, 4 of 16",
      "norm+1|rope 10000 of 8 head norm gated scale 0.1768||norm+1|"}},
    {"qwen3-next-tiny",
     {"norm+1|delta 2 of 16, 4 of 16", "norm+1|delta 2 of 16, 4 of 16",
      "norm+1|delta 2 of 16, 4 of 16",
      "norm+1|rope 10000 of 16 head norm gated scale 0.1768||norm+1||2 of 4 experts of 24 and 40"}},
    {"seed-oss-tiny",
     {"norm|rope 10000 bias output bias scale 0.25||norm|",
      "norm|rope 10000 bias output bias scale 0.25||norm|"}},
    {"smollm3-tiny",
     {"norm|rope 10000 scale 0.3536||norm|", "norm|no positions scale 0.3536||norm|",
      "norm|rope 10000 scale 0.3536||norm|"}},
};

INSTANTIATE_TEST_SUITE_P(All, ComposedModels, testing::ValuesIn(kComposed), [](const auto& run) {
  std::string name = run.param.folder;
  std::erase(name, '-');
  return name;
});

TEST(GoldenModelFolders, AreAllListed) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenModelFolders)) {
    if (entry.is_directory()) found.insert(entry.path().filename().string());
  }
  std::set<std::string> listed;
  for (const Golden& golden : kGoldenModels) listed.insert(golden.folder);
  for (const Composed& golden : kComposed) listed.insert(golden.folder);
  EXPECT_EQ(found, listed);
}

}  // namespace
}  // namespace dovetail::families
