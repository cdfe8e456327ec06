// libFuzzer target: whatever the template, parsing and rendering end in a string or an error.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dovetail::text::ChatTemplate;
  static const auto variables = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "developer", "content": "Be brief."},
                 {"role": "user", "content": "Hé 😀"},
                 {"role": "assistant", "content": null, "tool_calls": [
                   {"id": "a1", "function": {"name": "f", "arguments": {"x": 1.5, "y": [true]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 3})");
  const auto parsed =
      ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!parsed) {
    if (!parsed.error().message.starts_with("fuzz:")) std::abort();
    return 0;
  }
  const auto rendered = parsed->render_chat(variables);
  if (!rendered && !rendered.error().message.starts_with("fuzz:")) std::abort();
  return 0;
}
