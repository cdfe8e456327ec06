#include "serve/kept_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "grammar/vocabulary.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool same_value(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const Json value = Json::parse(one, nullptr, false);
  return !value.is_discarded() && value == Json::parse(other, nullptr, false);
}

bool says_the_same(const Json& calls, const KeptAnswer& kept) {
  return std::equal(calls.begin(), calls.end(), kept.calls.begin(), kept.calls.end(),
                    [](const Json& call, const CallState& was) {
                      const Json& function = call["function"];
                      return member(call, "id") == was.id && function["name"] == was.name &&
                             same_value(member(function, "arguments"), was.arguments);
                    });
}

bool is_trusted(const text::MarkedText& text, std::size_t begin, std::size_t end) {
  return begin == end || text::coverage(text.untrusted, begin, end) == text::Coverage::kNone;
}

// Where a text stands in a prompt from `from` on, with the trust that it has there from its begin.
std::size_t find_written(const text::MarkedText& prompt, const text::MarkedText& written,
                         std::size_t from) {
  const auto trusted = written.trusted_spans();
  const std::size_t head = trusted.empty() || trusted[0].begin > 0 ? 0 : trusted[0].end;
  if (head == 0) return std::string::npos;  // a text from outside looks the same
  for (std::size_t at = prompt.text.find(written.text, from); at != std::string::npos;
       at = prompt.text.find(written.text, at + 1)) {
    if (is_trusted(prompt, at, at + head)) return at;
  }
  return std::string::npos;
}

// Tokens end where a control token begins, whatever is ahead of it.
bool is_control_at(const text::MarkedText& prompt, std::size_t at,
                   const dialog::DialogFormat& format) {
  const std::string_view rest = std::string_view(prompt.text).substr(at);
  const auto tokens = format.control_tokens();
  return std::any_of(tokens.begin(), tokens.end(), [&](const std::string& token) {
    return rest.starts_with(token) && is_trusted(prompt, at, at + token.size());
  });
}

}  // namespace

void KeptAnswers::put(KeptAnswer answer) {
  std::size_t bytes =
      sizeof answer + answer.content.size() + answer.tokens.size() * sizeof(TokenId);
  for (const CallState& call : answer.calls) {
    bytes += sizeof call + call.id.size() + call.name.size() + call.arguments.size();
  }
  const std::string id = answer.calls.front().id;
  answers_.put(id, std::make_shared<const KeptAnswer>(std::move(answer)), bytes);
}

std::shared_ptr<const KeptAnswer> KeptAnswers::find(std::string_view first_id) {
  return answers_.find(first_id).value_or(nullptr);
}

void AnswerRecord::add(std::string_view text, std::span<const OutputToken> tokens,
                       std::span<const dialog::AnswerEvent> events) {
  using Kind = dialog::AnswerEvent::Kind;
  text_ += text;
  for (const OutputToken& token : tokens) tokens_.push_back(token.id);
  for (const dialog::AnswerEvent& event : events) {
    const bool said = event.kind == Kind::kContent || event.kind == Kind::kReasoning;
    goes_on_ = goes_on_ || (said && !arguments_.empty());
    if (event.kind == Kind::kContent) content_ += event.text;
    if (event.kind == Kind::kCallBegin) arguments_.emplace_back();
    if (event.kind == Kind::kArguments) arguments_.back() += event.text;
  }
}

std::optional<KeptAnswer> AnswerRecord::finish(
    std::optional<std::size_t> calls_at, const std::vector<CallState>& calls,
    const std::function<std::string(TokenId)>& token_bytes) {
  if (!calls_at || goes_on_ || calls.empty() || calls.size() != arguments_.size() ||
      !std::all_of(calls.begin(), calls.end(), [](const auto& call) { return call.ended; })) {
    return std::nullopt;
  }
  KeptAnswer out;
  // The tokens must be what the text is made of, each where it stands.
  std::size_t at = 0;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (at == *calls_at) out.calls_at = i;
    const std::string bytes = token_bytes(tokens_[i]);
    const std::string_view rest = std::string_view(text_).substr(at);
    const std::string marked = grammar::control_token(bytes);
    if (rest.starts_with(marked)) {
      at += marked.size();
    } else if (rest.starts_with(bytes)) {
      at += bytes.size();
    } else {
      return std::nullopt;
    }
  }
  if (at != text_.size()) return std::nullopt;
  out.content = trimmed(content_);
  out.whole = trimmed(std::string_view(text_).substr(0, *calls_at)) == out.content;
  out.calls = calls;
  for (std::size_t i = 0; i < calls.size(); ++i) out.calls[i].arguments = std::move(arguments_[i]);
  out.tokens = std::move(tokens_);
  return out;
}

std::vector<ChatPrompt::Piece> find_kept(const Json& messages, const text::MarkedText& prompt,
                                         const dialog::DialogFormat& format, KeptAnswers& kept) {
  std::vector<ChatPrompt::Piece> out;
  std::size_t from = 0;
  for (const Json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array() || calls->empty()) continue;
    const text::MarkedText written = format.written(*calls);
    const std::size_t at = find_written(prompt, written, from);
    if (at == std::string::npos) continue;
    const text::ByteSpan span{at, at + written.text.size()};
    const auto answer = kept.find(member(calls->front(), "id"));
    const std::size_t begin = std::exchange(from, span.end);
    if (!answer || !says_the_same(*calls, *answer)) continue;
    if (!is_control_at(prompt, span.end, format)) continue;
    const std::string said = member(message, "content");
    const std::string_view content = trimmed(said);
    const std::string_view ahead = std::string_view(prompt.text).substr(begin, at - begin);
    const std::string_view solid = ahead.substr(0, ahead.find_last_not_of(kSpace) + 1);
    if (answer->whole && content.empty() && answer->content.empty()) {
      out.push_back({span, answer, 0});
    } else if (answer->whole && answer->content == content && solid.ends_with(content)) {
      // The template may leave out white space that the content begins with, or write it.
      const std::string_view all =
          std::string_view(said).substr(0, said.find_last_not_of(kSpace) + 1);
      const std::size_t size = solid.ends_with(all) ? all.size() : content.size();
      out.push_back({{begin + solid.size() - size, span.end}, answer, 0});
    } else if (answer->calls_at) {
      out.push_back({span, answer, *answer->calls_at});
    }
  }
  return out;
}

std::vector<TokenId> encode_prompt(const ChatPrompt& prompt, const Backend& backend) {
  if (prompt.pieces.empty()) return backend.encode_chat(prompt.text);
  std::vector<TokenId> out;
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    text::MarkedText part;
    part.append(prompt.text, done, end - done);
    const auto tokens = backend.encode_chat(part);
    out.insert(out.end(), tokens.begin(), tokens.end());
  };
  for (const ChatPrompt::Piece& piece : prompt.pieces) {
    add_text(piece.span.begin);
    const auto& tokens = piece.answer->tokens;
    out.insert(out.end(), tokens.begin() + static_cast<std::ptrdiff_t>(piece.from), tokens.end());
    done = piece.span.end;
  }
  add_text(prompt.text.text.size());
  return out;
}

}  // namespace dovetail::serve
