// Filters of elements: select, map, sort and the like.
#include <algorithm>
#include <array>

#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

// A path such as "function.name" or "0.role".
class AttributePath {
 public:
  // `attribute` is a string or an integer.
  explicit AttributePath(const Value& attribute) {
    if (attribute.string() == nullptr) {
      keys_.push_back(attribute);
      return;
    }
    std::string_view rest = *attribute.string();
    for (;;) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      const std::string_view part = rest.substr(0, dot);
      const bool is_index = !part.empty() && part.size() < 10 &&
                            part.find_first_not_of("0123456789") == std::string_view::npos;
      keys_.push_back(is_index ? Value::of(int64_t{std::stoi(std::string(part))})
                               : Value::of(part));
      if (dot == rest.size()) break;
      rest.remove_prefix(dot + 1);
    }
  }

  Value get(Context& context, const Value& item, const Value* otherwise = nullptr) const {
    Value value = item;
    for (const Value& key : keys_) {
      value = get_item(context, value, key);
      if (otherwise != nullptr && value.is_undefined()) value = *otherwise;
    }
    return value;
  }

 private:
  std::vector<Value> keys_;
};

std::optional<AttributePath> path_of(const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return std::nullopt;
  return AttributePath(*attribute);
}

// What elements are compared by: themselves or an attribute, texts in lower case unless case
// counts.
class Key {
 public:
  Key(Context& context, const Value* attribute, bool case_sensitive)
      : context_(context), path_(path_of(attribute)), case_sensitive_(case_sensitive) {}

  Value operator()(const Value& item) const {
    Value value = path_ ? path_->get(context_, item) : item;
    if (case_sensitive_ || value.string() == nullptr) return value;
    context_.budget.charge(value.string()->size() / 64);
    return Value::of(to_lower(*value.string()));
  }

 private:
  Context& context_;
  std::optional<AttributePath> path_;
  bool case_sensitive_;
};

using Keyed = std::pair<Value, Value>;

void sort_keyed(Context& context, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(b.first, a.first, context.budget)
                   : less(a.first, b.first, context.budget);
  });
}

Items values_of(std::vector<Keyed> keyed) {
  Items items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.second));
  return items;
}

Value sort(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  if (bound[2] != nullptr && bound[2]->string() != nullptr &&
      bound[2]->string()->find(',') != std::string::npos) {
    raise("sort: expected one attribute, found '{}'", *bound[2]->string());
  }
  const Key key(context, bound[2], bound.flag(1, false));
  std::vector<Keyed> keyed;
  for (Value& item : iterate(input, context.budget)) {
    Value now = key(item);
    keyed.emplace_back(std::move(now), std::move(item));
  }
  sort_keyed(context, keyed, bound.flag(0, false));
  return Value::list(values_of(std::move(keyed)));
}

Value dictsort(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "dictsort", {});
  if (input.dict() == nullptr) raise("dictsort: expected a dict, found '{}'", type_name(input));
  const Key key(context, nullptr, false);
  std::vector<Keyed> keyed;
  for (const auto& [name, value] : input.dict()->entries) {
    keyed.emplace_back(key(name), Value::tuple({name, value}));
  }
  sort_keyed(context, keyed, false);
  return Value::list(values_of(std::move(keyed)));
}

Value unique(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "unique", {"case_sensitive", "attribute"});
  const Key key(context, bound[1], bound.flag(0, false));
  Items seen;
  std::unordered_map<std::string, bool> seen_texts;
  Items kept;
  for (Value& item : iterate(input, context.budget)) {
    Value now = key(item);
    if (const std::string* text = now.string()) {
      if (seen_texts.emplace(*text, true).second) kept.push_back(std::move(item));
      continue;
    }
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return equal(other, now, context.budget);
    });
    if (known) continue;
    seen.push_back(std::move(now));
    kept.push_back(std::move(item));
  }
  return Value::generator(std::move(kept));
}

Value extreme(Context& context, const Value& input, Arguments& arguments, bool largest) {
  const Bound bound(arguments, largest ? "max" : "min", {"case_sensitive", "attribute"});
  const Key key(context, bound[1], bound.flag(0, false));
  std::optional<Keyed> best;
  for (Value& item : iterate(input, context.budget)) {
    Value now = key(item);
    const bool better = !best || (largest ? less(best->first, now, context.budget, ">")
                                          : less(now, best->first, context.budget));
    if (better) best.emplace(std::move(now), std::move(item));
  }
  if (!best) return Value::undefined("No aggregated item, sequence was empty.");
  return best->second;
}

Value sum(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "sum", {"attribute"});
  const auto path = path_of(bound[0]);
  Value total = Value::of(int64_t{0});
  for (const Value& item : iterate(input, context.budget)) {
    total = arithmetic(BinaryOp::kAdd, total, path ? path->get(context, item) : item);
    context.budget.charge(weight(total));
  }
  return total;
}

Value join(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "join", {"d", "attribute"});
  const MarkedText separator = bound[0] == nullptr ? MarkedText() : to_text(*bound[0]);
  const auto path = path_of(bound[1]);
  MarkedText out;
  bool first = true;
  for (const Value& item : iterate(input, context.budget)) {
    if (!first) out.append(separator);
    first = false;
    out.append(to_text(path ? path->get(context, item) : item));
    check_size(out.text.size());
  }
  return Value::of(std::move(out));
}

