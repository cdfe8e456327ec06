#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

Problem read_query(std::string_view field, const Json& value, Draft& draft) {
  return store(read_string(field, value), draft.query);
}

// An array of strings, or of objects that have them as "text".
Problem read_documents(std::string_view field, const Json& value, Draft& draft) {
  const std::size_t most = most_inputs(draft);
  if (!value.is_array() || value.empty() || value.size() > most) {
    const std::string got =
        value.is_array() ? fmt::format("{} documents", value.size()) : shown(value);
    return problem(bad_field(field, "expected an array of 1 to {} documents, got {}", most, got));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const bool wrapped = value[i].is_object() && value[i].size() == 1 && value[i].contains("text");
    auto text = read_string(wrapped ? at + ".text" : at, wrapped ? value[i]["text"] : value[i]);
    if (!text) return std::move(text.error());
    draft.ranking.documents.push_back(*std::move(text));
  }
  return std::nullopt;
}

Problem read_top(std::string_view field, const Json& value, Draft& draft) {
  auto top = read_integer(field, value, 1, kMaxTokens);
  if (!top) return std::move(top.error());
  draft.ranking.top = static_cast<std::size_t>(*top);
  return std::nullopt;
}

Problem read_document_limit(std::string_view field, const Json& value, Draft& draft) {
  auto most = read_integer(field, value, 1, kMaxTokens);
  if (!most) return std::move(most.error());
  draft.max_document_tokens = static_cast<std::size_t>(*most);
  return std::nullopt;
}

Problem read_encoding(std::string_view field, const Json& value, Draft& draft) {
  if (value != "float" && value != "base64") {
    return problem(
        bad_field(field, "{} is not supported; expected \"float\" or \"base64\"", shown(value)));
  }
  draft.base64 = value == "base64";
  return std::nullopt;
}

// Cutting an embedding short is right for models that were trained for it alone.
Problem read_dimensions(std::string_view field, const Json& value, Draft& draft) {
  const std::uint32_t all = draft.context.backend.model.embedding_size;
  if (value != all) {
    return problem(
        bad_field(field, "{} is not supported; expected {}, which is all", shown(value), all));
  }
  return std::nullopt;
}
constexpr Field kPooledFields[] = {
    {"input", kEmbeddings,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_prompts(f, v, most_inputs(d), d);
     }},
    {"encoding_format", kEmbeddings, read_encoding},
    {"dimensions", static_cast<Routes>(kEmbeddings | kOllamaEmbeds), read_dimensions},
    {"query", kAllReranks, read_query},
    {"documents", kAllReranks, read_documents},
    {"top_n", kAllReranks, read_top},
    {"max_tokens_per_doc", kCohereReranks, read_document_limit},
    {"return_documents", kReranks,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.ranking.with_texts);
     }},
};

}  // namespace

std::span<const Field> pooled_fields() { return kPooledFields; }

std::size_t most_inputs(const Draft& draft) {
  constexpr std::size_t kMost = 2048;
  return std::max<std::size_t>(draft.context.max_choices, kMost);
}

}  // namespace dovetail::serve
