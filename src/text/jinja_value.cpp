#include "text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

int checked_depth(int depth) {
  if (depth > kMaxValueDepth) raise("lists and dicts nest deeper than {}", kMaxValueDepth);
  return depth;
}

int depth_of(const Items& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return checked_depth(depth + 1);
}

bool any_untrusted(const Items& items) {
  return std::any_of(items.begin(), items.end(), [](const Value& v) { return v.untrusted(); });
}

void append_quoted(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const char32_t value = point.value;
    if (value == static_cast<char32_t>(quote) || value == '\\') {
      out += '\\';
      out += static_cast<char>(value);
    } else if (value == '\n') {
      out += "\\n";
    } else if (value == '\r') {
      out += "\\r";
    } else if (value == '\t') {
      out += "\\t";
    } else if (is_printable(value)) {
      out += text.substr(at, point.size);
    } else {
      const auto number = static_cast<uint32_t>(value);
      if (number < 0x100) {
        out += fmt::format("\\x{:02x}", number);
      } else if (number < 0x10000) {
        out += fmt::format("\\u{:04x}", number);
      } else {
        out += fmt::format("\\U{:08x}", number);
      }
    }
    at += point.size;
  }
  out += quote;
}

// `nesting` guards against namespaces that hold themselves: everything else is bounded already.
void append_repr(std::string& out, const Value& value, int nesting);

void append_joined(std::string& out, const Items& items, int nesting) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, item, nesting);
  }
}

void append_sequence(std::string& out, const Sequence& sequence, int nesting) {
  const Items& items = sequence.items;
  switch (sequence.kind) {
    case SequenceKind::kTuple:
      out += '(';
      append_joined(out, items, nesting);
      out += items.size() == 1 ? ",)" : ")";
      return;
    case SequenceKind::kList:
      out += '[';
      append_joined(out, items, nesting);
      out += ']';
      return;
    case SequenceKind::kRange:
    case SequenceKind::kView:
      raise("a range, keys(), values() and items() cannot be printed; make a list with |list");
  }
}

template <class Key>
void append_entries(std::string& out, const std::vector<std::pair<Key, Value>>& entries,
                    int nesting) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : entries) {
    if (!first) out += ", ";
    first = false;
    if constexpr (std::is_same_v<Key, Value>) {
      append_repr(out, key, nesting);
    } else {
      append_quoted(out, key);
    }
    out += ": ";
    append_repr(out, value, nesting);
  }
  out += '}';
}

void append_repr(std::string& out, const Value& value, int nesting) {
  check_size(out.size());
  if (nesting > 2 * kMaxValueDepth) raise("a value nests too deep to be printed");
  const int deeper = nesting + 1;
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (const bool* flag = value.boolean()) {
    out += *flag ? "True" : "False";
  } else if (const double* real = value.real()) {
    out += float_text(*real);
  } else if (const auto integer = value.integer()) {
    out += std::to_string(*integer);
  } else if (const std::string* text = value.string()) {
    append_quoted(out, *text);
  } else if (const Sequence* sequence = value.sequence()) {
    append_sequence(out, *sequence, deeper);
  } else if (const Dict* dict = value.dict()) {
    append_entries(out, dict->entries, deeper);
  } else if (const Namespace* space = value.name_space()) {
    out += "<Namespace ";
    append_entries(out, space->attributes, deeper);
    out += '>';
  } else if (value.generator() != nullptr) {
    // Python would print an address, which no template can want.
    raise("a generator cannot be printed; turn it into a list with |list or |join");
  } else {
    const Object* object = value.object();
    out += fmt::format("<{} '{}'>", object->type, object->name);
  }
  check_size(out.size());
}

}  // namespace

