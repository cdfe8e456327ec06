#include "text/decoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "text/byte_alphabet.h"

namespace dovetail::text {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The byte of a token such as <0x0A>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  std::string_view digits = token.substr(3, 2);
  if (digits.starts_with('+')) digits.remove_prefix(1);  // as the library reads numbers
  unsigned value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return static_cast<char>(value);
}

// What the library takes out of a token before it is joined to the text, in this order.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleanups = {{
    {" .", "."},
    {" ?", "?"},
    {" !", "!"},
    {" ,", ","},
    {" ' ", "'"},
    {" n't", "n't"},
    {" 'm", "'m"},
    {" do not", " don't"},
    {" 's", "'s"},
    {" 've", "'ve"},
    {" 're", "'re"},
}};

// The text of a token after others (`follows`) or as the first.
std::string spell_word_piece(const DecodeWordPiece& rule, std::string_view token, bool follows) {
  std::string out(token);
  if (follows && token.starts_with(rule.prefix)) {
    out.erase(0, rule.prefix.size());
  } else if (follows) {
    out.insert(0, 1, ' ');
  }
  if (!rule.cleanup || out.find(' ') == std::string::npos) return out;
  for (const auto& [from, to] : kCleanups) out = Pattern::literal(from).replace(out, to);
  return out;
}

bool fuses(const DecoderStep& step) {
  return std::holds_alternative<DecodeByteLevel>(step) ||
         std::holds_alternative<DecodeFuse>(step) || std::holds_alternative<DecodeUtf8>(step);
}

}  // namespace

Decoder::Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {
  bool fused = false;
  for (const DecoderStep& step : steps_) {
    fused_.push_back(fused);
    fused = fused || fuses(step);
  }
}

Decoder::State Decoder::begin(bool continues) const {
  State state(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (const auto* step = std::get_if<DecodeStrip>(&steps_[i])) {
      state[i].budget = continues && fused_[i] ? 0 : step->start;
    }
    if (continues && !fused_[i]) state[i].tokens = 1;
    if (continues && fused_[i] && std::holds_alternative<DecodeMetaspace>(steps_[i])) {
      state[i].tokens = 1;
    }
  }
  return state;
}

void Decoder::push(State& state, std::string_view token, std::string& out) const {
  text(state, 0, token, out);
  end_token(state, 0, out);
}

void Decoder::finish(State& state, std::string& out) const { end_all(state, 0, out); }

void Decoder::drop_unfinished(State& state) const {
  for (StepState& step : state) {
    step.repair = Utf8Repair();
    step.run.resize(step.run.size() - unfinished_size(step.run));
  }
}

std::optional<std::string> Decoder::token_bytes(std::string_view token) const {
  std::string out(token);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const DecoderStep& kind = steps_[i];
    if (std::holds_alternative<DecodeByteLevel>(kind)) {
      out = alphabet_to_bytes(out);
    } else if (std::holds_alternative<DecodeByteFallback>(kind)) {
      if (fused_[i]) return std::nullopt;
      if (const auto byte = byte_of(out)) out = std::string(1, *byte);
    } else if (std::holds_alternative<DecodeSpaces>(kind)) {
      if (!fused_[i]) out.insert(out.begin(), ' ');
    } else if (const auto* word_piece = std::get_if<DecodeWordPiece>(&kind)) {
      if (fused_[i]) return std::nullopt;
      out = spell_word_piece(*word_piece, out, true);
    } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&kind)) {
      out = Pattern::literal(metaspace->replacement).replace(out, " ");
    } else if (const auto* replace = std::get_if<DecodeReplace>(&kind)) {
      if (fused_[i] && !replace->pattern.is_single_character()) return std::nullopt;
      out = replace->pattern.replace(out, replace->content);
    } else if (const auto* rule = std::get_if<DecodeStrip>(&kind)) {
      if (fused_[i]) {
        if (rule->stop > 0) return std::nullopt;
        continue;
      }
      std::string_view rest = out;
      for (std::size_t n = 0; n < rule->start && rest.starts_with(rule->content); ++n) {
        rest.remove_prefix(rule->content.size());
      }
      for (std::size_t n = 0; n < rule->stop && rest.ends_with(rule->content); ++n) {
        rest.remove_suffix(rule->content.size());
      }
      out = std::string(rest);
    }
  }
  return out;
}

