#include "text/encoders.h"

#include <algorithm>
#include <cassert>
#include <queue>

#include "load/quote.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

std::uint64_t key_of(TokenId left, TokenId right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) |
         static_cast<std::uint32_t>(right);
}

struct Symbol {
  TokenId id = 0;
  std::int32_t previous = -1;
  std::int32_t next = -1;
  bool merged_away = false;
};

struct Candidate {
  std::uint32_t rank = 0;
  std::int32_t position = 0;  // of the left symbol
  TokenId result = 0;

  bool operator<(const Candidate& other) const {  // the heap's top is the largest
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

Result<Bpe> Bpe::create(const Vocabulary& vocabulary,
                        std::span<const std::pair<std::string, std::string>> merges,
                        BpeOptions options, std::string_view where) {
  Bpe bpe;
  bpe.merges_.reserve(merges.size());
  const std::size_t prefix = options.continuing_subword_prefix.size();
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto left_id = vocabulary.find(left);
    const auto right_id = vocabulary.find(right);
    const auto result =
        right.size() < prefix ? std::nullopt : vocabulary.find(left + right.substr(prefix));
    if (!left_id || !right_id || !result) {
      const std::string& missing = !left_id ? left : !right_id ? right : left + right;
      return fail(ErrorKind::kInvalid, "{}[{}]: {} is no token; valid: tokens of the vocabulary",
                  where, rank, load::quote(missing));
    }
    bpe.merges_.insert_or_assign(key_of(*left_id, *right_id),
                                 Merge{static_cast<std::uint32_t>(rank), *result});
  }
  if (options.byte_fallback) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      bpe.byte_tokens_.push_back(vocabulary.find(byte_token(static_cast<std::uint8_t>(byte))));
    }
  }
  bpe.options_ = std::move(options);
  return bpe;
}

const Bpe::Merge* Bpe::find(TokenId left, TokenId right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::vector<TokenId> Bpe::characters(const Vocabulary& vocabulary, std::string_view piece) const {
  std::vector<TokenId> ids;
  ids.reserve(piece.size());
  bool unknown_pending = false;
  std::string spelled;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t size = code_point_at(piece, at).size;
    spelled.clear();
    if (at != 0) spelled.append(options_.continuing_subword_prefix);
    spelled.append(piece.substr(at, size));
    if (at + size == piece.size()) spelled.append(options_.end_of_word_suffix);
    at += size;

    if (const auto id = vocabulary.find(spelled)) {
      if (unknown_pending) ids.push_back(*options_.unknown);
      unknown_pending = false;
      ids.push_back(*id);
      continue;
    }
    if (options_.byte_fallback) {
      const auto token = [&](char byte) { return byte_tokens_[static_cast<std::uint8_t>(byte)]; };
      if (std::all_of(spelled.begin(), spelled.end(),
                      [&](char byte) { return token(byte).has_value(); })) {
        for (const char byte : spelled) ids.push_back(*token(byte));
        continue;
      }
    }
    if (options_.unknown) {
      if (unknown_pending && !options_.fuse_unknown) ids.push_back(*options_.unknown);
      unknown_pending = true;
    }
  }
  if (unknown_pending) ids.push_back(*options_.unknown);
  return ids;
}

