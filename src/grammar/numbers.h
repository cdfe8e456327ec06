#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"

namespace dovetail::grammar {

// A decimal number without exponent: (negative ? - : +) whole.fraction, with no leading zeros but
// for a lone one and no trailing zeros in the fraction.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// The number as it is written in its shortest form.
Decimal decimal_of(const nlohmann::ordered_json& number);
// < 0, 0, > 0
int compare(const Decimal& a, const Decimal& b);

// Divisors that compile_range() can keep: up to kMaxDivisor units of their last decimal place.
constexpr std::uint32_t kMaxDivisor = 1024;
bool is_divisor(const Decimal& number);
bool is_multiple(const Decimal& number, const Decimal& divisor);  // is_divisor(divisor)

struct Bound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  bool integer = false;
  std::optional<Bound> low;
  std::optional<Bound> high;
  std::vector<Decimal> divisors;  // the number is a multiple of each; is_divisor()
};

// The canonical writings of the numbers in the range. Integers: those that fit 64 bits with sign,
// without exponent and -0. Others: up to 20 digits before and 24 after the point, and without
// bounds an exponent after one digit before the point, below 1e308, so that every one can be read
// back as a double. Where a bound is exclusive or there are divisors, without exponent and with at
// most 15 digits in all, so that none is rounded to what is not in the range.
Result<Automaton> compile_range(const NumberRange& range, std::string_view where, Work& work);

}  // namespace dovetail::grammar
