// What filters, tests, methods and functions have in common, and the functions and tests.
#include "text/jinja_builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

Value function(std::string_view name, std::function<Value(Arguments&)> body) {
  Object object;
  object.type = "function";
  object.name = name;
  object.call = std::move(body);
  return Value::object(std::move(object));
}

// Functions ---------------------------------------------------------------------------------

Value range(Arguments& arguments) {
  const Bound bound(arguments, "range", {"start", "stop", "step"}, 1);
  for (size_t i = 0; i < 3; ++i) {
    if (bound[i] != nullptr && !bound[i]->integer()) {
      raise("'{}' object cannot be interpreted as an integer", type_name(*bound[i]));
    }
  }
  const int64_t start = bound[1] == nullptr ? 0 : bound.integer(0, 0);
  const int64_t stop = bound[1] == nullptr ? bound.integer(0, 0) : bound.integer(1, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  const double count = std::ceil((static_cast<double>(stop) - static_cast<double>(start)) /
                                 static_cast<double>(step));
  if (count > static_cast<double>(kMaxRange)) {
    raise("range too big: expected at most {} elements", kMaxRange);
  }
  Items items;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    items.push_back(Value::of(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::sequence(SequenceKind::kRange, std::move(items));
}

// The entries that dict(...) and namespace(...) start from: those of another dict, and named ones.
std::vector<std::pair<Value, Value>> entries_of(Context& context, Arguments& arguments,
                                                std::string_view name) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) raise("{} expected at most 1 argument", name);
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional.front();
    if (given.dict() == nullptr) raise("{}: expected a dict, found '{}'", name, type_name(given));
    entries = given.dict()->entries;
  }
  for (auto& [key, value] : arguments.named) entries.emplace_back(Value::of(key), value);
  context.budget.charge(entries.size());
  return entries;
}

Value make_namespace(Context& context, Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  // By way of a dict, so that a name given twice counts once.
  const Value dict = Value::dict(entries_of(context, arguments, "namespace"), context.budget);
  for (const auto& [key, value] : dict.dict()->entries) {
    if (key.string() == nullptr)
      raise("namespace: expected names, found a key of type '{}'", type_name(key));
    space->attributes.emplace_back(*key.string(), value);
  }
  context.namespaces.push_back(space);
  return Value(Value::Storage(std::move(space)));
}

Value strftime_now(const Context& context, Arguments& arguments) {
  const Bound bound(arguments, "strftime_now", {"format"}, 1);
  const std::string format = bound.string(0, "");
  if (format.empty()) return Value::of("");
  std::tm now{};
  if (context.now) {
    now = context.now();
  } else {
    const std::time_t seconds =
        std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    if (localtime_r(&seconds, &now) == nullptr) raise("the local time is not known");
  }
  // strftime cannot tell an empty result from one that does not fit: a space keeps it from empty.
  const std::string padded = format + " ";
  std::vector<char> buffer(padded.size() * 32 + 256);
  const size_t size = std::strftime(buffer.data(), buffer.size(), padded.c_str(), &now);
  if (size == 0)
    raise("strftime_now: the result of a format of {} bytes is too long", format.size());
  const Value text = Value::of(std::string(buffer.data(), size - 1));
  return arguments.untrusted() ? distrust(text) : text;
}

// Tests -------------------------------------------------------------------------------------

int64_t whole(const Value& value, std::string_view test) {
  if (const auto number = value.integer()) return *number;
  raise("test '{}': expected an integer, found '{}'", test, type_name(value));
}

const Value& only(Arguments& arguments, std::string_view test) {
  return *Bound(arguments, test, {"other"}, 1)[0];
}

struct NamedTest {
  std::string_view name;
  Test test;
};

bool is_equal(Context& c, const Value& v, Arguments& a) {
  return equal(v, only(a, "eq"), c.budget);
}
bool is_unequal(Context& c, const Value& v, Arguments& a) {
  return !equal(v, only(a, "ne"), c.budget);
}

