// Methods of strings and dicts.
#include <algorithm>
#include <array>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

using Method = Value (*)(Context&, const Value& self, Arguments&);
struct NamedMethod {
  std::string_view name;
  Method method;
  Marks marks = Marks::kWhole;  // of strings; dicts hand on what they hold
};

const std::string& text_of(const Value& self) { return *self.string(); }

// What `view` shows of self's text.
Value part(const Value& self, std::string_view view) {
  return Value::of(self.marked()->part(view));
}

// Strings -----------------------------------------------------------------------------------

Value strip_side(const Value& self, Arguments& arguments, std::string_view name, Side side) {
  const Bound bound(arguments, name, {"chars"});
  if (bound[0] == nullptr || bound[0]->is_none()) return part(self, strip(text_of(self), "", side));
  const std::string characters = bound.string(0, "");
  if (characters.empty()) return self;
  return part(self, strip(text_of(self), characters, side));
}

Value texts(const Value& self, const std::vector<std::string_view>& parts) {
  Items items;
  items.reserve(parts.size());
  for (const std::string_view view : parts) items.push_back(part(self, view));
  return Value::list(std::move(items));
}

std::vector<std::string_view> split_words(std::string_view text, int64_t most) {
  std::vector<std::string_view> parts;
  text = strip(text, "", Side::kLeft);
  while (!text.empty()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const CodePoint point = decode(text, end);
      if (is_space(point.value)) break;
      end += point.size;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), "", Side::kLeft);
  }
  return parts;
}

Value split(const Value& self, Arguments& arguments, bool from_back) {
  const Bound bound(arguments, from_back ? "rsplit" : "split", {"sep", "maxsplit"});
  const int64_t most = bound.integer(1, -1);
  std::string_view text = text_of(self);
  if (bound[0] == nullptr || bound[0]->is_none()) {
    if (from_back && most >= 0) raise("rsplit: expected a separator beside maxsplit");
    return texts(self, split_words(text, most));
  }
  const std::string separator = bound.string(0, "");
  if (separator.empty()) raise("empty separator");
  std::vector<std::string_view> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t at = from_back ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    const size_t after = at + separator.size();
    parts.push_back(from_back ? text.substr(after) : text.substr(0, at));
    text = from_back ? text.substr(0, at) : text.substr(after);
  }
  parts.push_back(text);
  if (from_back) std::reverse(parts.begin(), parts.end());
  return texts(self, parts);
}

Value affix(const Value& self, Arguments& arguments, bool at_start) {
  const std::string_view name = at_start ? "startswith" : "endswith";
  const Bound bound(arguments, name, {"prefix"}, 1);
  Items wanted{*bound[0]};
  if (type_name(*bound[0]) == "tuple") wanted = bound[0]->sequence()->items;
  const std::string_view text = text_of(self);
  for (const Value& candidate : wanted) {
    if (candidate.string() == nullptr) {
      raise("{} first arg must be str or a tuple of str, not {}", name, type_name(candidate));
    }
    if (at_start ? text.starts_with(text_of(candidate)) : text.ends_with(text_of(candidate))) {
      return Value::of(true);
    }
  }
  return Value::of(false);
}

Value join_method(Context& context, const Value& self, Arguments& arguments) {
  const Bound bound(arguments, "join", {"iterable"}, 1);
  MarkedText out;
  bool first = true;
  for (const Value& item : iterate(*bound[0], context.budget)) {
    if (item.string() == nullptr) {
      raise("join: expected only strings, found '{}'", type_name(item));
    }
    if (!first) out.append(*self.marked());
    first = false;
    out.append(*item.marked());
    check_size(out.text.size());
  }
  return Value::of(std::move(out));
}

Value string_replace(Context& context, const Value& self, Arguments& arguments) {
  return apply_filter(context, "replace", self, arguments);
}

constexpr auto kStringMethods = std::to_array<NamedMethod>({
    {"capitalize",
     [](Context& c, const Value& s, Arguments&) { return to_case(c, text_of(s), to_capitalized); }},
    {"endswith", [](Context&, const Value& s, Arguments& a) { return affix(s, a, false); }},
    {"format",
     [](Context&, const Value& s, Arguments& a) {
       return Value::of(format_braces(*s.marked(), a));
     },
     Marks::kKept},
    {"join", join_method, Marks::kKept},
    {"lower",
     [](Context& c, const Value& s, Arguments&) { return to_case(c, text_of(s), to_lower); }},
    {"lstrip",
     [](Context&, const Value& s, Arguments& a) { return strip_side(s, a, "lstrip", Side::kLeft); },
     Marks::kKept},
    {"replace", string_replace, Marks::kKept},
    {"rsplit", [](Context&, const Value& s, Arguments& a) { return split(s, a, true); },
     Marks::kKept},
    {"rstrip",
     [](Context&, const Value& s, Arguments& a) {
       return strip_side(s, a, "rstrip", Side::kRight);
     },
     Marks::kKept},
    {"split", [](Context&, const Value& s, Arguments& a) { return split(s, a, false); },
     Marks::kKept},
    {"splitlines",
     [](Context&, const Value& s, Arguments& a) {
       const Bound bound(a, "splitlines", {});
       return texts(s, split_lines(text_of(s)));
     },
     Marks::kKept},
    {"startswith", [](Context&, const Value& s, Arguments& a) { return affix(s, a, true); }},
    {"strip",
     [](Context&, const Value& s, Arguments& a) { return strip_side(s, a, "strip", Side::kBoth); },
     Marks::kKept},
    {"title",
     [](Context& c, const Value& s, Arguments&) { return to_case(c, text_of(s), to_title); }},
    {"upper",
     [](Context& c, const Value& s, Arguments&) { return to_case(c, text_of(s), to_upper); }},
});

