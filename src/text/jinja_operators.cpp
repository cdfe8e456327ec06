// Arithmetic, comparison and slicing, as Python does them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_unicode.h"
#include "text/jinja_value.h"

namespace dovetail::text::jinja {
namespace {

[[noreturn]] void overflow(BinaryOp op, int64_t left, int64_t right) {
  raise("{} {} {} is beyond 64 bits", left, spelling(op), right);
}

void require_defined(const Value& value) {
  if (const auto* missing = std::get_if<Undefined>(&value.storage())) {
    raise("{}", missing->why == nullptr ? "the value is undefined" : *missing->why);
  }
}

int64_t floor_divide(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

double floor_modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

Value integer_arithmetic(BinaryOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(left, right, &result)) overflow(op, left, right);
      return Value::of(result);
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(left, right, &result)) overflow(op, left, right);
      return Value::of(result);
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(left, right, &result)) overflow(op, left, right);
      return Value::of(result);
    case BinaryOp::kDivide:
      if (right == 0) raise("division by zero");
      return Value::of(static_cast<double>(left) / static_cast<double>(right));
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo:
      if (right == 0) raise("integer division or modulo by zero");
      if (right == -1) {  // the one quotient that overflows
        if (op == BinaryOp::kModulo) return Value::of(int64_t{0});
        if (left == std::numeric_limits<int64_t>::min()) overflow(op, left, right);
        return Value::of(-left);
      }
      if (op == BinaryOp::kFloorDivide) return Value::of(floor_divide(left, right));
      return Value::of(left - floor_divide(left, right) * right);
  }
  raise("unknown operator");
}

Value real_arithmetic(BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::of(left + right);
    case BinaryOp::kSubtract:
      return Value::of(left - right);
    case BinaryOp::kMultiply:
      return Value::of(left * right);
    case BinaryOp::kDivide:
      if (right == 0) raise("float division by zero");
      return Value::of(left / right);
    case BinaryOp::kFloorDivide: {
      if (right == 0) raise("float floor division by zero");
      const double rest = floor_modulo(left, right);
      const double quotient = (left - rest) / right;
      const double whole = std::floor(quotient);
      return Value::of(quotient - whole > 0.5 ? whole + 1 : whole);
    }
    case BinaryOp::kModulo:
      if (right == 0) raise("float modulo by zero");
      return Value::of(floor_modulo(left, right));
  }
  raise("unknown operator");
}

[[noreturn]] void unsupported(BinaryOp op, const Value& left, const Value& right) {
  raise("unsupported operand type(s) for {}: '{}' and '{}'", spelling(op), type_name(left),
        type_name(right));
}

bool is_plain(const Value& value) {  // a list or tuple
  const Sequence* sequence = value.sequence();
  return sequence != nullptr &&
         (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple);
}

bool is_list(const Value& value) {
  return is_plain(value) && value.sequence()->kind == SequenceKind::kList;
}