void Decoder::text(State& state, std::size_t step, std::string_view part, std::string& out) const {
  if (step == steps_.size()) {
    out.append(part);
    return;
  }
  StepState& own = state[step];
  const DecoderStep& kind = steps_[step];
  if (std::holds_alternative<DecodeFuse>(kind)) {
    text(state, step + 1, part, out);
  } else if (std::holds_alternative<DecodeUtf8>(kind)) {
    std::string repaired;
    own.repair.push(part, repaired);
    text(state, step + 1, repaired, out);
  } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&kind)) {
    const bool drop = own.tokens == 0 && metaspace->strip_first;
    text(state, step + 1, Pattern::literal(metaspace->replacement).replace(part, drop ? "" : " "),
         out);
  } else if (std::holds_alternative<DecodeStrip>(kind)) {
    strip(state, step, part, out);
  } else if (const auto* replace = std::get_if<DecodeReplace>(&kind);
             replace != nullptr && replace->pattern.is_single_character()) {
    text(state, step + 1, replace->pattern.replace(part, replace->content), out);
  } else {
    own.buffer.append(part);  // needs the whole token
  }
}

void Decoder::strip(State& state, std::size_t step, std::string_view part, std::string& out) const {
  StepState& own = state[step];
  const auto& rule = std::get<DecodeStrip>(steps_[step]);
  while (own.budget > 0 && !part.empty()) {
    if (!part.starts_with(rule.content)) {
      own.budget = 0;
      break;
    }
    part.remove_prefix(rule.content.size());
    --own.budget;
  }
  if (part.empty()) return;
  std::size_t end = part.size();
  std::size_t trailing = 0;
  while (trailing < rule.stop && part.substr(0, end).ends_with(rule.content)) {
    end -= rule.content.size();
    ++trailing;
  }
  const std::size_t all_held = own.held;
  // Where the part is nothing but such characters, those held before may still be the end.
  const std::size_t keep = end == 0 ? std::min(rule.stop - trailing, all_held) : 0;
  std::string sure;
  for (std::size_t i = keep; i < all_held; ++i) sure.append(rule.content);
  sure.append(part.substr(0, end));
  own.held = keep + trailing;
  text(state, step + 1, sure, out);
}

void Decoder::flush_run(State& state, std::size_t step, std::string& out) const {
  StepState& own = state[step];
  if (own.run.empty()) return;
  const std::string run = std::move(own.run);
  own.run.clear();
  if (is_valid_utf8(run)) {
    text(state, step + 1, run, out);
    end_token(state, step + 1, out);
    return;
  }
  for (std::size_t i = 0; i < run.size(); ++i) {
    text(state, step + 1, kReplacementCharacter, out);
    end_token(state, step + 1, out);
  }
}

void Decoder::end_token(State& state, std::size_t step, std::string& out) const {
  if (step == steps_.size()) return;
  StepState& own = state[step];
  const DecoderStep& kind = steps_[step];
  const std::string token = std::move(own.buffer);
  own.buffer.clear();
  ++own.tokens;
  if (std::holds_alternative<DecodeFuse>(kind) || std::holds_alternative<DecodeUtf8>(kind)) return;
  if (std::holds_alternative<DecodeByteLevel>(kind)) {
    std::string repaired;
    own.repair.push(alphabet_to_bytes(token), repaired);
    text(state, step + 1, repaired, out);
    return;
  }
  if (std::holds_alternative<DecodeByteFallback>(kind)) {
    if (const auto byte = byte_of(token)) {
      own.run.push_back(*byte);
      return;
    }
    flush_run(state, step, out);
    text(state, step + 1, token, out);
  } else if (std::holds_alternative<DecodeSpaces>(kind)) {
    if (own.tokens > 1) text(state, step + 1, " ", out);
    text(state, step + 1, token, out);
  } else if (const auto* word_piece = std::get_if<DecodeWordPiece>(&kind)) {
    text(state, step + 1, spell_word_piece(*word_piece, token, own.tokens > 1), out);
  } else if (const auto* replace = std::get_if<DecodeReplace>(&kind)) {
    if (!replace->pattern.is_single_character()) {
      text(state, step + 1, replace->pattern.replace(token, replace->content), out);
    }
  } else if (const auto* rule = std::get_if<DecodeStrip>(&kind)) {
    own.held = 0;
    own.budget = rule->start;
  }
  end_token(state, step + 1, out);
}

void Decoder::end_all(State& state, std::size_t step, std::string& out) const {
  if (step == steps_.size()) return;
  const DecoderStep& kind = steps_[step];
  if (std::holds_alternative<DecodeByteFallback>(kind)) flush_run(state, step, out);
  if (fuses(kind)) {
    std::string rest;
    state[step].repair.finish(rest);
    text(state, step + 1, rest, out);
    end_token(state, step + 1, out);
  }
  end_all(state, step + 1, out);
}

}  // namespace dovetail::text