Value first(Context& context, const Value& input, Arguments&) {
  const Value missing = Value::undefined("No first item, sequence was empty.");
  if (Generator* generator = input.generator()) {
    return generator->next < generator->items.size() ? generator->items[generator->next++]
                                                     : missing;
  }
  const Items items = iterate(input, context.budget);
  return items.empty() ? missing : items.front();
}

Value last(Context& context, const Value& input, Arguments&) {
  if (input.generator() != nullptr) raise("'generator' object is not reversible; use |list first");
  const Items items = iterate(input, context.budget);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Context& context, const Value& input, Arguments&) {
  Items items = iterate(input, context.budget);
  std::reverse(items.begin(), items.end());
  if (input.generator() != nullptr) return Value::list(std::move(items));
  if (input.string() == nullptr) return Value::generator(std::move(items));
  MarkedText out;
  for (const Value& letter : items) out.append(*letter.marked());
  return Value::of(std::move(out));
}

Value items(Context& context, const Value& input, Arguments&) {
  if (input.is_undefined()) return Value::generator({});
  if (input.dict() == nullptr) raise("Can only get item pairs from a mapping.");
  Items pairs;
  for (const auto& [key, value] : input.dict()->entries)
    pairs.push_back(Value::tuple({key, value}));
  context.budget.charge(pairs.size());
  return Value::generator(std::move(pairs));
}

// select, reject, selectattr and rejectattr: the first argument is the attribute, if any, then the
// name of a test and its arguments. A falsy input (none, 0, ...) has no elements, as in Jinja, and
// the arguments are not looked at then.
Value choose(Context& context, const Value& input, Arguments& arguments, bool by_attribute,
             bool keep) {
  if (!truthy(input)) return Value::generator({});
  std::optional<AttributePath> path;
  size_t next = 0;
  if (by_attribute) {
    if (arguments.positional.empty()) raise("selectattr and rejectattr need an attribute");
    path.emplace(arguments.positional[next++]);
  }
  std::string test;
  if (next < arguments.positional.size()) {
    const Value& name = arguments.positional[next++];
    if (name.string() == nullptr) raise("expected the name of a test, found '{}'", type_name(name));
    test = *name.string();
  }
  Arguments rest;
  for (; next < arguments.positional.size(); ++next) {
    rest.positional.push_back(arguments.positional[next]);
  }
  rest.named = arguments.named;
  if (!test.empty() && find_test(test) == nullptr) throw unknown_test(test, std::nullopt);
  Items kept;
  for (Value& item : iterate(input, context.budget)) {
    const Value value = path ? path->get(context, item) : item;
    context.budget.charge(1 + weight(value));
    const bool holds = test.empty() ? truthy(value) : apply_test(context, test, value, rest);
    if (holds == keep) kept.push_back(std::move(item));
  }
  return Value::generator(std::move(kept));
}

// Takes a falsy input as choose() does.
Value map(Context& context, const Value& input, Arguments& arguments) {
  if (!truthy(input)) return Value::generator({});
  Items mapped;
  if (arguments.positional.empty()) {
    const Bound bound(arguments, "map", {"attribute", "default"}, 1);
    const AttributePath path(*bound[0]);
    for (const Value& item : iterate(input, context.budget)) {
      mapped.push_back(path.get(context, item, bound[1]));
    }
    return Value::generator(std::move(mapped));
  }
  const Value name = arguments.positional.front();
  if (name.string() == nullptr)
    raise("map: expected the name of a filter, found '{}'", type_name(name));
  if (find_filter(*name.string()) == nullptr) throw unknown_filter(*name.string(), std::nullopt);
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  for (const Value& item : iterate(input, context.budget)) {
    Arguments own = rest;
    Value value = apply_filter(context, *name.string(), item, own);
    context.budget.charge(1 + weight(item) + weight(value) +
                          (value.string() == nullptr ? 0 : value.string()->size() / 64));
    mapped.push_back(std::move(value));
  }
  return Value::generator(std::move(mapped));
}

// They hand on what they are given, or (join, reverse) put marked texts together.
constexpr auto kSequenceFilters = std::to_array<NamedFilter>({
    {"dictsort", dictsort, Marks::kKept},
    {"first", first, Marks::kKept},
    {"items", items, Marks::kKept},
    {"join", join, Marks::kKept},
    {"last", last, Marks::kKept},
    {"list",
     [](Context& c, const Value& v, Arguments&) { return Value::list(iterate(v, c.budget)); },
     Marks::kKept},
    {"map", map, Marks::kKept},
    {"max", [](Context& c, const Value& v, Arguments& a) { return extreme(c, v, a, true); },
     Marks::kKept},
    {"min", [](Context& c, const Value& v, Arguments& a) { return extreme(c, v, a, false); },
     Marks::kKept},
    {"reject",
     [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, false, false); },
     Marks::kKept},
    {"rejectattr",
     [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, true, false); },
     Marks::kKept},
    {"reverse", reverse, Marks::kKept},
    {"select",
     [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, false, true); },
     Marks::kKept},
    {"selectattr",
     [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, true, true); },
     Marks::kKept},
    {"sort", sort, Marks::kKept},
    {"sum", sum, Marks::kKept},
    {"unique", unique, Marks::kKept},
});

}  // namespace

std::span<const NamedFilter> sequence_filters() { return kSequenceFilters; }

}  // namespace dovetail::text::jinja
