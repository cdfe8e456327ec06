#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace dovetail::grammar {
namespace {

constexpr std::uint64_t kMaxItems = 1U << 20U;
// Bounded arrays longer than this share one copy of their items.
constexpr std::uint64_t kCopiedItems = 8;
// Items that differ: how many times one is written, over all orders.
constexpr std::uint64_t kMaxArranged = 1U << 13U;
constexpr std::size_t kMaxArrangedValues = 64;  // bits of a word
constexpr std::uint64_t kMaxCounted = 64;       // members

// How many times a value is written where arrays of different ones of `values` share beginnings;
// beyond the bound, some number beyond it.
std::uint64_t arranged(const auto& values, const Counts& count) {
  const std::uint64_t all = values.size();
  std::uint64_t out = 0;
  std::uint64_t sets = 1;  // of `size` values
  for (std::uint64_t size = 0; size < all && out <= kMaxArranged; ++size) {
    if (count.max && size >= *count.max) break;
    out += sets * (all - size);
    sets = sets * (all - size) / (size + 1);
  }
  return out;
}

// The schemas of an array's first items, one by one: "prefixItems", or "items" as a list, as drafts
// before 2020-12 spell it. Nothing: there are none.
std::optional<SchemaRef> item_list(const SchemaRef& schema) {
  if (schema.find("prefixItems") != nullptr) return schema.child("prefixItems");
  const Json* items = schema.find("items");
  if (items == nullptr || !items->is_array()) return std::nullopt;
  return schema.child("items");
}

// The schema of the items behind those.
std::optional<SchemaRef> other_items(const SchemaRef& schema) {
  const Json* items = schema.find("items");
  if (items == nullptr) return std::nullopt;
  if (!items->is_array()) return schema.child("items");
  if (schema.find("additionalItems") == nullptr) return std::nullopt;
  return schema.child("additionalItems");
}

}  // namespace

Result<SchemaCompiler::State> SchemaCompiler::array(State from, const Bundle& bundle, int depth) {
  const auto facts = read_facts(bundle, options_, work_);
  if (!facts) return fail(facts.error());
  const Counts& count = facts->items;
  if (count.max && *count.max < count.min) return nfa_.add_state();
  std::size_t places = 0;
  for (const SchemaRef& schema : bundle) {
    if (const auto list = item_list(schema)) places = std::max(places, list->at->size());
  }
  const auto item = [&](std::uint64_t index) {
    std::vector<SchemaRef> out;
    for (const SchemaRef& schema : bundle) {
      const auto list = item_list(schema);
      if (list && index < list->at->size()) {
        out.push_back(list->child(static_cast<std::size_t>(index)));
      } else if (const auto others = other_items(schema)) {
        out.push_back(*others);
      }
    }
    return out;
  };
  std::uint64_t single = std::max<std::uint64_t>(places, count.min);
  if (count.max) single = *count.max;
  if (single > kMaxItems) {
    return fail(ErrorKind::kUnsupported, "{}: \"minItems\" or \"maxItems\" beyond {}", facts->where,
                kMaxItems);
  }
  if (!facts->unique.empty() && !(count.max && *count.max <= 1)) {
    const auto values = few_values(places > 0 ? std::vector<SchemaRef>() : item(0));
    if (!values) return fail(values.error());
    if (*values && arranged(**values, count) <= kMaxArranged) {
      return arrangements(from, **values, count, depth);
    }
    const Status left = reader_.leave_out(
        facts->unique,
        {ErrorKind::kUnsupported,
         fmt::format("{}: \"uniqueItems\" true is not supported but for items of few values by "
                     "\"enum\", \"const\" or \"type\" (ten or so), and \"maxItems\" of 1",
                     facts->unique)});
    if (!left) return fail(left.error());
  }
  const int inside = deeper(depth);
  const State empty = gap(nfa_.literal(from, "["), inside);
  const State done = nfa_.add_state();  // behind an item
  State at = empty;
  for (std::uint64_t i = 0; i < single && !nfa_.full(); ++i) {
    if (i > 0 && i >= count.min) nfa_.nothing(at, done);
    if (i > 0) at = comma(at, inside);
    const auto end = single > kCopiedItems && i >= places
                         ? Result<State>(nfa_.call(at, rule(RuleKind::kValueRule, item(i), inside)))
                         : value(at, item(i), inside);
    if (!end) return end;
    at = *end;
  }
  if (single > 0 && single >= count.min) nfa_.nothing(at, done);
  if (!count.max) {
    const State before = nfa_.add_state();
    const State after = nfa_.add_state();
    nfa_.nothing(at, single == 0 ? before : after);
    const auto end = value(before, item(single), inside);
    if (!end) return end;
    nfa_.nothing(*end, after);
    nfa_.nothing(comma(after, inside), before);
    nfa_.nothing(after, done);
  }
  const State close = gap(done, depth);
  if (count.min == 0) nfa_.nothing(empty, close);
  return nfa_.literal(close, "]");
}

