#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "load/quote.h"
#include "pipeline/sample/fields.h"
#include "pipeline/sample/mistakes.h"
#include "pipeline/sample/sampler.h"
#include "pipeline/sample/sampler_convert.h"

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

void read_decimals(Fields& fields, SamplerSpec& spec) {
  const auto decimals = fields.integer("decimals", 0, 15);
  const auto alias = fields.integer("decimal_places", 0, 15);
  if (decimals && alias) {
    fields.reject("decimal_places", "only one of decimals and decimal_places");
  }
  spec.decimals = static_cast<int>(decimals.value_or(alias.value_or(-1)));
}

// Where values are both bounded and rounded, a rounded one must exist within the bounds.
void check_decimals(Fields& fields, int decimals, double low, double high) {
  if (!fields.ok() || decimals < 0 || !std::isfinite(low) || !std::isfinite(high)) return;
  if (ceil_decimals(low, decimals) > high) {
    fields.reject(fields.find("decimals") != nullptr ? "decimals" : "decimal_places",
                  fmt::format("enough decimals for a number from {} to {}", low, high));
  }
}

CategorySpec read_category(Fields& fields) {
  const ordered_json* values = fields.require("values", "a list of at least one value");
  const ordered_json* weights = fields.find("weights");
  if (values == nullptr) return {};
  auto list = parse_list(*values, fields.at("values"), weights, fields.at("weights"));
  if (list) return *std::move(list);
  // Of either, with the other as it is.
  fields.take("values", list.error());
  return {};
}

