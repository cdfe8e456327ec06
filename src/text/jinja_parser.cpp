#include "text/jinja_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "text/jinja_builtins.h"
#include "text/jinja_lexer.h"
#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

constexpr std::array<std::string_view, 7> kUnsupportedTags = {
    "include", "import", "from", "extends", "block", "autoescape", "trans"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Body run() {
    Body body = parse_body({});
    if (current().type != TokenType::kEnd) fail_here(describe(current()) + " is out of place");
    return body;
  }

 private:
  // Tokens ------------------------------------------------------------------------------------

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }

  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  static bool is(const Token& token, TokenType type, std::string_view text) {
    return token.type == type && token.text == text;
  }
  bool at_operator(std::string_view text) const {
    return is(current(), TokenType::kOperator, text);
  }
  bool at_name(std::string_view text) const { return is(current(), TokenType::kName, text); }

  bool skip_operator(std::string_view text) {
    if (!at_operator(text)) return false;
    next();
    return true;
  }
  bool skip_name(std::string_view text) {
    if (!at_name(text)) return false;
    next();
    return true;
  }

  [[noreturn]] static void fail_at(size_t offset, std::string message,
                                   ErrorKind kind = ErrorKind::kInvalid) {
    throw JinjaError{kind, std::move(message), offset};
  }
  [[noreturn]] void fail_here(std::string message) const {
    fail_at(current().offset, std::move(message));
  }

  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) {
      fail_here(fmt::format("expected '{}', found {}", text, describe(current())));
    }
  }
  std::string expect_name(std::string_view what) {
    if (current().type != TokenType::kName) {
      fail_here(fmt::format("expected {}, found {}", what, describe(current())));
    }
    return next().text;
  }
  void expect_block_end() {
    if (current().type != TokenType::kBlockEnd) {
      fail_here(fmt::format("expected %}}, found {}", describe(current())));
    }
    next();
  }

  // Counts what recurses, so that no source can exhaust the stack.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxTreeDepth) {
        --parser_.nesting_;
        parser_.fail_here(fmt::format("nested deeper than {}", kMaxTreeDepth));
      }
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  // Expressions -------------------------------------------------------------------------------

  template <class Node>
  ExprPtr make(size_t offset, int inner_depth, Node node) {
    if (inner_depth >= kMaxTreeDepth) {
      fail_at(offset, fmt::format("the expression nests deeper than {}", kMaxTreeDepth));
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
    int deepest = std::max(
        {depth(arguments.positional), depth(arguments.spread), depth(arguments.named_spread)});
    for (const auto& [name, expr] : arguments.named) deepest = std::max(deepest, depth(expr));
    return deepest;
  }

  ExprPtr parse_expression(bool with_condition = true) {
    const Nested nested(*this);
    if (!with_condition) return parse_or();
    ExprPtr value = parse_or();
    while (at_name("if")) {
      const size_t offset = next().offset;
      ++branches_;
      ExprPtr condition = parse_or();
      ExprPtr otherwise;
      if (skip_name("else")) otherwise = parse_expression();
      --branches_;
      const int inner = std::max({depth(value), depth(condition), depth(otherwise)});
      value = make(offset, inner,
                   ConditionalExpr{std::move(condition), std::move(value), std::move(otherwise)});
    }
    return value;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (at_name("or")) {
      const size_t offset = next().offset;
      ExprPtr right = parse_and();
      const int inner = std::max(depth(left), depth(right));
      left = make(offset, inner, LogicExpr{false, std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (at_name("and")) {
      const size_t offset = next().offset;
      ExprPtr right = parse_not();
      const int inner = std::max(depth(left), depth(right));
      left = make(offset, inner, LogicExpr{true, std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr parse_not() {
    if (!at_name("not")) return parse_compare();
    const Nested nested(*this);
    const size_t offset = next().offset;
    ExprPtr operand = parse_not();
    const int inner = depth(operand);
    return make(offset, inner, NotExpr{std::move(operand)});
  }

  std::optional<CompareOp> comparison() {
    constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kOps = {
        {{"==", CompareOp::kEqual},
         {"!=", CompareOp::kNotEqual},
         {"<", CompareOp::kLess},
         {"<=", CompareOp::kLessEqual},
         {">", CompareOp::kGreater},
         {">=", CompareOp::kGreaterEqual}}};
    for (const auto& [text, op] : kOps) {
      if (skip_operator(text)) return op;
    }
    if (skip_name("in")) return CompareOp::kIn;
    if (at_name("not") && is(following(), TokenType::kName, "in")) {
      next();
      next();
      return CompareOp::kNotIn;
    }
    return std::nullopt;
  }

  ExprPtr parse_compare() {
    ExprPtr first = parse_sum();
    int inner = depth(first);
    std::vector<std::pair<CompareOp, ExprPtr>> rest;
    size_t offset = current().offset;
    while (const auto op = comparison()) {
      ExprPtr operand = parse_sum();
      inner = std::max(inner, depth(operand));
      rest.emplace_back(*op, std::move(operand));
    }
    if (rest.empty()) return first;
    return make(offset, inner, CompareExpr{std::move(first), std::move(rest)});
  }

  using Operators = std::initializer_list<std::pair<std::string_view, BinaryOp>>;

  template <class Operand>
  ExprPtr parse_binary(Operators operators, const Operand& operand) {
    ExprPtr left = operand();
    for (;;) {
      const auto found = std::find_if(operators.begin(), operators.end(),
                                      [&](const auto& entry) { return at_operator(entry.first); });
      if (found == operators.end()) return left;
      const size_t offset = next().offset;
      ExprPtr right = operand();
      const int inner = std::max(depth(left), depth(right));
      left = make(offset, inner, BinaryExpr{found->second, std::move(left), std::move(right)});
    }
  }

  ExprPtr parse_sum() {
    return parse_binary({{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSubtract}},
                        [this] { return parse_concat(); });
  }

  ExprPtr parse_concat() {
    std::vector<ExprPtr> parts;
    parts.push_back(parse_product());
    const size_t offset = current().offset;
    while (skip_operator("~")) parts.push_back(parse_product());
    if (parts.size() == 1) return std::move(parts.front());
    const int inner = depth(parts);
    return make(offset, inner, ConcatExpr{std::move(parts)});
  }

  ExprPtr parse_product() {
    return parse_binary({{"*", BinaryOp::kMultiply},
                         {"/", BinaryOp::kDivide},
                         {"//", BinaryOp::kFloorDivide},
                         {"%", BinaryOp::kModulo}},
                        [this] { return parse_power(); });
  }

  // To the left, and after the sign: -2 ** 2 is 4, as in Jinja.
  ExprPtr parse_power() {
    return parse_binary({{"**", BinaryOp::kPower}}, [this] { return parse_unary(true); });
  }

  ExprPtr parse_unary(bool with_filters) {
    const Nested nested(*this);
    ExprPtr node;
    if (at_operator("-") || at_operator("+")) {
      const Token sign = next();
      ExprPtr operand = parse_unary(false);
      const int inner = depth(operand);
      node = make(sign.offset, inner, SignExpr{sign.text == "-", std::move(operand)});
    } else {
      node = parse_primary();
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
  }

  ExprPtr parse_primary() {
    const Token token = current();
    switch (token.type) {
      case TokenType::kName: {
        next();
        const std::string& name = token.text;
        if (name == "true" || name == "True") return constant(token, Value::of(true));
        if (name == "false" || name == "False") return constant(token, Value::of(false));
        if (name == "none" || name == "None") return constant(token, Value::none());
        return make(token.offset, 0, NameExpr{name});
      }
      case TokenType::kString: {
        std::string text;
        while (current().type == TokenType::kString) text += next().text;
        return constant(token, Value::of(std::move(text)));
      }
      case TokenType::kInteger:
        next();
        return constant(token, Value::of(integer(token)));
      case TokenType::kFloat:
        next();
        return constant(token, Value::of(std::strtod(token.text.c_str(), nullptr)));
      case TokenType::kOperator:
        if (token.text == "(") {
          next();
          ExprPtr inner = parse_tuple(true, true);
          expect_operator(")");
          return inner;
        }
        if (token.text == "[") return parse_list();
        if (token.text == "{") return parse_dict();
        break;
      default:
        break;
    }
    fail_here(fmt::format("expected an expression, found {}", describe(token)));
  }

  ExprPtr constant(const Token& token, Value value) {
    return make(token.offset, 0, ConstantExpr{std::move(value)});
  }

  static int64_t integer(const Token& token) {
    std::string_view digits = token.text;
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && digits[1] >= 'b') {
      base = digits[1] == 'x' ? 16 : (digits[1] == 'o' ? 8 : 2);
      digits.remove_prefix(2);
    }
    int64_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (read.ec != std::errc()) {
      fail_at(token.offset, fmt::format("integer {}: expected at most 64 bits", token.text));
    }
    return value;
  }

  ExprPtr parse_list() {
    const size_t offset = next().offset;
    std::vector<ExprPtr> items;
    while (!at_operator("]")) {
      if (!items.empty()) expect_operator(",");
      if (at_operator("]")) break;
      items.push_back(parse_expression());
    }
    expect_operator("]");
    const int inner = depth(items);
    return make(offset, inner, SequenceExpr{false, std::move(items)});
  }

  ExprPtr parse_dict() {
    const size_t offset = next().offset;
    std::vector<std::pair<ExprPtr, ExprPtr>> entries;
    int inner = 0;
    while (!at_operator("}")) {
      if (!entries.empty()) expect_operator(",");
      if (at_operator("}")) break;
      ExprPtr key = parse_expression();
      expect_operator(":");
      ExprPtr value = parse_expression();
      inner = std::max({inner, depth(key), depth(value)});
      entries.emplace_back(std::move(key), std::move(value));
    }
    expect_operator("}");
    return make(offset, inner, DictExpr{std::move(entries)});
  }

  bool at_tuple_end() const {
    return current().type == TokenType::kVariableEnd || current().type == TokenType::kBlockEnd ||
           at_operator(")");
  }

  // One expression, or several with commas between them, which make a tuple. `empty_allowed` within
  // parentheses only.
  ExprPtr parse_tuple(bool with_condition, bool empty_allowed,
                      std::string_view extra_end = std::string_view()) {
    const size_t offset = current().offset;
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    for (;;) {
      if (!items.empty()) expect_operator(",");
      if (at_tuple_end() || (!extra_end.empty() && at_name(extra_end))) break;
      items.push_back(parse_expression(with_condition));
      if (!at_operator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!items.empty()) return std::move(items.front());
      if (!empty_allowed) {
        fail_here(fmt::format("expected an expression, found {}", describe(current())));
      }
    }
    const int inner = depth(items);
    return make(offset, inner, SequenceExpr{true, std::move(items)});
  }

  ExprPtr parse_postfix(ExprPtr node) {
    for (;;) {
      if (at_operator(".")) {
        node = parse_attribute(std::move(node));
      } else if (at_operator("[")) {
        node = parse_subscript(std::move(node));
      } else if (at_operator("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_attribute(ExprPtr object) {
    next();
    const Token name = next();
    const int inner = depth(object);
    if (name.type == TokenType::kName) {
      return make(name.offset, inner, AttributeExpr{std::move(object), name.text});
    }
    if (name.type == TokenType::kInteger) {
      ExprPtr index = constant(name, Value::of(integer(name)));
      return make(name.offset, inner, ItemExpr{std::move(object), std::move(index)});
    }
    fail_at(name.offset, fmt::format("expected a name after '.', found {}", describe(name)));
  }

  ExprPtr parse_subscript(ExprPtr object) {
    const size_t offset = next().offset;
    const int outer = depth(object);
    if (at_operator("]")) fail_here("expected an index or a slice between [ and ]");
    ExprPtr start;
    if (!at_operator(":")) start = parse_expression();
    if (!at_operator(":")) {
      if (at_operator(",")) {
        std::vector<ExprPtr> items;
        items.push_back(std::move(start));
        while (skip_operator(",")) items.push_back(parse_expression());
        const int inner = depth(items);
        start = make(offset, inner, SequenceExpr{true, std::move(items)});
      }
      expect_operator("]");
      const int inner = std::max(outer, depth(start));
      return make(offset, inner, ItemExpr{std::move(object), std::move(start)});
    }
    next();
    ExprPtr stop;
    ExprPtr step;
    if (!at_operator("]") && !at_operator(":")) stop = parse_expression();
    if (skip_operator(":") && !at_operator("]")) step = parse_expression();
    expect_operator("]");
    const int inner = std::max({outer, depth(start), depth(stop), depth(step)});
    return make(offset, inner,
                SliceExpr{std::move(object), std::move(start), std::move(stop), std::move(step)});
  }

  ExprPtr parse_call(ExprPtr callee) {
    const size_t offset = current().offset;
    CallArguments arguments = parse_arguments();
    const int inner = std::max(depth(callee), depth(arguments));
    return make(offset, inner, CallExpr{std::move(callee), std::move(arguments)});
  }

  CallArguments parse_arguments() {
    expect_operator("(");
    CallArguments arguments;
    bool first = true;
    while (!at_operator(")")) {
      if (!first) expect_operator(",");
      if (at_operator(")")) break;
      first = false;
      const size_t offset = current().offset;
      if (skip_operator("**")) {
        if (arguments.named_spread != nullptr) fail_at(offset, "** may stand only once in a call");
        arguments.named_spread = parse_expression();
      } else if (skip_operator("*")) {
        if (arguments.spread != nullptr || arguments.named_spread != nullptr) {
          fail_at(offset, "* may stand only once in a call, in front of **");
        }
        arguments.spread = parse_expression();
      } else if (current().type == TokenType::kName && is(following(), TokenType::kOperator, "=")) {
        if (arguments.named_spread != nullptr) fail_at(offset, "an argument cannot follow **");
        std::string name = next().text;
        next();
        for (const auto& [held, expr] : arguments.named) {
          if (held == name) fail_at(offset, fmt::format("argument '{}' is given twice", name));
        }
        arguments.named.emplace_back(std::move(name), parse_expression());
      } else {
        if (!arguments.named.empty() || arguments.spread != nullptr ||
            arguments.named_spread != nullptr) {
          fail_at(offset, "an argument without a name cannot follow a named one");
        }
        arguments.positional.push_back(parse_expression());
      }
    }
    expect_operator(")");
    return arguments;
  }

  ExprPtr parse_filters_and_tests(ExprPtr node) {
    for (;;) {
      if (at_operator("|")) {
        node = parse_filter(std::move(node));
      } else if (at_name("is")) {
        node = parse_test(std::move(node));
      } else if (at_operator("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  std::string dotted_name(std::string_view what) {
    std::string name = expect_name(what);
    while (skip_operator(".")) name += "." + expect_name(what);
    return name;
  }

  // After the '|'.
  ExprPtr parse_filter(ExprPtr input) {
    next();
    return parse_filter_name(std::move(input));
  }

  ExprPtr parse_filter_name(ExprPtr input) {
    const size_t offset = current().offset;
    std::string name = dotted_name("a filter");
    if (branches_ == 0 && find_filter(name) == nullptr) throw unknown_filter(name, offset);
    CallArguments arguments;
    if (at_operator("(")) arguments = parse_arguments();
    const int inner = std::max(depth(input), depth(arguments));
    return make(offset, inner, FilterExpr{std::move(input), std::move(name), std::move(arguments)});
  }

  bool at_test_argument() const {
    switch (current().type) {
      case TokenType::kString:
      case TokenType::kInteger:
      case TokenType::kFloat:
        return true;
      case TokenType::kName:
        return !at_name("else") && !at_name("or") && !at_name("and");
      case TokenType::kOperator:
        return at_operator("[") || at_operator("{");
      default:
        return false;
    }
  }

  ExprPtr parse_test(ExprPtr input) {
    next();
    const bool negated = skip_name("not");
    const size_t offset = current().offset;
    std::string name = dotted_name("a test");
    if (branches_ == 0 && find_test(name) == nullptr) throw unknown_test(name, offset);
    CallArguments arguments;
    if (at_operator("(")) {
      arguments = parse_arguments();
    } else if (at_test_argument()) {
      if (at_name("is")) fail_here("tests cannot be chained with 'is'");
      arguments.positional.push_back(parse_postfix(parse_primary()));
    }
    const int inner = std::max(depth(input), depth(arguments));
    ExprPtr test =
        make(offset, inner, TestExpr{std::move(input), std::move(name), std::move(arguments)});
    if (!negated) return test;
    const int test_depth = depth(test);
    return make(offset, test_depth, NotExpr{std::move(test)});
  }

  // Statements --------------------------------------------------------------------------------

  using Tags = std::initializer_list<std::string_view>;

  // Statements until one of the `ends` tags, which is current afterwards (its name, that is).
  Body parse_body(Tags ends) {
    Body body;
    for (;;) {
      switch (current().type) {
        case TokenType::kData: {
          const Token& token = next();
          body.push_back({DataStatement{token.text}, token.offset});
          break;
        }
        case TokenType::kVariableBegin: {
          const size_t offset = next().offset;
          ExprPtr value = parse_tuple(true, false);
          if (current().type != TokenType::kVariableEnd) {
            fail_here(fmt::format("expected }}}}, found {}", describe(current())));
          }
          next();
          body.push_back({PrintStatement{std::move(value)}, offset});
          break;
        }
        case TokenType::kBlockBegin: {
          next();
          if (std::any_of(ends.begin(), ends.end(),
                          [&](std::string_view end) { return at_name(end); })) {
            return body;
          }
          body.push_back(parse_statement());
          break;
        }
        default:
          if (ends.size() != 0) {
            fail_at(open_tags_.back().second,
                    fmt::format("{{% {} %}} is never closed: expected {{% {} %}}",
                                open_tags_.back().first, *(ends.end() - 1)));
          }
          return body;
      }
    }
  }

  // A body that ends with {% endX %}, which is consumed.
  Body parse_closed_body(std::string_view end) {
    Body body = parse_body({end});
    next();
    expect_block_end();
    return body;
  }

  Statement parse_statement() {
    const Nested nested(*this);
    const size_t offset = current().offset;
    const std::string tag = expect_name("the name of a tag");
    open_tags_.emplace_back(tag, offset);
    Statement statement = parse_tag(tag, offset);
    open_tags_.pop_back();
    return statement;
  }

  Statement parse_tag(const std::string& tag, size_t offset) {
    if (tag == "for") return {parse_for(), offset};
    if (tag == "if") return {parse_if(), offset};
    if (tag == "set") return parse_set(offset);
    if (tag == "macro") return {parse_macro(), offset};
    if (tag == "call") return {parse_call_block(), offset};
    if (tag == "filter") return {parse_filter_block(), offset};
    if (tag == "with") return {parse_with(), offset};
    if (tag == "do") {
      DoStatement statement{parse_tuple(true, false)};
      expect_block_end();
      return {std::move(statement), offset};
    }
    if (tag == "generation") {
      expect_block_end();
      const int loops = std::exchange(loops_, 0);
      ScopeStatement statement{parse_closed_body("endgeneration")};
      loops_ = loops;
      return {std::move(statement), offset};
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(offset, fmt::format("'{}' outside of a loop", tag));
      expect_block_end();
      if (tag == "break") return {BreakStatement{}, offset};
      return {ContinueStatement{}, offset};
    }
    if (std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), tag) !=
        kUnsupportedTags.end()) {
      fail_at(offset, fmt::format("the tag '{}' is not supported", tag), ErrorKind::kUnsupported);
    }
    if (tag.starts_with("end") || tag == "else" || tag == "elif") {
      open_tags_.pop_back();
      if (open_tags_.empty()) fail_at(offset, fmt::format("'{}' closes nothing", tag));
      fail_at(offset,
              fmt::format("unexpected '{}': '{}' is still open", tag, open_tags_.back().first));
    }
    fail_at(offset,
            fmt::format("unknown tag '{}': known are for, if, set, macro, call, filter, with, do, "
                        "generation, raw, break, continue",
                        tag),
            ErrorKind::kUnsupported);
  }

  Target parse_target_name(bool with_namespace) {
    const size_t offset = current().offset;
    Target target{Target::Kind::kName, expect_name("a name to assign to"), {}, {}, offset};
    if (with_namespace && skip_operator(".")) {
      target.kind = Target::Kind::kAttribute;
      target.attribute = expect_name("an attribute");
      return target;
    }
    constexpr std::array<std::string_view, 9> kReserved = {"true", "false", "none", "True", "False",
                                                           "None", "not",   "if",   "in"};
    if (std::find(kReserved.begin(), kReserved.end(), target.name) != kReserved.end()) {
      fail_at(offset, fmt::format("'{}' cannot be assigned to", target.name));
    }
    return target;
  }

  // Names with commas between them, or nested in parentheses.
  Target parse_target(bool with_namespace) {
    const Nested nested(*this);
    const size_t offset = current().offset;
    std::vector<Target> items;
    bool is_tuple = false;
    for (;;) {
      if (skip_operator("(")) {
        items.push_back(parse_target(with_namespace));
        expect_operator(")");
      } else {
        items.push_back(parse_target_name(with_namespace));
      }
      if (!skip_operator(",")) break;
      is_tuple = true;
      if (current().type != TokenType::kName && !at_operator("(")) break;
      if (at_name("in")) break;
    }
    if (!is_tuple) return std::move(items.front());
    return {Target::Kind::kTuple, {}, {}, std::move(items), offset};
  }

  ForStatement parse_for() {
    ForStatement loop{};
    loop.target = parse_target(false);
    if (!skip_name("in")) {
      fail_here(fmt::format("expected 'in', found {}", describe(current())));
    }
    loop.items = parse_tuple(false, false, "recursive");
    if (skip_name("if")) loop.condition = parse_expression();
    loop.recursive = skip_name("recursive");
    expect_block_end();
    ++loops_;
    loop.body = parse_body({"else", "endfor"});
    --loops_;
    if (next().text == "else") {
      expect_block_end();
      loop.otherwise = parse_closed_body("endfor");
    } else {
      expect_block_end();
    }
    return loop;
  }

  IfStatement parse_if() {
    IfStatement statement;
    ++branches_;
    for (;;) {
      ExprPtr condition = parse_tuple(false, false);
      expect_block_end();
      Body body = parse_body({"elif", "else", "endif"});
      statement.branches.emplace_back(std::move(condition), std::move(body));
      const std::string end = next().text;
      if (end == "elif") continue;
      expect_block_end();
      if (end == "else") statement.otherwise = parse_closed_body("endif");
      break;
    }
    --branches_;
    return statement;
  }

  Statement parse_set(size_t offset) {
    Target target = parse_target(true);
    if (skip_operator("=")) {
      ExprPtr value = parse_tuple(true, false);
      expect_block_end();
      return {SetStatement{std::move(target), std::move(value)}, offset};
    }
    ExprPtr value = make(offset, 0, BlockBodyExpr{});
    while (at_operator("|")) value = parse_filter(std::move(value));
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    Body body = parse_closed_body("endset");
    loops_ = loops;
    return {SetBlockStatement{std::move(target), std::move(value), std::move(body)}, offset};
  }

  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    expect_operator("(");
    while (!at_operator(")")) {
      if (!parameters.empty()) expect_operator(",");
      if (at_operator(")")) break;
      const size_t offset = current().offset;
      Parameter parameter{parse_target_name(false).name, nullptr};
      if (skip_operator("=")) {
        parameter.otherwise = parse_expression();
      } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
        fail_at(offset, fmt::format("parameter '{}' without a default follows one that has one",
                                    parameter.name));
      }
      parameters.push_back(std::move(parameter));
    }
    expect_operator(")");
    return parameters;
  }

  // The body of a macro, and which of the special names occur in it.
  void parse_macro_body(MacroStatement& macro, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const size_t start = at_;
    macro.body = parse_closed_body(end);
    loops_ = loops;
    for (size_t i = start; i < at_; ++i) {
      if (tokens_[i].type != TokenType::kName) continue;
      const std::string& name = tokens_[i].text;
      macro.takes_varargs = macro.takes_varargs || name == "varargs";
      macro.takes_kwargs = macro.takes_kwargs || name == "kwargs";
      macro.takes_caller = macro.takes_caller || name == "caller";
    }
  }

  MacroStatement parse_macro() {
    MacroStatement macro{};
    macro.name = parse_target_name(false).name;
    macro.parameters = parse_parameters();
    expect_block_end();
    parse_macro_body(macro, "endmacro");
    return macro;
  }

  CallStatement parse_call_block() {
    CallStatement statement{};
    statement.caller.name = "caller";
    if (at_operator("(")) statement.caller.parameters = parse_parameters();
    const size_t offset = current().offset;
    statement.call = parse_expression();
    if (!std::holds_alternative<CallExpr>(statement.call->node)) {
      fail_at(offset, "expected a call after the tag 'call'");
    }
    expect_block_end();
    parse_macro_body(statement.caller, "endcall");
    return statement;
  }

  FilterStatement parse_filter_block() {
    ExprPtr value = parse_filter_name(make(current().offset, 0, BlockBodyExpr{}));
    while (at_operator("|")) value = parse_filter(std::move(value));
    expect_block_end();
    const int loops = std::exchange(loops_, 0);
    Body body = parse_closed_body("endfilter");
    loops_ = loops;
    return {std::move(value), std::move(body)};
  }

  WithStatement parse_with() {
    WithStatement statement;
    while (current().type != TokenType::kBlockEnd) {
      if (!statement.assignments.empty()) expect_operator(",");
      Target target = parse_target_name(false);
      expect_operator("=");
      statement.assignments.emplace_back(std::move(target), parse_expression());
    }
    expect_block_end();
    statement.body = parse_closed_body("endwith");
    return statement;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;     // loops around the current tag that break and continue can reach
  int branches_ = 0;  // conditions around the current expression
  std::vector<std::pair<std::string, size_t>> open_tags_;
};

}  // namespace

Result<std::shared_ptr<const Template>> parse_template(std::string_view source,
                                                       std::string_view name) {
  if (source.size() > kMaxSourceBytes) {
    return fail(ErrorKind::kInvalid, "{}: {} bytes long, expected at most {}", name, source.size(),
                kMaxSourceBytes);
  }
  auto parsed = std::make_shared<Template>();
  parsed->name = name;
  parsed->source = normalize_source(source);
  try {
    parsed->body = Parser(tokenize(parsed->source)).run();
  } catch (const JinjaError& error) {
    return fail(locate(error, name, parsed->source));
  }
  return std::shared_ptr<const Template>(std::move(parsed));
}

Error locate(const JinjaError& error, std::string_view name, std::string_view source) {
  const std::string_view before = source.substr(0, error.offset.value_or(0));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const size_t column = length(before.substr(line_start)) + 1;
  return {error.kind, fmt::format("{}:{}:{}: {}", name, line, column, error.message)};
}

}  // namespace dovetail::text::jinja
