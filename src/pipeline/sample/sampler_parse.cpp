#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "load/quote.h"
#include "pipeline/sample/mistakes.h"
#include "pipeline/sample/sampler.h"
#include "pipeline/sample/sampler_convert.h"
#include "pipeline/sample/spec_fields.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;

// Reals are bounded so that no sum or product of two of them overflows.
constexpr double kLargest = 1e100;
constexpr double kTiny = 1e-100;
constexpr std::int64_t kMostTrials = 1'000'000'000;
constexpr std::int64_t kMostUnits = 400'000'000'000;

// Values with their weights; `weights` may be null.
Result<CategorySpec> parse_list(const ordered_json& values, std::string_view values_pointer,
                                const ordered_json* weights, std::string_view weights_pointer) {
  CategorySpec spec;
  if (!values.is_array() || values.empty()) {
    return invalid_field(values_pointer, values, "a list of at least one value");
  }
  spec.values.assign(values.begin(), values.end());
  if (weights == nullptr) return spec;
  if (!weights->is_array() || weights->size() != values.size()) {
    return invalid_field(weights_pointer, *weights,
                         fmt::format("a list of {} numbers, one for each value", values.size()));
  }
  double sum = 0;
  for (std::size_t i = 0; i < weights->size(); ++i) {
    const ordered_json& weight = (*weights)[i];
    const double number = weight.is_number() ? weight.get<double>() : -1;
    if (!(number >= 0 && number <= kLargest)) {
      return invalid_field(pointer_to(weights_pointer, i), weight, "a number of at least 0");
    }
    sum += number;
    spec.cumulative.push_back(sum);
  }
  if (!(sum > 0)) {
    return invalid_field(weights_pointer, *weights, "at least one number above 0");
  }
  return spec;
}

void read_decimals(SpecFields& fields, SamplerSpec& spec) {
  const auto decimals = fields.optional_integer("decimals", 0, 15);
  const auto alias = fields.optional_integer("decimal_places", 0, 15);
  if (decimals && alias) {
    fields.reject("decimal_places", "only one of decimals and decimal_places");
  }
  spec.decimals = static_cast<int>(decimals.value_or(alias.value_or(-1)));
}

// Where values are both bounded and rounded, a rounded one must exist within the bounds.
void check_decimals(SpecFields& fields, int decimals, double low, double high) {
  if (fields.failed() || decimals < 0 || !std::isfinite(low) || !std::isfinite(high)) return;
  if (ceil_decimals(low, decimals) > high) {
    fields.reject(fields.find("decimals") != nullptr ? "decimals" : "decimal_places",
                  fmt::format("enough decimals for a number from {} to {}", low, high));
  }
}

CategorySpec read_category(SpecFields& fields) {
  const ordered_json* values = fields.require("values", "a list of at least one value");
  const ordered_json* weights = fields.find("weights");
  if (values == nullptr) return {};
  auto list = parse_list(*values, fields.pointer("values"), weights, fields.pointer("weights"));
  if (list) return *std::move(list);
  // Of either, with the other as it is.
  fields.take("values", list.error());
  return {};
}

SubcategorySpec read_subcategory(SpecFields& fields) {
  SubcategorySpec spec;
  spec.parent = fields.string("category");
  const ordered_json* lists = fields.require("values", "an object: parent value -> list of values");
  if (lists == nullptr) return spec;
  if (!lists->is_object() || lists->empty()) {
    fields.reject("values", "an object: parent value -> list of values");
    return spec;
  }
  Mistakes wrong;
  for (const auto& [key, entry] : lists->items()) {
    const std::string pointer = pointer_to(fields.pointer("values"), key);
    if (entry.is_object()) {
      SpecFields inner(entry, pointer);
      spec.lists.emplace(key, read_category(inner));
      wrong.add(inner.finish());
    } else if (auto list = parse_list(entry, pointer, nullptr, pointer)) {
      spec.lists.emplace(key, *std::move(list));
    } else {
      wrong.add(list.error());
    }
  }
  fields.take("values", wrong.status());
  return spec;
}

UniformSpec read_uniform(SpecFields& fields, SamplerSpec& common) {
  UniformSpec spec;
  spec.low = fields.number("low", -kLargest, kLargest);
  spec.high = fields.number("high", -kLargest, kLargest);
  read_decimals(fields, common);
  if (!fields.failed() && spec.low > spec.high)
    fields.reject("high", fmt::format("at least low, {}", spec.low));
  check_decimals(fields, common.decimals, spec.low, spec.high);
  return spec;
}