constexpr auto kTests = std::to_array<NamedTest>({
    {"!=", is_unequal},
    {"==", is_equal},
    {"boolean", [](Context&, const Value& v, Arguments&) { return v.boolean() != nullptr; }},
    {"defined", [](Context&, const Value& v, Arguments&) { return !v.is_undefined(); }},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"even", [](Context&, const Value& v, Arguments&) { return whole(v, "even") % 2 == 0; }},
    {"false", [](Context&, const Value& v, Arguments&) { return v.boolean() && !*v.boolean(); }},
    {"float", [](Context&, const Value& v, Arguments&) { return v.real() != nullptr; }},
    {"ge",
     [](Context& c, const Value& v, Arguments& a) {
       const Value& other = only(a, "ge");
       return less(other, v, c.budget, ">=") || equal(v, other, c.budget);
     }},
    {"gt",
     [](Context& c, const Value& v, Arguments& a) { return less(only(a, "gt"), v, c.budget, ">"); }},
    {"in",
     [](Context& c, const Value& v, Arguments& a) { return contains(only(a, "in"), v, c.budget); }},
    {"integer",
     [](Context&, const Value& v, Arguments&) { return v.integer() && v.boolean() == nullptr; }},
    {"iterable",
     [](Context&, const Value& v, Arguments&) {
       return v.is_undefined() || v.string() || v.sequence() || v.dict() || v.generator();
     }},
    {"le",
     [](Context& c, const Value& v, Arguments& a) {
       const Value& other = only(a, "le");
       return less(v, other, c.budget, "<=") || equal(v, other, c.budget);
     }},
    {"lt", [](Context& c, const Value& v, Arguments& a) { return less(v, only(a, "lt"), c.budget); }},
    {"mapping", [](Context&, const Value& v, Arguments&) { return v.dict() != nullptr; }},
    {"ne", is_unequal},
    {"none", [](Context&, const Value& v, Arguments&) { return v.is_none(); }},
    {"number", [](Context&, const Value& v, Arguments&) { return v.number().has_value(); }},
    {"odd", [](Context&, const Value& v, Arguments&) { return whole(v, "odd") % 2 != 0; }},
    {"sequence",
     [](Context&, const Value& v, Arguments&) {
       if (const Sequence* held = v.sequence()) return held->kind != SequenceKind::kView;
       return v.is_undefined() || v.string() != nullptr || v.dict() != nullptr;
     }},
    {"string", [](Context&, const Value& v, Arguments&) { return v.string() != nullptr; }},
    {"true", [](Context&, const Value& v, Arguments&) { return v.boolean() && *v.boolean(); }},
    {"undefined", [](Context&, const Value& v, Arguments&) { return v.is_undefined(); }},
});

[[noreturn]] void raise_undefined(const Value& value) {
  const auto& missing = std::get<Undefined>(value.storage());
  raise("{}", missing.why == nullptr ? "the value is undefined" : *missing.why);
}

// The attribute of a value that is not one of its items.
std::optional<Value> own_attribute(Context& context, const Value& value, std::string_view name) {
  if (Namespace* space = value.name_space()) {
    if (const Value* found = space->find(name)) return *found;
    return std::nullopt;
  }
  if (const Object* object = value.object()) {
    return object->attribute ? object->attribute(name) : std::nullopt;
  }
  return find_method(context, value, name);
}

std::optional<Value> own_item(Context& context, const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(key, context.budget)) return *found;
    return std::nullopt;
  }
  const auto index = key.integer();
  if (!index) return std::nullopt;
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->kind == SequenceKind::kView) return std::nullopt;
    const auto size = static_cast<int64_t>(sequence->items.size());
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return std::nullopt;
    return sequence->items[static_cast<size_t>(at)];
  }
  if (const std::string* text = value.string()) {
    const std::vector<uint32_t> starts = offsets(*text);
    const auto size = static_cast<int64_t>(starts.size()) - 1;
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return std::nullopt;
    const auto place = static_cast<size_t>(at);
    return Value::of(value.marked()->part(
        std::string_view(*text).substr(starts[place], starts[place + 1] - starts[place])));
  }
  return std::nullopt;
}

Value missing_attribute(const Value& value, std::string_view name) {
  std::string why = fmt::format("'{}' object has no attribute '{}'", type_name(value), name);
  if (value.string() != nullptr) {
    why += fmt::format("; valid: {}", fmt::join(string_method_names(), ", "));
  }
  return Value::undefined(std::move(why));
}

}  // namespace

std::optional<Value> find_function(Context& context, std::string_view name) {
  if (name == "range") return function(name, range);
  if (name == "dict") {
    return function(name, [&context](Arguments& arguments) {
      return Value::dict(entries_of(context, arguments, "dict"), context.budget);
    });
  }
  if (name == "namespace") {
    return function(name, [&](Arguments& given) { return make_namespace(context, given); });
  }
  if (name == "raise_exception") {
    return function(name, [](Arguments& arguments) -> Value {
      const Bound bound(arguments, "raise_exception", {"message"}, 1);
      raise("{}", to_text(*bound[0]).text);
    });
  }
  if (name == "strftime_now") {
    return function(name, [&](Arguments& arguments) { return strftime_now(context, arguments); });
  }
  return std::nullopt;
}