Result<std::optional<std::vector<SchemaCompiler::Listed>>> SchemaCompiler::few_values(
    const std::vector<SchemaRef>& schemas) {
  static const Json kConstants = {nullptr, true, false};
  const auto bundles = reader_.flatten(schemas);
  if (!bundles) return fail(bundles.error());
  std::vector<Listed> out;
  const auto add = [&](const Json& value, bool whole) {
    work_.spend(out.size());
    const bool there = std::any_of(out.begin(), out.end(),
                                   [&](const Listed& other) { return *other.first == value; });
    if (!there) out.emplace_back(&value, whole);
  };
  for (const Bundle& bundle : *bundles) {
    const auto facts = read_facts(bundle, options_, work_);
    if (!facts) return fail(facts.error());
    if (facts->values) {
      for (const Json* value : *facts->values) {
        const auto good = allows(*facts, *value, work_);
        if (!good) return fail(good.error());
        if (*good && value->is_structured()) return std::nullopt;
        if (*good) add(*value, (facts->types & kFraction) == 0);
        if (out.size() > kMaxArrangedValues) return std::nullopt;
      }
      continue;
    }
    if ((facts->types & ~(kNull | kBoolean)) != 0) return std::nullopt;
    for (const Json& value : kConstants) {
      if ((facts->types & type_of(value)) != 0) add(value, false);
    }
  }
  return out;
}

Result<SchemaCompiler::State> SchemaCompiler::arrangements(State from,
                                                           const std::vector<Listed>& values,
                                                           const Counts& count, int depth) {
  const int inside = deeper(depth);
  const State empty = gap(nfa_.literal(from, "["), inside);
  const State done = nfa_.add_state();  // behind an item
  // What was written so far, as bits, and where that is.
  std::map<std::uint64_t, State> written = {{0, empty}};
  for (std::uint64_t size = 0; !written.empty() && !nfa_.full(); ++size) {
    std::map<std::uint64_t, State> longer;
    for (const auto& [bits, at] : written) {
      if (size > 0 && size >= count.min) nfa_.nothing(at, done);
      if (count.max && size >= *count.max) continue;
      const State before = size == 0 ? at : comma(at, inside);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t bit = std::uint64_t{1} << i;
        if ((bits & bit) != 0) continue;
        const auto [next, fresh] = longer.try_emplace(bits | bit, 0);
        if (fresh) next->second = nfa_.add_state();
        const auto end = literal(before, *values[i].first, values[i].second, "", inside);
        if (!end) return end;
        nfa_.nothing(*end, next->second);
      }
    }
    written = std::move(longer);
  }
  const State close = gap(done, depth);
  if (count.min == 0) nfa_.nothing(empty, close);
  return nfa_.literal(close, "]");
}

Result<bool> SchemaCompiler::restrict_names(Members& members, const SchemaRef& names) {
  const auto language = strings(names, spelling());
  if (!language) return fail(language.error());
  bool missed = false;
  std::erase_if(members.named, [&](const NamedMember& member) {
    if (matches(*language, is_bare() ? member.name : write_json_string(member.name))) return false;
    missed = missed || member.required;
    return true;
  });
  for (OtherMembers& others : members.others) {
    if (others.names) {
      auto both = intersection(*others.names, *language, names.where, work_);
      if (!both) return fail(both.error());
      others.names = *std::move(both);
    } else {
      others.names = *language;
    }
  }
  std::erase_if(members.others, [](const OtherMembers& others) { return others.names->empty(); });
  return !missed;
}