GaussianSpec read_gaussian(SpecFields& fields, SamplerSpec& common) {
  constexpr double kFarthest = 1e6;  // deviations
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  GaussianSpec spec;
  spec.mean = fields.number("mean", -kLargest, kLargest);
  spec.stddev = fields.number("stddev", 0, kLargest);
  spec.min = fields.optional_number("min", -kLargest, kLargest);
  spec.max = fields.optional_number("max", -kLargest, kLargest);
  read_decimals(fields, common);
  if (fields.failed()) return spec;
  const double low = spec.min.value_or(-kInfinity);
  const double high = spec.max.value_or(kInfinity);
  if (spec.stddev == 0) {
    if (spec.mean < low) fields.reject("min", "at most the mean, where stddev is 0");
    if (spec.mean > high) fields.reject("max", "at least the mean, where stddev is 0");
  } else {
    const double from = (low - spec.mean) / spec.stddev;
    const double to = (high - spec.mean) / spec.stddev;
    if (!(from < to)) fields.reject("max", fmt::format("more than min, {}", low));
    if (from > kFarthest) fields.reject("min", "at most a million deviations above the mean");
    if (to < -kFarthest) fields.reject("max", "at most a million deviations below the mean");
  }
  check_decimals(fields, common.decimals, low, high);
  return spec;
}

IntegerSpec read_integer(SpecFields& fields) {
  IntegerSpec spec;
  spec.low = fields.integer("low", INT64_MIN, INT64_MAX);
  spec.high = fields.integer("high", INT64_MIN, INT64_MAX);
  if (!fields.failed() && spec.low > spec.high) {
    fields.reject("high", fmt::format("at least low, {}", spec.low));
  }
  return spec;
}

BernoulliMixtureSpec read_mixture(SpecFields& fields) {
  BernoulliMixtureSpec spec;
  spec.p = fields.number("p", 0, 1);
  const std::string kind = fields.string("sampler");
  const ordered_json* params = fields.require("params", "the parameters of the sampler");
  if (fields.failed()) return spec;
  if (kind == "bernoulli_mixture" || kind == "subcategory" || kind == "timedelta") {
    fields.reject("sampler", "a sampler that needs no other column and is no mixture itself");
    return spec;
  }
  auto other = parse_sampler(kind, *params, fields.pointer("params"));
  if (!other) {
    fields.take("params", Status(fail(other.error())));
    return spec;
  }
  spec.other = std::make_shared<const SamplerSpec>(*std::move(other));
  return spec;
}

DateUnit read_unit(SpecFields& fields) {
  const auto text = fields.optional_string("unit");
  if (!text) return DateUnit::kDay;
  const auto unit = parse_date_unit(*text);
  if (!unit) fields.reject("unit", kDateUnits);
  return unit.value_or(DateUnit::kDay);
}

std::string read_format(SpecFields& fields, std::string_view key) {
  const auto format = fields.optional_string(key);
  if (!format) return {};
  if (format->empty()) fields.reject(key, "a format such as %Y-%m-%d");
  const Status status = check_date_format(*format, fields.pointer(key));
  if (!status) fields.take(key, status.error());
  return *format;
}

bool has_time_of_day(DateUnit unit) {
  return unit == DateUnit::kHour || unit == DateUnit::kMinute || unit == DateUnit::kSecond;
}

constexpr std::string_view kDateFormat = "%Y-%m-%d";
constexpr std::string_view kTimeFormat = "%Y-%m-%dT%H:%M:%S";

DatetimeSpec read_datetime(SpecFields& fields) {
  DatetimeSpec spec;
  const auto moment = [&](std::string_view key) {
    const std::string text = fields.string(key);
    const auto parsed = parse_iso_date(text);
    if (!parsed) fields.reject(key, "a date such as 2024-02-29 or 2024-02-29T12:30:00");
    return parsed.value_or(0);
  };
  spec.start = moment("start");
  spec.end = moment("end");
  spec.unit = read_unit(fields);
  spec.format = read_format(fields, "format");
  if (fields.failed()) return spec;
  if (spec.start > spec.end) {
    fields.reject("end", "a date that is not before start");
    return spec;
  }
  spec.steps = units_between(spec.start, spec.end, spec.unit);
  if (spec.format.empty()) {
    const bool date_only = !has_time_of_day(spec.unit) && spec.start % 86400 == 0;
    spec.format = date_only ? kDateFormat : kTimeFormat;
  }
  return spec;
}

TimedeltaSpec read_timedelta(SpecFields& fields) {
  TimedeltaSpec spec;
  spec.least = fields.integer("min", -kMostUnits, kMostUnits);
  spec.most = fields.integer("max", -kMostUnits, kMostUnits);
  spec.reference = fields.string("reference");
  spec.unit = read_unit(fields);
  spec.reference_format = read_format(fields, "reference_format");
  spec.format = read_format(fields, "format");
  if (!fields.failed() && spec.least > spec.most) {
    fields.reject("max", fmt::format("at least min, {}", spec.least));
  }
  if (spec.format.empty()) spec.format = kTimeFormat;
  return spec;
}

