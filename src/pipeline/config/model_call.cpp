#include <fmt/format.h>

#include <algorithm>

#include "base/near_match.h"
#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {
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
    fields.any("prompt");
    fields.any("system_prompt");
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
