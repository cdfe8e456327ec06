#include "text/jinja_expression_parser.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "text/jinja_builtins.h"

namespace dovetail::text::jinja {

ExprPtr ExpressionParser::parse_expression(bool with_condition) {
  const TokenStream::Nested nested(tokens_);
  if (!with_condition) return parse_or();
  ExprPtr value = parse_or();
  while (tokens_.at_name("if")) {
    const size_t offset = tokens_.next().offset;
    const Branch branch(*this);
    ExprPtr condition = parse_or();
    ExprPtr otherwise;
    if (tokens_.skip_name("else")) otherwise = parse_expression();
    const int inner = std::max({depth(value), depth(condition), depth(otherwise)});
    value = make(offset, inner,
                 ConditionalExpr{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (tokens_.at_name("or")) {
    const size_t offset = tokens_.next().offset;
    ExprPtr right = parse_and();
    const int inner = std::max(depth(left), depth(right));
    left = make(offset, inner, LogicExpr{false, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (tokens_.at_name("and")) {
    const size_t offset = tokens_.next().offset;
    ExprPtr right = parse_not();
    const int inner = std::max(depth(left), depth(right));
    left = make(offset, inner, LogicExpr{true, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!tokens_.at_name("not")) return parse_compare();
  const TokenStream::Nested nested(tokens_);
  const size_t offset = tokens_.next().offset;
  ExprPtr operand = parse_not();
  const int inner = depth(operand);
  return make(offset, inner, NotExpr{std::move(operand)});
}

std::optional<CompareOp> ExpressionParser::comparison() {
  constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kOps = {
      {{"==", CompareOp::kEqual},
       {"!=", CompareOp::kNotEqual},
       {"<", CompareOp::kLess},
       {"<=", CompareOp::kLessEqual},
       {">", CompareOp::kGreater},
       {">=", CompareOp::kGreaterEqual}}};
  for (const auto& [text, op] : kOps) {
    if (tokens_.skip_operator(text)) return op;
  }
  if (tokens_.skip_name("in")) return CompareOp::kIn;
  if (tokens_.at_name("not") && TokenStream::is(tokens_.following(), TokenType::kName, "in")) {
    tokens_.next();
    tokens_.next();
    return CompareOp::kNotIn;
  }
  return std::nullopt;
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_sum();
  int inner = depth(first);
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
  size_t offset = tokens_.current().offset;
  while (const auto op = comparison()) {
    ExprPtr operand = parse_sum();
    inner = std::max(inner, depth(operand));
    rest.emplace_back(*op, std::move(operand));
  }
  if (rest.empty()) return first;
  return make(offset, inner, CompareExpr{std::move(first), std::move(rest)});
}

ExprPtr ExpressionParser::parse_sum() {
  return parse_binary({{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSubtract}},
                      [this] { return parse_concat(); });
}

ExprPtr ExpressionParser::parse_concat() {
  std::vector<ExprPtr> parts;
  parts.push_back(parse_product());
  const size_t offset = tokens_.current().offset;
  while (tokens_.skip_operator("~")) parts.push_back(parse_product());
  if (parts.size() == 1) return std::move(parts.front());
  const int inner = depth(parts);
  return make(offset, inner, ConcatExpr{std::move(parts)});
}

ExprPtr ExpressionParser::parse_product() {
  return parse_binary({{"*", BinaryOp::kMultiply},
                       {"/", BinaryOp::kDivide},
                       {"//", BinaryOp::kFloorDivide},
                       {"%", BinaryOp::kModulo}},
                      [this] { return parse_unary(true); });
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const TokenStream::Nested nested(tokens_);
  ExprPtr node;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Token sign = tokens_.next();
    ExprPtr operand = parse_unary(false);
    const int inner = depth(operand);
    node = make(sign.offset, inner, SignExpr{sign.text == "-", std::move(operand)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token token = tokens_.current();
  switch (token.type) {
    case TokenType::kName: {
      tokens_.next();
      const std::string& name = token.text;
      if (name == "true" || name == "True") return constant(token, Value::of(true));
      if (name == "false" || name == "False") return constant(token, Value::of(false));
      if (name == "none" || name == "None") return constant(token, Value::none());
      return make(token.offset, 0, NameExpr{name});
    }
    case TokenType::kString: {
      std::string text;
      while (tokens_.current().type == TokenType::kString) text += tokens_.next().text;
      return constant(token, Value::of(std::move(text)));
    }
    case TokenType::kInteger:
      tokens_.next();
      return constant(token, Value::of(integer(token)));
    case TokenType::kFloat:
      tokens_.next();
      return constant(token, Value::of(std::strtod(token.text.c_str(), nullptr)));
    case TokenType::kOperator:
      if (token.text == "(") {
        tokens_.next();
        ExprPtr inner = parse_tuple(true, true);
        tokens_.expect_operator(")");
        return inner;
      }
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      break;
    default:
      break;
  }
  tokens_.fail_here(fmt::format("expected an expression, found {}", describe(token)));
}

ExprPtr ExpressionParser::constant(const Token& token, Value value) {
  return make(token.offset, 0, ConstantExpr{std::move(value)});
}

int64_t ExpressionParser::integer(const Token& token) {
  int64_t value = 0;
  const char* digits = token.text.data();
  const auto read = std::from_chars(digits, digits + token.text.size(), value);
  if (read.ec != std::errc()) {
    TokenStream::fail_at(token.offset,
                         fmt::format("integer {}: expected at most 64 bits", token.text));
  }
  return value;
}

ExprPtr ExpressionParser::parse_list() {
  const size_t offset = tokens_.next().offset;
  std::vector<ExprPtr> items;
  while (!tokens_.at_operator("]")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("]")) break;
    items.push_back(parse_expression());
  }
  tokens_.expect_operator("]");
  const int inner = depth(items);
  return make(offset, inner, SequenceExpr{false, std::move(items)});
}

ExprPtr ExpressionParser::parse_dict() {
  const size_t offset = tokens_.next().offset;
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
  int inner = 0;
  while (!tokens_.at_operator("}")) {
    if (!entries.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    ExprPtr key = parse_expression();
    tokens_.expect_operator(":");
    ExprPtr value = parse_expression();
    inner = std::max({inner, depth(key), depth(value)});
    entries.emplace_back(std::move(key), std::move(value));
  }
  tokens_.expect_operator("}");
  return make(offset, inner, DictExpr{std::move(entries)});
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.current().type == TokenType::kVariableEnd ||
         tokens_.current().type == TokenType::kBlockEnd || tokens_.at_operator(")");
}

ExprPtr ExpressionParser::parse_tuple(bool with_condition, bool empty_allowed) {
  const size_t offset = tokens_.current().offset;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (at_tuple_end()) break;
    items.push_back(parse_expression(with_condition));
    if (!tokens_.at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items.front());
    if (!empty_allowed) {
      tokens_.fail_here(
          fmt::format("expected an expression, found {}", describe(tokens_.current())));
    }
  }
  const int inner = depth(items);
  return make(offset, inner, SequenceExpr{true, std::move(items)});
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (tokens_.at_operator(".")) {
      node = parse_attribute(std::move(node));
    } else if (tokens_.at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr object) {
  tokens_.next();
  const Token name = tokens_.next();
  const int inner = depth(object);
  if (name.type == TokenType::kName) {
    return make(name.offset, inner, AttributeExpr{std::move(object), name.text});
  }
  if (name.type == TokenType::kInteger) {
    ExprPtr index = constant(name, Value::of(integer(name)));
    return make(name.offset, inner, ItemExpr{std::move(object), std::move(index)});
  }
  TokenStream::fail_at(name.offset,
                       fmt::format("expected a name after '.', found {}", describe(name)));
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const size_t offset = tokens_.next().offset;
  const int outer = depth(object);
  if (tokens_.at_operator("]")) tokens_.fail_here("expected an index or a slice between [ and ]");
  ExprPtr start;
  if (!tokens_.at_operator(":")) start = parse_expression();
  if (!tokens_.at_operator(":")) {
    tokens_.expect_operator("]");
    const int inner = std::max(outer, depth(start));
    return make(offset, inner, ItemExpr{std::move(object), std::move(start)});
  }
  tokens_.next();
  ExprPtr stop;
  ExprPtr step;
  if (!tokens_.at_operator("]") && !tokens_.at_operator(":")) stop = parse_expression();
  if (tokens_.skip_operator(":") && !tokens_.at_operator("]")) step = parse_expression();
  tokens_.expect_operator("]");
  const int inner = std::max({outer, depth(start), depth(stop), depth(step)});
  return make(offset, inner,
              SliceExpr{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  const size_t offset = tokens_.current().offset;
  CallArguments arguments = parse_arguments();
  const int inner = std::max(depth(callee), depth(arguments));
  return make(offset, inner, CallExpr{std::move(callee), std::move(arguments)});
}

CallArguments ExpressionParser::parse_arguments() {
  tokens_.expect_operator("(");
  CallArguments arguments;
  bool first = true;
  while (!tokens_.at_operator(")")) {
    if (!first) tokens_.expect_operator(",");
    if (tokens_.at_operator(")")) break;
    first = false;
    const size_t offset = tokens_.current().offset;
    if (tokens_.at_operator("**") || tokens_.at_operator("*")) {
      TokenStream::fail_at(offset, "* and ** before an argument are not supported",
                           ErrorKind::kUnsupported);
    }
    if (tokens_.current().type == TokenType::kName &&
        TokenStream::is(tokens_.following(), TokenType::kOperator, "=")) {
      std::string name = tokens_.next().text;
      tokens_.next();
      for (const auto& [held, expr] : arguments.named) {
        if (held == name)
          TokenStream::fail_at(offset, fmt::format("argument '{}' is given twice", name));
      }
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!arguments.named.empty()) {
        TokenStream::fail_at(offset, "an argument without a name cannot follow a named one");
      }
      arguments.positional.push_back(parse_expression());
    }
  }
  tokens_.expect_operator(")");
  return arguments;
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr node) {
  for (;;) {
    if (tokens_.at_operator("|")) {
      node = parse_filter(std::move(node));
    } else if (tokens_.at_name("is")) {
      node = parse_test(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_filter(ExprPtr input) {
  tokens_.next();
  return parse_filter_name(std::move(input));
}

ExprPtr ExpressionParser::parse_filter_name(ExprPtr input) {
  const size_t offset = tokens_.current().offset;
  std::string name = tokens_.expect_name("a filter");
  if (branches_ == 0 && find_filter(name) == nullptr) throw unknown_filter(name, offset);
  CallArguments arguments;
  if (tokens_.at_operator("(")) arguments = parse_arguments();
  const int inner = std::max(depth(input), depth(arguments));
  return make(offset, inner, FilterExpr{std::move(input), std::move(name), std::move(arguments)});
}

bool ExpressionParser::at_test_argument() const {
  switch (tokens_.current().type) {
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
      return true;
    case TokenType::kName:
      return !tokens_.at_name("else") && !tokens_.at_name("or") && !tokens_.at_name("and");
    case TokenType::kOperator:
      return tokens_.at_operator("[") || tokens_.at_operator("{");
    default:
      return false;
  }
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  tokens_.next();
  const bool negated = tokens_.skip_name("not");
  const size_t offset = tokens_.current().offset;
  std::string name = tokens_.expect_name("a test");
  if (branches_ == 0 && find_test(name) == nullptr) throw unknown_test(name, offset);
  CallArguments arguments;
  if (tokens_.at_operator("(")) {
    arguments = parse_arguments();
  } else if (at_test_argument()) {
    if (tokens_.at_name("is")) tokens_.fail_here("tests cannot be chained with 'is'");
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  const int inner = std::max(depth(input), depth(arguments));
  ExprPtr test =
      make(offset, inner, TestExpr{std::move(input), std::move(name), std::move(arguments)});
  if (!negated) return test;
  const int test_depth = depth(test);
  return make(offset, test_depth, NotExpr{std::move(test)});
}

}  // namespace dovetail::text::jinja
