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

// Collects the names that a tree of expressions reads. Trees are at most kMaxTreeDepth deep.
class NameCollector {
 public:
  explicit NameCollector(std::vector<std::string>& names) : names_(names) {}

  void visit(const jinja::ExprPtr& expr) {
    if (expr != nullptr) std::visit([this](const auto& node) { enter(node); }, expr->node);
  }

 private:
  void enter(const jinja::NameExpr& node) {
    if (node.name == "range" || node.name == "dict") return;
    if (std::find(names_.begin(), names_.end(), node.name) == names_.end()) {
      names_.push_back(node.name);
    }
  }
  void enter(const jinja::ConstantExpr&) {}
  void enter(const jinja::BlockBodyExpr&) {}
  void enter(const jinja::SequenceExpr& node) {
    for (const auto& item : node.items) visit(item);
  }
  void enter(const jinja::DictExpr& node) {
    for (const auto& [key, value] : node.entries) {
      visit(key);
      visit(value);
    }
  }
  void enter(const jinja::AttributeExpr& node) { visit(node.object); }
  void enter(const jinja::ItemExpr& node) {
    visit(node.object);
    visit(node.key);
  }
  void enter(const jinja::SliceExpr& node) {
    visit(node.object);
    visit(node.start);
    visit(node.stop);
    visit(node.step);
  }
  void arguments(const jinja::CallArguments& given) {
    for (const auto& argument : given.positional) visit(argument);
    for (const auto& argument : given.named) visit(argument.second);
    visit(given.spread);
    visit(given.named_spread);
  }
  void enter(const jinja::CallExpr& node) {
    visit(node.callee);
    arguments(node.arguments);
  }
  void enter(const jinja::FilterExpr& node) {
    visit(node.input);
    arguments(node.arguments);
  }
  void enter(const jinja::TestExpr& node) {
    visit(node.input);
    arguments(node.arguments);
  }
  void enter(const jinja::NotExpr& node) { visit(node.operand); }
  void enter(const jinja::SignExpr& node) { visit(node.operand); }
  void enter(const jinja::BinaryExpr& node) {
    visit(node.left);
    visit(node.right);
  }
  void enter(const jinja::LogicExpr& node) {
    visit(node.left);
    visit(node.right);
  }
  void enter(const jinja::CompareExpr& node) {
    visit(node.first);
    for (const auto& operand : node.rest) visit(operand.second);
  }
  void enter(const jinja::ConcatExpr& node) {
    for (const auto& part : node.parts) visit(part);
  }
  void enter(const jinja::ConditionalExpr& node) {
    visit(node.condition);
    visit(node.then);
    visit(node.otherwise);
  }

  std::vector<std::string>& names_;
};

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
  const auto* print =
      body.size() == 1 ? std::get_if<jinja::PrintStatement>(&body.front().node) : nullptr;
  if (print == nullptr) {
    return fail(ErrorKind::kInvalid, "{}; valid: one expression, such as age >= 18",
                condition.where_);
  }
  NameCollector(condition.columns_).visit(print->value);
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