Value repeat(const Value& value, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  if (const MarkedText* marked = value.marked()) {
    const std::string* text = &marked->text;
    if (count != 0 && text->size() > kMaxStringBytes / count) {
      raise("a string of {} bytes times {} is longer than {} bytes", text->size(), count,
            kMaxStringBytes);
    }
    MarkedText out;
    out.text.reserve(text->size() * count);
    if (!text->empty()) {
      for (size_t i = 0; i < count; ++i) out.append(*marked);
    }
    return Value::of(std::move(out));
  }
  const Items& items = value.sequence()->items;
  if (count != 0 && items.size() > static_cast<size_t>(kMaxRange) / count) {
    raise("a list of {} times {} has more than {} elements", items.size(), count, kMaxRange);
  }
  Items out;
  if (!items.empty()) {
    for (size_t i = 0; i < count; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return Value::sequence(is_list(value) ? SequenceKind::kList : SequenceKind::kTuple,
                         std::move(out));
}

std::string_view ordering_text(const Value& value) { return *value.string(); }

int compare_numbers(const Value& left, const Value& right) {
  if (const auto a = left.integer()) {
    if (const auto b = right.integer()) return *a < *b ? -1 : (*a > *b ? 1 : 0);
  }
  const double a = *left.number();
  const double b = *right.number();
  return a < b ? -1 : (a > b ? 1 : 0);
}

int64_t slice_index(const Value& value) {
  if (const auto index = value.integer()) return *index;
  raise("slice indices must be integers or None, not {}", type_name(value));
}

bool left_out(const Value& value) { return value.is_none() || value.is_undefined(); }

// The indices that value[start:stop:step] takes from `size` elements.
std::vector<size_t> slice_indices(size_t size, const Value& start, const Value& stop,
                                  const Value& step) {
  const auto count = static_cast<int64_t>(size);
  const int64_t stride = left_out(step) ? 1 : slice_index(step);
  if (stride == 0) raise("slice step cannot be zero");
  const int64_t low = stride < 0 ? -1 : 0;
  const int64_t high = stride < 0 ? count - 1 : count;
  const auto bound = [&](const Value& given, int64_t otherwise) {
    if (left_out(given)) return otherwise;
    int64_t index = slice_index(given);
    if (index < 0) index = index < -count ? low : index + count;
    return std::clamp(index, low, std::max(low, high));
  };
  const int64_t first = bound(start, stride < 0 ? high : low);
  const int64_t last = bound(stop, stride < 0 ? low : high);
  std::vector<size_t> indices;
  for (int64_t at = first; stride > 0 ? at < last : at > last;) {
    indices.push_back(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, stride, &at)) break;
  }
  return indices;
}

}  // namespace

std::string_view spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
  }
  return "?";
}

Value arithmetic(BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::kModulo && left.string() != nullptr) {
    raise("% does not format a string here: use '{{}} and {{}}'.format(...), or round()");
  }
  require_defined(left);
  require_defined(right);
  const auto left_integer = left.integer();
  const auto right_integer = right.integer();
  if (left_integer && right_integer) return integer_arithmetic(op, *left_integer, *right_integer);
  const auto left_number = left.number();
  const auto right_number = right.number();
  if (left_number && right_number) return real_arithmetic(op, *left_number, *right_number);
  const bool left_repeats = left.string() != nullptr || is_plain(left);
  const bool right_repeats = right.string() != nullptr || is_plain(right);
  if (op == BinaryOp::kMultiply) {
    if (left_repeats && right_integer) return repeat(left, *right_integer);
    if (right_repeats && left_integer) return repeat(right, *left_integer);
    if (left_repeats || right_repeats) {
      raise("can't multiply sequence by non-int of type '{}'",
            type_name(left_repeats ? right : left));
    }
  }
  if (op == BinaryOp::kAdd) {
    if (left.string() != nullptr) {
      if (right.string() == nullptr) {
        raise("can only concatenate str (not \"{}\") to str", type_name(right));
      }
      check_size(left.string()->size() + right.string()->size());
      MarkedText out;
      out.text.reserve(left.string()->size() + right.string()->size());
      out.append(*left.marked());
      out.append(*right.marked());
      return Value::of(std::move(out));
    }
    if (is_plain(left)) {
      if (!is_plain(right) || is_list(left) != is_list(right)) {
        raise("can only concatenate {0} (not \"{1}\") to {0}", type_name(left), type_name(right));
      }
      Items items = left.sequence()->items;
      items.insert(items.end(), right.sequence()->items.begin(), right.sequence()->items.end());
      return Value::sequence(is_list(left) ? SequenceKind::kList : SequenceKind::kTuple,
                             std::move(items));
    }
  }
  unsupported(op, left, right);
}

