#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "dialog/answer.h"
#include "dovetail/request.h"
#include "serve/backend.h"
#include "serve/recent_store.h"
#include "text/marked_text.h"

namespace dovetail::serve {

// A call of a function, as far as it is there.
struct CallState {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text
  bool ended = false;     // a stop string or the last token may cut it
};

// An answer with calls as the model wrote it, which ends with them.
struct KeptAnswer {
  std::string content;  // ahead of the calls, without white space around it
  std::vector<CallState> calls;
  std::vector<TokenId> tokens;  // without an end token
  // The token that the calls begin with; not set: they begin within one.
  std::optional<std::size_t> calls_at;
  // Whether nothing but the content and white space is ahead of the calls.
  bool whole = false;
};

// Answers by the id of their first call. A client sends calls back as values; the tokens that a
// template's text of them makes need not be those that the model wrote, of which the prefix cache
// knows. Any thread.
class KeptAnswers {
 public:
  static constexpr std::size_t kMostAnswers = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

  void put(KeptAnswer answer);  // with a call at least
  std::shared_ptr<const KeptAnswer> find(std::string_view first_id);

 private:
  RecentStore<std::shared_ptr<const KeptAnswer>> answers_{kMostAnswers, kMostBytes};
};

// Gathers an answer as it comes, for KeptAnswers. One thread at a time.
class AnswerRecord {
 public:
  // A text of the engine's with its tokens, and what it says: all events, in order.
  void add(std::string_view text, std::span<const OutputToken> tokens,
           std::span<const dialog::AnswerEvent> events);
  // `calls_at`: where in the text the calls begin; `calls`: their ids and names. Nothing where the
  // answer does not end with calls that are whole, or where its tokens are more than its text.
  std::optional<KeptAnswer> finish(std::optional<std::size_t> calls_at,
                                   const std::vector<CallState>& calls,
                                   const std::function<std::string(TokenId)>& token_bytes);

 private:
  std::string text_;
  std::vector<TokenId> tokens_;
  std::string content_;
  std::vector<std::string> arguments_;
  bool goes_on_ = false;  // something is said behind the calls
};

// A chat's prompt: a text, of which pieces are tokens that a model wrote.
struct ChatPrompt {
  struct Piece {
    text::ByteSpan span;  // of the text
    std::shared_ptr<const KeptAnswer> answer;
    std::size_t from = 0;  // the piece is the answer's tokens from here on
  };
  text::MarkedText text;
  std::vector<Piece> pieces = {};  // ascending
};

// Finds calls in a prompt's text which the model wrote. `messages` as the client has them; where
// they say something else than what was written, or the template writes calls in another way than
// the format does, the text stays.
std::vector<ChatPrompt::Piece> find_kept(const Json& messages, const text::MarkedText& prompt,
                                         const dialog::DialogFormat& format, KeptAnswers& kept);

std::vector<TokenId> encode_prompt(const ChatPrompt& prompt, const Backend& backend);

}  // namespace dovetail::serve