SubcategorySpec read_subcategory(Fields& fields) {
  SubcategorySpec spec;
  spec.parent = fields.required_text("category");
  const ordered_json* lists = fields.require("values", "an object: parent value -> list of values");
  if (lists == nullptr) return spec;
  if (!lists->is_object() || lists->empty()) {
    fields.reject("values", "an object: parent value -> list of values");
    return spec;
  }
  Mistakes wrong;
  for (const auto& [key, entry] : lists->items()) {
    const std::string pointer = pointer_to(fields.at("values"), key);
    if (entry.is_object()) {
      Fields inner(entry, pointer);
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

UniformSpec read_uniform(Fields& fields, SamplerSpec& common) {
  UniformSpec spec;
  spec.low = fields.required_number("low", {-kLargest, kLargest});
  spec.high = fields.required_number("high", {-kLargest, kLargest});
  read_decimals(fields, common);
  if (fields.ok() && spec.low > spec.high)
    fields.reject("high", fmt::format("at least low, {}", spec.low));
  check_decimals(fields, common.decimals, spec.low, spec.high);
  return spec;
}

GaussianSpec read_gaussian(Fields& fields, SamplerSpec& common) {
  constexpr double kFarthest = 1e6;  // deviations
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  GaussianSpec spec;
  spec.mean = fields.required_number("mean", {-kLargest, kLargest});
  spec.stddev = fields.required_number("stddev", {0, kLargest});
  spec.min = fields.number("min", {-kLargest, kLargest});
  spec.max = fields.number("max", {-kLargest, kLargest});
  read_decimals(fields, common);
  if (!fields.ok()) return spec;
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

IntegerSpec read_integer(Fields& fields) {
  IntegerSpec spec;
  spec.low = fields.required_integer("low", INT64_MIN, INT64_MAX);
  spec.high = fields.required_integer("high", INT64_MIN, INT64_MAX);
  if (fields.ok() && spec.low > spec.high) {
    fields.reject("high", fmt::format("at least low, {}", spec.low));
  }
  return spec;
}

BernoulliMixtureSpec read_mixture(Fields& fields) {
  BernoulliMixtureSpec spec;
  spec.p = fields.required_number("p", {0, 1});
  const std::string kind = fields.required_text("sampler");
  const ordered_json* params = fields.require("params", "the parameters of the sampler");
  if (!fields.ok()) return spec;
  if (kind == "bernoulli_mixture" || kind == "subcategory" || kind == "timedelta") {
    fields.reject("sampler", "a sampler that needs no other column and is no mixture itself");
    return spec;
  }
  auto other = parse_sampler(kind, *params, fields.at("params"));
  if (!other) {
    fields.take("params", Status(fail(other.error())));
    return spec;
  }
  spec.other = std::make_shared<const SamplerSpec>(*std::move(other));
  return spec;
}

DateUnit read_unit(Fields& fields) {
  const auto text = fields.text("unit");
  if (!text) return DateUnit::kDay;
  const auto unit = parse_date_unit(*text);
  if (!unit) fields.reject("unit", kDateUnits);
  return unit.value_or(DateUnit::kDay);
}

std::string read_format(Fields& fields, std::string_view key) {
  const auto format = fields.text(key);
  if (!format) return {};
  if (format->empty()) fields.reject(key, "a format such as %Y-%m-%d");
  const Status status = check_date_format(*format, fields.at(key));
  if (!status) fields.take(key, status.error());
  return *format;
}

bool has_time_of_day(DateUnit unit) {
  return unit == DateUnit::kHour || unit == DateUnit::kMinute || unit == DateUnit::kSecond;
}

constexpr std::string_view kDateFormat = "%Y-%m-%d";
constexpr std::string_view kTimeFormat = "%Y-%m-%dT%H:%M:%S";
constexpr Seconds kSecondsOfDay = 86400;

DatetimeSpec read_datetime(Fields& fields) {
  DatetimeSpec spec;
  const auto moment = [&](std::string_view key) {
    const std::string text = fields.required_text(key);
    const auto parsed = parse_iso_date(text);
    if (!parsed) fields.reject(key, "a date such as 2024-02-29 or 2024-02-29T12:30:00");
    return parsed.value_or(0);
  };
  spec.start = moment("start");
  spec.end = moment("end");
  spec.unit = read_unit(fields);
  // Whole days from a time of day would leave out what is between.
  const bool whole_days = spec.start % kSecondsOfDay == 0 && spec.end % kSecondsOfDay == 0;
  if (!fields.has("unit") && !whole_days) spec.unit = DateUnit::kSecond;
  spec.format = read_format(fields, "format");
  if (!fields.ok()) return spec;
  if (spec.start > spec.end) {
    fields.reject("end", "a date that is not before start");
    return spec;
  }
  spec.steps = units_between(spec.start, spec.end, spec.unit);
  if (spec.format.empty()) {
    const bool date_only = !has_time_of_day(spec.unit) && spec.start % kSecondsOfDay == 0;
    spec.format = date_only ? kDateFormat : kTimeFormat;
  }
  return spec;
}

TimedeltaSpec read_timedelta(Fields& fields) {
  TimedeltaSpec spec;
  spec.least = fields.required_integer("min", -kMostUnits, kMostUnits);
  spec.most = fields.required_integer("max", -kMostUnits, kMostUnits);
  spec.reference = fields.required_text("reference");
  spec.unit = read_unit(fields);
  spec.reference_format = read_format(fields, "reference_format");
  spec.format = read_format(fields, "format");
  if (fields.ok() && spec.least > spec.most) {
    fields.reject("max", fmt::format("at least min, {}", spec.least));
  }
  if (spec.format.empty()) spec.format = kTimeFormat;
  return spec;
}

UuidSpec read_uuid(Fields& fields) {
  UuidSpec spec;
  spec.prefix = fields.text("prefix").value_or(std::string());
  spec.short_form = fields.flag("short_form").value_or(false);
  spec.uppercase = fields.flag("uppercase").value_or(false);
  return spec;
}

using Reader = void (*)(Fields&, SamplerSpec&);

constexpr std::array<std::pair<std::string_view, Reader>, 17> kReaders = {{
    {"category", [](Fields& f, SamplerSpec& s) { s.kind = read_category(f); }},
    {"subcategory", [](Fields& f, SamplerSpec& s) { s.kind = read_subcategory(f); }},
    {"uniform", [](Fields& f, SamplerSpec& s) { s.kind = read_uniform(f, s); }},
    {"gaussian", [](Fields& f, SamplerSpec& s) { s.kind = read_gaussian(f, s); }},
    {"integer", [](Fields& f, SamplerSpec& s) { s.kind = read_integer(f); }},
    {"bernoulli",
     [](Fields& f, SamplerSpec& s) {
       s.kind = BernoulliSpec{f.required_number("p", {0, 1})};
     }},
    {"bernoulli_mixture", [](Fields& f, SamplerSpec& s) { s.kind = read_mixture(f); }},
    {"binomial",
     [](Fields& f, SamplerSpec& s) {
       s.kind =
           BinomialSpec{f.required_integer("n", 0, kMostTrials), f.required_number("p", {0, 1})};
     }},
    {"poisson",
     [](Fields& f, SamplerSpec& s) {
       s.kind = PoissonSpec{f.required_number("mean", {0, 1e9})};
     }},
    {"exponential",
     [](Fields& f, SamplerSpec& s) {
       s.kind = ExponentialSpec{f.required_number("mean", {kTiny, kLargest})};
       read_decimals(f, s);
     }},
    {"lognormal",
     [](Fields& f, SamplerSpec& s) {
       s.kind = LognormalSpec{f.required_number("mean", {-700, 700}),
                              f.required_number("stddev", {0, 100})};
       read_decimals(f, s);
     }},
    {"gamma",
     [](Fields& f, SamplerSpec& s) {
       s.kind = GammaSpec{f.required_number("shape", {1e-3, 1e9}),
                          f.required_number("scale", {kTiny, kLargest})};
       read_decimals(f, s);
     }},
    {"beta",
     [](Fields& f, SamplerSpec& s) {
       s.kind = BetaSpec{f.required_number("alpha", {1e-3, 1e9}),
                         f.required_number("beta", {1e-3, 1e9})};
       read_decimals(f, s);
     }},
    {"datetime", [](Fields& f, SamplerSpec& s) { s.kind = read_datetime(f); }},
    {"timedelta", [](Fields& f, SamplerSpec& s) { s.kind = read_timedelta(f); }},
    {"uuid", [](Fields& f, SamplerSpec& s) { s.kind = read_uuid(f); }},
    {"person", [](Fields& f, SamplerSpec& s) { s.kind = parse_person(f); }},
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
                  pointer, convert_to, shown(value));
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
  Fields fields(params, std::string(pointer));
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
  Fields fields(given, std::string(pointer));
  const std::string kind = fields.required_text("sampler");
  const ordered_json* params = fields.find("params");
  const ordered_json* conditional = fields.find("conditional_params");
  const auto convert_to = fields.text("convert_to");
  const auto known = sampler_kinds();
  if (!fields.failed("sampler") && std::find(known.begin(), known.end(), kind) == known.end()) {
    fields.take("sampler", fail(ErrorKind::kInvalid, "{}: {}; {}", fields.at("sampler"),
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
      const Status ok = set_conversion(*spec, *convert_to, fields.at("convert_to"));
      if (!ok) fields.take("convert_to", ok.error());
    }
    return spec ? *std::move(spec) : SamplerSpec();
  };
  const ordered_json none = ordered_json::object();
  column.otherwise = parse(params == nullptr ? none : *params, fields.at("params"));
  const std::string place = fields.at("conditional_params");
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
