#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::load {
struct ModelSource;
}

namespace dovetail::serve {

// What a model's files are, for clients that list models. Empty or 0: it is not known.
struct ModelFacts {
  std::string format;         // "gguf" or "safetensors"
  std::string family;         // as the registry of families has it: "llama"
  std::string quantization;   // "Q4_K_M", "BF16"
  std::string digest;         // 64 hexadecimal digits: model_digest()
  std::string chat_template;  // Jinja source of the chats' prompts
  std::uint64_t parameters = 0;
  std::uint64_t file_bytes = 0;
  std::int64_t modified = 0;  // seconds since 1970
  std::uint32_t layers = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t feed_forward = 0;         // of the first layer that has one
  std::uint32_t heads = 0, kv_heads = 0;  // of the first layer that has them
  bool generates = true;                  // text; else the model embeds or ranks alone
  bool embeds = false;                    // the files say how rows become an embedding
};

// All of it but the template, which options may replace.
ModelFacts facts_of(const load::ModelSource& source);

// Tells models apart without reading them: 256 bits of the name, the shape and size of the files
// and a few kilobytes of one small tensor. Files that are the same have the same digest wherever
// they lie; it is no checksum of the weights.
std::string model_digest(std::string_view name, const ModelFacts& facts,
                         std::string_view some_weights);

// A number of parameters as Ollama writes it: "134.52M", "7.6B".
std::string parameter_size(std::uint64_t parameters);

}  // namespace dovetail::serve
