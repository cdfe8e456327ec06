#include "text/built_in_templates.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>

#include "text/template_texts.h"

namespace dovetail::text {
namespace {

constexpr std::array<std::string_view, 2> kDeepseekTokens = {"<｜User｜>", "<｜Assistant｜>"};

constexpr BuiltInTemplate kTemplates[] = {
    // No family: V3, V3.1 and R1 are one, and each has been published with a template.
    {"deepseek-v3.1", "", kDeepseekTokens},
    {"deepseek-v3.2", "deepseek32", kDeepseekTokens},
    {"deepseek-v4", "deepseek4", kDeepseekTokens},
};

std::string built_in(const BuiltInTemplate& row) { return fmt::format("built in ({})", row.name); }

}  // namespace

std::string_view BuiltInTemplate::text() const {
  const auto texts = template_texts();
  const auto found = std::ranges::find(texts, name, &TemplateText::name);
  assert(found != texts.end());
  return found->text;
}

std::span<const BuiltInTemplate> built_in_templates() { return kTemplates; }

const BuiltInTemplate* find_built_in_template(std::string_view name) {
  const auto* const found = std::ranges::find(kTemplates, name, &BuiltInTemplate::name);
  return found == std::end(kTemplates) ? nullptr : found;
}

const BuiltInTemplate* built_in_template_of(std::string_view family) {
  if (family.empty()) return nullptr;
  const auto* const found = std::ranges::find(kTemplates, family, &BuiltInTemplate::family);
  return found == std::end(kTemplates) ? nullptr : found;
}

std::string built_in_template_names() {
  std::string names;
  for (const BuiltInTemplate& row : kTemplates) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

std::optional<TemplateChoice> choose_template(const load::ModelSource& source,
                                              const Tokenizer& tokenizer, std::string_view given) {
  if (const BuiltInTemplate* row = find_built_in_template(given))
    return TemplateChoice{row->text(), built_in(*row), true};
  if (!given.empty()) return TemplateChoice{given, "as given", true};
  if (source.chat_template) return TemplateChoice{*source.chat_template, "the model's own", false};
  const BuiltInTemplate* row = built_in_template_of(source.config.family);
  const auto known = [&](std::string_view token) { return tokenizer.find(token).has_value(); };
  if (row == nullptr || !std::ranges::all_of(row->tokens, known)) return std::nullopt;
  return TemplateChoice{row->text(), built_in(*row), false};
}

}  // namespace dovetail::text
