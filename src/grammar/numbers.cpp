#include "grammar/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "grammar/determinize.h"
#include "grammar/mutation.h"
#include "grammar/regex.h"

namespace dovetail::grammar {
namespace {

constexpr std::string_view kIntegerRegex = "0|-?[1-9][0-9]{0,18}";
constexpr std::string_view kPlainRegex = "-?(?:0|[1-9][0-9]{0,19})(?:\\.[0-9]{1,24})?";
constexpr std::string_view kNumberRegex =
    "-?(?:0|[1-9][0-9]{0,19})(?:\\.[0-9]{1,24})?|"
    "-?[0-9](?:\\.[0-9]{1,24})?[eE](?:-[0-9]{1,3}|\\+?(?:[0-9]{1,2}|[0-2][0-9]{2}|30[0-7]))";
constexpr std::string_view kFifteenDigits = "-?(?:\\.?[0-9]){1,15}";

constexpr std::size_t kMaxWhole = 24;
constexpr std::size_t kMaxFraction = 100;

std::string any_digits(std::size_t count) { return fmt::format("[0-9]{{{}}}", count); }

// Regular expressions for magnitudes (without sign) against a bound, as alternatives.
std::string at_least(const Bound& bound) {
  const std::string& whole = bound.value.whole;
  const std::string& fraction = bound.value.fraction;
  const std::string any_fraction = "(?:\\.[0-9]+)?";
  std::string out = whole == "0" ? "[1-9][0-9]*" + any_fraction
                                 : fmt::format("[1-9][0-9]{{{},}}", whole.size()) + any_fraction;
  for (std::size_t i = 0; i < whole.size() && whole != "0"; ++i) {
    if (whole[i] == '9') continue;
    out += fmt::format("|{}[{}-9]{}{}", whole.substr(0, i), static_cast<char>(whole[i] + 1),
                       any_digits(whole.size() - i - 1), any_fraction);
  }
  if (fraction.empty()) {
    if (!bound.exclusive) return out + "|" + whole + any_fraction;
    return out + "|" + whole + "\\.[0-9]*[1-9][0-9]*";
  }
  for (std::size_t i = 0; i < fraction.size(); ++i) {
    if (fraction[i] == '9') continue;
    out += fmt::format("|{}\\.{}[{}-9][0-9]*", whole, fraction.substr(0, i),
                       static_cast<char>(fraction[i] + 1));
  }
  out +=
      fmt::format("|{}\\.{}{}", whole, fraction, bound.exclusive ? "[0-9]*[1-9][0-9]*" : "[0-9]*");
  return out;
}

std::string at_most(const Bound& bound) {
  const std::string& whole = bound.value.whole;
  const std::string& fraction = bound.value.fraction;
  const std::string any_fraction = "(?:\\.[0-9]+)?";
  std::string out;
  const auto add = [&](const std::string& alternative) {
    if (!out.empty()) out += '|';
    out += alternative;
  };
  if (whole.size() > 1) {
    add("0" + any_fraction);
    add(fmt::format("[1-9][0-9]{{0,{}}}", whole.size() - 2) + any_fraction);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const char lowest = i == 0 && whole.size() > 1 ? '1' : '0';
    if (whole[i] <= lowest) continue;
    add(fmt::format("{}[{}-{}]{}{}", whole.substr(0, i), lowest, static_cast<char>(whole[i] - 1),
                    any_digits(whole.size() - i - 1), any_fraction));
  }
  if (fraction.empty()) {
    if (!bound.exclusive) add(whole + "(?:\\.0+)?");
    return out;
  }
  add(whole);
  for (std::size_t i = 0; i < fraction.size(); ++i) {
    if (i > 0) add(whole + "\\." + fraction.substr(0, i));
    if (fraction[i] == '0') continue;
    add(fmt::format("{}\\.{}[0-{}][0-9]*", whole, fraction.substr(0, i),
                    static_cast<char>(fraction[i] - 1)));
  }
  if (!bound.exclusive) add(whole + "\\." + fraction + "0*");
  return out;
}

// The numbers on one side of a bound, with signs; empty where there are none.
std::string above(const Bound& low) {
  if (!low.value.negative) {
    // -0 and -0.0 are 0.
    const bool zero = low.value.is_zero() && !low.exclusive;
    return at_least(low) + (zero ? "|-0(?:\\.0+)?" : "");
  }
  const std::string negatives = at_most(low);
  return "[0-9].*" + (negatives.empty() ? "" : "|-(?:" + negatives + ")");
}

std::string below(const Bound& high) {
  if (high.value.negative) return "-(?:" + at_least(high) + ")";
  const std::string positives = at_most(high);
  // Below 0, exclusive: not -0 either.
  if (positives.empty()) return "-(?:" + at_least(high) + ")";
  return "-.*|" + positives;
}

constexpr std::size_t kMaxPlaces = 8;

// A divisor as a count of units of its last decimal place; 0 beyond kMaxDivisor.
std::uint32_t units_of(const Decimal& divisor) {
  std::uint32_t out = 0;
  for (const char digit : divisor.whole + divisor.fraction) {
    out = out * 10 + static_cast<std::uint32_t>(digit - '0');
    if (out > kMaxDivisor) return 0;
  }
  return out;
}

// The decimals, with any number of digits, that are multiples of a divisor: what is left of the
// digits so far is carried along; behind the divisor's last place, all digits are zeros.
Result<Automaton> multiples_of(const Decimal& divisor, std::string_view where, Work& work) {
  const std::uint32_t units = units_of(divisor);
  const std::size_t places = divisor.fraction.size();
  Nfa nfa(kMaxNfaStates, work.stop());
  const Nfa::State start = nfa.add_state();
  const Nfa::State end = nfa.add_state();
  // [places read + 1][rest]; 0: before the point.
  std::vector<std::vector<Nfa::State>> at(places + 2, std::vector<Nfa::State>(units));
  for (auto& row : at) {
    for (Nfa::State& state : row) state = nfa.add_state();
  }
  nfa.nothing(start, at[0][0]);
  nfa.bytes(start, {'-', '-'}, at[0][0]);
  for (std::size_t place = 0; place < places + 2; ++place) {
    for (std::uint32_t rest = 0; rest < units; ++rest) {
      const Nfa::State from = at[place][rest];
      std::uint32_t in_all = rest;
      for (std::size_t i = place == 0 ? 0 : place - 1; i < places; ++i) {
        in_all = in_all * 10 % units;
      }
      if (in_all == 0) nfa.nothing(from, end);
      if (place == 0) nfa.bytes(from, {'.', '.'}, at[1][rest]);
      if (place == places + 1) {
        if (rest == 0) nfa.bytes(from, {'0', '0'}, from);
        continue;
      }
      for (std::uint32_t digit = 0; digit < 10; ++digit) {
        const auto byte = static_cast<std::uint8_t>('0' + digit);
        nfa.bytes(from, {byte, byte}, at[place == 0 ? 0 : place + 1][(rest * 10 + digit) % units]);
      }
    }
  }
  const std::array<Rule, 1> rules = {{{start, end, std::string(where)}}};
  return determinize(nfa, rules, 0, where, work);
}

Bound whole_bound(std::string_view digits, bool negative) {
  return {{negative, std::string(digits), ""}, false};
}

}  // namespace

Decimal decimal_of(const nlohmann::ordered_json& number) {
  // The shortest digits that read back as the same number, with or without exponent.
  const std::string text =
      number.is_number_float() ? fmt::format("{}", number.get<double>()) : number.dump();
  Decimal out;
  std::string digits;
  long point = -1;
  std::size_t i = 0;
  if (text[0] == '-') {
    out.negative = true;
    i = 1;
  }
  long exponent = 0;
  for (; i < text.size(); ++i) {
    if (text[i] == '.') {
      point = static_cast<long>(digits.size());
    } else if (text[i] >= '0' && text[i] <= '9') {
      digits += text[i];
    } else {
      const std::size_t from = i + 1 < text.size() && text[i + 1] == '+' ? i + 2 : i + 1;
      std::from_chars(text.data() + from, text.data() + text.size(), exponent);
      break;
    }
  }
  if (point < 0) point = static_cast<long>(digits.size());
  point += exponent;
  if (point < 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  if (point > static_cast<long>(digits.size())) {
    digits.append(static_cast<std::size_t>(point) - digits.size(), '0');
  }
  out.whole = digits.substr(0, static_cast<std::size_t>(point));
  out.fraction = digits.substr(static_cast<std::size_t>(point));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  if (out.whole.empty()) out.whole = "0";
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int out = 0;
  if (a.whole.size() != b.whole.size()) {
    out = a.whole.size() < b.whole.size() ? -1 : 1;
  } else {
    out = a.whole.compare(b.whole);
    // Without trailing zeros, a shorter fraction that begins the longer is the smaller.
    if (out == 0) out = a.fraction.compare(b.fraction);
  }
  return a.negative ? -out : out;
}

bool is_divisor(const Decimal& number) {
  return !number.negative && units_of(number) > 0 && number.fraction.size() <= kMaxPlaces;
}

bool is_multiple(const Decimal& number, const Decimal& divisor) {
  if (number.fraction.size() > divisor.fraction.size()) return false;
  const std::string zeros(divisor.fraction.size() - number.fraction.size(), '0');
  const std::uint32_t units = units_of(divisor);
  std::uint32_t rest = 0;
  for (const char digit : number.whole + number.fraction + zeros) {
    rest = (rest * 10 + static_cast<std::uint32_t>(digit - '0')) % units;
  }
  return rest == 0;
}

Result<Automaton> compile_range(const NumberRange& asked, std::string_view where, Work& work) {
  NumberRange range = asked;
  for (std::optional<Bound>* bound : {&range.low, &range.high}) {
    if (!*bound) continue;
    Decimal& value = (*bound)->value;
    if (value.fraction.size() > kMaxFraction) {
      return fail(ErrorKind::kUnsupported, "{}: a bound with more than {} decimal places", where,
                  kMaxFraction);
    }
    // Beyond all that is written, all bounds are alike.
    if (value.whole.size() > kMaxWhole) {
      value = {value.negative, "1" + std::string(kMaxWhole, '0'), ""};
    }
  }
  if (mutated(Mutant::kBoundsIncluded)) {
    if (range.low) range.low->exclusive = false;
    if (range.high) range.high->exclusive = false;
  }
  const bool bounded = range.low || range.high || !range.divisors.empty();
  const auto texts_of = [&](std::string_view regex) {
    return compile_pattern(regex, Span::kWhole, Spelling::kPlain, where, work);
  };
  auto out = texts_of(range.integer ? kIntegerRegex : bounded ? kPlainRegex : kNumberRegex);
  const auto also = [&](const std::string& pattern) {
    if (!out) return;
    const auto part = texts_of(pattern);
    out = part ? intersection(*out, *part, where, work) : part;
  };
  if (range.integer) {
    also(above(whole_bound("9223372036854775808", true)));
    also(below(whole_bound("9223372036854775807", false)));
  }
  if (range.low) also(above(*range.low));
  if (range.high) also(below(*range.high));
  const bool exclusive =
      (range.low && range.low->exclusive) || (range.high && range.high->exclusive);
  if ((exclusive || !range.divisors.empty()) && !range.integer) {
    also(std::string(kFifteenDigits));
  }
  for (const Decimal& divisor : range.divisors) {
    if (!out || mutated(Mutant::kDivisorsLeft)) break;
    const auto multiples = multiples_of(divisor, where, work);
    out = multiples ? intersection(*out, *multiples, where, work) : multiples;
  }
  return out;
}

}  // namespace dovetail::grammar
