#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "pipeline/sample/distributions.h"
#include "pipeline/sample/fields.h"
#include "pipeline/sample/sampler.h"
#include "pipeline/sample/sampler_convert.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;

const ordered_json& pick(const CategorySpec& spec, Stream& stream) {
  if (spec.cumulative.empty()) return spec.values[stream.below(spec.values.size())];
  const double at = stream.unit() * spec.cumulative.back();
  const auto found = std::upper_bound(spec.cumulative.begin(), spec.cumulative.end(), at);
  // Rounding may reach the sum itself: the last value that has a weight ends there.
  const auto last =
      std::lower_bound(spec.cumulative.begin(), spec.cumulative.end(), spec.cumulative.back());
  return spec.values[static_cast<std::size_t>(std::min(found, last) - spec.cumulative.begin())];
}

// Draws values of each kind, before rounding and conversion.
class Draw {
 public:
  Draw(const ordered_json& record, Stream& stream, int decimals)
      : record_(record), stream_(stream), decimals_(decimals) {}

  Result<ordered_json> operator()(const CategorySpec& spec) { return pick(spec, stream_); }

  Result<ordered_json> operator()(const SubcategorySpec& spec) {
    const auto parent = record_.find(spec.parent);
    if (parent == record_.end()) return missing(spec.parent);
    const auto found = spec.lists.find(category_key(*parent));
    if (found == spec.lists.end()) {
      return fail(ErrorKind::kInvalid, "no list for {} in column '{}'", shown(*parent),
                  spec.parent);
    }
    return pick(found->second, stream_);
  }

  Result<ordered_json> operator()(const UniformSpec& spec) {
    const double x = spec.low + (spec.high - spec.low) * stream_.unit();
    return rounded(std::min(x, spec.high), spec.low, spec.high);
  }

