#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"
#include "text/utf8.h"

namespace dovetail::text {

struct DecodeByteLevel {};     // stand-ins to bytes; fuses all tokens, repairs the UTF-8
struct DecodeByteFallback {};  // runs of <0xNN> tokens to characters, or one U+FFFD for each token
struct DecodeFuse {};          // all tokens become one
struct DecodeUtf8 {};          // fuses tokens that are bytes and repairs the UTF-8
struct DecodeSpaces {};        // a space between tokens
struct DecodeWordPiece {       // a space between words; tokens with the prefix continue one
  std::string prefix = "##";
  bool cleanup = true;  // no space before .?!, and the rests of English contractions
};
struct DecodeReplace {
  Pattern pattern;
  std::string content;
};
struct DecodeStrip {    // of every token
  std::string content;  // one character
  std::size_t start = 0;
  std::size_t stop = 0;
};
struct DecodeMetaspace {
  std::string replacement;  // one character; a space, but in the first token nothing
  bool strip_first = true;
};

using DecoderStep =
    std::variant<DecodeByteLevel, DecodeByteFallback, DecodeFuse, DecodeUtf8, DecodeSpaces,
                 DecodeWordPiece, DecodeReplace, DecodeStrip, DecodeMetaspace>;

// Tokens to text, step by step, each token as soon as what follows cannot change its text. A whole
// text is decoded by the same code. What flows between the steps is the text of tokens in portions
// and the mark at the end of each token.
class Decoder {
 public:
  explicit Decoder(std::vector<DecoderStep> steps = {});

  struct StepState {
    std::string buffer;
    std::string run;  // byte fallback: the bytes of the run, byte by byte
    Utf8Repair repair;
    std::size_t tokens = 0;  // that have ended
    std::size_t budget = 0;  // strip: characters that may still go at the start
    std::size_t held = 0;    // strip: characters held back at the end
  };
  using State = std::vector<StepState>;

  // `continues`: the tokens follow others, so that nothing is special about the first.
  State begin(bool continues) const;
  void push(State& state, std::string_view token, std::string& out) const;
  void finish(State& state, std::string& out) const;
  // Forgets the bytes of a character that the tokens so far began and did not end.
  void drop_unfinished(State& state) const;

  // The bytes that a token adds to a text that it continues, before repair of the UTF-8. Nothing
  // where that depends on the tokens around it.
  std::optional<std::string> token_bytes(std::string_view token) const;

 private:
  void text(State& state, std::size_t step, std::string_view part, std::string& out) const;
  void end_token(State& state, std::size_t step, std::string& out) const;
  void end_all(State& state, std::size_t step, std::string& out) const;
  void strip(State& state, std::size_t step, std::string_view part, std::string& out) const;
  void flush_run(State& state, std::size_t step, std::string& out) const;

  std::vector<DecoderStep> steps_;
  std::vector<bool> fused_;  // [i]: an earlier step than i makes all tokens one
};

}  // namespace dovetail::text
