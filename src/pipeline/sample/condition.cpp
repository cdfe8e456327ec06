#include "pipeline/sample/condition.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/quote.h"
#include "pipeline/sample/mistakes.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace dovetail::pipeline {
namespace {

namespace jinja = text::jinja;

std::string_view without_braces(std::string_view text) {
  const auto trim = [](std::string_view part) {
    const auto first = part.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return std::string_view();
    return part.substr(first, part.find_last_not_of(" \t\r\n") - first + 1);
  };
  text = trim(text);
  if (text.size() >= 4 && text.starts_with("{{") && text.ends_with("}}")) {
    text = trim(text.substr(2, text.size() - 4));
  }
  return text;
}

}  // namespace

Result<Condition> Condition::parse(std::string_view expression, std::string_view where) {
  Condition condition;
  condition.text_ = without_braces(expression);
  condition.where_ = fmt::format("{}: condition {}", where, load::quote(condition.text_));
  auto parsed = jinja::parse_template("{{ " + condition.text_ + " }}", condition.where_);
  if (!parsed) return fail(parsed.error());
  const jinja::Body& body = (*parsed)->body;
  if (body.size() != 1 || !std::holds_alternative<jinja::PrintStatement>(body.front().node)) {
    return fail(ErrorKind::kInvalid, "{}; valid: one expression, such as age >= 18",
                condition.where_);
  }
  condition.columns_ = jinja::names_read(**parsed);
  std::erase_if(condition.columns_,
                [](const std::string& name) { return name == "range" || name == "dict"; });
  condition.program_ = std::move(*parsed);
  return condition;
}

Status Condition::check_columns(const std::vector<std::string>& known) const {
  for (const std::string& column : columns_) {
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    return fail(ErrorKind::kInvalid, "{}: unknown column {}; {}", where_, load::quote(column),
                valid_names(column, known));
  }
  return {};
}

Result<bool> Condition::holds(const nlohmann::ordered_json& record) const {
  // Only what is named is handed over: the engine copies its variables, and a record may be large.
  auto variables = nlohmann::ordered_json::object();
  for (const std::string& column : columns_) {
    const auto found = record.find(column);
    if (found != record.end()) variables[column] = *found;
  }
  auto text = jinja::render_template(*program_, variables);
  if (!text) return fail(text.error());
  return text->text == "True" || text->text == "true";
}

}  // namespace dovetail::pipeline
