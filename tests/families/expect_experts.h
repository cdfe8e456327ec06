#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "families/numbers_of.h"
#include "load/gguf_builder.h"
#include "load/model_source.h"

namespace dovetail::families {

// Matrices of every expert and the router of every layer, and nothing of a dense feed-forward.
inline void expect_experts(const load::ModelSource& model, const load::TinyShape& shape) {
  const DecoderNumbers numbers = numbers_of(model.config);
  EXPECT_EQ(numbers.experts.count, shape.experts);
  EXPECT_EQ(numbers.experts.used, shape.experts_used);
  EXPECT_TRUE(numbers.experts.normalized);
  EXPECT_EQ(numbers.intermediate_size, shape.inner);
  EXPECT_EQ(numbers.qk_norm, shape.qk_norm);
  const std::size_t of_a_layer = (shape.qk_norm ? 9 : 7) + 3 * shape.experts;
  EXPECT_EQ(model.tensors.size(), 3 + shape.layers * of_a_layer);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const load::TensorView& router =
        model.tensors.at(fmt::format("blk.{}.ffn_gate_inp.weight", layer));
    EXPECT_EQ(router.rows, shape.experts);
    EXPECT_EQ(router.columns, shape.hidden);
    for (const char* stem : {"ffn_gate", "ffn_up", "ffn_down"}) {
      for (std::uint32_t expert = 0; expert < shape.experts; ++expert) {
        const load::TensorView& view =
            model.tensors.at(fmt::format("blk.{}.{}.{}.weight", layer, stem, expert));
        const bool down = std::string_view(stem) == "ffn_down";
        EXPECT_EQ(view.rows, down ? shape.hidden : shape.inner);
        EXPECT_EQ(view.columns, down ? shape.inner : shape.hidden);
        EXPECT_EQ(view.data.size(), view.rows * row_bytes(view.type, view.columns));
      }
    }
  }
}

}  // namespace dovetail::families
