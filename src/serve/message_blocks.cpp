#include "serve/message_blocks.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {
namespace {

using Text = Outcome<std::string>;

// ` title="Tides"` and so on, of the members that the block has.
Text attributes_of(const std::string& field, const Json& block, const char* first,
                   const char* second) {
  std::string out;
  for (const char* member : {first, second}) {
    const auto value = block.find(member);
    if (value == block.end() || value->is_null()) continue;
    const auto text = member_of(field, block, member);
    if (!text) return text;
    out += fmt::format(" {}={}", member, Json(*text).dump());
  }
  return out;
}

std::string between_tags(std::string_view tag, std::string_view attributes, std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return fmt::format("<{}{}>\n{}</{}>\n", tag, attributes, text, tag);
}

// What answers do not have.
Problem meet_citations(const std::string& field, const Json& block, UnknownFields& unknown) {
  const auto citations = block.find("citations");
  const bool asked = citations != block.end() && citations->is_object() &&
                     citations->value("enabled", Json()) == true;
  return asked ? unknown.meet(field + ".citations") : std::nullopt;
}

// A content between tags that have its title, and the member `beside_title`.
Text tagged(std::string_view tag, const std::string& field, const Json& block, Text content,
            const char* beside_title, UnknownFields& unknown) {
  if (!content) return content;
  const auto attributes = attributes_of(field, block, "title", beside_title);
  if (!attributes) return attributes;
  if (auto found = meet_citations(field, block, unknown))
    return tl::unexpected<ApiError>(*std::move(found));
  return between_tags(tag, *attributes, *std::move(content));
}

Text content_of(const std::string& field, const Json& block, UnknownFields& unknown) {
  const auto content = block.find("content");
  if (content == block.end()) return bad_field(field + ".content", "is missing");
  return content_text(field + ".content", *content, unknown);
}

Text read_text(const std::string& field, const Json& block, UnknownFields&) {
  return member_of(field, block, "text");
}

Text source_text(const std::string& field, const Json& source, UnknownFields& unknown) {
  const auto type = block_type(field, source);
  if (!type) return type;
  if (*type == "text") return member_of(field, source, "data");
  if (*type == "content") return content_of(field, source, unknown);
  return bad_field(field + ".type", "{} is not supported; expected \"text\" or \"content\"",
                   shown(Json(*type)));
}

Text read_document(const std::string& field, const Json& block, UnknownFields& unknown) {
  const auto source = block.find("source");
  if (source == block.end()) return bad_field(field + ".source", "is missing");
  return tagged("document", field, block, source_text(field + ".source", *source, unknown),
                "context", unknown);
}

Text read_search_result(const std::string& field, const Json& block, UnknownFields& unknown) {
  return tagged("search_result", field, block, content_of(field, block, unknown), "source",
                unknown);
}

// The name of a tool that a search for tools has found.
Text read_reference(const std::string& field, const Json& block, UnknownFields&) {
  auto name = member_of(field, block, "tool_name");
  if (!name) return name;
  return *std::move(name) + "\n";
}

struct BlockType {
  std::string_view type;
  Text (*read)(const std::string& field, const Json& block, UnknownFields& unknown);
};
constexpr BlockType kBlockTypes[] = {
    {"text", read_text},
    {"document", read_document},
    {"search_result", read_search_result},
    {"tool_reference", read_reference},
};

}  // namespace

Outcome<std::string> block_type(const std::string& field, const Json& block) {
  if (!block.is_object()) return bad_field(field, "expected an object, got {}", shown(block));
  const auto type = block.find("type");
  if (type == block.end() || !type->is_string()) {
    return bad_field(field + ".type", "is missing; expected a string");
  }
  return type->get<std::string>();
}

Outcome<std::string> member_of(const std::string& field, const Json& block, const char* member) {
  const auto text = block.find(member);
  if (text == block.end()) return bad_field(fmt::format("{}.{}", field, member), "is missing");
  return read_string(fmt::format("{}.{}", field, member), *text);
}

std::optional<Outcome<std::string>> block_text(const std::string& field, std::string_view type,
                                               const Json& block, UnknownFields& unknown) {
  for (const BlockType& row : kBlockTypes)
    if (row.type == type) return row.read(field, block, unknown);
  return std::nullopt;
}

std::string text_blocks() {
  std::string types;
  for (const BlockType& row : kBlockTypes)
    types += fmt::format("{}\"{}\"", types.empty() ? "" : ", ", row.type);
  return types;
}

Outcome<std::string> content_text(const std::string& field, const Json& value,
                                  UnknownFields& unknown) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    return bad_field(field, "expected a string or an array of blocks, got {}", shown(value));
  }
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const auto type = block_type(at, value[i]);
    if (!type) return type;
    auto piece = block_text(at, *type, value[i], unknown);
    if (!piece) {
      return bad_field(at + ".type", "{} is not supported; expected {}", shown(Json(*type)),
                       text_blocks());
    }
    if (!*piece) return *std::move(piece);
    text += **piece;
  }
  return text;
}

}  // namespace dovetail::serve
