#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace dovetail::text::jinja {

// The tokens of a template, read in order. What it expects and does not find it throws as a
// JinjaError at the current token.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

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
    explicit Nested(TokenStream& stream) : stream_(stream) {
      if (++stream_.nesting_ > kMaxTreeDepth) {
        --stream_.nesting_;
        stream_.fail_here(fmt::format("nested deeper than {}", kMaxTreeDepth));
      }
    }
    ~Nested() { --stream_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;  // ends with kEnd
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace dovetail::text::jinja