Test find_test(std::string_view name) {
  const auto found = std::lower_bound(
      kTests.begin(), kTests.end(), name,
      [](const NamedTest& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != kTests.end() && found->name == name ? found->test : nullptr;
}

std::vector<std::string_view> filter_names() {
  std::vector<std::string_view> names;
  for (const auto filters : {scalar_filters(), sequence_filters()}) {
    for (const NamedFilter& filter : filters) names.push_back(filter.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string_view> test_names() {
  std::vector<std::string_view> names;
  for (const NamedTest& test : kTests) names.push_back(test.name);
  return names;
}

JinjaError unknown_filter(std::string_view name, std::optional<size_t> offset) {
  return {ErrorKind::kUnsupported,
          fmt::format("there is no filter '{}'; valid: {}", name, fmt::join(filter_names(), ", ")),
          offset};
}

JinjaError unknown_test(std::string_view name, std::optional<size_t> offset) {
  return {ErrorKind::kUnsupported,
          fmt::format("there is no test '{}'; valid: {}", name, fmt::join(test_names(), ", ")),
          offset};
}

Value apply_filter(Context& context, std::string_view name, const Value& input,
                   Arguments& arguments) {
  const NamedFilter* filter = find_filter(name);
  if (filter == nullptr) throw unknown_filter(name, std::nullopt);
  for (const Value& argument : arguments.positional) {
    if (argument.string() != nullptr) context.budget.charge(weight(argument));
  }
  for (const auto& [unused, argument] : arguments.named) {
    if (argument.string() != nullptr) context.budget.charge(weight(argument));
  }
  const bool untrusted =
      filter->marks == Marks::kWhole && (input.untrusted() || arguments.untrusted());
  Value value = filter->filter(context, input, arguments);
  return untrusted ? distrust(value) : value;
}

bool apply_test(Context& context, std::string_view name, const Value& input, Arguments& arguments) {
  const Test test = find_test(name);
  if (test == nullptr) throw unknown_test(name, std::nullopt);
  if (input.string() != nullptr) context.budget.charge(weight(input));
  return test(context, input, arguments);
}

Value get_attribute(Context& context, const Value& value, std::string_view name) {
  if (value.is_undefined()) raise_undefined(value);
  if (auto found = own_attribute(context, value, name)) return *std::move(found);
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return missing_attribute(value, name);
}

Value get_item(Context& context, const Value& value, const Value& key) {
  if (value.is_undefined()) raise_undefined(value);
  if (value.string() != nullptr) context.budget.charge(value.string()->size() / 64);
  if (auto found = own_item(context, value, key)) return *std::move(found);
  if (const std::string* name = key.string()) {
    if (auto found = own_attribute(context, value, *name)) return *std::move(found);
    return missing_attribute(value, *name);
  }
  return Value::undefined(
      fmt::format("'{}' object has no element {}", type_name(value), repr(key).text));
}

Value call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) raise_undefined(callee);
  const Object* object = callee.object();
  if (object == nullptr || !object->call) {
    raise("'{}' object is not callable", type_name(callee));
  }
  return object->call(arguments);
}

Value to_case(Context& context, std::string_view text, std::string (*mapping)(std::string_view)) {
  context.budget.charge(text.size() / 8);
  return Value::of(mapping(text));
}

Bound::Bound(Arguments& arguments, std::string_view function_name,
             std::initializer_list<std::string_view> parameters, size_t required)
    : function_(function_name), parameters_(parameters), values_(parameters.size(), nullptr) {
  if (arguments.positional.size() > parameters_.size()) {
    raise("{} takes at most {} argument(s), {} given", function_, parameters_.size(),
          arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    if (found == parameters_.end()) raise("{} has no argument '{}'", function_, name);
    auto& slot = values_[static_cast<size_t>(found - parameters_.begin())];
    if (slot != nullptr) raise("{} got multiple values for argument '{}'", function_, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) raise("{} lacks its argument '{}'", function_, parameters_[i]);
  }
}

bool Bound::flag(size_t index, bool otherwise) const {
  return values_[index] == nullptr ? otherwise : truthy(*values_[index]);
}

int64_t Bound::integer(size_t index, int64_t otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  if (const auto number = values_[index]->integer()) return *number;
  raise("{}: argument '{}' is of type '{}', expected an integer", function_, parameters_[index],
        type_name(*values_[index]));
}

std::string Bound::string(size_t index, std::string_view otherwise) const {
  if (values_[index] == nullptr) return std::string(otherwise);
  if (const std::string* text = values_[index]->string()) return *text;
  if (values_[index]->is_undefined()) raise_undefined(*values_[index]);
  raise("{}: argument '{}' is of type '{}', expected a string", function_, parameters_[index],
        type_name(*values_[index]));
}

}  // namespace dovetail::text::jinja
