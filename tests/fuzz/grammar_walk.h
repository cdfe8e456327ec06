#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"

// What the fuzz targets of grammars share.
namespace dovetail::fuzz {

// All bytes, pieces of JSON, these control tokens, and one end.
inline std::shared_ptr<const grammar::Vocabulary> vocabulary(
    const std::vector<std::string>& control_tokens = {}) {
  std::vector<std::string> tokens = {"</s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece :
       {"{\"", "\":", "\"}", "}}", "],[", "null", "\\u00", "e-1", "\xc3\xa9", "<t", "\n<"}) {
    tokens.emplace_back(piece);
  }
  for (const std::string& spelling : control_tokens)
    tokens.push_back(grammar::control_token(spelling));
  const std::vector<grammar::TokenId> ends = {0};
  return std::make_shared<const grammar::Vocabulary>(
      grammar::Vocabulary::create(tokens, ends).value());
}

// A stop flag that is set in some seconds, unless this is called again: the bounds of grammars are
// a second or two of an optimised build, of one with sanitizers more than an input may take.
inline grammar::StopFlag stop_soon() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLimit(5);
  static std::atomic<bool> stop;
  static std::atomic<Clock::time_point> deadline;
  deadline = Clock::now() + kLimit;
  stop = false;
  static const bool watched = [] {
    std::thread([] {
      while (true) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (Clock::now() > deadline.load()) stop = true;
      }
    }).detach();
    return true;
  }();
  return watched ? &stop : nullptr;
}

struct Walk {
  std::string text;
  bool ended = false;
};

// Takes up to `steps` tokens of those that are allowed, which `choices` chooses: bytes from its end
// on, over and over. Aborts where nothing is allowed, or what is allowed is not taken.
inline Walk walk(const std::shared_ptr<const grammar::TokenMasks>& masks, std::string_view choices,
                 std::size_t steps) {
  const grammar::Vocabulary& vocabulary = masks->vocabulary();
  grammar::Matcher matcher(masks);
  std::vector<std::uint64_t> mask(vocabulary.words());
  Walk out;
  for (std::size_t step = 0; step < steps && !matcher.ended(); ++step) {
    matcher.allowed(mask);
    std::vector<grammar::TokenId> tokens;
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      if (((mask[id / 64] >> (id % 64)) & 1U) != 0)
        tokens.push_back(static_cast<grammar::TokenId>(id));
    }
    if (tokens.empty()) std::abort();
    const auto choice =
        choices.empty()
            ? 0U
            : static_cast<unsigned char>(choices[choices.size() - 1 - step % choices.size()]);
    const grammar::TokenId token = tokens[(choice + step) % tokens.size()];
    if (!matcher.accept(token)) std::abort();
    out.text += vocabulary.bytes(token);
  }
  out.ended = matcher.ended();
  return out;
}

// An error with words, or a grammar whose walk never gets stuck.
inline void check(const Result<grammar::Grammar>& grammar,
                  const std::shared_ptr<const grammar::Vocabulary>& tokens,
                  std::string_view choices) {
  if (!grammar) {
    if (grammar.error().message.empty()) std::abort();
    return;
  }
  const auto masks = grammar::TokenMasks::create(*grammar, tokens, 1U << 20U);
  if (!masks) {
    if (masks.error().message.empty()) std::abort();
    return;
  }
  walk(*masks, choices, 64);
}

// JSON as deep as the server lets through; discarded: it is none.
inline nlohmann::ordered_json parse(std::string_view text) {
  const auto callback = [](int depth, nlohmann::ordered_json::parse_event_t, auto&) {
    return depth < 64;
  };
  return nlohmann::ordered_json::parse(text, callback, false);
}

}  // namespace dovetail::fuzz
