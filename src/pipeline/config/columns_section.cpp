#include "pipeline/config/columns_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/near_match.h"
#include "pipeline/config/own_column.h"

namespace dovetail::pipeline {

namespace {

enum Type : std::size_t {
  kSampler,
  kExpression,
  kText,
  kCode,
  kStructured,
  kJudge,
  kValidation,
};
constexpr std::size_t kBuiltIn = kValidation + 1;

std::vector<std::string> type_names(std::span<const ColumnType> own) {
  std::vector<std::string> names = {"sampler",        "expression", "llm-text",  "llm-code",
                                    "llm-structured", "llm-judge",  "validation"};
  for (const ColumnType& type : own) names.push_back(type.name);
  return names;
}

// "seed" is what the fields of the seed's data are called.
std::vector<std::string> reserved_names() {
  std::vector<std::string> names = type_names({});
  names.emplace_back("seed");
  return names;
}

void read_expression(Fields& fields, ColumnDraft& draft) {
  auto expression = required_template(fields, "value", draft.reads);
  const auto as = fields.choice("as", {"text", "integer", "real", "flag", "json"});
  if (expression) {
    draft.spec.what =
        ExpressionColumn{*std::move(expression), static_cast<ValueType>(as.value_or(0))};
  }
}

// When and where cells are made, and what becomes of them, does not change their values. An own
// type may have fields with the names of those that models' columns have.
std::string recipe_of(Json column, bool is_own) {
  for (const char* key : {"drop", "priority"}) column.erase(key);
  if (!is_own) {
    for (const char* key : {"retries", "corrections", "cache"}) column.erase(key);
  }
  return column.dump();
}

ColumnDraft read_column(const ColumnContext& context, const Json& value, const std::string& pointer,
                        Mistakes& mistakes) {
  ColumnDraft draft;
  draft.pointer = pointer;
  Fields fields(context.document, value, pointer);
  ColumnDescription& column = draft.spec;
  const auto ends_wrong = [&](bool all_are_known = true) {
    const Status ok = fields.finish(all_are_known);
    mistakes.add(ok);
    draft.is_wrong = !ok;
    // It is no field of the seed's data.
    if (draft.is_wrong) column.what = DrawnColumn{};
    return draft.is_wrong;
  };
  column.name = fields.required_text("name");
  const std::vector<std::string> types = type_names(context.types);
  const auto type = fields.choice("type", types);
  if (!type && !fields.has("type")) {
    fields.wrong("type", "expected one of {}", fmt::join(types, ", "));
  }
  column.skip_if = read_template(fields, "skip_if", draft.reads);
  column.propagate_skip = fields.flag("propagate_skip").value_or(true);
  column.drop = fields.flag("drop").value_or(false);
  column.priority = static_cast<std::int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  column.on_failure = fields.choice("on_failure", {"drop", "keep"}).value_or(0) == 0
                          ? FailurePolicy::kDropRecord
                          : FailurePolicy::kKeepNull;
  // Readers of files add what they have read.
  if (value.is_object()) {
    column.recipe = recipe_of(value, type && *type >= kBuiltIn);
  }
  if (!type) {
    // Without a type it is not known which other keys there are.
    ends_wrong(false);
    return draft;
  }
  if (*type >= kBuiltIn) {
    read_own_column(context, context.types[*type - kBuiltIn], fields, draft);
    ends_wrong();
    return draft;
  }
  switch (static_cast<Type>(*type)) {
    case kSampler:
      read_sampler_column(context, value, fields, draft);
      break;
    case kExpression:
      read_expression(fields, draft);
      break;
    case kText:
      read_text_column(context, fields, draft);
      break;
    case kCode:
      read_code_column(context, fields, draft);
      break;
    case kStructured:
      read_structured_column(context, fields, draft);
      break;
    case kJudge:
      read_judge_column(context, fields, draft);
      break;
    case kValidation:
      read_validation_column(context, fields, draft);
      break;
  }
  if (ends_wrong()) return draft;
  if (const std::string* alias = column.model()) {
    const auto& models = context.models.models;
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const ModelSpec& model) { return model.alias == *alias; });
    column.recipe += context.models.recipes[static_cast<std::size_t>(found - models.begin())];
    const auto* judge = std::get_if<JudgeColumn>(&column.what);
    // Models behind endpoints are not held to it.
    if (judge != nullptr && judge->plain && std::holds_alternative<LocalModel>(found->where)) {
      column.recipe += "\n" + judge->pattern.regex;
    }
  }
  return draft;
}

// The results say of a text whether it was cut, under a name that no column may have then.
void check_mark(const Document& document, const ColumnDraft& draft,
                const std::vector<ColumnDraft>& drafts, Mistakes& mistakes) {
  const std::string mark = draft.spec.drop ? "" : cut_mark(draft.spec);
  if (mark.empty()) return;
  for (const ColumnDraft& other : drafts) {
    if (other.spec.name != mark || other.spec.drop) continue;
    mistakes.add(Error{
        ErrorKind::kInvalid,
        fmt::format("{}the results say under '{}' whether the text of '{}' was cut by max_tokens; "
                    "expected another name, or drop: true",
                    document.where(pointer_to(other.pointer, "name")), mark, draft.spec.name)});
  }
}

}  // namespace

