#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <set>

#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

constexpr std::array<std::string_view, 19> kEndSpellings = {
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<end_of_utterance>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "[EOT]",
    "[EOS]",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "<|EOT|>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C"
    "EOT\xEF\xBD\x9C>",
};

// Where Gemma 4 waits for what a tool gave; its vocabulary has it as text.
constexpr std::string_view kToolResponse = "<|tool_response>";
// Ends a message, not a turn, where others end turns (gpt-oss, Solar).
constexpr std::string_view kEndOfMessage = "<|end|>";

}  // namespace

void Tokenizer::Impl::collect_end_ids(std::vector<TokenId> more) {
  if (eos) more.push_back(*eos);
  const auto special_id = [&](std::string_view spelling) -> std::optional<TokenId> {
    const auto id = vocabulary.find(spelling);
    return id && is_special(*id) ? id : std::nullopt;
  };
  const bool has_messages = (special_id("<|return|>") && special_id("<|call|>")) ||
                            (special_id("<|flush|>") && special_id("<|calls|>"));
  for (const std::string_view spelling : kEndSpellings) {
    if (has_messages && spelling == kEndOfMessage) continue;
    if (const auto id = special_id(spelling)) more.push_back(*id);
  }
  if (const auto id = vocabulary.find(kToolResponse)) more.push_back(*id);
  std::sort(more.begin(), more.end());
  more.erase(std::unique(more.begin(), more.end()), more.end());
  end_ids = std::move(more);
}

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<Tokenizer> Tokenizer::create(const load::ModelSource& source) {
  if (const auto* gguf = std::get_if<load::GgufTokenizer>(&source.tokenizer)) {
    return from_gguf(*gguf);
  }
  if (const auto* folder = std::get_if<load::HuggingFaceTokenizer>(&source.tokenizer)) {
    return from_json(folder->tokenizer_json, folder->tokenizer_config_json);
  }
  return fail(ErrorKind::kNotFound,
              "{}: no tokenizer; valid: tokenizer.ggml.* metadata in GGUF, or tokenizer.json in a "
              "Hugging Face folder",
              source.path.string());
}

Result<Tokenizer> Tokenizer::from_gguf(const load::GgufTokenizer& data) {
  auto impl = read_gguf_tokenizer(data);
  if (!impl) return fail(impl.error());
  return Tokenizer(std::move(*impl));
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       std::string_view tokenizer_config_json) {
  auto impl = read_json_tokenizer(tokenizer_json, tokenizer_config_json);
  if (!impl) return fail(impl.error());
  return Tokenizer(std::move(*impl));
}

namespace {

// Spans of `text` as spans of `changed`, which it became. `change` does the same with parts of the
// text; where these do not add up to `changed`, nothing of it is trusted.
template <class Change>
std::vector<ByteSpan> spans_of_changed(std::string_view text, std::span<const ByteSpan> spans,
                                       std::string_view changed, const Change& change) {
  std::vector<std::string> parts;  // trusted and untrusted by turns
  std::size_t done = 0;
  for (const ByteSpan& span : spans) {
    parts.emplace_back(text.substr(done, span.begin - done));
    parts.emplace_back(text.substr(span.begin, span.end - span.begin));
    done = span.end;
  }
  parts.emplace_back(text.substr(done));
  MarkedText sum;
  parts = change(std::move(parts));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    i % 2 == 0 ? sum.append_trusted(parts[i]) : sum.append_from_outside(parts[i]);
  }
  if (sum.text != changed) sum = MarkedText::from_outside(std::string(changed));
  return std::move(sum.untrusted);
}

// The spans with what they cut of characters of well-formed `text`.
std::vector<ByteSpan> of_whole_characters(std::string_view text, std::span<const ByteSpan> spans) {
  const auto within_character = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  std::vector<ByteSpan> out;
  for (auto [begin, end] : spans) {
    while (within_character(begin)) --begin;
    while (within_character(end)) ++end;
    if (!out.empty() && begin <= out.back().end) {
      out.back().end = std::max(out.back().end, end);
    } else {
      out.push_back({begin, end});
    }
  }
  return out;
}

}  // namespace

void Tokenizer::Impl::append_piece(std::string_view piece, std::vector<TokenId>& ids) const {
  std::visit([&](const auto& encoder) { encoder.encode(model_vocabulary, piece, ids); }, model);
}

void Tokenizer::Impl::append_piece_without_control(std::string_view piece,
                                                   std::vector<TokenId>& ids) const {
  const std::size_t start = ids.size();
  append_piece(piece, ids);
  // Behind the first character of each control token that the model has spelled.
  std::set<std::size_t> cuts;
  std::set<TokenId> seen;
  for (std::size_t i = start; i < ids.size(); ++i) {
    if (!is_special(ids[i]) || !seen.insert(ids[i]).second) continue;
    const std::string_view spelled = vocabulary.text(ids[i]);
    const std::size_t first = spelled.empty() ? 0 : code_point_at(spelled, 0).size;
    if (first == spelled.size()) continue;
    for (std::size_t at = piece.find(spelled); at != std::string_view::npos;
         at = piece.find(spelled, at + 1)) {
      cuts.insert(at + first);
    }
  }
  if (cuts.empty()) return;
  ids.resize(start);
  cuts.insert(piece.size());
  std::size_t done = 0;
  for (const std::size_t cut : cuts) {
    append_piece_without_control(piece.substr(done, cut - done), ids);
    done = cut;
  }
}

