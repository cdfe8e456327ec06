#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace dovetail::text {

namespace {

constexpr const char* kDeveloper = "developer";

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
  return jinja::render_template(*program_->parsed, variables, {options.now});
}

Result<std::string> ChatTemplate::render_chat(nlohmann::ordered_json variables,
                                              const RenderOptions& options) const {
  const auto messages = variables.find("messages");
  if (!program_->knows_developer && messages != variables.end() && messages->is_array()) {
    for (nlohmann::ordered_json& message : *messages) {
      if (is_developer(message)) message["role"] = "system";
    }
  }
  return render(variables, options);
}

std::vector<std::string> ChatTemplate::free_names() const {
  return jinja::free_names(*program_->parsed);
}

}  // namespace dovetail::text
