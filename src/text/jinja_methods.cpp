// Methods of strings, dicts and sequences.
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
  Marks marks = Marks::kWhole;  // of strings; dicts and sequences hand on what they hold
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

std::vector<std::string_view> split_words_back(std::string_view text, int64_t most) {
  if (most < 0) return split_words(text, -1);
  std::vector<std::string_view> parts;
  text = strip(text, "", Side::kRight);
  while (!text.empty() && static_cast<int64_t>(parts.size()) < most) {
    size_t start = 0;
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = decode(text, at);
      at += point.size;
      if (is_space(point.value)) start = at;
    }
    parts.push_back(text.substr(start));
    text = strip(text.substr(0, start), "", Side::kRight);
  }
  if (!text.empty()) parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split(Context& context, const Value& self, Arguments& arguments, bool from_back) {
  const Bound bound(arguments, from_back ? "rsplit" : "split", {"sep", "maxsplit"});
  const int64_t most = bound.integer(1, -1);
  std::string_view text = text_of(self);
  if (bound[0] == nullptr || bound[0]->is_none()) {
    // From the back every part costs a walk over the text.
    if (from_back && most > 0) {
      context.budget.charge(text.size() / 64 *
                            static_cast<uint64_t>(std::min<int64_t>(most, kMaxRange)));
    }
    return texts(self, from_back ? split_words_back(text, most) : split_words(text, most));
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

Value partition(const Value& self, Arguments& arguments, bool from_back) {
  const Bound bound(arguments, from_back ? "rpartition" : "partition", {"sep"}, 1);
  const std::string separator = bound.string(0, "");
  if (separator.empty()) raise("empty separator");
  const std::string_view text = text_of(self);
  const size_t at = from_back ? text.rfind(separator) : text.find(separator);
  if (at == std::string_view::npos) {
    const Value empty = Value::of("");
    return from_back ? Value::tuple({empty, empty, self}) : Value::tuple({self, empty, empty});
  }
  const size_t behind = at + separator.size();
  return Value::tuple({part(self, text.substr(0, at)), part(self, text.substr(at, behind - at)),
                       part(self, text.substr(behind))});
}

// The part of `self` that optional start and end arguments (code points) select, and its first
// code point's index; nothing where start lies behind the end.
struct Part {
  std::string_view text;
  int64_t first;
};
std::optional<Part> part_of(const Value& self, const Bound& bound, size_t start_at) {
  const std::string_view text = text_of(self);
  const Value start = bound.value(start_at);
  const Value end = bound.value(start_at + 1);
  const bool has_start = !start.is_undefined() && !start.is_none();
  const bool has_end = !end.is_undefined() && !end.is_none();
  if (!has_start && !has_end) return Part{text, 0};
  const std::vector<uint32_t> starts = offsets(text);
  const auto size = static_cast<int64_t>(starts.size()) - 1;
  const auto place = [&](bool given, size_t index, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t at = bound.integer(index, 0);
    return at < 0 ? (at < -size ? 0 : at + size) : at;
  };
  const int64_t first = place(has_start, start_at, 0);
  const int64_t last = std::min(place(has_end, start_at + 1, size), size);
  if (first > size || first > last) return std::nullopt;
  const uint32_t from = starts[static_cast<size_t>(first)];
  return Part{text.substr(from, starts[static_cast<size_t>(last)] - from), first};
}

Value affix(const Value& self, Arguments& arguments, bool at_start) {
  const Bound bound(arguments, at_start ? "startswith" : "endswith", {"prefix", "start", "end"}, 1);
  Items wanted{*bound[0]};
  if (type_name(*bound[0]) == "tuple") wanted = bound[0]->sequence()->items;
  const auto part = part_of(self, bound, 1);
  for (const Value& candidate : wanted) {
    if (candidate.string() == nullptr) {
      raise("{} first arg must be str or a tuple of str, not {}",
            at_start ? "startswith" : "endswith", type_name(candidate));
    }
    if (!part) continue;
    if (at_start ? part->text.starts_with(text_of(candidate))
                 : part->text.ends_with(text_of(candidate))) {
      return Value::of(true);
    }
  }
  return Value::of(false);
}

enum class Search { kFind, kFindLast, kIndex, kCount };

Value search(const Value& self, Arguments& arguments, std::string_view name, Search search) {
  const Bound bound(arguments, name, {"sub", "start", "end"}, 1);
  const std::string wanted = bound.string(0, "");
  const auto part = part_of(self, bound, 1);
  if (search == Search::kCount) {
    if (!part) return Value::of(int64_t{0});
    if (wanted.empty()) return Value::of(length(part->text) + 1);
    int64_t count = 0;
    for (size_t at = part->text.find(wanted); at != std::string_view::npos;
         at = part->text.find(wanted, at + wanted.size())) {
      ++count;
    }
    return Value::of(count);
  }
  const bool from_back = search == Search::kFindLast;
  size_t at = std::string_view::npos;
  if (part) at = from_back ? part->text.rfind(wanted) : part->text.find(wanted);
  if (at != std::string_view::npos) {
    return Value::of(part->first + static_cast<int64_t>(length(part->text.substr(0, at))));
  }
  if (search == Search::kIndex) raise("substring not found");
  return Value::of(int64_t{-1});
}

template <class Holds>
Value every(const Value& self, const Holds& holds) {
  const std::string& text = text_of(self);
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    if (!holds(point.value)) return Value::of(false);
    at += point.size;
  }
  return Value::of(!text.empty());
}

// isupper() and islower(): some letter, and none of the other case.
Value cased(const Value& self, bool upper) {
  const std::string& text = text_of(self);
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    at += point.size;
    if (upper ? is_lower(point.value) : is_upper(point.value)) return Value::of(false);
    any = any || (upper ? is_upper(point.value) : is_lower(point.value));
  }
  return Value::of(any);
}

