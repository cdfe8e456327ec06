#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "serve/request_fields.h"
#include "serve/router.h"
#include "support/places.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kBegin = "<!-- tables -->\n";
constexpr std::string_view kEnd = "<!-- end of tables -->";

std::string quoted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  for (std::string& name : names) name = "`" + name + "`";
  return fmt::format("{}", fmt::join(names, ", "));
}

// What docs/api.md says between its marks.
std::string tables() {
  std::string out = "\n## Routes\n\n| route | method |\n| --- | --- |\n";
  for (const Route& route : routes())
    out += fmt::format("| `{}` | {} |\n", route.path, methods_of(route));
  constexpr std::pair<Endpoint, std::string_view> kEndpoints[] = {
      {Endpoint::kChat, "/v1/chat/completions"},
      {Endpoint::kCompletion, "/v1/completions"},
      {Endpoint::kResponses, "/v1/responses"},
      {Endpoint::kMessages, "/v1/messages"},
      {Endpoint::kEmbedding, "/v1/embeddings"},
      {Endpoint::kRerank, "/v1/rerank"},
      {Endpoint::kCohereRerank, "/v2/rerank"},
      {Endpoint::kOllamaChat, "/api/chat"},
      {Endpoint::kOllamaGenerate, "/api/generate"},
      {Endpoint::kOllamaEmbed, "/api/embed"},
      {Endpoint::kOllamaEmbedding, "/api/embeddings"},
      {Endpoint::kLlamaCompletion, "/completion"},
      {Endpoint::kLlamaInfill, "/infill"},
  };
  for (const auto& [endpoint, path] : kEndpoints) {
    const KnownFields known = known_fields(endpoint);
    out += fmt::format("\n## Fields of {}\n\nRead: {}.\n", path, quoted(known.read));
    if (!known.hints.empty()) out += fmt::format("\nHints: {}.\n", quoted(known.hints));
    std::vector<std::string> values;
    for (const auto& [name, accepted] : known.neutral) {
      const Json list = Json::parse(accepted);
      std::string text = name + ": null";
      for (const Json& value : list) text += " or " + value.dump();
      values.push_back(std::move(text));
    }
    if (!values.empty())
      out += fmt::format("\nAt the values that ask for nothing: {}.\n", quoted(values));
  }
  return out + "\n";
}

// docs/api.md holds what the tables of routes and fields hold. With DOVETAIL_WRITE_DOCS=1 it is
// written anew.
TEST(Docs, ApiListsRoutesAndFields) {
  const std::string path = test::source_dir() + "/docs/api.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string all = text.str();
  const std::size_t begin = all.find(kBegin);
  const std::size_t end = all.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string wanted = tables();
  const std::size_t from = begin + kBegin.size();
  if (std::getenv("DOVETAIL_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << all.substr(0, from) << wanted << all.substr(end);
    return;
  }
  EXPECT_EQ(all.substr(from, end - from), wanted) << "write it anew with DOVETAIL_WRITE_DOCS=1";
}

}  // namespace
}  // namespace dovetail::serve
