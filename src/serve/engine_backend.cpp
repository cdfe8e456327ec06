#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/sampling_table.h"
#include "dialog/model_format.h"
#include "dovetail/server.h"
#include "load/model_source.h"
#include "serve/backend.h"
#include "serve/token_text.h"
#include "text/built_in_templates.h"
#include "text/chat_template.h"
#include "text/fill_in_middle.h"
#include "text/tokenizer.h"

namespace dovetail {
namespace serve {
namespace {

std::string spelled(const text::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

// Byte-level vocabularies spell a space U+0120, SentencePiece's spell it U+2581; neither has the
// other's sign.
bool is_byte_level(const text::Tokenizer& tokenizer) {
  return tokenizer.find("\u0120").has_value() && !tokenizer.find("\u2581").has_value();
}

}  // namespace

Result<Backend> engine_backend(Engine& engine, const ServerOptions& options) {
  for (const SamplingRow& row : kSamplingRows) {
    if (!options.sampling[row]) continue;
    if (const Status ok = check_sampling_value(row, *options.sampling[row]); !ok)
      return fail(ok.error());
  }
  const load::ModelSource& source = engine.source();
  const text::Tokenizer& tokenizer = engine.tokenizer();

  Backend backend;
  backend.model.name = source.name;
  backend.model.max_context = engine.options().max_context;
  backend.model.max_sequences = engine.options().max_num_seqs;
  backend.model.vocab_size = source.config.vocab_size;
  backend.model.embedding_size = source.config.embedding_size();
  backend.model.bos_text = spelled(tokenizer, tokenizer.bos());
  backend.model.eos_text = spelled(tokenizer, tokenizer.eos());
  backend.model.sampling =
      options.sampling.or_else(load::conversation_defaults(source).sampling).params();

  backend.model.facts = facts_of(source);

  backend.submit = [&engine](std::vector<Request> requests, const GroupSink& sink) {
    return engine.submit_all(std::move(requests), sink);
  };
  backend.cancel = [&engine](RequestId id) { engine.cancel(id); };
  backend.drain = [&engine](std::chrono::milliseconds limit) { return engine.drain(limit); };
  backend.stats = [&engine] { return engine.stats(); };
  backend.health = [&engine](std::chrono::milliseconds stall) { return engine.health(stall); };
  backend.encode = [&tokenizer](std::string_view text, bool add_special, bool parse_special) {
    return tokenizer.encode(text, {add_special, parse_special});
  };
  backend.begin_ids = [&tokenizer]() -> std::vector<TokenId> {
    if (!tokenizer.adds_bos() || !tokenizer.bos()) return {};
    return {*tokenizer.bos()};
  };
  backend.encode_chat = [&tokenizer](const text::MarkedText& text) {
    return tokenizer.encode(text.text, {.add_special = false, .untrusted = text.untrusted});
  };
  backend.encode_pair = [&tokenizer](std::string_view first, std::string_view second)
      -> Result<std::pair<std::vector<TokenId>, std::size_t>> {
    auto pair = tokenizer.encode_pair(first, second);
    if (!pair) return fail(pair.error());
    return std::pair{std::move(pair->ids), pair->second};
  };
  backend.decode = [&tokenizer](std::span<const TokenId> ids, bool skip_special) {
    return tokenizer.decode(ids, skip_special);
  };
  if (const auto fim = text::find_fill_in_middle(tokenizer, source)) {
    backend.fill_in_middle = [fim = *fim](std::span<const TokenId> before,
                                          std::span<const TokenId> after) {
      return fim.prompt(before, after);
    };
    backend.repository_token = fim->repository;
    backend.file_token = fim->file;
  }
  backend.compile = [&engine](GrammarKind kind, std::string_view text,
                              const std::atomic<bool>& stop) {
    return engine.compile(kind, text, &stop);
  };
  backend.find_grammar = [&engine](GrammarKind kind, std::string_view text) {
    return engine.find_grammar(kind, text);
  };
  backend.token_bytes = [&tokenizer, byte_level = is_byte_level(tokenizer)](TokenId id) {
    const std::string_view spelling = tokenizer.token_text(id);
    if (tokenizer.is_special(id)) return std::string(spelling);
    return byte_level ? byte_level_bytes(spelling) : sentencepiece_bytes(spelling);
  };

  const auto choice = text::choose_template(source, tokenizer, options.chat_template);
  if (!choice) return backend;
  backend.model.facts.chat_template = std::string(choice->text);
  auto parsed = text::ChatTemplate::parse(
      choice->text, choice->given ? "the given chat template" : "chat template");
  if (!parsed) return fail(parsed.error());
  const auto program = std::make_shared<const text::ChatTemplate>(std::move(*parsed));
  backend.dialog = dialog::detect_format(choice->text, *program, tokenizer);
  backend.template_names = program->free_names();
  backend.render_chat = [program](const nlohmann::ordered_json& variables,
                                  std::span<const text::MarkedText> contents) {
    return program->render_chat(variables, {}, contents);
  };
  return backend;
}

}  // namespace serve

// Here and not with the rest of the server, so that a server of another backend needs no engine.
Result<std::unique_ptr<Server>> Server::create(Engine& engine, const ServerOptions& options) {
  auto backend = serve::engine_backend(engine, options);
  if (!backend) return fail(backend.error());
  return create(std::move(*backend), options);
}

Result<std::unique_ptr<Server>> Server::create(Engine& engine, const ServerOptions& options,
                                               BoundAddress address) {
  auto backend = serve::engine_backend(engine, options);
  if (!backend) return fail(backend.error());
  return create(std::move(*backend), options, std::move(address));
}

}  // namespace dovetail