UuidSpec read_uuid(SpecFields& fields) {
  UuidSpec spec;
  spec.prefix = fields.optional_string("prefix").value_or(std::string());
  spec.short_form = fields.boolean("short_form", false);
  spec.uppercase = fields.boolean("uppercase", false);
  return spec;
}

using Reader = void (*)(SpecFields&, SamplerSpec&);

constexpr std::array<std::pair<std::string_view, Reader>, 17> kReaders = {{
    {"category", [](SpecFields& f, SamplerSpec& s) { s.kind = read_category(f); }},
    {"subcategory", [](SpecFields& f, SamplerSpec& s) { s.kind = read_subcategory(f); }},
    {"uniform", [](SpecFields& f, SamplerSpec& s) { s.kind = read_uniform(f, s); }},
    {"gaussian", [](SpecFields& f, SamplerSpec& s) { s.kind = read_gaussian(f, s); }},
    {"integer", [](SpecFields& f, SamplerSpec& s) { s.kind = read_integer(f); }},
    {"bernoulli",
     [](SpecFields& f, SamplerSpec& s) { s.kind = BernoulliSpec{f.number("p", 0, 1)}; }},
    {"bernoulli_mixture", [](SpecFields& f, SamplerSpec& s) { s.kind = read_mixture(f); }},
    {"binomial",
     [](SpecFields& f, SamplerSpec& s) {
       s.kind = BinomialSpec{f.integer("n", 0, kMostTrials), f.number("p", 0, 1)};
     }},
    {"poisson",
     [](SpecFields& f, SamplerSpec& s) { s.kind = PoissonSpec{f.number("mean", 0, 1e9)}; }},
    {"exponential",
     [](SpecFields& f, SamplerSpec& s) {
       s.kind = ExponentialSpec{f.number("mean", kTiny, kLargest)};
       read_decimals(f, s);
     }},
    {"lognormal",
     [](SpecFields& f, SamplerSpec& s) {
       s.kind = LognormalSpec{f.number("mean", -700, 700), f.number("stddev", 0, 100)};
       read_decimals(f, s);
     }},
    {"gamma",
     [](SpecFields& f, SamplerSpec& s) {
       s.kind = GammaSpec{f.number("shape", 1e-3, 1e9), f.number("scale", kTiny, kLargest)};
       read_decimals(f, s);
     }},
    {"beta",
     [](SpecFields& f, SamplerSpec& s) {
       s.kind = BetaSpec{f.number("alpha", 1e-3, 1e9), f.number("beta", 1e-3, 1e9)};
       read_decimals(f, s);
     }},
    {"datetime", [](SpecFields& f, SamplerSpec& s) { s.kind = read_datetime(f); }},
    {"timedelta", [](SpecFields& f, SamplerSpec& s) { s.kind = read_timedelta(f); }},
    {"uuid", [](SpecFields& f, SamplerSpec& s) { s.kind = read_uuid(f); }},
    {"person", [](SpecFields& f, SamplerSpec& s) { s.kind = parse_person(f); }},
}};

// Converts a list's values once, here, so that one that has no such form is found before a run.
Status convert_list(CategorySpec& list, Conversion conversion, std::string_view convert_to,
                    std::string_view pointer) {
  for (ordered_json& value : list.values) {
    auto converted = convert(value, conversion);
    if (!converted) {
      return fail(ErrorKind::kInvalid,
                  "{}: '{}' does not fit the value {}; valid: str, or values "
                  "that are numbers",
                  pointer, convert_to, text_of(value));
    }
    value = *std::move(converted);
  }
  return {};
}

}  // namespace

std::vector<std::string> sampler_kinds() {
  std::vector<std::string> kinds;
  for (const auto& reader : kReaders) kinds.emplace_back(reader.first);
  return kinds;
}

Result<SamplerSpec> parse_sampler(std::string_view kind, const ordered_json& params,
                                  std::string_view pointer) {
  const auto found = std::find_if(kReaders.begin(), kReaders.end(),
                                  [&](const auto& reader) { return reader.first == kind; });
  if (found == kReaders.end()) {
    return fail(ErrorKind::kInvalid, "{}: no sampler {}; {}", pointer.empty() ? "/" : pointer,
                load::quote(kind), valid_names(kind, sampler_kinds()));
  }
  SpecFields fields(params, std::string(pointer));
  SamplerSpec spec;
  found->second(fields, spec);
  if (const Status status = fields.finish(); !status) return fail(status.error());
  return spec;
}

