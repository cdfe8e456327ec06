#include "text/chat_template.h"

#include "text/jinja_free_names.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace dovetail::text {

struct ChatTemplate::Program {
  std::shared_ptr<const jinja::Template> parsed;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name) {
  auto parsed = jinja::parse_template(source, name);
  if (!parsed) return fail(std::move(parsed.error()));
  return ChatTemplate(std::make_shared<const Program>(Program{*std::move(parsed)}));
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                         const RenderOptions& options) const {
  return jinja::render_template(*program_->parsed, variables, {options.now});
}

std::vector<std::string> ChatTemplate::free_names() const {
  return jinja::free_names(*program_->parsed);
}

}  // namespace dovetail::text
