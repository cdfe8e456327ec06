#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/marked_text.h"

namespace dovetail::text::jinja {

// What the layers throw at each other. It never leaves this engine: parse_template() and
// render_template() turn it into an Error with line and column.
struct JinjaError {
  ErrorKind kind = ErrorKind::kInvalid;
  std::string message;
  std::optional<size_t> offset;  // byte in the source; the interpreter fills in its own if absent
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw JinjaError{ErrorKind::kInvalid, fmt::format(format, std::forward<Args>(args)...), {}};
}

// Longest string (and output) a template may make, in bytes.
inline constexpr size_t kMaxStringBytes = size_t{16} << 20;
inline void check_size(size_t bytes) {
  if (bytes > kMaxStringBytes) raise("a string grows beyond {} bytes", kMaxStringBytes);
}
// Deepest nesting of lists and dicts.
inline constexpr int kMaxValueDepth = 200;
// Steps of one rendering: one per node evaluated, one per element touched, one per 256 bytes read
// and one per 64 bytes made. Bounds time and, since every byte made was charged, memory.
inline constexpr uint64_t kMaxSteps = 10'000'000;
// As Jinja's sandbox has it.
inline constexpr int64_t kMaxRange = 100'000;

// What is left of a rendering's steps; throws when they are used up.
class Budget {
 public:
  void charge(uint64_t steps) {
    if (steps > left_) {
      left_ = 0;
      raise("more than {} steps: the template does too much work", kMaxSteps);
    }
    left_ -= steps;
  }
  // Looking for one text within another may compare each byte of the one with each of the other.
  void charge_search(size_t text_bytes, size_t wanted_bytes) {
    if (wanted_bytes <= text_bytes) charge((text_bytes / 32) * (wanted_bytes / 32));
  }

 private:
  uint64_t left_ = kMaxSteps;
};

class Value;
using Items = std::vector<Value>;

struct None {};
// `why` says what was missing; it is the error of whatever cannot take an undefined value.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

// Everything with a fixed order of elements that never change.
// A view is what a dict's keys(), values() and items() give.
enum class SequenceKind { kList, kTuple, kRange, kView };
struct Sequence;
struct Dict;
struct Generator;
struct Namespace;
struct Object;

// Where a string of the variables is.
struct Place {
  std::string_view variable;
  size_t index = 0;      // in the variable, where that is a list
  std::string_view key;  // in the dict that holds it; empty in a list
  int depth = 0;         // how many lists and dicts hold it
};
// Says which bytes of a string of the variables are untrusted; keeps its text.
using Mark = std::function<MarkedText(const Place& place, const std::string& text)>;

// A value as Python has it. Cheap to copy; strings, sequences and dicts are immutable and shared.
// Strings keep which of their bytes are untrusted; nothing but their text counts in comparisons.
class Value {
 public:
  using String = std::shared_ptr<const MarkedText>;
  using Storage =
      std::variant<Undefined, None, bool, int64_t, double, String, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Generator>,
                   std::shared_ptr<Namespace>, std::shared_ptr<Object>>;

  Value() = default;  // undefined
  explicit Value(Storage storage) : storage_(std::move(storage)) {}

  static Value none() { return Value(Storage(None{})); }
  static Value undefined(std::string why);
  static Value of(bool value) { return Value(Storage(value)); }
  static Value of(int64_t value) { return Value(Storage(value)); }
  static Value of(size_t value) { return of(static_cast<int64_t>(value)); }
  static Value of(double value) { return Value(Storage(value)); }
  static Value of(std::string value) { return of(MarkedText::trusted(std::move(value))); }
  static Value of(MarkedText value);
  static Value of(std::string_view value) { return of(std::string(value)); }
  static Value of(const char* value) { return of(std::string(value)); }
  static Value list(Items items) { return sequence(SequenceKind::kList, std::move(items)); }
  static Value tuple(Items items) { return sequence(SequenceKind::kTuple, std::move(items)); }
  // Throws when it would nest deeper than kMaxValueDepth; so do the others below.
  static Value sequence(SequenceKind kind, Items items);
  static Value dict(std::vector<std::pair<Value, Value>> entries, Budget& budget);
  // Yields its items once, as a Python generator does.
  static Value generator(Items items);
  static Value object(Object object);
  // Copies a JSON value; fails for integers that 64 signed bits cannot hold. Without `mark`
  // nothing is untrusted; with it, keys are and other strings as it says.
  static Value from_json(const nlohmann::ordered_json& json, const Mark& mark = {},
                         const Place& place = {});

  const Storage& storage() const { return storage_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  const std::string* string() const;  // null where it is something else; so the others below
  const MarkedText* marked() const;   // a string with its marks
  const Sequence* sequence() const;
  const Dict* dict() const;
  Generator* generator() const;
  Namespace* name_space() const;
  Object* object() const;
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const double* real() const { return std::get_if<double>(&storage_); }
  // Integers and booleans, which Python counts as integers.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;

  int depth() const;
  // Whether a string in it, however deep, has untrusted bytes. Namespaces change: they count as
  // untrusted.
  bool untrusted() const;

 private:
  Storage storage_;
};

struct Sequence {
  SequenceKind kind;
  Items items;
  int depth;
  bool untrusted;
};

// Entries in the order they were first set.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string_view, size_t>
      strings;  // into `entries`, for keys that are strings
  int depth = 1;
  bool untrusted = false;

  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;
};

struct Generator {
  Items items;
  size_t next = 0;
  int depth;
  bool untrusted;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;

  bool untrusted() const;
};

// Functions, methods, macros, loops. `call` and `attribute` may be empty.
struct Object {
  std::string type;  // as it stands in error messages
  std::string name;
  int depth = 1;
  std::function<Value(Arguments&)> call;
  std::function<std::optional<Value>(std::string_view)> attribute;
};

// Python's name of the value's type.
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
// str(value): what {{ }} prints. Both throw beyond kMaxStringBytes. What is no string is untrusted
// as a whole where it holds untrusted bytes.
MarkedText to_text(const Value& value);
MarkedText repr(const Value& value);
// The value with all strings in it untrusted as a whole.
Value distrust(const Value& value);
std::string float_text(double value);

bool equal(const Value& left, const Value& right, Budget& budget);
// Python's <, named as `op` in the error for types that have no order.
bool less(const Value& left, const Value& right, Budget& budget, std::string_view op = "<");
bool contains(const Value& container, const Value& item, Budget& budget);

// What a loop over the value sees; a generator is used up by it. Throws for what has no elements.
Items iterate(const Value& value, Budget& budget);
// len(value).
int64_t length_of(const Value& value);
// Elements or bytes, in steps: what touching the whole value costs.
uint64_t weight(const Value& value);

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo };
std::string_view spelling(BinaryOp op);
Value arithmetic(BinaryOp op, const Value& left, const Value& right);
Value negate(const Value& value);

// value[start:stop:step]; None or undefined bounds are left out ones.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);

}  // namespace dovetail::text::jinja
