#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_ast.h"
#include "text/jinja_token_stream.h"

namespace dovetail::text::jinja {

// Parses the expressions of a template, with Jinja's precedences. Throws JinjaError.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Without `with_condition` an inline if is left to the caller.
  ExprPtr parse_expression(bool with_condition = true);

  // One expression, or several with commas between them, which make a tuple. An empty one is
  // `empty_allowed` within parentheses only.
  ExprPtr parse_tuple(bool with_condition, bool empty_allowed);

  // "|name(...)" around `input`, and the same without its "|".
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_filter_name(ExprPtr input);

  // The value that filters around a block start from.
  ExprPtr block_body(size_t offset) { return make(offset, 0, BlockBodyExpr{}); }

  // While it lives, unknown filters and tests are left to be found when they are reached.
  class Branch {
   public:
    explicit Branch(ExpressionParser& parser) : parser_(parser) { ++parser_.branches_; }
    ~Branch() { --parser_.branches_; }
    Branch(const Branch&) = delete;
    Branch& operator=(const Branch&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  using Operators = std::initializer_list<std::pair<std::string_view, BinaryOp>>;

  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  std::optional<CompareOp> comparison();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr constant(const Token& token, Value value);
  static int64_t integer(const Token& token);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  bool at_tuple_end() const;
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_call(ExprPtr callee);
  CallArguments parse_arguments();
  ExprPtr parse_filters_and_tests(ExprPtr node);
  bool at_test_argument() const;
  ExprPtr parse_test(ExprPtr input);

  template <class Node>
  ExprPtr make(size_t offset, int inner_depth, Node node) {
    if (inner_depth >= kMaxTreeDepth) {
      TokenStream::fail_at(offset,
                           fmt::format("the expression nests deeper than {}", kMaxTreeDepth));
    }
    auto expr = std::make_unique<Expr>();
    expr->node = std::move(node);
    expr->offset = offset;
    expr->depth = inner_depth + 1;
    return expr;
  }

  static int depth(const ExprPtr& expr) { return expr == nullptr ? 0 : expr->depth; }
  static int depth(const std::vector<ExprPtr>& exprs) {
    int deepest = 0;
    for (const ExprPtr& expr : exprs) deepest = std::max(deepest, depth(expr));
    return deepest;
  }
  static int depth(const CallArguments& arguments) {
    int deepest = depth(arguments.positional);
    for (const auto& [name, expr] : arguments.named) deepest = std::max(deepest, depth(expr));
    return deepest;
  }

  template <class Operand>
  ExprPtr parse_binary(Operators operators, const Operand& operand) {
    ExprPtr left = operand();
    for (;;) {
      const auto found = std::find_if(operators.begin(), operators.end(), [&](const auto& entry) {
        return tokens_.at_operator(entry.first);
      });
      if (found == operators.end()) return left;
      const size_t offset = tokens_.next().offset;
      ExprPtr right = operand();
      const int inner = std::max(depth(left), depth(right));
      left = make(offset, inner, BinaryExpr{found->second, std::move(left), std::move(right)});
    }
  }

  TokenStream& tokens_;
  int branches_ = 0;  // conditions around the current expression
};

}  // namespace dovetail::text::jinja
