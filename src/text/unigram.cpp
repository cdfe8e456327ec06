#include "text/unigram.h"

#include <algorithm>

#include "text/utf8.h"

namespace dovetail::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

struct Node {
  double score = 0;
  std::size_t begin = 0;
  TokenId token = 0;
  bool reached = false;
};

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, TokenId unknown,
                 bool byte_fallback)
    : scores_(std::move(scores)), unknown_(unknown) {
  for (std::size_t id = 0; id < scores_.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    trie_.put(vocabulary.text(token), token);
  }
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  for (unsigned byte = 0; byte_fallback && byte < 256; ++byte) {
    byte_tokens_.push_back(vocabulary.find(byte_token(static_cast<std::uint8_t>(byte))));
  }
}

void Unigram::encode_part(const Vocabulary& vocabulary, std::string_view part,
                          std::vector<TokenId>& out) const {
  if (const auto id = vocabulary.find(part); id && static_cast<std::size_t>(*id) < scores_.size()) {
    out.push_back(*id);
    return;
  }
  if (!byte_tokens_.empty()) {
    const auto token = [&](char byte) { return byte_tokens_[static_cast<std::uint8_t>(byte)]; };
    if (std::all_of(part.begin(), part.end(), [&](char byte) { return token(byte).has_value(); })) {
      for (const char byte : part) out.push_back(*token(byte));
      return;
    }
  }
  out.push_back(unknown_);
}

void Unigram::encode(const Vocabulary& vocabulary, std::string_view piece,
                     std::vector<TokenId>& out) const {
  std::vector<Node> best(piece.size() + 1);  // [i]: the best way to end at byte i
  for (std::size_t at = 0; at < piece.size();) {
    const double here = best[at].score;
    const std::size_t character = code_point_at(piece, at).size;
    bool has_single = false;
    const auto reach = [&](std::size_t size, double score, TokenId token) {
      Node& target = best[at + size];
      if (!target.reached || here + score > target.score) {
        target = {here + score, at, token, true};
      }
    };
    trie_.visit_prefixes(piece.substr(at), [&](std::size_t size, TokenId token) {
      reach(size, scores_[static_cast<std::size_t>(token)], token);
      has_single = has_single || size == character;
    });
    if (!has_single) reach(character, unknown_score_, unknown_);
    at += character;
  }
  std::vector<std::string_view> parts;  // from the end
  bool last_unknown = false;
  for (std::size_t end = piece.size(); end > 0;) {
    const Node& node = best[end];
    const bool is_unknown = node.token == unknown_;
    if (is_unknown && last_unknown) {
      parts.back() = piece.substr(node.begin, end - node.begin + parts.back().size());
    } else {
      parts.push_back(piece.substr(node.begin, end - node.begin));
    }
    last_unknown = is_unknown;
    end = node.begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    encode_part(vocabulary, *part, out);
  }
}

}  // namespace dovetail::text