Value justify(const Value& self, Arguments& arguments, std::string_view name) {
  const Bound bound(arguments, name, {"width", "fillchar"}, 1);
  const std::string fill = bound.string(1, " ");
  if (length(fill) != 1) raise("the fill character must be exactly one character long");
  const std::string& text = text_of(self);
  const auto size = static_cast<int64_t>(length(text));
  const int64_t width = bound.integer(0, 0);
  if (width <= size) return self;
  if (width > static_cast<int64_t>(kMaxStringBytes / 4)) {
    raise("{}: width {} is more than {}", name, width, kMaxStringBytes / 4);
  }
  const int64_t missing = width - size;
  // Python leaves the odd one to the left where the width is odd.
  int64_t left = name == "rjust" ? missing : 0;
  if (name == "center") left = missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return Value::of(std::move(out));
}

Value zfill(const Value& self, Arguments& arguments) {
  const Bound bound(arguments, "zfill", {"width"}, 1);
  const std::string& text = text_of(self);
  const auto size = static_cast<int64_t>(length(text));
  const int64_t width = bound.integer(0, 0);
  if (width <= size) return self;
  if (width > static_cast<int64_t>(kMaxStringBytes)) raise("zfill: width {} is too large", width);
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return Value::of(text.substr(0, sign) + std::string(static_cast<size_t>(width - size), '0') +
                   text.substr(sign));
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

Value remove_affix(const Value& self, Arguments& arguments, bool at_start) {
  const Bound bound(arguments, at_start ? "removeprefix" : "removesuffix", {"affix"}, 1);
  const std::string affix_text = bound.string(0, "");
  std::string_view text = text_of(self);
  if (at_start && text.starts_with(affix_text)) text.remove_prefix(affix_text.size());
  if (!at_start && text.ends_with(affix_text)) text.remove_suffix(affix_text.size());
  return part(self, text);
}

Value string_replace(Context& context, const Value& self, Arguments& arguments) {
  return apply_filter(context, "replace", self, arguments);
}

constexpr auto kStringMethods = std::to_array<NamedMethod>({
    {"capitalize",
     [](Context&, const Value& s, Arguments&) { return Value::of(to_capitalized(text_of(s))); }},
    {"center", [](Context&, const Value& s, Arguments& a) { return justify(s, a, "center"); }},
    {"count",
     [](Context&, const Value& s, Arguments& a) { return search(s, a, "count", Search::kCount); }},
    {"endswith", [](Context&, const Value& s, Arguments& a) { return affix(s, a, false); }},
    {"find",
     [](Context&, const Value& s, Arguments& a) { return search(s, a, "find", Search::kFind); }},
    {"format",
     [](Context&, const Value& s, Arguments& a) { return Value::of(format_braces(*s.marked(), a)); },
     Marks::kKept},
    {"index",
     [](Context&, const Value& s, Arguments& a) { return search(s, a, "index", Search::kIndex); }},
    {"isalnum",
     [](Context&, const Value& s, Arguments&) {
       return every(s, [](char32_t c) { return is_alpha(c) || is_numeric(c); });
     }},
    {"isalpha", [](Context&, const Value& s, Arguments&) { return every(s, is_alpha); }},
    {"isdigit", [](Context&, const Value& s, Arguments&) { return every(s, is_digit); }},
    {"islower", [](Context&, const Value& s, Arguments&) { return cased(s, false); }},
    {"isspace", [](Context&, const Value& s, Arguments&) { return every(s, is_space); }},
    {"isupper", [](Context&, const Value& s, Arguments&) { return cased(s, true); }},
    {"join", join_method, Marks::kKept},
    {"ljust", [](Context&, const Value& s, Arguments& a) { return justify(s, a, "ljust"); }},
    {"lower", [](Context&, const Value& s, Arguments&) { return Value::of(to_lower(text_of(s))); }},
    {"lstrip",
     [](Context&, const Value& s, Arguments& a) { return strip_side(s, a, "lstrip", Side::kLeft); },
     Marks::kKept},
    {"partition", [](Context&, const Value& s, Arguments& a) { return partition(s, a, false); },
     Marks::kKept},
    {"removeprefix", [](Context&, const Value& s, Arguments& a) { return remove_affix(s, a, true); },
     Marks::kKept},
    {"removesuffix",
     [](Context&, const Value& s, Arguments& a) { return remove_affix(s, a, false); },
     Marks::kKept},
    {"replace", string_replace, Marks::kKept},
    {"rfind",
     [](Context&, const Value& s, Arguments& a) { return search(s, a, "rfind", Search::kFindLast); }},
    {"rjust", [](Context&, const Value& s, Arguments& a) { return justify(s, a, "rjust"); }},
    {"rpartition", [](Context&, const Value& s, Arguments& a) { return partition(s, a, true); },
     Marks::kKept},
    {"rsplit", [](Context& c, const Value& s, Arguments& a) { return split(c, s, a, true); },
     Marks::kKept},
    {"rstrip",
     [](Context&, const Value& s, Arguments& a) {
       return strip_side(s, a, "rstrip", Side::kRight);
     },
     Marks::kKept},
    {"split", [](Context& c, const Value& s, Arguments& a) { return split(c, s, a, false); },
     Marks::kKept},
    {"splitlines",
     [](Context&, const Value& s, Arguments& a) {
       const bool keep_ends = Bound(a, "splitlines", {"keepends"}).flag(0, false);
       return texts(s, split_lines(text_of(s), keep_ends));
     },
     Marks::kKept},
    {"startswith", [](Context&, const Value& s, Arguments& a) { return affix(s, a, true); }},
    {"strip",
     [](Context&, const Value& s, Arguments& a) { return strip_side(s, a, "strip", Side::kBoth); },
     Marks::kKept},
    {"swapcase",
     [](Context&, const Value& s, Arguments&) { return Value::of(to_swapped_case(text_of(s))); }},
    {"title", [](Context&, const Value& s, Arguments&) { return Value::of(to_title(text_of(s))); }},
    {"upper", [](Context&, const Value& s, Arguments&) { return Value::of(to_upper(text_of(s))); }},
    {"zfill", [](Context&, const Value& s, Arguments& a) { return zfill(s, a); }},
});

// Dicts and sequences -----------------------------------------------------------------------

Value dict_view(const Value& self, SequenceKind kind) {
  Items items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (kind == SequenceKind::kKeys) {
      items.push_back(key);
    } else if (kind == SequenceKind::kValues) {
      items.push_back(value);
    } else {
      items.push_back(Value::tuple({key, value}));
    }
  }
  return Value::sequence(kind, std::move(items));
}

