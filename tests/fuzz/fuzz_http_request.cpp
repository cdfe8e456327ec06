// libFuzzer target: whatever the body, reading it ends in engine requests within their limits or in
// an error of the API. The first byte chooses the route.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "serve/api_request.h"
#include "serve/ollama.h"
#include "serve/text_routes.h"

namespace {

using namespace dovetail;

// A model of one token for each byte; nothing behind it.
serve::Backend byte_backend() {
  serve::Backend backend;
  backend.model.name = "fuzz";
  backend.model.max_context = 512;
  backend.model.vocab_size = 256;
  backend.encode = [](std::string_view text, bool, bool) {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  };
  backend.begin_ids = [] { return std::vector<TokenId>{1}; };
  backend.fill_in_middle = [](std::span<const TokenId> before, std::span<const TokenId> after) {
    std::vector<TokenId> ids(before.begin(), before.end());
    ids.push_back(2);
    ids.insert(ids.end(), after.begin(), after.end());
    return ids;
  };
  backend.file_token = 3;
  backend.encode_pair =
      [](std::string_view first,
         std::string_view second) -> Result<std::pair<std::vector<TokenId>, std::size_t>> {
    std::vector<TokenId> ids;
    for (const std::string_view text : {first, second}) {
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    }
    return std::pair{std::move(ids), first.size()};
  };
  backend.decode = [](std::span<const TokenId> ids, bool) {
    std::string text;
    for (const TokenId id : ids) text += static_cast<char>(id);
    return text;
  };
  backend.encode_chat = [encode = backend.encode](const text::MarkedText& text) {
    return encode(text.text, false, true);
  };
  backend.render_chat = [](const nlohmann::ordered_json& variables,
                           std::span<const text::MarkedText>) -> Result<text::MarkedText> {
    text::MarkedText text;
    for (const auto& message : variables["messages"]) {
      if (message["content"].is_string())
        text.append_from_outside(message["content"].get_ref<const std::string&>());
    }
    return text;
  };
  const auto render = [&backend](const Json& variables) -> Result<std::string> {
    auto rendered = backend.render_chat(variables, {});
    if (!rendered) return fail(rendered.error());
    return std::move(rendered->text);
  };
  backend.dialog = dialog::DialogFormat::detect({"", render, {}});
  return backend;
}

void check(const serve::ApiError& error) {
  if (error.status != 400 && error.status != 404) std::abort();
  if (error.message.empty()) std::abort();
  if (!nlohmann::json::accept(serve::error_body(error))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const serve::Backend backend = byte_backend();
  static const serve::RequestContext context{backend, "fuzz", 16};
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr serve::Endpoint kEndpoints[] = {
      serve::Endpoint::kCompletion,      serve::Endpoint::kChat,
      serve::Endpoint::kEmbedding,       serve::Endpoint::kRerank,
      serve::Endpoint::kResponses,       serve::Endpoint::kMessages,
      serve::Endpoint::kOllamaChat,      serve::Endpoint::kOllamaGenerate,
      serve::Endpoint::kOllamaEmbed,     serve::Endpoint::kCohereRerank,
      serve::Endpoint::kLlamaCompletion, serve::Endpoint::kLlamaInfill};
  constexpr std::size_t kRoutes = std::size(kEndpoints);
  constexpr std::size_t kMost[kRoutes] = {16, 1, 2048, 2048, 1,  1,
                                          1,  1, 2048, 2048, 16, 1};  // of a body
  const std::size_t route = data[0] % (kRoutes + 6);
  if (route >= kRoutes) {
    const auto answer = route == kRoutes       ? serve::tokenize(body, context)
                        : route == kRoutes + 1 ? serve::detokenize(body, context)
                        : route == kRoutes + 2 ? serve::count_tokens(body, context)
                        : route == kRoutes + 3 ? serve::ollama_show(body, context)
                        : route == kRoutes + 4 ? serve::count_response_tokens(body, context)
                                               : serve::apply_template(body, context);
    if (!answer) check(answer.error());
    if (answer && !nlohmann::json::accept(answer->body)) std::abort();
    return 0;
  }
  const auto generation = serve::read_generation(kEndpoints[route], body, context);
  if (!generation) {
    check(generation.error());
    return 0;
  }
  if (generation->requests.empty() || generation->requests.size() > kMost[route]) std::abort();
  for (const Request& request : generation->requests) {
    if (request.prompt.empty() || request.max_tokens < 1 || request.n < 1) std::abort();
    if (request.prompt.size() + static_cast<std::size_t>(request.max_tokens) > 512) std::abort();
    if (request.min_tokens > request.max_tokens) std::abort();
  }
  return 0;
}
