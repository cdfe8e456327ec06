#include "grammar/vocabulary.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "grammar/automaton.h"

namespace dovetail::grammar {

std::string control_token(std::string_view spelling) {
  std::string out(1, static_cast<char>(kControlBegin));
  out += spelling;
  out += static_cast<char>(kControlEnd);
  return out;
}

bool holds_control_bytes(std::string_view bytes) {
  return bytes.find_first_of("\xFF\xFE") != std::string_view::npos;
}

Result<Vocabulary> Vocabulary::create(const std::vector<std::string>& tokens,
                                      std::span<const TokenId> ends) {
  Vocabulary out;
  std::size_t total = 0;
  for (const std::string& token : tokens) {
    total += token.size();
    // Node::depth holds the place of every byte.
    if (token.size() > std::numeric_limits<std::uint16_t>::max()) {
      return fail(ErrorKind::kUnsupported, "a token of {} bytes; at most {}", token.size(),
                  std::numeric_limits<std::uint16_t>::max());
    }
  }
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  if (total > kMost || tokens.size() > kMost) {
    return fail(ErrorKind::kUnsupported, "a vocabulary of {} tokens with {} bytes; at most {} each",
                tokens.size(), total, kMost);
  }
  for (const TokenId end : ends) {
    if (end < 0 || static_cast<std::size_t>(end) >= tokens.size()) {
      return fail(ErrorKind::kInvalid, "end token {}: the vocabulary has {} tokens", end,
                  tokens.size());
    }
  }
  out.ends_.assign(ends.begin(), ends.end());
  std::sort(out.ends_.begin(), out.ends_.end());
  out.ends_.erase(std::unique(out.ends_.begin(), out.ends_.end()), out.ends_.end());
  out.text_.reserve(total);
  out.offsets_.reserve(tokens.size() + 1);
  out.offsets_.push_back(0);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!out.is_end(static_cast<TokenId>(id))) out.text_ += tokens[id];
    out.offsets_.push_back(static_cast<std::uint32_t>(out.text_.size()));
    out.longest_ = std::max<std::size_t>(out.longest_, out.offsets_[id + 1] - out.offsets_[id]);
    if (out.offsets_[id] == out.offsets_[id + 1]) continue;
    out.sorted_.push_back(static_cast<TokenId>(id));
    const std::string_view bytes = out.bytes(static_cast<TokenId>(id));
    if (bytes.size() == 1) out.single_[static_cast<std::uint8_t>(bytes[0])] = true;
  }
  // char_traits<char> compares as unsigned bytes.
  std::stable_sort(out.sorted_.begin(), out.sorted_.end(),
                   [&](TokenId a, TokenId b) { return out.bytes(a) < out.bytes(b); });

  std::string_view before;
  std::vector<std::uint32_t> path;  // nodes of `before`
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      out.nodes_[path.back()].past = static_cast<std::uint32_t>(out.nodes_.size());
    }
  };
  for (std::size_t i = 0; i < out.sorted_.size(); ++i) {
    const std::string_view bytes = out.bytes(out.sorted_[i]);
    std::size_t same = 0;
    while (same < before.size() && same < bytes.size() && before[same] == bytes[same]) ++same;
    close(same);
    for (std::size_t at = same; at < bytes.size(); ++at) {
      path.push_back(static_cast<std::uint32_t>(out.nodes_.size()));
      out.nodes_.push_back({0, static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(at + 1),
                            static_cast<std::uint8_t>(bytes[at])});
    }
    before = bytes;
  }
  close(0);
  out.nodes_.push_back({static_cast<std::uint32_t>(out.nodes_.size() + 1),
                        static_cast<std::uint32_t>(out.sorted_.size()), 0, 0});
  // A token ends in the last node of its path; the nodes before that begin with the same token, so
  // first_token of a node on the way is that of the first token below it, and none end in it.
  return out;
}

std::string_view Vocabulary::bytes(TokenId token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size()) return {};
  const auto id = static_cast<std::size_t>(token);
  return std::string_view(text_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

bool Vocabulary::has(std::string_view bytes) const {
  const auto at = std::lower_bound(
      sorted_.begin(), sorted_.end(), bytes,
      [&](TokenId token, std::string_view wanted) { return this->bytes(token) < wanted; });
  return at != sorted_.end() && this->bytes(*at) == bytes;
}

bool Vocabulary::is_end(TokenId token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

}  // namespace dovetail::grammar
