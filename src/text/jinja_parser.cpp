#include "text/jinja_parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "text/jinja_expression_parser.h"
#include "text/jinja_lexer.h"
#include "text/jinja_token_stream.h"
#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

constexpr std::array<std::string_view, 10> kUnsupportedTags = {
    "include", "import", "from", "extends", "block", "autoescape", "trans", "call", "with", "do"};

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Body run() {
    Body body = parse_body({});
    const Token& last = tokens_.current();
    if (last.type != TokenType::kEnd) tokens_.fail_here(describe(last) + " is out of place");
    return body;
  }

 private:
  using Tags = std::initializer_list<std::string_view>;

  // Statements until one of the `ends` tags, which is current afterwards (its name, that is).
  Body parse_body(Tags ends) {
    Body body;
    for (;;) {
      switch (tokens_.current().type) {
        case TokenType::kData: {
          const Token& token = tokens_.next();
          body.push_back({DataStatement{token.text}, token.offset});
          break;
        }
        case TokenType::kVariableBegin: {
          const size_t offset = tokens_.next().offset;
          ExprPtr value = expressions_.parse_tuple(true, false);
          if (tokens_.current().type != TokenType::kVariableEnd) {
            tokens_.fail_here(fmt::format("expected }}}}, found {}", describe(tokens_.current())));
          }
          tokens_.next();
          body.push_back({PrintStatement{std::move(value)}, offset});
          break;
        }
        case TokenType::kBlockBegin: {
          tokens_.next();
          if (std::any_of(ends.begin(), ends.end(),
                          [&](std::string_view end) { return tokens_.at_name(end); })) {
            return body;
          }
          body.push_back(parse_statement());
          break;
        }
        default:
          if (ends.size() != 0) {
            TokenStream::fail_at(open_tags_.back().second,
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
    tokens_.next();
    tokens_.expect_block_end();
    return body;
  }

  Statement parse_statement() {
    const TokenStream::Nested nested(tokens_);
    const size_t offset = tokens_.current().offset;
    const std::string tag = tokens_.expect_name("the name of a tag");
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
    if (tag == "filter") return {parse_filter_block(), offset};
    if (tag == "generation") {
      tokens_.expect_block_end();
      const int loops = std::exchange(loops_, 0);
      ScopeStatement statement{parse_closed_body("endgeneration")};
      loops_ = loops;
      return {std::move(statement), offset};
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) TokenStream::fail_at(offset, fmt::format("'{}' outside of a loop", tag));
      tokens_.expect_block_end();
      if (tag == "break") return {BreakStatement{}, offset};
      return {ContinueStatement{}, offset};
    }
    if (std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), tag) !=
        kUnsupportedTags.end()) {
      TokenStream::fail_at(offset, fmt::format("the tag '{}' is not supported", tag),
                           ErrorKind::kUnsupported);
    }
    if (tag.starts_with("end") || tag == "else" || tag == "elif") {
      open_tags_.pop_back();
      if (open_tags_.empty()) TokenStream::fail_at(offset, fmt::format("'{}' closes nothing", tag));
      TokenStream::fail_at(
          offset, fmt::format("unexpected '{}': '{}' is still open", tag, open_tags_.back().first));
    }
    TokenStream::fail_at(
        offset,
        fmt::format("unknown tag '{}': known are for, if, set, macro, filter, generation, raw, "
                    "break, continue",
                    tag),
        ErrorKind::kUnsupported);
  }

  Target parse_target_name(bool with_namespace) {
    const size_t offset = tokens_.current().offset;
    Target target{Target::Kind::kName, tokens_.expect_name("a name to assign to"), {}, {}, offset};
    if (with_namespace && tokens_.skip_operator(".")) {
      target.kind = Target::Kind::kAttribute;
      target.attribute = tokens_.expect_name("an attribute");
      return target;
    }
    constexpr std::array<std::string_view, 9> kReserved = {"true", "false", "none", "True", "False",
                                                           "None", "not",   "if",   "in"};
    if (std::find(kReserved.begin(), kReserved.end(), target.name) != kReserved.end()) {
      TokenStream::fail_at(offset, fmt::format("'{}' cannot be assigned to", target.name));
    }
    return target;
  }

  // Names with commas between them, or nested in parentheses.
  Target parse_target(bool with_namespace) {
    const TokenStream::Nested nested(tokens_);
    const size_t offset = tokens_.current().offset;
    std::vector<Target> items;
    bool is_tuple = false;
    for (;;) {
      if (tokens_.skip_operator("(")) {
        items.push_back(parse_target(with_namespace));
        tokens_.expect_operator(")");
      } else {
        items.push_back(parse_target_name(with_namespace));
      }
      if (!tokens_.skip_operator(",")) break;
      is_tuple = true;
      if (tokens_.current().type != TokenType::kName && !tokens_.at_operator("(")) break;
      if (tokens_.at_name("in")) break;
    }
    if (!is_tuple) return std::move(items.front());
    return {Target::Kind::kTuple, {}, {}, std::move(items), offset};
  }

  ForStatement parse_for() {
    ForStatement loop{};
    loop.target = parse_target(false);
    if (!tokens_.skip_name("in")) {
      tokens_.fail_here(fmt::format("expected 'in', found {}", describe(tokens_.current())));
    }
    loop.items = expressions_.parse_tuple(false, false);
    if (tokens_.skip_name("if")) loop.condition = expressions_.parse_expression();
    tokens_.expect_block_end();
    ++loops_;
    loop.body = parse_body({"else", "endfor"});
    --loops_;
    if (tokens_.next().text == "else") {
      tokens_.expect_block_end();
      loop.otherwise = parse_closed_body("endfor");
    } else {
      tokens_.expect_block_end();
    }
    return loop;
  }

  IfStatement parse_if() {
    IfStatement statement;
    const ExpressionParser::Branch branch(expressions_);
    for (;;) {
      ExprPtr condition = expressions_.parse_tuple(false, false);
      tokens_.expect_block_end();
      Body body = parse_body({"elif", "else", "endif"});
      statement.branches.emplace_back(std::move(condition), std::move(body));
      const std::string end = tokens_.next().text;
      if (end == "elif") continue;
      tokens_.expect_block_end();
      if (end == "else") statement.otherwise = parse_closed_body("endif");
      break;
    }
    return statement;
  }

  Statement parse_set(size_t offset) {
    Target target = parse_target(true);
    if (tokens_.skip_operator("=")) {
      ExprPtr value = expressions_.parse_tuple(true, false);
      tokens_.expect_block_end();
      return {SetStatement{std::move(target), std::move(value)}, offset};
    }
    ExprPtr value = expressions_.block_body(offset);
    while (tokens_.at_operator("|")) value = expressions_.parse_filter(std::move(value));
    tokens_.expect_block_end();
    const int loops = std::exchange(loops_, 0);
    Body body = parse_closed_body("endset");
    loops_ = loops;
    return {SetBlockStatement{std::move(target), std::move(value), std::move(body)}, offset};
  }

  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")")) {
      if (!parameters.empty()) tokens_.expect_operator(",");
      if (tokens_.at_operator(")")) break;
      const size_t offset = tokens_.current().offset;
      Parameter parameter{parse_target_name(false).name, nullptr};
      if (tokens_.skip_operator("=")) {
        parameter.otherwise = expressions_.parse_expression();
      } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
        TokenStream::fail_at(
            offset, fmt::format("parameter '{}' without a default follows one that has one",
                                parameter.name));
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_operator(")");
    return parameters;
  }

  MacroStatement parse_macro() {
    MacroStatement macro{};
    macro.name = parse_target_name(false).name;
    macro.parameters = parse_parameters();
    tokens_.expect_block_end();
    const int loops = std::exchange(loops_, 0);
    macro.body = parse_closed_body("endmacro");
    loops_ = loops;
    return macro;
  }

  FilterStatement parse_filter_block() {
    ExprPtr value =
        expressions_.parse_filter_name(expressions_.block_body(tokens_.current().offset));
    while (tokens_.at_operator("|")) value = expressions_.parse_filter(std::move(value));
    tokens_.expect_block_end();
    const int loops = std::exchange(loops_, 0);
    Body body = parse_closed_body("endfilter");
    loops_ = loops;
    return {std::move(value), std::move(body)};
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;  // loops around the current tag that break and continue can reach
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
    parsed->body = StatementParser(tokenize(parsed->source)).run();
  } catch (const JinjaError& error) {
    return fail(locate(error, name, parsed->source));
  }
  return std::shared_ptr<const Template>(std::move(parsed));
}

bool holds_string(const Template& parsed, std::string_view text) {
  const std::vector<Token> tokens = tokenize(parsed.source);  // parsed, so it does not throw
  return std::any_of(tokens.begin(), tokens.end(), [&](const Token& token) {
    return token.type == TokenType::kString && token.text == text;
  });
}

Error locate(const JinjaError& error, std::string_view name, std::string_view source) {
  const std::string_view before = source.substr(0, error.offset.value_or(0));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const size_t column = length(before.substr(line_start)) + 1;
  return {error.kind, fmt::format("{}:{}:{}: {}", name, line, column, error.message)};
}

}  // namespace dovetail::text::jinja
