#include "pipeline/config/samplers_section.h"

#include <algorithm>

#include "pipeline/config/columns_section.h"

namespace dovetail::pipeline {
namespace {

// A list for every value that the parent can have: of each column alone, so that an error has a
// place.
Status check_lists(const Document& document, const std::vector<ColumnDraft>& drafts) {
  Mistakes mistakes;
  for (const ColumnDraft& draft : drafts) {
    if (!draft.sampler) continue;
    const auto parent_name = parent_of(draft.sampler->otherwise);
    const auto parent = std::find_if(drafts.begin(), drafts.end(), [&](const ColumnDraft& other) {
      return other.sampler && parent_name == other.spec.name;
    });
    if (parent == drafts.end()) continue;
    std::vector<std::string> others;
    for (const ColumnDraft& other : drafts) {
      if (&other != &draft && &other != &*parent) others.push_back(other.spec.name);
    }
    const auto set = SamplerSet::make({*parent->sampler, *draft.sampler}, {}, others);
    if (set) continue;
    mistakes.add(Error{ErrorKind::kInvalid,
                       document.where(pointer_to(draft.pointer, "params")) + set.error().message});
  }
  return mistakes.status();
}

// Members of a group are drawn at once, with the first of them: none of them can stay away.
Status check_member(const Document& document, const ColumnDraft& draft) {
  const bool skips = draft.spec.skip_if.has_value();
  if (!skips && draft.spec.propagate_skip) return {};
  const char* key = skips ? "skip_if" : "propagate_skip";
  return fail(ErrorKind::kInvalid,
              "{}a column that constraints tie to other sampler columns is drawn with them, so it "
              "has no {}",
              document.where(pointer_to(draft.pointer, key)), key);
}

}  // namespace

void read_sampler_column(const ColumnContext& context, const Json& value, Fields& fields,
                         ColumnDraft& draft) {
  Json sampler = Json::object();
  for (const char* key : {"sampler", "params", "conditional_params", "convert_to"}) {
    if (fields.find(key) != nullptr) sampler[key] = value[key];
  }
  auto parsed = parse_sampler_column(draft.spec.name, sampler, draft.pointer);
  if (!parsed) {
    fields.take(context.document.all_placed(parsed.error().message));
    return;
  }
  const auto parent = parent_of(parsed->otherwise);
  for (std::string& name : parsed->needs()) {
    const char* key = name == parent ? "params" : "conditional_params";
    draft.reads.push_back({std::move(name), fields.at(key)});
  }
  draft.sampler = *std::move(parsed);
  draft.spec.what = DrawnColumn{};
}

std::vector<Constraint> read_constraints(const Document& document, const Json* section,
                                         const std::vector<ColumnDraft>& drafts,
                                         Mistakes& mistakes) {
  std::vector<Constraint> constraints;
  for (std::size_t i = 0; section != nullptr && i < section->size(); ++i) {
    const std::string pointer = pointer_to("/constraints", i);
    auto constraint = parse_constraint((*section)[i], pointer);
    if (!constraint) {
      mistakes.add(document.all_placed(constraint.error().message));
      continue;
    }
    const std::vector<std::string> names = constraint->columns();
    bool drawn = false, known = true;
    for (std::size_t side = 0; side < names.size(); ++side) {
      const char* key = side == 0 ? "column" : "other";
      known &= check_reads(document, {{names[side], pointer_to(pointer, key)}}, drafts, mistakes);
      drawn |= std::any_of(drafts.begin(), drafts.end(), [&](const ColumnDraft& draft) {
        return (draft.sampler || draft.is_wrong) && draft.spec.name == names[side];
      });
    }
    if (known && !drawn) {
      mistakes.add(
          Error{ErrorKind::kInvalid,
                fmt::format("{}no column of '{}' is a sampler, so nothing can be drawn again",
                            document.where(pointer), constraint->text())});
    }
    constraints.push_back(*std::move(constraint));
  }
  return constraints;
}

Result<std::optional<SamplerSet>> link_samplers(const Document& document,
                                                std::vector<Constraint> constraints,
                                                std::uint64_t run_seed,
                                                std::vector<ColumnDraft>& drafts) {
  if (const Status ok = check_lists(document, drafts); !ok) return fail(ok.error());
  std::vector<SamplerColumn> columns;
  std::vector<std::string> others;
  std::vector<ColumnDraft*> drawn;  // by index in `columns`
  for (ColumnDraft& draft : drafts) {
    if (draft.sampler) {
      columns.push_back(*draft.sampler);
      drawn.push_back(&draft);
    } else {
      others.push_back(draft.spec.name);
    }
  }
  if (columns.empty()) return std::nullopt;
  auto set =
      SamplerSet::make(std::move(columns), std::move(constraints), others, {.run_seed = run_seed});
  Mistakes mistakes;
  if (!set) {
    mistakes.add(Error{ErrorKind::kInvalid, document.where("/columns") + set.error().message});
    return fail(mistakes.status().error());
  }
  for (std::size_t number = 0; number < set->groups().size(); ++number) {
    const SamplerSet::Group& group = set->groups()[number];
    std::string recipe;
    for (const std::size_t column : group.columns) recipe += drawn[column]->spec.recipe;
    for (const std::size_t constraint : group.constraints) {
      recipe += set->constraints()[constraint].text();
    }
    for (const std::size_t column : group.columns) {
      ColumnDraft& draft = *drawn[column];
      draft.spec.what = DrawnColumn{column, number};
      if (group.columns.size() > 1) {
        if (const Status ok = check_member(document, draft); !ok) mistakes.add(ok.error());
        // What the others of the group read is read by the draw of the group, whose own columns
        // are not needed beforehand.
        draft.reads.clear();
      }
      for (const std::string& name : group.needs) draft.reads.push_back({name, draft.pointer});
      if (!group.constraints.empty()) draft.spec.recipe = recipe;
    }
  }
  if (const Status ok = mistakes.status(); !ok) return fail(ok.error());
  return std::optional(*std::move(set));
}

}  // namespace dovetail::pipeline
