#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace dovetail::text::jinja {

// What one rendering shares with filters, tests, methods and functions.
struct Context {
  Budget budget;
  std::function<std::tm()> now;  // local time for strftime_now()
  // Every namespace made, so that those that hold themselves can be taken apart at the end.
  std::vector<std::shared_ptr<Namespace>> namespaces;
};

// How the untrusted bytes of what goes into a filter or a method come out of it.
enum class Marks {
  kKept,   // it marks what it makes itself
  kWhole,  // what it makes is untrusted as a whole where anything that goes in is
};

using Filter = Value (*)(Context&, const Value& input, Arguments&);
struct NamedFilter {
  std::string_view name;
  Filter filter;
  Marks marks = Marks::kWhole;
};
using Test = bool (*)(Context&, const Value& input, Arguments&);

// Null where there is none of the name.
const NamedFilter* find_filter(std::string_view name);
Test find_test(std::string_view name);
// What there is, sorted.
std::vector<std::string_view> filter_names();
std::vector<std::string_view> test_names();
std::vector<std::string_view> string_method_names();
JinjaError unknown_filter(std::string_view name, std::optional<size_t> offset);
JinjaError unknown_test(std::string_view name, std::optional<size_t> offset);
// Throw for an unknown name.
Value apply_filter(Context& context, std::string_view name, const Value& input, Arguments&);
bool apply_test(Context& context, std::string_view name, const Value& input, Arguments&);

// A global function (range, dict, namespace, raise_exception, strftime_now), or nothing. It refers
// to `context`.
std::optional<Value> find_function(Context& context, std::string_view name);

// A method of a string or dict, bound to it, or nothing. Methods that Python has and this engine
// lacks, or that would change the value, come back as undefined that says so.
std::optional<Value> find_method(Context& context, const Value& value, std::string_view name);

// value.name and value[key]: Jinja tries the attribute first for the one, the item for the other.
Value get_attribute(Context& context, const Value& value, std::string_view name);
Value get_item(Context& context, const Value& value, const Value& key);

// Calls any value that can be called.
Value call(const Value& callee, Arguments& arguments);

// A text in another case; mapping takes long, and is charged for.
Value to_case(Context& context, std::string_view text, std::string (*mapping)(std::string_view));

// Matches arguments to parameter names; those not given stay null. Throws, naming `function`, for
// too many, unknown, double or (of the first `required`) missing ones.
class Bound {
 public:
  Bound(Arguments& arguments, std::string_view function,
        std::initializer_list<std::string_view> parameters, size_t required = 0);

  const Value* operator[](size_t index) const { return values_[index]; }
  // Undefined where it was not given.
  Value value(size_t index) const { return values_[index] ? *values_[index] : Value(); }
  bool flag(size_t index, bool otherwise) const;
  int64_t integer(size_t index, int64_t otherwise) const;
  // Throws for anything but a string.
  std::string string(size_t index, std::string_view otherwise) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

// Filters of one value, and those that work on the elements of one.
std::span<const NamedFilter> scalar_filters();
std::span<const NamedFilter> sequence_filters();

}  // namespace dovetail::text::jinja
