#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api_request.h"
#include "serve/fake_engine.h"

// The messages of a chat, for the text of a body.
#define HELLO R"("messages":[{"role":"user","content":"hi"}])"

namespace dovetail::serve {

// Reads bodies against a fake engine.
class ApiRequest : public ::testing::Test {
 protected:
  Outcome<Generation> read(Endpoint endpoint, std::string_view body) {
    auto generation = read_generation(endpoint, body, {backend_, "fake", 8});
    if (!generation) return generation;
    const std::atomic<bool> stop = false;
    if (auto found = compile_format(*generation, backend_, stop)) {
      return tl::unexpected<ApiError>(*std::move(found));
    }
    return generation;
  }
  Outcome<Generation> completion(std::string_view body) {
    return read(Endpoint::kCompletion, body);
  }
  Outcome<Generation> chat(std::string_view body) { return read(Endpoint::kChat, body); }

  FakeEngine engine_;
  Backend backend_ = engine_.backend();
};

inline std::string prompt_text(const Request& request) {
  std::string text;
  for (const TokenId id : request.prompt) text += static_cast<char>(id);
  return text;
}

}  // namespace dovetail::serve
