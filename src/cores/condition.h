#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>

namespace dovetail::cores {

enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};

// Types of elements that a condition can read.
template <class T>
concept ConditionElement = std::same_as<T, std::int8_t> || std::same_as<T, std::int16_t> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, std::uint8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t> || std::same_as<T, float>;

// Whether a task is to run: an element of memory, read when all predecessors of the task have
// ended, before the task gets lanes. No other task writes the element until the task has ended.
// Where the condition does not hold, the task ends without a call of its function, and its
// successors go on. The submitter lists the element among the task's reads, so that the task waits
// for the element's writers, and keeps the element alive until the task ends. A small value.
class Condition {
 public:
  // Always holds.
  Condition() = default;

  // `*element compared_with value`, in the element's type (a NaN is only not equal). The element
  // needs no alignment.
  template <ConditionElement T>
  static Condition on(const T* element, Comparison comparison, T value) {
    Condition condition;
    condition.element_ = element;
    condition.comparison_ = comparison;
    condition.holds_ = &compare<T>;
    std::memcpy(condition.value_.data(), &value, sizeof value);
    return condition;
  }

  bool always() const { return element_ == nullptr; }
  bool holds() const { return always() || holds_(*this); }

 private:
  template <class T>
  static bool compare(const Condition& condition) {
    T element{}, value{};
    std::memcpy(&element, condition.element_, sizeof element);
    std::memcpy(&value, condition.value_.data(), sizeof value);
    switch (condition.comparison_) {
      case Comparison::kEqual:
        return element == value;
      case Comparison::kNotEqual:
        return element != value;
      case Comparison::kLess:
        return element < value;
      case Comparison::kLessOrEqual:
        return element <= value;
      case Comparison::kGreater:
        return element > value;
      case Comparison::kGreaterOrEqual:
        return element >= value;
    }
    return false;
  }

  const void* element_ = nullptr;
  bool (*holds_)(const Condition&) = nullptr;
  std::array<unsigned char, 8> value_{};
  Comparison comparison_ = Comparison::kEqual;
};

}  // namespace dovetail::cores
