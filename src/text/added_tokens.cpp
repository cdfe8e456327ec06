#include "text/added_tokens.h"

#include <algorithm>

#include "load/quote.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

// Where the last character of a non-empty text begins.
std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return at;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(code_point_at(text, last_character(text)).value);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word(code_point_at(text, 0).value);
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!is_white_space(point.value)) break;
    at += point.size;
  }
  return at;
}

std::size_t without_trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t last = last_character(text.substr(0, end));
    if (!is_white_space(code_point_at(text, last).value)) break;
    end = last;
  }
  return end;
}

}  // namespace

bool AddedToken::is_control() const {
  const auto between = [this](std::string_view open, std::string_view close) {
    return content.size() > open.size() + close.size() && content.starts_with(open) &&
           content.ends_with(close);
  };
  return special || between("<|", "|>") || between("<\xEF\xBD\x9C", "\xEF\xBD\x9C>");
}

Result<AddedTokens> AddedTokens::create(std::vector<AddedToken> tokens,
                                        const Normalizer& normalizer) {
  AddedTokens out;
  // Special tokens first: of two that normalize to the same text the first counts.
  std::stable_partition(tokens.begin(), tokens.end(),
                        [](const auto& token) { return token.special; });
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const AddedToken& token = tokens[i];
    const std::string normalized =
        token.normalized ? normalizer.normalize(token.content) : std::string();
    const std::string& wanted = token.normalized ? normalized : token.content;
    if (std::max(token.content.size(), wanted.size()) > kLongestAddedToken) {
      return fail(ErrorKind::kInvalid, "added token {}: {} bytes; valid: at most {}",
                  load::quote(token.content), std::max(token.content.size(), wanted.size()),
                  kLongestAddedToken);
    }
    out.has_normalized_control_ =
        out.has_normalized_control_ || (token.normalized && token.is_control());
    (token.normalized ? out.normalized_ : out.raw_).put(wanted, static_cast<std::int32_t>(i));
  }
  out.tokens_ = std::move(tokens);
  return out;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, bool normalized, bool with_special,
                                         std::span<const ByteSpan> untrusted) const {
  std::vector<TextPart> parts;
  const Trie& trie = normalized ? normalized_ : raw_;
  std::size_t done = 0;
  std::size_t space_begin = 1;  // the last run of white space that rstrip took
  std::size_t space_end = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t longest = 0;
    std::size_t which = 0;
    trie.visit_prefixes(text.substr(at), [&](std::size_t size, std::int32_t place) {
      longest = size;
      which = static_cast<std::size_t>(place);
    });
    if (longest == 0) {
      ++at;
      continue;
    }
    if (!untrusted.empty() && tokens_[which].is_control()) {
      const Coverage covered = coverage(untrusted, at, at + longest);
      if (covered == Coverage::kAll) {
        at += longest;
        continue;
      }
      if (covered == Coverage::kPart) {
        // The untrusted part must not hide a token that lies before or behind it.
        longest = 0;
        trie.visit_prefixes(text.substr(at), [&](std::size_t size, std::int32_t place) {
          const auto candidate = static_cast<std::size_t>(place);
          if (tokens_[candidate].is_control() &&
              coverage(untrusted, at, at + size) != Coverage::kNone) {
            return;
          }
          longest = size;
          which = candidate;
        });
        if (longest == 0) {
          ++at;
          continue;
        }
      }
    }
    std::size_t begin = at;
    std::size_t end = at + longest;
    at = end;
    const AddedToken& token = tokens_[which];
    if (token.special && !with_special) continue;
    if (token.single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip && begin > done) {
      begin = done + without_trailing_space(text.substr(done, begin - done));
    }
    if (token.rstrip) {
      // One run of white space is walked once, however many tokens begin within it.
      if (end < space_begin || end > space_end) {
        space_begin = end;
        space_end = end + leading_space(text.substr(end));
      }
      end = space_end;
    }
    if (done < begin) parts.push_back({text.substr(done, begin - done), std::nullopt});
    parts.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), std::nullopt});
  return parts;
}

}  // namespace dovetail::text
