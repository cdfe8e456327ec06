#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_value.h"

namespace dovetail::text::jinja {

// The tree of a template. Offsets are bytes of the normalized source, for error messages.

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct ConstantExpr {
  Value value;
};
struct NameExpr {
  std::string name;
};
struct SequenceExpr {
  bool is_tuple;
  std::vector<ExprPtr> items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct AttributeExpr {
  ExprPtr object;
  std::string name;
};
struct ItemExpr {
  ExprPtr object;
  ExprPtr key;
};
struct SliceExpr {
  ExprPtr object;
  ExprPtr start, stop, step;  // null where left out
};
struct CallExpr {
  ExprPtr callee;
  CallArguments arguments;
};
struct FilterExpr {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
};
struct TestExpr {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
};
struct NotExpr {
  ExprPtr operand;
};
struct SignExpr {
  bool negative;
  ExprPtr operand;
};
struct BinaryExpr {
  BinaryOp op;
  ExprPtr left, right;
};
struct LogicExpr {
  bool is_and;
  ExprPtr left, right;
};
enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
// first op operand op operand ..., each operand evaluated once.
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct ConcatExpr {
  std::vector<ExprPtr> parts;
};
struct ConditionalExpr {
  ExprPtr condition, then;
  ExprPtr otherwise;  // null: undefined
};
// The rendered body that a filter block or a block assignment pipes through its filters.
struct BlockBodyExpr {};

struct Expr {
  std::variant<ConstantExpr, NameExpr, SequenceExpr, DictExpr, AttributeExpr, ItemExpr, SliceExpr,
               CallExpr, FilterExpr, TestExpr, NotExpr, SignExpr, BinaryExpr, LogicExpr,
               CompareExpr, ConcatExpr, ConditionalExpr, BlockBodyExpr>
      node;
  size_t offset = 0;
  int depth = 1;  // of the tree below; bounded, so that walking and freeing it can recurse
};

struct Statement;
using Body = std::vector<Statement>;

// What an assignment or a loop writes to.
struct Target {
  enum class Kind { kName, kAttribute, kTuple } kind;
  std::string name;
  std::string attribute;  // of the namespace `name`
  std::vector<Target> items;
  size_t offset = 0;
};

struct Parameter {
  std::string name;
  ExprPtr otherwise;  // null: undefined when not given
};

struct DataStatement {
  std::string text;
};
struct PrintStatement {
  ExprPtr value;
};
struct SetStatement {
  Target target;
  ExprPtr value;
};
struct SetBlockStatement {
  Target target;
  ExprPtr value;  // filters around a BlockBodyExpr
  Body body;
};
struct ForStatement {
  Target target;
  ExprPtr items;
  ExprPtr condition;  // null: every element
  Body body, otherwise;
};
struct IfStatement {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct MacroStatement {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};
struct FilterStatement {
  ExprPtr value;  // filters around a BlockBodyExpr
  Body body;
};
// {% generation %}: renders its body; assignments stay inside.
struct ScopeStatement {
  Body body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  std::variant<DataStatement, PrintStatement, SetStatement, SetBlockStatement, ForStatement,
               IfStatement, MacroStatement, FilterStatement, ScopeStatement, BreakStatement,
               ContinueStatement>
      node;
  size_t offset = 0;
};

}  // namespace dovetail::text::jinja
