#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <nlohmann/json.hpp>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace dovetail::text {

namespace {

constexpr const char* kDeveloper = "developer";

bool is_usual_role(std::string_view role) {
  constexpr std::array<std::string_view, 9> kRoles = {"system",    "developer", "user",
                                                      "assistant", "model",     "tool",
                                                      "function",  "ipython",   "observation"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

bool is_developer(const nlohmann::ordered_json& message) {
  if (!message.is_object()) return false;
  const auto role = message.find("role");
  return role != message.end() && *role == kDeveloper;
}

}  // namespace

struct ChatTemplate::Program {
  std::shared_ptr<const jinja::Template> parsed;
  bool knows_developer = false;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name) {
  auto parsed = jinja::parse_template(source, name);
  if (!parsed) return fail(std::move(parsed.error()));
  const bool knows_developer = jinja::holds_string(**parsed, kDeveloper);
  return ChatTemplate(
      std::make_shared<const Program>(Program{*std::move(parsed), knows_developer}));
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                         const RenderOptions& options) const {
  auto rendered = jinja::render_template(*program_->parsed, variables, {{}, options.now});
  if (!rendered) return fail(std::move(rendered.error()));
  return std::move(rendered->text);
}

Result<MarkedText> ChatTemplate::render_marked(const nlohmann::ordered_json& variables,
                                               const RenderOptions& options) const {
  const jinja::Mark mark = [](const jinja::Place&, const std::string& text) {
    return MarkedText::from_outside(text);
  };
  return jinja::render_template(*program_->parsed, variables, {mark, options.now});
}

Result<MarkedText> ChatTemplate::render_chat(nlohmann::ordered_json variables,
                                             const RenderOptions& options,
                                             std::span<const MarkedText> contents) const {
  const auto messages = variables.find("messages");
  if (!program_->knows_developer && messages != variables.end() && messages->is_array()) {
    for (nlohmann::ordered_json& message : *messages) {
      if (is_developer(message)) message["role"] = "system";
    }
  }
  assert(contents.empty() || contents.size() == variables["messages"].size());
  const jinja::Mark mark = [contents](const jinja::Place& place, const std::string& text) {
    if (place.depth == 0 && (place.variable == "bos_token" || place.variable == "eos_token")) {
      return MarkedText::trusted(text);
    }
    if (place.depth == 2 && place.variable == "messages") {
      if (place.key == "role" && is_usual_role(text)) return MarkedText::trusted(text);
      if (place.key == "content" && !contents.empty()) return contents[place.index];
    }
    return MarkedText::from_outside(text);
  };
  return jinja::render_template(*program_->parsed, variables, {mark, options.now});
}

std::vector<std::string> ChatTemplate::free_names() const {
  return jinja::free_names(*program_->parsed);
}

}  // namespace dovetail::text
