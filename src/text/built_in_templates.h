#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail::text {

// A chat template of our own, for models whose makers publish their format as a program or lose the
// template on the way: the file templates/NAME.jinja.
struct BuiltInTemplate {
  std::string_view name;  // as --chat-template takes it
  // ModelConfig::family of the models that it is for where they bring none, if their vocabulary has
  // the tokens that it writes around messages. Empty: it is taken by name only.
  std::string_view family;
  std::array<std::string_view, 2> tokens;

  // The Jinja text.
  std::string_view text() const;
};

// The rows, by name.
std::span<const BuiltInTemplate> built_in_templates();

// Null: there is none.
const BuiltInTemplate* find_built_in_template(std::string_view name);
const BuiltInTemplate* built_in_template_of(std::string_view family);

// "deepseek-v3.1, deepseek-v3.2, ...", for messages.
std::string built_in_template_names();

// What a model's chats are written with. The text is that of the source, or of what was given.
struct TemplateChoice {
  std::string_view text;
  std::string origin;  // "the model's own", "as given" or "built in (NAME)"
  bool given;          // asked for, rather than found
};

// `given`, if it is not empty: the name of a built-in template, or Jinja; else the model's own
// template; else the one that is built in for its family. Nothing: there is none. What the text
// views must outlive it.
std::optional<TemplateChoice> choose_template(const load::ModelSource& source,
                                              const Tokenizer& tokenizer, std::string_view given);

}  // namespace dovetail::text