constexpr auto kDictMethods = std::to_array<NamedMethod>({
    {"copy", [](Context&, const Value& s, Arguments&) { return s; }},
    {"get",
     [](Context& c, const Value& s, Arguments& a) {
       const Bound bound(a, "get", {"key", "default"}, 1);
       if (const Value* found = s.dict()->find(*bound[0], c.budget)) return *found;
       return bound[1] == nullptr ? Value::none() : *bound[1];
     }},
    {"items",
     [](Context&, const Value& s, Arguments&) { return dict_view(s, SequenceKind::kItems); }},
    {"keys",
     [](Context&, const Value& s, Arguments&) { return dict_view(s, SequenceKind::kKeys); }},
    {"values",
     [](Context&, const Value& s, Arguments&) { return dict_view(s, SequenceKind::kValues); }},
});

constexpr auto kListMethods = std::to_array<NamedMethod>({
    {"copy", [](Context&, const Value& s, Arguments&) { return s; }},
    {"count",
     [](Context& c, const Value& s, Arguments& a) {
       const Bound bound(a, "count", {"value"}, 1);
       int64_t count = 0;
       for (const Value& item : s.sequence()->items) {
         count += equal(item, *bound[0], c.budget) ? 1 : 0;
       }
       return Value::of(count);
     }},
    {"index",
     [](Context& c, const Value& s, Arguments& a) {
       const Bound bound(a, "index", {"value"}, 1);
       const Items& items = s.sequence()->items;
       for (size_t i = 0; i < items.size(); ++i) {
         if (equal(items[i], *bound[0], c.budget)) return Value::of(i);
       }
       raise("{} is not in the list", repr(*bound[0]).text);
     }},
});