void Bpe::encode(const Vocabulary& vocabulary, std::string_view piece,
                 std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (const auto whole = vocabulary.find(piece)) {
      out.push_back(*whole);
      return;
    }
  }
  const std::vector<TokenId> ids = characters(vocabulary, piece);
  std::vector<Symbol> symbols(ids.size());
  std::priority_queue<Candidate> heap;
  const auto index = [](std::int32_t at) { return static_cast<std::size_t>(at); };
  const auto offer = [&](std::int32_t left) {
    const Symbol& symbol = symbols[index(left)];
    if (symbol.next < 0) return;
    if (const Merge* merge = find(symbol.id, symbols[index(symbol.next)].id)) {
      heap.push({merge->rank, left, merge->result});
    }
  };
  const auto count = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[index(i)] = {ids[index(i)], i - 1, i + 1 < count ? i + 1 : -1, false};
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Symbol& left = symbols[index(top.position)];
    if (left.merged_away || left.next < 0) continue;
    Symbol& right = symbols[index(left.next)];
    const Merge* merge = find(left.id, right.id);
    if (merge == nullptr || merge->result != top.result) continue;  // a neighbour has changed
    left.id = merge->result;
    left.next = right.next;
    right.merged_away = true;
    if (left.next >= 0) symbols[index(left.next)].previous = top.position;
    if (left.previous >= 0) offer(left.previous);
    offer(top.position);
  }
  for (std::int32_t i = count == 0 ? -1 : 0; i >= 0; i = symbols[index(i)].next) {
    out.push_back(symbols[index(i)].id);
  }
}

namespace {

struct Part {
  std::size_t begin = 0;  // bytes within the piece
  std::size_t size = 0;   // 0: merged into its left neighbour
  std::int32_t previous = -1;
  std::int32_t next = -1;
};

struct Merge {
  float score = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::size_t size = 0;  // of both together; tells whether one has changed since

  bool operator<(const Merge& other) const {  // the heap's top is the largest
    return score != other.score ? score < other.score : left > other.left;
  }
};

}  // namespace

Result<SentencePieceBpe> SentencePieceBpe::create(
    std::vector<float> scores, std::span<const std::optional<TokenId>> byte_tokens,
    std::optional<TokenId> unknown) {
  assert(byte_tokens.size() == 256);
  SentencePieceBpe model;
  for (std::size_t byte = 0; byte < byte_tokens.size(); ++byte) {
    const auto token = byte_tokens[byte] ? byte_tokens[byte] : unknown;
    if (!token) {
      return fail(
          ErrorKind::kInvalid,
          "tokenizer.ggml.tokens: {} is missing and there is no unknown token; valid: a token "
          "for every byte, or tokenizer.ggml.unknown_token_id",
          byte_token(static_cast<std::uint8_t>(byte)));
    }
    model.byte_tokens_[byte] = *token;
  }
  model.scores_ = std::move(scores);
  return model;
}

void SentencePieceBpe::encode(const Vocabulary& vocabulary, std::string_view piece,
                              std::vector<TokenId>& out) const {
  std::vector<Part> symbols;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t size = code_point_at(piece, at).size;
    const auto place = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({at, size, place - 1, at + size < piece.size() ? place + 1 : -1});
    at += size;
  }
  std::priority_queue<Merge> heap;
  const auto index = [](std::int32_t at) { return static_cast<std::size_t>(at); };
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const std::size_t size = symbols[index(left)].size + symbols[index(right)].size;
    if (size > vocabulary.longest()) return;
    if (const auto token = vocabulary.find(piece.substr(symbols[index(left)].begin, size))) {
      heap.push({scores_[index(*token)], left, right, size});
    }
  };
  for (const Part& symbol : symbols) {
    if (symbol.next >= 0) offer(symbol.next - 1, symbol.next);
  }
  while (!heap.empty()) {
    const Merge top = heap.top();
    heap.pop();
    Part& left = symbols[index(top.left)];
    Part& right = symbols[index(top.right)];
    if (left.size == 0 || right.size == 0 || left.size + right.size != top.size) continue;
    left.size = top.size;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) symbols[index(left.next)].previous = top.left;
    offer(left.previous, top.left);
    offer(top.left, left.next);
  }
  for (std::int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[index(i)].next) {
    const std::string_view text = piece.substr(symbols[index(i)].begin, symbols[index(i)].size);
    if (const auto token = vocabulary.find(text)) {
      out.push_back(*token);
    } else {
      for (const char byte : text) out.push_back(byte_tokens_[static_cast<std::uint8_t>(byte)]);
    }
  }
}

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
