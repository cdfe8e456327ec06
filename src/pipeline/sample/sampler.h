#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "pipeline/sample/condition.h"
#include "pipeline/sample/date_time.h"
#include "pipeline/sample/person.h"
#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {

// What a sampler column holds, and how its values are drawn: no model, no files, no clock.

struct SamplerSpec;

// A list of which one is drawn; `cumulative` (sums of the weights) is empty where all are alike.
struct CategorySpec {
  std::vector<nlohmann::ordered_json> values;
  std::vector<double> cumulative;
};
// A list for each value of the parent column (by its text; what is no string by its JSON).
struct SubcategorySpec {
  std::string parent;
  std::map<std::string, CategorySpec, std::less<>> lists;
};
struct UniformSpec {
  double low = 0, high = 1;
};
// min and max cut the distribution off; what lies beyond is drawn again.
struct GaussianSpec {
  double mean = 0, stddev = 1;
  std::optional<double> min, max;
};
// Both ends included.
struct IntegerSpec {
  std::int64_t low = 0, high = 0;
};
// 1 with chance p, else 0.
struct BernoulliSpec {
  double p = 0;
};
// With chance p a value of another sampler, else 0.
struct BernoulliMixtureSpec {
  double p = 0;
  std::shared_ptr<const SamplerSpec> other;
};
struct BinomialSpec {
  std::int64_t n = 0;
  double p = 0;
};
struct PoissonSpec {
  double mean = 0;
};
struct ExponentialSpec {
  double mean = 1;
};
// e to the power of a normal draw with this mean and deviation.
struct LognormalSpec {
  double mean = 0, stddev = 1;
};
struct GammaSpec {
  double shape = 1, scale = 1;
};
struct BetaSpec {
  double alpha = 1, beta = 1;
};
// start, start + 1 unit, ... up to end, each equally likely. Text in `format`.
struct DatetimeSpec {
  Seconds start = 0, end = 0;
  DateUnit unit = DateUnit::kDay;
  std::int64_t steps = 0;  // units between start and end
  std::string format;
};
// The moment in another column plus least to most units. Text in `format`; the column's text is
// read by `reference_format`, or as ISO 8601 where that is empty.
struct TimedeltaSpec {
  std::int64_t least = 0, most = 0;
  DateUnit unit = DateUnit::kDay;
  std::string reference;
  std::string reference_format;
  std::string format;
};
// Version 4 (RFC 9562); the short form is its first 8 digits.
struct UuidSpec {
  std::string prefix;
  bool short_form = false;
  bool uppercase = false;
};

enum class Conversion { kNone, kInt, kFloat, kString, kBool };

struct SamplerSpec {
  std::variant<CategorySpec, SubcategorySpec, UniformSpec, GaussianSpec, IntegerSpec, BernoulliSpec,
               BernoulliMixtureSpec, BinomialSpec, PoissonSpec, ExponentialSpec, LognormalSpec,
               GammaSpec, BetaSpec, DatetimeSpec, TimedeltaSpec, UuidSpec, PersonSpec>
      kind;
  int decimals = -1;  // a real number is rounded to so many, ties to even; -1: not at all
  Conversion convert = Conversion::kNone;
};

// The kinds, as parse_sampler() spells them.
std::vector<std::string> sampler_kinds();

// Reads the parameters of one kind: an object, whose place in its document is `pointer`
// (RFC 6901; for errors, which have a line for each mistake). Keys by kind, [optional]:
//   category: values, [weights]            subcategory: category, values (parent value -> list, or
//   uniform: low, high, [decimals]           an object with values and [weights])
//   gaussian: mean, stddev, [min], [max], [decimals]         integer: low, high
//   bernoulli: p          bernoulli_mixture: p, sampler, params          binomial: n, p
//   poisson: mean         exponential: mean, [decimals]      lognormal: mean, stddev, [decimals]
//   gamma: shape, scale, [decimals]        beta: alpha, beta, [decimals]
//   datetime: start, end, [unit: days; seconds where a bound has a time of day], [format]
//   timedelta: min, max, reference, [unit], [reference_format], [format]
//   uuid: [prefix], [short_form], [uppercase]                person: see parse_person()
// `decimal_places` is another spelling of decimals.
Result<SamplerSpec> parse_sampler(std::string_view kind, const nlohmann::ordered_json& params,
                                  std::string_view pointer);

// Fits the values of a sampler to convert_to: int (rounded to nearest, ties to even), float, str,
// bool. kInvalid where some value could not be converted.
Status set_conversion(SamplerSpec& spec, std::string_view convert_to, std::string_view pointer);

// The column that the sampler reads, if it reads one: a subcategory's parent, a timedelta's
// reference.
std::optional<std::string> parent_of(const SamplerSpec& spec);

// One value. `record` is an object that holds the parent column, if there is one; an error says
// what is wrong with the value there. Without a parent it cannot fail.
Result<nlohmann::ordered_json> draw(const SamplerSpec& spec, const nlohmann::ordered_json& record,
                                    Stream& stream);

// A sampler column: parameters, and others for records that meet a condition.
struct SamplerColumn {
  std::string name;
  SamplerSpec otherwise;
  std::vector<std::pair<Condition, SamplerSpec>> conditional;  // the first that holds counts

  // The columns that must be there before a value is drawn, each once.
  std::vector<std::string> needs() const;
};

// Reads {"sampler": kind, "params": {...}, "conditional_params": {condition: params, ...},
// "convert_to": ...}. Conditional parameters are complete, of the same kind, and asked in order.
Result<SamplerColumn> parse_sampler_column(std::string_view name,
                                           const nlohmann::ordered_json& fields,
                                           std::string_view pointer);

// The value of a column for a record that holds the columns it needs. Errors name the column.
Result<nlohmann::ordered_json> draw(const SamplerColumn& column,
                                    const nlohmann::ordered_json& record, Stream& stream);

}  // namespace dovetail::pipeline