Value Value::undefined(std::string why) {
  return Value(Storage(Undefined{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::of(MarkedText value) {
  check_size(value.text.size());
  return Value(Storage(std::make_shared<const MarkedText>(std::move(value))));
}

Value Value::sequence(SequenceKind kind, Items items) {
  const int depth = depth_of(items);
  const bool untrusted = any_untrusted(items);
  return Value(Storage(
      std::make_shared<const Sequence>(Sequence{kind, std::move(items), depth, untrusted})));
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries, Budget& budget) {
  Dict dict;
  int depth = 0;
  for (auto& entry : entries) {
    Value& key = entry.first;
    Value& value = entry.second;
    depth = std::max({depth, key.depth(), value.depth()});
    dict.untrusted = dict.untrusted || key.untrusted() || value.untrusted();
    if (const std::string* text = key.string()) {
      const auto [at, fresh] = dict.strings.try_emplace(*text, dict.entries.size());
      if (!fresh) {
        dict.entries[at->second].second = std::move(value);
        continue;
      }
    } else {
      if (key.dict() != nullptr ||
          (key.sequence() != nullptr && key.sequence()->kind == SequenceKind::kList)) {
        raise("unhashable type: '{}'", type_name(key));
      }
      budget.charge(dict.entries.size());
      const auto same = std::find_if(dict.entries.begin(), dict.entries.end(),
                                     [&](const auto& e) { return equal(e.first, key, budget); });
      if (same != dict.entries.end()) {
        same->second = std::move(value);
        continue;
      }
    }
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  dict.depth = checked_depth(depth + 1);
  return Value(Storage(std::make_shared<const Dict>(std::move(dict))));
}

Value Value::generator(Items items) {
  const int depth = depth_of(items);
  const bool untrusted = any_untrusted(items);
  return Value(
      Storage(std::make_shared<Generator>(Generator{std::move(items), 0, depth, untrusted})));
}

Value Value::object(Object object) {
  checked_depth(object.depth);
  return Value(Storage(std::make_shared<Object>(std::move(object))));
}

Value Value::from_json(const nlohmann::ordered_json& json, const Mark& mark, const Place& place) {
  checked_depth(place.depth + 1);
  Place inner = place;
  ++inner.depth;
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return none();
    case nlohmann::json::value_t::boolean:
      return of(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return of(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) {
        raise("integer {} in the variables: expected at most {}", number, INT64_MAX);
      }
      return of(static_cast<int64_t>(number));
    }
    case nlohmann::json::value_t::number_float:
      return of(json.get<double>());
    case nlohmann::json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return mark ? of(mark(place, text)) : of(text);
    }
    case nlohmann::json::value_t::array: {
      Items items;
      items.reserve(json.size());
      inner.key = {};
      for (size_t i = 0; i < json.size(); ++i) {
        if (place.depth == 0) inner.index = i;
        items.push_back(from_json(json[i], mark, inner));
      }
      return list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      Dict dict;
      int deepest = 0;
      for (const auto& [key, item] : json.items()) {
        inner.key = key;
        Value name = mark ? of(MarkedText::from_outside(key)) : of(key);
        Value value = from_json(item, mark, inner);
        dict.untrusted = dict.untrusted || name.untrusted() || value.untrusted();
        deepest = std::max(deepest, value.depth());
        if (dict.strings.try_emplace(*name.string(), dict.entries.size()).second) {
          dict.entries.emplace_back(std::move(name), std::move(value));
        }
      }
      dict.depth = checked_depth(deepest + 1);
      return Value(Storage(std::make_shared<const Dict>(std::move(dict))));
    }
    default:
      raise("a variable holds {}, which is no JSON value", json.type_name());
  }
}

const std::string* Value::string() const {
  const MarkedText* held = marked();
  return held == nullptr ? nullptr : &held->text;
}

const MarkedText* Value::marked() const {
  const auto* held = std::get_if<String>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

const Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

const Dict* Value::dict() const {
  const auto* held = std::get_if<std::shared_ptr<const Dict>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

Generator* Value::generator() const {
  const auto* held = std::get_if<std::shared_ptr<Generator>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

Namespace* Value::name_space() const {
  const auto* held = std::get_if<std::shared_ptr<Namespace>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

Object* Value::object() const {
  const auto* held = std::get_if<std::shared_ptr<Object>>(&storage_);
  return held == nullptr ? nullptr : held->get();
}

std::optional<int64_t> Value::integer() const {
  if (const auto* number = std::get_if<int64_t>(&storage_)) return *number;
  if (const bool* flag = boolean()) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* held = real()) return *held;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

int Value::depth() const {
  if (const Sequence* held = sequence()) return held->depth;
  if (const Dict* held = dict()) return held->depth;
  if (const Generator* held = generator()) return held->depth;
  if (const Object* held = object()) return held->depth;
  return 0;
}

bool Value::untrusted() const {
  if (const MarkedText* held = marked()) return !held->all_trusted();
  if (const Sequence* held = sequence()) return held->untrusted;
  if (const Dict* held = dict()) return held->untrusted;
  if (const Generator* held = generator()) return held->untrusted;
  return name_space() != nullptr;
}

bool Arguments::untrusted() const {
  return any_untrusted(positional) ||
         std::any_of(named.begin(), named.end(),
                     [](const auto& entry) { return entry.second.untrusted(); });
}

const Value* Dict::find(std::string_view key) const {
  const auto found = strings.find(key);
  return found == strings.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  if (const std::string* text = key.string()) return find(*text);
  if (strings.size() == entries.size()) return nullptr;
  for (const auto& [held, value] : entries) {
    if (equal(held, key, budget)) return &value;
  }
  return nullptr;
}

Value* Namespace::find(std::string_view name) {
  for (auto& [held, value] : attributes) {
    if (held == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* held = find(name)) {
    *held = std::move(value);
  } else {
    attributes.emplace_back(name, std::move(value));
  }
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.boolean() != nullptr) return "bool";
  if (value.integer()) return "int";
  if (value.real() != nullptr) return "float";
  if (value.string() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.generator() != nullptr) return "generator";
  if (value.name_space() != nullptr) return "Namespace";
  if (const Sequence* sequence = value.sequence()) {
    switch (sequence->kind) {
      case SequenceKind::kList:
        return "list";
      case SequenceKind::kTuple:
        return "tuple";
      case SequenceKind::kRange:
        return "range";
      case SequenceKind::kView:
        return "view of a dict";
    }
  }
  return value.object()->type;
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto number = value.number()) return *number != 0;
  if (const std::string* text = value.string()) return !text->empty();
  if (const Sequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

MarkedText to_text(const Value& value) {
  if (const MarkedText* text = value.marked()) return *text;
  if (value.is_undefined()) return {};
  return repr(value);
}

MarkedText repr(const Value& value) {
  std::string out;
  append_repr(out, value, 0);
  return value.untrusted() ? MarkedText::from_outside(std::move(out))
                           : MarkedText::trusted(std::move(out));
}

Value distrust(const Value& value) {
  if (const std::string* text = value.string()) return Value::of(MarkedText::from_outside(*text));
  if (const Sequence* sequence = value.sequence()) {
    Items items;
    items.reserve(sequence->items.size());
    for (const Value& item : sequence->items) items.push_back(distrust(item));
    return Value::sequence(sequence->kind, std::move(items));
  }
  return value;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view shortest(buffer, static_cast<size_t>(end.ptr - buffer));
  std::string out;
  if (shortest.front() == '-') {
    out = "-";
    shortest.remove_prefix(1);
  }
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* digits_end = shortest.data() + shortest.size();
  const char* exponent_start = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_start, digits_end, exponent);
  std::string digits(1, shortest[0]);
  if (e > 2) digits += shortest.substr(2, e - 2);
  // Python writes an exponent only below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

Items iterate(const Value& value, Budget& budget) {
  if (value.is_undefined()) return {};
  if (const Sequence* sequence = value.sequence()) {
    budget.charge(sequence->items.size());
    return sequence->items;
  }
  if (const Dict* dict = value.dict()) {
    budget.charge(dict->entries.size());
    Items keys;
    keys.reserve(dict->entries.size());
    for (const auto& [key, item] : dict->entries) keys.push_back(key);
    return keys;
  }
  if (Generator* generator = value.generator()) {
    budget.charge(generator->items.size());
    const size_t start = std::exchange(generator->next, generator->items.size());
    return {generator->items.begin() + static_cast<std::ptrdiff_t>(start), generator->items.end()};
  }
  if (const MarkedText* marked = value.marked()) {
    const std::string_view text = marked->text;
    budget.charge(text.size());
    Items letters;
    for (size_t at = 0; at < text.size();) {
      const size_t size = decode(text, at).size;
      letters.push_back(Value::of(marked->part(text.substr(at, size))));
      at += size;
    }
    return letters;
  }
  raise("'{}' object is not iterable", type_name(value));
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const std::string* text = value.string()) return static_cast<int64_t>(length(*text));
  if (const Sequence* sequence = value.sequence()) {
    return static_cast<int64_t>(sequence->items.size());
  }
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  raise("object of type '{}' has no len()", type_name(value));
}

uint64_t weight(const Value& value) {
  if (const std::string* text = value.string()) return text->size() / 256;
  if (const Sequence* sequence = value.sequence()) return sequence->items.size();
  if (const Dict* dict = value.dict()) return dict->entries.size();
  if (const Generator* generator = value.generator()) return generator->items.size();
  return 0;
}

}  // namespace dovetail::text::jinja
