#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/marked_text.h"

namespace dovetail::text {

struct RenderOptions {
  // The local time that strftime_now() formats; the system's clock where it is empty. Called on the
  // thread that renders.
  std::function<std::tm()> now;
};

// A chat template: the subset of Jinja that published models use, parsed once, rendered many times.
// Blocks are trimmed as `transformers` sets it (trim_blocks and lstrip_blocks on). Immutable; safe
// to use from several threads at once.
class ChatTemplate {
 public:
  // `name` stands in error messages. What the subset lacks is an error that names it with line and
  // column.
  static Result<ChatTemplate> parse(std::string_view source,
                                    std::string_view name = "chat template");

  // Renders with the given top-level variables (messages, tools, add_generation_prompt, bos_token,
  // eos_token, and any others). A template's own raise_exception() and run-time errors come back as
  // kInvalid with line and column. Output is bounded (16 MiB) and so is the number of steps.
  Result<std::string> render(const nlohmann::ordered_json& variables,
                             const RenderOptions& options = {}) const;

  // The same text, in which all that came from the variables' strings is untrusted.
  Result<MarkedText> render_marked(const nlohmann::ordered_json& variables,
                                   const RenderOptions& options = {}) const;

  // The same with a chat under `messages`. The role `developer` (of OpenAI's API) becomes `system`
  // where the template does not know it, that is, where no expression holds this string. What is
  // trusted beside the template's own text: `bos_token`, `eos_token`, and a message's role where it
  // is a usual one, since templates spell control tokens with it ('<|' + role + '|>'). `contents`,
  // unless empty, has the content of each message once more, with marks of its own.
  Result<MarkedText> render_chat(nlohmann::ordered_json variables,
                                 const RenderOptions& options = {},
                                 std::span<const MarkedText> contents = {}) const;

  // The names that it reads and does not bind itself, without the global functions: the variables
  // that render() should be given. Sorted.
  std::vector<std::string> free_names() const;

  struct Program;

 private:
  explicit ChatTemplate(std::shared_ptr<const Program> program);
  std::shared_ptr<const Program> program_;
};

}  // namespace dovetail::text
