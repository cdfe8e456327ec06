// What files of Apertus say of the activations that its layers have learned.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "families/converted_models.h"
#include "families/golden_folder.h"
#include "families/open_model.h"
#include "load/expect_error.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

const std::string kGoldenOfApertus = "apertus-tiny";

GgufBuilder apertus_gguf() {
  const auto folder = open_model(kFoldersOfGoldens / kGoldenOfApertus);
  const auto* how = std::find_if(std::begin(kConverted), std::end(kConverted),
                                 [](const auto& one) { return one.folder == kGoldenOfApertus; });
  return Converter(**folder, *how).convert();
}

TEST(ApertusGguf, IsRefusedByName) {
  struct Row {
    void (*change)(GgufBuilder& b);
    const char* message;
  };
  for (const Row& row : {
           Row{[](GgufBuilder& b) { b.erase("xielu.alpha_p"); },
               "'xielu.alpha_p': missing; valid: a number for each of the 2 layers"},
           Row{[](GgufBuilder& b) {
                 b.set_numbers<float>("xielu.alpha_n", GgufType::kFloat32, {0.5F});
               },
               "'xielu.alpha_n': 1 values; valid: a number for each of the 2 layers"},
           Row{[](GgufBuilder& b) {
                 b.set_numbers<float>("xielu.beta", GgufType::kFloat32, {0.5F, NAN});
               },
               "'xielu.beta': "},
       }) {
    GgufBuilder builder = apertus_gguf();
    row.change(builder);
    const Bytes bytes = builder.bytes();
    expect_error(read_model(std::vector{NamedBytes{"m.gguf", bytes}}), "m.gguf", row.message);
  }
}

TEST(ApertusGguf, MaySayOneNumberForAllLayers) {
  GgufBuilder builder = apertus_gguf();
  builder.erase("xielu.eps");
  builder.erase("xielu.beta");
  builder.set_f32("xielu.beta", 0.25F);
  const Bytes bytes = builder.bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  for (const LayerConfig& layer : model->config.layers) {
    EXPECT_EQ(layer.dense()->xielu->linear, 0.25F);
    EXPECT_EQ(layer.dense()->xielu->edge, -1e-6F);
  }
}

TEST(ApertusFolder, IsRefusedByName) {
  struct Row {
    const char* tensor;
    void (*change)(SafetensorsBuilder::Tensor& tensor);
    const char* message;
  };
  for (const Row& row : {
           Row{"alpha_p", [](auto& tensor) { tensor.name = "rotary_emb.inv_freq"; },
               "tensor 'blk.1.xielu.alpha_p': missing; valid: a number"},
           Row{"alpha_n",
               [](auto& tensor) {
                 tensor.shape = {1, 2};
               },
               "shape [1, 2]"},
           Row{"alpha_n",
               [](auto& tensor) {
                 tensor.data = {std::byte{0}, std::byte{0x7C}};
               },
               "inf; valid: one finite number of type F32, F16 or BF16"},
           Row{"eps", [](auto& tensor) { tensor.dtype = "I16"; }, "type I16"},
       }) {
    SCOPED_TRACE(row.message);
    HfBuilder files = golden_folder(kGoldenOfApertus);
    for (auto& tensor : files.weights.tensors) {
      if (tensor.name != std::string("model.layers.1.mlp.act_fn.") + row.tensor) continue;
      row.change(tensor);
      if (!tensor.shape.empty() && tensor.shape.back() == 2) tensor.data.resize(4);
      break;
    }
    const test::TempFolder folder(test::kInMemory);
    files.write(folder);
    expect_error(open_model(folder.path()), "", row.message);
  }
}

TEST(ApertusFolder, MayLeaveOutWhatIsUsual) {
  HfBuilder files = golden_folder(kGoldenOfApertus);
  std::erase_if(files.weights.tensors, [](const auto& tensor) {
    return tensor.name.ends_with(".beta") || tensor.name.ends_with(".eps");
  });
  const test::TempFolder folder(test::kInMemory);
  files.write(folder);
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->config.layers.back().dense()->xielu->linear, 0.5F);
}

}  // namespace
}  // namespace dovetail::families