void Tokenizer::Impl::append(std::string_view text, bool parse_special, std::vector<TokenId>& ids,
                             std::span<const ByteSpan> untrusted) const {
  const bool marked = !untrusted.empty();
  const auto encode_pieces = [&](std::string_view part, bool at_start) {
    for (const Piece& piece : pre_tokenizer.split(part, at_start)) {
      marked ? append_piece_without_control(piece.text, ids) : append_piece(piece.text, ids);
    }
  };
  const std::string valid = repair_utf8(text);
  std::vector<ByteSpan> valid_spans;
  if (valid.size() != text.size()) {
    valid_spans = spans_of_changed(text, untrusted, valid, [](std::vector<std::string> parts) {
      for (std::string& part : parts) part = repair_utf8(part);
      return parts;
    });
    untrusted = valid_spans;
  }
  const std::vector<ByteSpan> character_spans = of_whole_characters(valid, untrusted);
  untrusted = character_spans;
  for (const TextPart& raw : added.split(valid, false, parse_special, untrusted)) {
    if (raw.token) {
      ids.push_back(*raw.token);
      continue;
    }
    const bool raw_at_start = raw.text.data() == valid.data();
    const std::string normalized = normalizer.normalize(raw.text);
    std::vector<ByteSpan> spans;
    if (added.has_normalized_control() && !untrusted.empty()) {
      const auto begin = static_cast<std::size_t>(raw.text.data() - valid.data());
      spans = spans_of_changed(raw.text, spans_within(untrusted, begin, begin + raw.text.size()),
                               normalized, [this](std::vector<std::string> parts) {
                                 return normalizer.normalize_parts(std::move(parts));
                               });
    }
    for (const TextPart& part : added.split(normalized, true, parse_special, spans)) {
      if (part.token) {
        ids.push_back(*part.token);
      } else {
        encode_pieces(part.text, raw_at_start && part.text.data() == normalized.data());
      }
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  if (options.add_special) ids = impl_->before;
  impl_->append(text, options.parse_special, ids, options.untrusted);
  if (options.add_special) ids.insert(ids.end(), impl_->after.begin(), impl_->after.end());
  return ids;
}

Result<TokenPair> Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  if (impl_->pair_texts) {
    const Impl::PairTexts& texts = *impl_->pair_texts;
    std::string whole = texts.before;
    whole.append(first).append(texts.between).append(second).append(texts.after);
    TokenPair out;
    impl_->append(whole, true, out.ids);
    return out;
  }
  if (!impl_->pair) {
    return fail(ErrorKind::kUnsupported,
                "the model's tokenizer has no form for two texts; expected one of a model that "
                "ranks documents");
  }
  const Impl::PairForm& form = *impl_->pair;
  TokenPair out;
  out.ids = form.before;
  impl_->append(first, false, out.ids);
  if (form.typed) out.second = out.ids.size() + *form.typed;
  out.ids.insert(out.ids.end(), form.between.begin(), form.between.end());
  impl_->append(second, false, out.ids);
  out.ids.insert(out.ids.end(), form.after.begin(), form.after.end());
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special,
                              TextPosition position) const {
  StreamDecoder stream(*this, skip_special, position);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

std::size_t Tokenizer::vocab_size() const { return impl_->vocabulary.size(); }
std::string_view Tokenizer::token_text(TokenId id) const { return impl_->vocabulary.text(id); }
bool Tokenizer::is_special(TokenId id) const { return impl_->is_special(id); }
std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  return impl_->vocabulary.find(token_text);
}
std::optional<TokenId> Tokenizer::bos() const { return impl_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->eos; }
std::span<const TokenId> Tokenizer::end_ids() const { return impl_->end_ids; }
bool Tokenizer::adds_bos() const {
  return impl_->bos && !impl_->before.empty() && impl_->before.front() == *impl_->bos;
}

Result<std::vector<std::string>> Tokenizer::token_bytes() const {
  std::vector<std::string> out(vocab_size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!impl_->vocabulary.has(id) || impl_->is_special(id)) continue;
    auto bytes = impl_->decoder.token_bytes(impl_->spelling(id));
    if (!bytes) {
      return fail(
          ErrorKind::kUnsupported,
          "the tokenizer's decoder: what a token stands for depends on the tokens around it");
    }
    out[i] = *std::move(bytes);
  }
  return out;
}

struct StreamDecoder::State {
  Decoder::State decoder;
};

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special, TextPosition position)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      state_(std::make_unique<State>(
          State{tokenizer_.impl_->decoder.begin(position == TextPosition::kContinuation)})) {}
StreamDecoder::StreamDecoder(const StreamDecoder& other)
    : tokenizer_(other.tokenizer_),
      skip_special_(other.skip_special_),
      state_(std::make_unique<State>(*other.state_)) {}
StreamDecoder::StreamDecoder(StreamDecoder&& other) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder other) noexcept {
  tokenizer_ = std::move(other.tokenizer_);
  skip_special_ = other.skip_special_;
  state_ = std::move(other.state_);
  return *this;
}
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(TokenId id) {
  std::string out;
  const Tokenizer::Impl& impl = *tokenizer_.impl_;
  if (!impl.vocabulary.has(id) || (skip_special_ && impl.is_special(id))) return out;
  impl.decoder.push(state_->decoder, impl.spelling(id), out);
  return out;
}

std::string StreamDecoder::cut() {
  tokenizer_.impl_->decoder.drop_unfinished(state_->decoder);
  return finish();
}

std::string StreamDecoder::finish() {
  std::string out;
  tokenizer_.impl_->decoder.finish(state_->decoder, out);
  return out;
}

}  // namespace dovetail::text