Value negate(const Value& value) {
  require_defined(value);
  if (const auto integer = value.integer()) {
    if (*integer == std::numeric_limits<int64_t>::min()) raise("-({}) is beyond 64 bits", *integer);
    return Value::of(-*integer);
  }
  if (const double* real = value.real()) return Value::of(-*real);
  raise("bad operand type for unary -: '{}'", type_name(value));
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.charge(1);
  if (left.number() && right.number()) {
    return compare_numbers(left, right) == 0 && *left.number() == *left.number() &&
           *right.number() == *right.number();
  }
  if (left.storage().index() != right.storage().index()) return false;
  if (left.is_none() || left.is_undefined()) return true;
  if (const std::string* text = left.string()) {
    return text->size() == right.string()->size() && *text == *right.string();
  }
  if (const Sequence* a = left.sequence()) {
    const Sequence* b = right.sequence();
    const bool same_type = type_name(left) == type_name(right);
    if (!same_type || a->items.size() != b->items.size()) return false;
    if (a == b) return true;
    for (size_t i = 0; i < a->items.size(); ++i) {
      if (!equal(a->items[i], b->items[i], budget)) return false;
    }
    return true;
  }
  if (const Dict* a = left.dict()) {
    const Dict* b = right.dict();
    if (a->entries.size() != b->entries.size()) return false;
    if (a == b) return true;
    for (const auto& [key, value] : a->entries) {
      budget.charge(1);
      const Value* other = b->find(key, budget);
      if (other == nullptr || !equal(value, *other, budget)) return false;
    }
    return true;
  }
  if (left.generator() != nullptr) return left.generator() == right.generator();
  if (left.name_space() != nullptr) return left.name_space() == right.name_space();
  return left.object() == right.object();
}

bool less(const Value& left, const Value& right, Budget& budget, std::string_view op) {
  budget.charge(1);
  require_defined(left);
  require_defined(right);
  if (left.number() && right.number()) return compare_numbers(left, right) < 0;
  if (left.string() != nullptr && right.string() != nullptr) {
    // Byte order of UTF-8 is code point order.
    return ordering_text(left) < ordering_text(right);
  }
  if (is_plain(left) && is_plain(right) && is_list(left) == is_list(right)) {
    const Items& a = left.sequence()->items;
    const Items& b = right.sequence()->items;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equal(a[i], b[i], budget)) return less(a[i], b[i], budget, op);
    }
    return a.size() < b.size();
  }
  // a > b is asked as b < a.
  const bool swapped = op.front() == '>';
  raise("'{}' not supported between instances of '{}' and '{}'", op,
        type_name(swapped ? right : left), type_name(swapped ? left : right));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (const std::string* text = container.string()) {
    const std::string* wanted = item.string();
    if (wanted == nullptr) {
      require_defined(item);
      raise("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    budget.charge(text->size() / 256);
    budget.charge_search(text->size(), wanted->size());
    return text->find(*wanted) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    return dict->find(item, budget) != nullptr;
  }
  if (container.is_undefined()) return false;
  if (container.sequence() == nullptr && container.generator() == nullptr) {
    raise("argument of type '{}' is not iterable", type_name(container));
  }
  const Items items = iterate(container, budget);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& held) { return equal(held, item, budget); });
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step) {
  require_defined(value);
  if (const std::string* text = value.string()) {
    const std::vector<uint32_t> starts = offsets(*text);
    MarkedText out;
    const std::vector<size_t> indices = slice_indices(starts.size() - 1, start, stop, step);
    for (size_t i = 0; i < indices.size();) {
      size_t end = i + 1;  // neighbours are taken together
      while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
      const uint32_t first = starts[indices[i]];
      out.append(*value.marked(), first, starts[indices[end - 1] + 1] - first);
      i = end;
    }
    return Value::of(std::move(out));
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || (!is_plain(value) && sequence->kind != SequenceKind::kRange)) {
    raise("'{}' object cannot be sliced", type_name(value));
  }
  Items items;
  for (const size_t index : slice_indices(sequence->items.size(), start, stop, step)) {
    items.push_back(sequence->items[index]);
  }
  return Value::sequence(sequence->kind, std::move(items));
}

}  // namespace dovetail::text::jinja
