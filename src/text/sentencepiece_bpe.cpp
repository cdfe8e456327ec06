#include "text/sentencepiece_bpe.h"

#include <cassert>
#include <queue>

#include "text/utf8.h"

namespace dovetail::text {
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

}  // namespace dovetail::text
