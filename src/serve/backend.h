#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dialog/format.h"
#include "dovetail/engine.h"
#include "dovetail/request.h"
#include "serve/model_facts.h"
#include "text/marked_text.h"

namespace dovetail {
struct ServerOptions;
}

namespace dovetail::serve {

// What the server must know of the model; fixed for the server's life.
struct ModelInfo {
  std::string name;
  std::uint32_t max_context = 0;    // positions per sequence
  std::uint32_t max_sequences = 0;  // in one step
  std::uint32_t vocab_size = 0;
  std::uint32_t embedding_size = 0;  // floats
  std::string bos_text;              // as the vocabulary spells them; empty: none
  std::string eos_text;
  // Used where a request leaves the parameter out: load::conversation_defaults(), and OpenAI's
  // defaults where these say nothing.
  SamplingParams sampling;
  ModelFacts facts;
};

// The seam between HTTP and the engine: everything that the server asks of the world below. Every
// function may be called from any thread; none may block for long but `drain` and `compile`.
struct Backend {
  ModelInfo model;
  std::function<Result<std::vector<RequestId>>(std::vector<Request>, const GroupSink&)>
      submit;                                                           // as Engine::submit_all
  std::function<void(RequestId)> cancel;                                // as Engine::cancel
  std::function<bool(std::chrono::milliseconds)> drain;                 // as Engine::drain; blocks
  std::function<EngineStats()> stats;                                   // as Engine::stats
  std::function<EngineHealth(std::chrono::milliseconds stall)> health;  // as Engine::health
  std::function<std::vector<TokenId>(std::string_view text, bool add_special, bool parse_special)>
      encode;
  // What encode() with add_special puts before a text.
  std::function<std::vector<TokenId>()> begin_ids;
  // As text::Tokenizer::encode_pair(): the ids, and which of them is the second text's first.
  std::function<Result<std::pair<std::vector<TokenId>, std::size_t>>(std::string_view first,
                                                                     std::string_view second)>
      encode_pair;
  std::function<std::string(std::span<const TokenId>, bool skip_special)> decode;
  // The prompt for what stands between two texts, without BOS; empty where the model has no tokens
  // for that.
  std::function<std::vector<TokenId>(std::span<const TokenId> before,
                                     std::span<const TokenId> after)>
      fill_in_middle;
  // Ahead of such a prompt, before the name of a repository and those of its files; not set: the
  // model has none.
  std::optional<TokenId> repository_token, file_token;
  // The bytes that a token stands for, which need not be whole characters; a special token's
  // spelling.
  std::function<std::string(TokenId)> token_bytes;
  // As Engine::compile(), which takes up to a second or two; empty where it is not supported.
  std::function<Result<CompiledGrammar>(GrammarKind kind, std::string_view text,
                                        const std::atomic<bool>& stop)>
      compile;
  // As Engine::find_grammar(); empty where `compile` is.
  std::function<std::optional<Result<CompiledGrammar>>(GrammarKind kind, std::string_view text)>
      find_grammar;
  // Renders the chat template, as text::ChatTemplate::render_chat() with `contents`; empty where
  // the model has none.
  std::function<Result<text::MarkedText>(const nlohmann::ordered_json& variables,
                                         std::span<const text::MarkedText> contents)>
      render_chat;
  // The tokens of what render_chat() gave, which has BOS where the model wants it: no control
  // tokens in its untrusted parts.
  std::function<std::vector<TokenId>(const text::MarkedText& text)> encode_chat;
  // Variables that the template reads, sorted.
  std::vector<std::string> template_names;
  // How the model's dialogs are written; set where render_chat is.
  std::optional<dialog::DialogFormat> dialog;
};

// The backend of a real engine, which must outlive it: the chat template and the sampling of the
// options go before the model's. kInvalid: a chat template that does not parse, sampling that is
// out of range.
Result<Backend> engine_backend(Engine& engine, const ServerOptions& options);

}  // namespace dovetail::serve
