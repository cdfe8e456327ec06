#include "model/weights.h"

#include <fmt/core.h>

#include <cassert>
#include <string>
#include <utility>

namespace dovetail::model {
namespace {

class Binder {
 public:
  Binder(const load::ModelSource& source, const kernels::Kernels& kernels)
      : source_(source), kernels_(kernels) {}

  Matrix matrix(const std::string& name) const {
    const auto found = source_.tensors.find(name);
    assert(found != source_.tensors.end());
    const load::TensorView& view = found->second;
    return {view.type, view.rows, view.columns, view.data.data(), false, view.parts.get()};
  }

  std::vector<float> vector(const std::string& name) const {
    const Matrix view = matrix(name);
    std::vector<float> values(view.columns);
    kernels_.dequantize_row(view.type, view.data, view.columns, values.data());
    return values;
  }

  std::vector<float> vector_if(bool wanted, const std::string& name) const {
    return wanted ? vector(name) : std::vector<float>{};
  }

 private:
  const load::ModelSource& source_;
  const kernels::Kernels& kernels_;
};

}  // namespace

DecoderWeights bind_weights(std::shared_ptr<const load::ModelSource> source,
                            const kernels::Kernels& kernels) {
  const load::ModelConfig& config = source->config;
  const Binder bind(*source, kernels);
  DecoderWeights weights;
  weights.embedding = bind.matrix("token_embd.weight");
  weights.output = config.tied_embeddings ? weights.embedding : bind.matrix("output.weight");
  weights.output_norm = bind.vector("output_norm.weight");
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const auto name = [&](const char* tensor) { return fmt::format("blk.{}.{}", i, tensor); };
    LayerWeights layer;
    layer.attention_norm = bind.vector(name("attn_norm.weight"));
    layer.mlp_norm = bind.vector(name("ffn_norm.weight"));
    layer.query_norm = bind.vector_if(config.qk_norm, name("attn_q_norm.weight"));
    layer.key_norm = bind.vector_if(config.qk_norm, name("attn_k_norm.weight"));
    layer.query_bias = bind.vector_if(config.attention_bias, name("attn_q.bias"));
    layer.key_bias = bind.vector_if(config.attention_bias, name("attn_k.bias"));
    layer.value_bias = bind.vector_if(config.attention_bias, name("attn_v.bias"));
    layer.query = bind.matrix(name("attn_q.weight"));
    layer.key = bind.matrix(name("attn_k.weight"));
    layer.value = bind.matrix(name("attn_v.weight"));
    layer.attention_output = bind.matrix(name("attn_output.weight"));
    const auto feed_forward = [&](const std::string& expert) {
      const auto of = [&](const char* tensor) { return name(tensor) + expert + ".weight"; };
      return FeedForward{bind.matrix(of("ffn_gate")), bind.matrix(of("ffn_up")),
                         bind.matrix(of("ffn_down"))};
    };
    if (config.experts.count == 0) {
      layer.feed_forward.push_back(feed_forward(""));
    } else {
      layer.router = bind.matrix(name("ffn_gate_inp.weight"));
      for (std::uint32_t e = 0; e < config.experts.count; ++e)
        layer.feed_forward.push_back(feed_forward(fmt::format(".{}", e)));
    }
    weights.layers.push_back(std::move(layer));
  }
  weights.source = std::move(source);
  return weights;
}

}  // namespace dovetail::model