// Dicts -------------------------------------------------------------------------------------

enum class Entry { kKey, kValue, kBoth };

Value dict_view(const Value& self, Entry entry) {
  Items items;
  for (const auto& [key, value] : self.dict()->entries) {
    items.push_back(entry == Entry::kKey     ? key
                    : entry == Entry::kValue ? value
                                             : Value::tuple({key, value}));
  }
  return Value::sequence(SequenceKind::kView, std::move(items));
}

constexpr auto kDictMethods = std::to_array<NamedMethod>({
    {"get",
     [](Context& c, const Value& s, Arguments& a) {
       const Bound bound(a, "get", {"key", "default"}, 1);
       if (const Value* found = s.dict()->find(*bound[0], c.budget)) return *found;
       return bound[1] == nullptr ? Value::none() : *bound[1];
     }},
    {"items", [](Context&, const Value& s, Arguments&) { return dict_view(s, Entry::kBoth); }},
    {"keys", [](Context&, const Value& s, Arguments&) { return dict_view(s, Entry::kKey); }},
    {"values", [](Context&, const Value& s, Arguments&) { return dict_view(s, Entry::kValue); }},
});

// Methods that Python has and that change their value, which a template may not.
constexpr auto kChangingDict =
    std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
constexpr auto kChangingList = std::to_array<std::string_view>(
    {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
template <size_t N>
const NamedMethod* find_in(const std::array<NamedMethod, N>& methods, std::string_view name) {
  const auto found = std::lower_bound(
      methods.begin(), methods.end(), name,
      [](const NamedMethod& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != methods.end() && found->name == name ? &*found : nullptr;
}

template <size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value refused(const Value& value, std::string_view name) {
  return Value::undefined(
      fmt::format("{}.{}: a template cannot change its values", type_name(value), name));
}

// Most methods of a string read the strings they are given.
void charge_texts(Context& context, const Value& self, const Arguments& arguments, bool searches) {
  if (self.string() == nullptr) return;
  const auto charge = [&](const Value& argument) {
    if (argument.string() == nullptr) return;
    context.budget.charge(weight(argument));
    if (searches) {
      context.budget.charge_search(text_of(self).size(), argument.string()->size());
    }
  };
  for (const Value& argument : arguments.positional) charge(argument);
  for (const auto& [name, argument] : arguments.named) charge(argument);
}

}  // namespace

std::vector<std::string_view> string_method_names() {
  std::vector<std::string_view> names;
  for (const NamedMethod& method : kStringMethods) names.push_back(method.name);
  return names;
}

std::optional<Value> find_method(Context& context, const Value& value, std::string_view name) {
  const NamedMethod* method = nullptr;
  if (value.string() != nullptr) {
    method = find_in(kStringMethods, name);
  } else if (value.dict() != nullptr) {
    method = find_in(kDictMethods, name);
    if (among(kChangingDict, name)) return refused(value, name);
  } else if (const Sequence* sequence = value.sequence(); sequence != nullptr &&
                                                          sequence->kind == SequenceKind::kList &&
                                                          among(kChangingList, name)) {
    return refused(value, name);
  }
  if (method == nullptr) return std::nullopt;
  Object object;
  object.type = "method";
  object.name = name;
  object.depth = value.depth() + 1;
  // They look for a string within another; replace() charges for itself.
  const bool searches = name == "rsplit" || name == "split";
  object.call = [&context, method, value, searches](Arguments& arguments) {
    context.budget.charge(weight(value));
    charge_texts(context, value, arguments, searches);
    const bool untrusted = method->marks == Marks::kWhole && value.string() != nullptr &&
                           (value.untrusted() || arguments.untrusted());
    Value result = method->method(context, value, arguments);
    return untrusted ? distrust(result) : result;
  };
  return Value::object(std::move(object));
}

}  // namespace dovetail::text::jinja