  Result<ordered_json> operator()(const GaussianSpec& spec) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double low = spec.min.value_or(-kInfinity);
    const double high = spec.max.value_or(kInfinity);
    if (spec.stddev == 0) return rounded(spec.mean, low, high);
    const double x = spec.min || spec.max
                         ? draw_truncated_normal(stream_, (low - spec.mean) / spec.stddev,
                                                 (high - spec.mean) / spec.stddev)
                         : draw_normal(stream_);
    return rounded(std::clamp(spec.mean + spec.stddev * x, low, high), low, high);
  }

  Result<ordered_json> operator()(const IntegerSpec& spec) { return integer(spec.low, spec.high); }

  Result<ordered_json> operator()(const BernoulliSpec& spec) {
    return ordered_json(stream_.unit() < spec.p ? 1 : 0);
  }

  Result<ordered_json> operator()(const BernoulliMixtureSpec& spec) {
    if (stream_.unit() < spec.p) return draw(*spec.other, record_, stream_);
    return ordered_json(0);
  }

  Result<ordered_json> operator()(const BinomialSpec& spec) {
    return ordered_json(draw_binomial(stream_, spec.n, spec.p));
  }
  Result<ordered_json> operator()(const PoissonSpec& spec) {
    return ordered_json(draw_poisson(stream_, spec.mean));
  }
  Result<ordered_json> operator()(const ExponentialSpec& spec) {
    return real(draw_exponential(stream_, spec.mean));
  }
  Result<ordered_json> operator()(const LognormalSpec& spec) {
    return real(portable_exp(spec.mean + spec.stddev * draw_normal(stream_)));
  }
  Result<ordered_json> operator()(const GammaSpec& spec) {
    return real(draw_gamma(stream_, spec.shape, spec.scale));
  }
  Result<ordered_json> operator()(const BetaSpec& spec) {
    const double x = draw_gamma(stream_, spec.alpha, 1);
    const double y = draw_gamma(stream_, spec.beta, 1);
    // Both can underflow where the parameters are tiny: then the value is 0 or 1, alpha : beta.
    if (x + y == 0) return real(stream_.unit() * (spec.alpha + spec.beta) < spec.alpha ? 1 : 0);
    return real(x / (x + y));
  }

  Result<ordered_json> operator()(const DatetimeSpec& spec) {
    const auto count =
        static_cast<std::int64_t>(stream_.below(static_cast<std::uint64_t>(spec.steps) + 1));
    const auto moment = add_units(spec.start, count, spec.unit);
    return ordered_json(format_date(moment.value_or(spec.end), spec.format));
  }

  Result<ordered_json> operator()(const TimedeltaSpec& spec) {
    const auto parent = record_.find(spec.reference);
    if (parent == record_.end()) return missing(spec.reference);
    std::optional<Seconds> start;
    if (parent->is_string()) {
      const auto& text = parent->get_ref<const std::string&>();
      start = spec.reference_format.empty() ? parse_iso_date(text)
                                            : parse_date(text, spec.reference_format);
    }
    if (!start) {
      return fail(ErrorKind::kInvalid, "column '{}' has {}; valid: {}", spec.reference,
                  shown(*parent),
                  spec.reference_format.empty() ? "a date such as 2024-02-29 or 2024-02-29T12:30:00"
                                                : "a date in the form " + spec.reference_format);
    }
    const auto count = integer(spec.least, spec.most).get<std::int64_t>();
    const auto moment = add_units(*start, count, spec.unit);
    if (!moment) {
      return fail(ErrorKind::kInvalid, "{} and {} units lie outside of the years 1 to 9999",
                  shown(*parent), count);
    }
    return ordered_json(format_date(*moment, spec.format));
  }

  Result<ordered_json> operator()(const UuidSpec& spec) {
    const std::uint64_t high = (stream_.bits() & ~std::uint64_t{0xf000}) | 0x4000;
    const std::uint64_t low = (stream_.bits() & (~std::uint64_t{0} >> 2U)) | std::uint64_t{1}
                                                                                 << 63U;
    std::array<char, 36> text{};
    const std::string_view digits = spec.uppercase ? "0123456789ABCDEF" : "0123456789abcdef";
    std::size_t at = 0;
    for (unsigned i = 0; i < 32; ++i) {
      if (i == 8 || i == 12 || i == 16 || i == 20) text[at++] = '-';
      const std::uint64_t half = i < 16 ? high : low;
      text[at++] = digits[(half >> (60 - 4 * (i % 16))) & 15U];
    }
    return ordered_json(spec.prefix + std::string(text.data(), spec.short_form ? 8 : text.size()));
  }

  Result<ordered_json> operator()(const PersonSpec& spec) { return draw_person(spec, stream_); }

 private:
  static Result<ordered_json> missing(const std::string& column) {
    return fail(ErrorKind::kInvalid, "column '{}' is not there yet", column);
  }

  ordered_json integer(std::int64_t low, std::int64_t high) {
    // The width of the whole range of 64 bits is 2^64, which wraps to 0.
    const std::uint64_t width =
        static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    const std::uint64_t offset = width == 0 ? stream_.bits() : stream_.below(width);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
  }

  ordered_json real(double x) const { return decimals_ < 0 ? x : round_decimals(x, decimals_); }

  // Rounding must not leave the interval. That there is a rounded number in it was checked before.
  ordered_json rounded(double x, double low, double high) const {
    if (decimals_ < 0) return x;
    const double near = round_decimals(x, decimals_);
    if (near < low) return ceil_decimals(low, decimals_);
    if (near > high) return floor_decimals(high, decimals_);
    return near;
  }

  const ordered_json& record_;
  Stream& stream_;
  int decimals_;
};

}  // namespace

Result<ordered_json> draw(const SamplerSpec& spec, const ordered_json& record, Stream& stream) {
  auto value = std::visit(Draw(record, stream, spec.decimals), spec.kind);
  if (!value || spec.convert == Conversion::kNone) return value;
  auto converted = convert(*value, spec.convert);
  if (!converted) {
    return fail(ErrorKind::kInvalid, "{} cannot be converted as convert_to asks", shown(*value));
  }
  return *std::move(converted);
}

Result<ordered_json> draw(const SamplerColumn& column, const ordered_json& record, Stream& stream) {
  const SamplerSpec* spec = &column.otherwise;
  for (const auto& [condition, other] : column.conditional) {
    const auto holds = condition.holds(record);
    if (!holds) return fail(holds.error());
    if (*holds) {
      spec = &other;
      break;
    }
  }
  auto value = draw(*spec, record, stream);
  if (!value) {
    return fail(value.error().kind, "column '{}': {}", column.name, value.error().message);
  }
  return value;
}

}  // namespace dovetail::pipeline