Result<Counts> SchemaCompiler::members_to_count(const Bundle& bundle, const Facts& facts,
                                                const Members& members) {
  Counts out = facts.members;
  const auto required = static_cast<std::uint64_t>(
      std::count_if(members.named.begin(), members.named.end(),
                    [](const NamedMember& member) { return member.required; }));
  const auto drop = [&](std::string_view keyword, std::string_view why) -> Status {
    const auto schema = std::find_if(bundle.begin(), bundle.end(), [&](const SchemaRef& one) {
      return one.find(keyword) != nullptr;
    });
    const std::string where = schema->child(keyword).where;
    return reader_.leave_out(where, {ErrorKind::kUnsupported, fmt::format("{}: {}", where, why)});
  };
  if (out.min <= required) out.min = 0;
  if (members.others.empty() && out.max && *out.max >= members.named.size()) out.max.reset();
  // A name that is written twice would count once.
  if (out.min > 1 && !members.others.empty()) {
    const Status left =
        drop("minProperties",
             "not supported beyond 1 where members may be written that the schema does not name");
    if (!left) return fail(left.error());
    out.min = 0;
  }
  const std::string too_many = fmt::format("not supported beyond {}", kMaxCounted);
  if (out.min > kMaxCounted) {
    if (const Status left = drop("minProperties", too_many); !left) return fail(left.error());
    out.min = 0;
  }
  if (out.max && *out.max > kMaxCounted) {
    if (const Status left = drop("maxProperties", too_many); !left) return fail(left.error());
    out.max.reset();
  }
  return out;
}

Result<SchemaCompiler::State> SchemaCompiler::object(State from, const Bundle& bundle, int depth) {
  const auto facts = read_facts(bundle, options_, work_);
  if (!facts) return fail(facts.error());
  auto members = read_members(bundle, options_, work_, spelling());
  if (!members) return fail(members.error());
  for (const SchemaRef& names : facts->names) {
    const auto all = restrict_names(*members, names);
    if (!all) return fail(all.error());
    if (!*all) return nfa_.add_state();
  }
  const auto count = members_to_count(bundle, *facts, *members);
  if (!count) return fail(count.error());
  // Where so many members are written; without a limit, the last is for that many and more.
  const std::uint64_t most = count->max ? *count->max : std::max<std::uint64_t>(count->min, 1);
  std::vector<State> written(most + 1);
  const int inside = deeper(depth);
  written[0] = gap(nfa_.literal(from, "{"), inside);
  for (std::uint64_t i = 1; i <= most; ++i) written[i] = nfa_.add_state();
  // Where a name begins with which `number` members will be written.
  const auto before = [&](std::uint64_t number) {
    const State key = nfa_.add_state();
    nfa_.nothing(number == 1 ? written[0] : comma(written[number - 1], inside), key);
    if (number == most && !count->max) nfa_.nothing(comma(written[most], inside), key);
    return key;
  };
  for (const NamedMember& member : members->named) {
    std::vector<State> next(most + 1);
    for (std::uint64_t i = 0; i <= most; ++i) {
      next[i] = nfa_.add_state();
      if (!member.required) nfa_.nothing(written[i], next[i]);
      if (i == 0) continue;
      const auto named = name(before(i), member.name, facts->where);
      if (!named) return named;
      const auto end = value(colon(*named), member.value, inside);
      if (!end) return end;
      nfa_.nothing(*end, next[i]);
    }
    written = std::move(next);
  }
  for (std::uint64_t i = 1; i <= most && !members->others.empty(); ++i) {
    const State key = before(i);
    for (const OtherMembers& others : members->others) {
      const auto named = name_of(key, others.names);
      if (!named) return named;
      const auto end = value(colon(*named), others.value, inside);
      if (!end) return end;
      nfa_.nothing(*end, written[i]);
    }
  }
  const State done = nfa_.add_state();  // behind a member
  for (std::uint64_t i = std::max<std::uint64_t>(count->min, 1); i <= most; ++i) {
    nfa_.nothing(written[i], done);
  }
  const State close = gap(done, depth);
  if (count->min == 0) nfa_.nothing(written[0], close);
  return nfa_.literal(close, "}");
}

}  // namespace dovetail::grammar
