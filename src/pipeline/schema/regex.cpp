#include "pipeline/schema/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

namespace dovetail::pipeline {
namespace {

constexpr std::uint32_t kMostMatchSteps = 2'000'000;
constexpr std::uint32_t kMostHeapKib = 20'000;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string message_of(int code) {
  std::array<unsigned char, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

Result<Regex> Regex::compile(std::string_view expression) {
  struct ContextDeleter {
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  };
  const std::unique_ptr<pcre2_compile_context, ContextDeleter> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_compile_extra_options(context.get(), PCRE2_EXTRA_ALT_BSUX);
  int error = 0;
  std::size_t offset = 0;
  pcre2_code* code = pcre2_compile(
      bytes_of(expression), expression.size(),
      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_NEVER_BACKSLASH_C, &error,
      &offset, context.get());
  if (code == nullptr) {
    return fail(ErrorKind::kInvalid, "no regular expression: {} at byte {}", message_of(error),
                offset);
  }
  Regex regex;
  regex.text_ = expression;
  regex.code_ = std::shared_ptr<const void>(code, [](const void* owned) {
    pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(owned)));
  });
  return regex;
}

Result<bool> Regex::is_in(std::string_view text) const {
  struct DataDeleter {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  };
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, DataDeleter> data(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, DataDeleter> context(
      pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMostMatchSteps);
  pcre2_set_heap_limit(context.get(), kMostHeapKib);
  const int matched =
      pcre2_match(code, bytes_of(text), text.size(), 0, 0, data.get(), context.get());
  if (matched >= 0) return true;
  if (matched == PCRE2_ERROR_NOMATCH) return false;
  const bool limit = matched == PCRE2_ERROR_MATCHLIMIT || matched == PCRE2_ERROR_HEAPLIMIT ||
                     matched == PCRE2_ERROR_DEPTHLIMIT;
  return fail(limit ? ErrorKind::kExhausted : ErrorKind::kInvalid,
              "the regular expression {} cannot be tried: {}", text_, message_of(matched));
}

}  // namespace dovetail::pipeline
