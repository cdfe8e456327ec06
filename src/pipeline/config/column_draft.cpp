#include "pipeline/config/column_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/near_match.h"

namespace dovetail::pipeline {

std::optional<text::ChatTemplate> read_template(Fields& fields, std::string_view key,
                                                std::vector<ColumnRead>& reads) {
  const auto source = fields.text(key);
  if (!source) return std::nullopt;
  auto parsed = text::ChatTemplate::parse(*source, key);
  if (!parsed) {
    fields.wrong(key, "{}", parsed.error().message);
    return std::nullopt;
  }
  for (std::string& name : parsed->free_names()) {
    reads.push_back({std::move(name), fields.at(key)});
  }
  return *std::move(parsed);
}

std::optional<text::ChatTemplate> required_template(Fields& fields, std::string_view key,
                                                    std::vector<ColumnRead>& reads) {
  auto parsed = read_template(fields, key, reads);
  if (!parsed && !fields.has(key)) fields.wrong(key, "expected a template here");
  return parsed;
}

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
  const Json* inside = fields.find("schema");
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

namespace {

std::string read_alias(const ColumnContext& context, Fields& fields) {
  const std::string alias = fields.required_text("model");
  std::vector<std::string> aliases;
  for (const ModelSpec& model : context.models.models) aliases.push_back(model.alias);
  if (!alias.empty() && std::find(aliases.begin(), aliases.end(), alias) == aliases.end()) {
    const auto near = near_matches(alias, aliases);
    if (aliases.empty()) {
      fields.wrong("model", "there is no model '{}': the section models names none", alias);
    } else if (near.empty()) {
      fields.wrong("model", "there is no model '{}', expected one of: {}", alias,
                   fmt::join(aliases, ", "));
    } else {
      fields.wrong("model", "there is no model '{}', did you mean {}?", alias,
                   fmt::join(near, " or "));
    }
  }
  return alias;
}

std::vector<PromptMessage> read_messages(const ColumnContext& context, Fields& fields,
                                         const Json& list, ColumnDraft& draft) {
  const std::vector<std::string> roles = {"system", "user", "assistant"};
  std::vector<PromptMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Fields one(context.document, list[i], pointer_to(fields.at("messages"), i));
    const auto role = one.choice("role", roles);
    if (!role && !one.has("role")) one.wrong("role", "expected one of {}", fmt::join(roles, ", "));
    auto content = required_template(one, "content", draft.reads);
    if (role == 0U && i > 0) one.wrong("role", "a system message is the first one or none");
    if (role == 2U && i + 1 == list.size()) {
      one.wrong("role", "the last message is the user's: the model answers it");
    }
    if (const Status ok = one.finish(); !ok) {
      fields.take(ok);
    } else {
      messages.push_back({roles[*role], *std::move(content)});
    }
  }
  if (fields.ok() && (messages.empty() || messages.back().role == "system")) {
    fields.wrong("messages", "expected a message of the user's");
  }
  return messages;
}

PromptSpec read_prompt(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  PromptSpec prompt;
  prompt.chat = fields.flag("chat").value_or(true);
  if (const Json* list = fields.array("messages")) {
    for (const char* other : {"prompt", "system_prompt"}) {
      if (fields.has(other)) fields.wrong(other, "either this or messages");
    }
    if (!prompt.chat) fields.wrong("messages", "a prompt without chat has none");
    // Known fields, even where they are not to be here.
    fields.find("prompt");
    fields.find("system_prompt");
    prompt.messages = read_messages(context, fields, *list, draft);
    return prompt;
  }
  auto system = read_template(fields, "system_prompt", draft.reads);
  if (!prompt.chat && system) fields.wrong("system_prompt", "a prompt without chat has none");
  if (!fields.has("prompt")) {
    fields.wrong("prompt", "expected a template here, or messages");
  }
  auto user = read_template(fields, "prompt", draft.reads);
  if (system) prompt.messages.push_back({"system", *std::move(system)});
  if (user) prompt.messages.push_back({"user", *std::move(user)});
  return prompt;
}

void read_attempts(Fields& fields, bool chat, std::optional<std::uint32_t> corrections,
                   ColumnDescription& column) {
  column.retries = static_cast<std::uint32_t>(fields.integer("retries", 0, 100).value_or(2));
  if (!corrections) return;
  const auto given = fields.integer("corrections", 0, 10);
  if (!chat && given.value_or(0) > 0) {
    fields.wrong("corrections", "a prompt without chat has no turns to correct an answer in");
  }
  column.corrections = given ? static_cast<std::uint32_t>(*given) : chat ? *corrections : 0;
}

}  // namespace

std::optional<ModelCall> read_call(const ColumnContext& context, Fields& fields,
                                   std::optional<std::uint32_t> corrections, ColumnDraft& draft) {
  ModelCall call;
  call.model = read_alias(context, fields);
  call.prompt = read_prompt(context, fields, draft);
  call.sampling = read_sampling(context.document, fields, "sampling");
  draft.spec.cache = fields.flag("cache").value_or(true);
  read_attempts(fields, call.prompt.chat, corrections, draft.spec);
  return fields.ok() ? std::optional(std::move(call)) : std::nullopt;
}

}  // namespace dovetail::pipeline