Status add_column(const Document& document, ColumnDraft draft, std::vector<ColumnDraft>& drafts) {
  const std::string& name = draft.spec.name;
  // Fields of the seed's data are named there, not in this file.
  const bool is_seed = std::holds_alternative<SeedColumn>(draft.spec.what);
  const std::string place =
      document.where(is_seed ? draft.pointer : pointer_to(draft.pointer, "name"));
  const bool is_name = !name.empty() && name.size() <= 128 &&
                       std::all_of(name.begin(), name.end(),
                                   [](unsigned char letter) {
                                     return std::isalnum(letter) != 0 || letter == '_';
                                   }) &&
                       std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  if (!is_name) {
    return fail(ErrorKind::kInvalid,
                "{}{} is no name of a column: letters, digits and _, not a digit first", place,
                shown(Json(name)));
  }
  if (std::any_of(drafts.begin(), drafts.end(),
                  [&](const ColumnDraft& other) { return other.spec.name == name; })) {
    return fail(ErrorKind::kInvalid, "{}there is a column '{}' already", place, name);
  }
  drafts.push_back(std::move(draft));
  return {};
}

bool read_columns(const ColumnContext& context, const Json& section,
                  std::vector<ColumnDraft>& drafts, Mistakes& mistakes) {
  const Document& document = context.document;
  if (const Status ok = check_column_types(context.types, reserved_names()); !ok) {
    mistakes.add(ok.error());
    return false;
  }
  bool all_have_names = true;
  for (std::size_t i = 0; i < section.size(); ++i) {
    ColumnDraft draft = read_column(context, section[i], pointer_to("/columns", i), mistakes);
    if (draft.spec.name.empty()) {
      all_have_names = false;
      // What is wrong with it has been said.
      if (draft.is_wrong) continue;
    }
    if (const Status ok = add_column(document, std::move(draft), drafts); !ok) {
      all_have_names = false;
      mistakes.add(ok.error());
    }
  }
  if (drafts.size() > kMostColumns) {
    mistakes.add(Error{ErrorKind::kInvalid,
                       fmt::format("{}{} columns, at most {} are possible",
                                   document.where("/columns"), drafts.size(), kMostColumns)});
  }
  for (const ColumnDraft& draft : drafts) check_mark(document, draft, drafts, mistakes);
  return all_have_names;
}

namespace {

using Graph = std::vector<std::vector<std::size_t>>;

// Follows unmet needs until a column comes twice.
Error cycle_of(const Document& document, const std::vector<ColumnDraft>& drafts, const Graph& needs,
               const std::vector<std::size_t>& missing) {
  std::size_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<std::size_t> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(needs[at].begin(), needs[at].end(),
                       [&](std::size_t need) { return missing[need] > 0; });
  }
  std::string text;
  for (auto step = std::find(path.begin(), path.end(), at); step != path.end(); ++step) {
    text += drafts[*step].spec.name + " needs ";
  }
  return {ErrorKind::kInvalid,
          fmt::format("{}columns need each other in a circle: {}{}",
                      document.where(drafts[at].pointer), text, drafts[at].spec.name)};
}

}  // namespace

bool check_reads(const Document& document, const std::vector<ColumnRead>& reads,
                 const std::vector<ColumnDraft>& drafts, Mistakes& mistakes) {
  bool all = true;
  for (const ColumnRead& read : reads) {
    if (std::any_of(drafts.begin(), drafts.end(),
                    [&](const ColumnDraft& draft) { return draft.spec.name == read.name; })) {
      continue;
    }
    std::vector<std::string> names;
    for (const ColumnDraft& draft : drafts) names.push_back(draft.spec.name);
    const std::vector<std::string> near = near_matches(read.name, names);
    all = false;
    mistakes.add(Error{
        ErrorKind::kInvalid,
        fmt::format("{}there is no column '{}'{}", document.where(read.pointer), read.name,
                    near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                 : fmt::format(", did you mean {}?", fmt::join(near, " or ")))});
  }
  return all;
}

// Kahn's algorithm on the smallest index.
Result<std::vector<std::size_t>> order_of(const Document& document,
                                          const std::vector<ColumnDraft>& drafts) {
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < drafts.size(); ++i) by_name[drafts[i].spec.name] = i;
  Graph needs(drafts.size()), needed_by(drafts.size());
  std::vector<std::size_t> missing(drafts.size());
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    std::set<std::size_t> distinct;
    for (const ColumnRead& read : drafts[i].reads) distinct.insert(by_name.at(read.name));
    needs[i].assign(distinct.begin(), distinct.end());
    missing[i] = needs[i].size();
    for (const std::size_t need : needs[i]) needed_by[need].push_back(i);
  }
  std::set<std::size_t> free;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (missing[i] == 0) free.insert(i);
  }
  std::vector<std::size_t> order;
  while (!free.empty()) {
    const std::size_t next = *free.begin();
    free.erase(free.begin());
    order.push_back(next);
    for (const std::size_t other : needed_by[next]) {
      if (--missing[other] == 0) free.insert(other);
    }
  }
  if (order.size() < drafts.size()) return fail(cycle_of(document, drafts, needs, missing));
  return order;
}

}  // namespace dovetail::pipeline
