#include <fstream>
#include <iterator>

#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kMostSchemaBytes = 16U << 20U;

Result<std::string> read_text_file(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    return fail(ErrorKind::kNotFound, "{}: no such file", path.string());
  }
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::vector<char> block(1U << 16U);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostSchemaBytes) {
      return fail(ErrorKind::kInvalid, "{}: more than {} bytes", path.string(), kMostSchemaBytes);
    }
  }
  if (in.bad() || !in.eof()) return fail(ErrorKind::kIo, "{}: cannot be read", path.string());
  return text;
}

}  // namespace

std::optional<JsonSchema> read_schema(const ColumnContext& context, Fields& fields,
                                      ColumnDraft& draft) {
  const Json* inside = fields.any("schema");
  const auto file = fields.text("schema_file");
  if (inside != nullptr && file) {
    fields.wrong("schema_file", "either this or schema");
    return std::nullopt;
  }
  if (inside != nullptr) {
    auto schema = JsonSchema::compile(*inside, fields.at("schema"));
    if (schema) return *std::move(schema);
    fields.take(context.document.all_placed(schema.error().message));
    return std::nullopt;
  }
  if (!file) return std::nullopt;
  const std::filesystem::path path = context.folder / *file;
  const auto text = read_text_file(path);
  if (!text) {
    fields.wrong("schema_file", "{}", text.error().message);
    return std::nullopt;
  }
  // YAML holds JSON, and knows where things stand.
  const auto document = Document::parse(*text, path.string());
  if (!document) {
    fields.wrong("schema_file", "{}", document.error().message);
    return std::nullopt;
  }
  auto schema = JsonSchema::compile(document->root(), "");
  if (!schema) {
    const Status placed = document->all_placed(schema.error().message);
    for (const std::string_view line : lines_of(placed.error().message)) {
      fields.wrong("schema_file", "{}", line);
    }
    return std::nullopt;
  }
  draft.spec.recipe += document->root().dump();
  return *std::move(schema);
}

}  // namespace dovetail::pipeline
