#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

#include "load/gguf_builder.h"
#include "load/safetensors_builder.h"

namespace {

void write(const std::filesystem::path& path, const dovetail::load::Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

// Writes small valid models for the fuzz targets to begin with.
int main(int argc, char** argv) {
  using namespace dovetail::load;
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder / "gguf");
  std::filesystem::create_directories(folder / "safetensors");
  for (const char* architecture : {"llama", "mistral", "qwen2", "qwen3"}) {
    TinyShape shape{.architecture = architecture,
                    .vocabulary = 8,
                    .hidden = 8,
                    .inner = 8,
                    .layers = 1,
                    .heads = 2,
                    .kv_heads = 1,
                    .head_dim = 4};
    shape.attention_bias = shape.architecture == "qwen2";
    shape.qk_norm = shape.architecture == "qwen3";
    write(folder / "gguf" / architecture, tiny_gguf(shape).bytes());
    const HfBuilder model = tiny_hf(shape);
    Bytes bytes;
    append_text(bytes, model.config.dump());
    bytes.push_back(std::byte{0});
    const Bytes weights = model.weights.bytes();
    append_raw(bytes, weights.data(), weights.size());
    write(folder / "safetensors" / architecture, bytes);
  }
}