Status set_conversion(SamplerSpec& spec, std::string_view convert_to, std::string_view pointer) {
  static constexpr std::array<std::string_view, 4> kNames = {"int", "float", "str", "bool"};
  const auto found = std::find(kNames.begin(), kNames.end(), convert_to);
  if (found == kNames.end()) {
    return fail(ErrorKind::kInvalid, "{}: {}; {}", pointer, load::quote(convert_to),
                valid_names(convert_to, kNames));
  }
  const auto conversion = static_cast<Conversion>(1 + (found - kNames.begin()));
  if (auto* list = std::get_if<CategorySpec>(&spec.kind)) {
    return convert_list(*list, conversion, convert_to, pointer);
  }
  if (auto* lists = std::get_if<SubcategorySpec>(&spec.kind)) {
    for (auto& [key, list] : lists->lists) {
      if (Status status = convert_list(list, conversion, convert_to, pointer); !status) {
        return status;
      }
    }
    return {};
  }
  const bool text_only = std::holds_alternative<DatetimeSpec>(spec.kind) ||
                         std::holds_alternative<TimedeltaSpec>(spec.kind) ||
                         std::holds_alternative<UuidSpec>(spec.kind) ||
                         std::holds_alternative<PersonSpec>(spec.kind);
  if (text_only && conversion != Conversion::kString) {
    return fail(ErrorKind::kInvalid, "{}: '{}' for a sampler without numbers; valid: str", pointer,
                convert_to);
  }
  spec.convert = conversion;
  return {};
}

std::optional<std::string> parent_of(const SamplerSpec& spec) {
  if (const auto* lists = std::get_if<SubcategorySpec>(&spec.kind)) return lists->parent;
  if (const auto* delta = std::get_if<TimedeltaSpec>(&spec.kind)) return delta->reference;
  return std::nullopt;
}

std::vector<std::string> SamplerColumn::needs() const {
  std::vector<std::string> columns;
  const auto add = [&](const std::string& column) {
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) {
      columns.push_back(column);
    }
  };
  if (const auto parent = parent_of(otherwise)) add(*parent);
  for (const auto& [condition, spec] : conditional) {
    for (const std::string& column : condition.columns()) add(column);
    if (const auto parent = parent_of(spec)) add(*parent);
  }
  return columns;
}

Result<SamplerColumn> parse_sampler_column(std::string_view name, const ordered_json& given,
                                           std::string_view pointer) {
  SamplerColumn column;
  column.name = name;
  SpecFields fields(given, std::string(pointer));
  const std::string kind = fields.string("sampler");
  const ordered_json* params = fields.find("params");
  const ordered_json* conditional = fields.find("conditional_params");
  const auto convert_to = fields.optional_string("convert_to");
  const auto known = sampler_kinds();
  if (!fields.failed("sampler") && std::find(known.begin(), known.end(), kind) == known.end()) {
    fields.take("sampler", fail(ErrorKind::kInvalid, "{}: {}; {}", fields.pointer("sampler"),
                                load::quote(kind), valid_names(kind, known))
                               .value());
  }
  // Without the kind it is not known what the parameters are.
  if (fields.failed("sampler")) return fail(fields.finish().error());

  Mistakes wrong;
  const auto parse = [&](const ordered_json& values, const std::string& place) {
    auto spec = parse_sampler(kind, values, place);
    if (!spec) {
      wrong.add(Status(fail(spec.error())));
    } else if (convert_to && !fields.failed("convert_to")) {
      const Status ok = set_conversion(*spec, *convert_to, fields.pointer("convert_to"));
      if (!ok) fields.take("convert_to", ok.error());
    }
    return spec ? *std::move(spec) : SamplerSpec();
  };
  const ordered_json none = ordered_json::object();
  column.otherwise = parse(params == nullptr ? none : *params, fields.pointer("params"));
  const std::string place = fields.pointer("conditional_params");
  if (conditional != nullptr && !conditional->is_object()) {
    fields.reject("conditional_params", "an object: condition -> params");
  } else if (conditional != nullptr) {
    for (const auto& [expression, values] : conditional->items()) {
      auto condition = Condition::parse(expression, place);
      if (!condition) wrong.add(condition.error());
      SamplerSpec spec = parse(values, pointer_to(place, expression));
      if (condition) column.conditional.emplace_back(*std::move(condition), std::move(spec));
    }
  }
  wrong.add(fields.finish());
  if (const Status ok = wrong.status(); !ok) return fail(ok.error());
  return column;
}

}  // namespace dovetail::pipeline