// Methods that Python has: they change their value, which a template may not ...
constexpr auto kChangingDict =
    std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
constexpr auto kChangingList = std::to_array<std::string_view>(
    {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
// ... or nothing here does what they do.
constexpr auto kMissingString = std::to_array<std::string_view>(
    {"casefold", "encode", "expandtabs", "format_map", "isascii", "isdecimal", "isidentifier",
     "isnumeric", "isprintable", "istitle", "maketrans", "rindex", "translate"});

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

Value refused(const Value& value, std::string_view name, std::string_view why) {
  return Value::undefined(fmt::format("{}.{}: {}", type_name(value), name, why));
}

// Methods that look for a string within another; replace() charges for itself.
constexpr auto kSearching = std::to_array<std::string_view>(
    {"count", "find", "index", "partition", "rfind", "rpartition", "rsplit", "split"});

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

std::optional<Value> find_method(Context& context, const Value& value, std::string_view name) {
  constexpr std::string_view kImmutable = "a template cannot change its values";
  const NamedMethod* method = nullptr;
  if (value.string() != nullptr) {
    method = find_in(kStringMethods, name);
    if (method == nullptr && among(kMissingString, name)) {
      return refused(value, name, "the method is not supported");
    }
  } else if (value.dict() != nullptr) {
    method = find_in(kDictMethods, name);
    if (method == nullptr && among(kChangingDict, name)) return refused(value, name, kImmutable);
  } else if (value.sequence() != nullptr) {
    const SequenceKind kind = value.sequence()->kind;
    if (kind == SequenceKind::kList && among(kChangingList, name)) {
      return refused(value, name, kImmutable);
    }
    const bool has_methods =
        kind == SequenceKind::kList ||
        (name != "copy" && (kind == SequenceKind::kTuple || kind == SequenceKind::kRange));
    if (has_methods) method = find_in(kListMethods, name);
  }
  if (method == nullptr) return std::nullopt;
  Object object;
  object.type = "method";
  object.name = name;
  object.depth = value.depth() + 1;
  const bool searches = among(kSearching, name);
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
