#include <algorithm>
#include <set>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"
#include "text/jinja_parser.h"

namespace dovetail::text::jinja {
namespace {

// Walks in the order of evaluation, with the names that are bound so far.
class Walk {
 public:
  std::set<std::string> free;

  void body(const Body& statements) {
    for (const Statement& statement : statements) visit(statement);
  }

 private:
  using Names = std::set<std::string>;

  void read(const std::string& name) {
    if (!bound_.contains(name)) free.insert(name);
  }

  void expr(const ExprPtr& pointer) {
    if (pointer) std::visit([this](const auto& node) { enter(node); }, pointer->node);
  }

  void arguments(const CallArguments& given) {
    for (const ExprPtr& one : given.positional) expr(one);
    for (const auto& [name, value] : given.named) expr(value);
  }

  void enter(const ConstantExpr&) {}
  void enter(const BlockBodyExpr&) {}
  void enter(const NameExpr& node) { read(node.name); }
  void enter(const SequenceExpr& node) {
    for (const ExprPtr& item : node.items) expr(item);
  }
  void enter(const DictExpr& node) {
    for (const auto& [key, value] : node.entries) {
      expr(key);
      expr(value);
    }
  }
  void enter(const AttributeExpr& node) { expr(node.object); }
  void enter(const ItemExpr& node) {
    expr(node.object);
    expr(node.key);
  }
  void enter(const SliceExpr& node) {
    expr(node.object);
    expr(node.start);
    expr(node.stop);
    expr(node.step);
  }
  void enter(const CallExpr& node) {
    expr(node.callee);
    arguments(node.arguments);
  }
  void enter(const FilterExpr& node) {
    expr(node.input);
    arguments(node.arguments);
  }
  void enter(const TestExpr& node) {
    expr(node.input);
    arguments(node.arguments);
  }
  void enter(const NotExpr& node) { expr(node.operand); }
  void enter(const SignExpr& node) { expr(node.operand); }
  void enter(const BinaryExpr& node) {
    expr(node.left);
    expr(node.right);
  }
  void enter(const LogicExpr& node) {
    expr(node.left);
    expr(node.right);
  }
  void enter(const CompareExpr& node) {
    expr(node.first);
    for (const auto& [op, operand] : node.rest) expr(operand);
  }
  void enter(const ConcatExpr& node) {
    for (const ExprPtr& part : node.parts) expr(part);
  }
  void enter(const ConditionalExpr& node) {
    expr(node.condition);
    expr(node.then);
    expr(node.otherwise);
  }

  void bind(const Target& target) {
    switch (target.kind) {
      case Target::Kind::kName:
        bound_.insert(target.name);
        break;
      case Target::Kind::kAttribute:
        read(target.name);
        break;
      case Target::Kind::kTuple:
        for (const Target& item : target.items) bind(item);
        break;
    }
  }

  // What is bound inside is not bound after it.
  template <class Inside>
  void scope(const Inside& inside) {
    const Names before = bound_;
    inside();
    bound_ = before;
  }

  void visit(const Statement& statement) {
    std::visit([this](const auto& node) { enter(node); }, statement.node);
  }
  void enter(const DataStatement&) {}
  void enter(const BreakStatement&) {}
  void enter(const ContinueStatement&) {}
  void enter(const PrintStatement& node) { expr(node.value); }
  void enter(const SetStatement& node) {
    expr(node.value);
    bind(node.target);
  }
  void enter(const SetBlockStatement& node) {
    scope([&] { body(node.body); });
    expr(node.value);
    bind(node.target);
  }
  void enter(const ForStatement& node) {
    expr(node.items);
    scope([&] {
      bind(node.target);
      bound_.insert("loop");
      expr(node.condition);
      body(node.body);
    });
    scope([&] { body(node.otherwise); });
  }
  void enter(const IfStatement& node) {
    for (const auto& [condition, branch] : node.branches) {
      expr(condition);
      body(branch);
    }
    body(node.otherwise);
  }
  void enter(const MacroStatement& node) {
    bound_.insert(node.name);
    for (const Parameter& parameter : node.parameters) expr(parameter.otherwise);
    scope([&] {
      for (const Parameter& parameter : node.parameters) bound_.insert(parameter.name);
      body(node.body);
    });
  }
  void enter(const FilterStatement& node) {
    scope([&] { body(node.body); });
    expr(node.value);
  }
  void enter(const ScopeStatement& node) {
    scope([&] { body(node.body); });
  }

  Names bound_;
};

}  // namespace

std::vector<std::string> names_read(const Template& parsed) {
  Walk walk;
  walk.body(parsed.body);
  return {walk.free.begin(), walk.free.end()};
}

std::vector<std::string> free_names(const Template& parsed) {
  std::vector<std::string> names = names_read(parsed);
  Context context;
  std::erase_if(names,
                [&](const std::string& name) { return find_function(context, name).has_value(); });
  return names;
}

}  // namespace dovetail::text::jinja
