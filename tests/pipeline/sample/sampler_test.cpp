#include "pipeline/sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "pipeline/sample/sampler_convert.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

SamplerSpec spec_of(const std::string& kind, const std::string& params) {
  auto spec = parse_sampler(kind, ordered_json::parse(params), "");
  EXPECT_TRUE(spec) << kind << " " << params << ": " << (spec ? "" : spec.error().message);
  return spec.value_or(SamplerSpec{});
}

ordered_json draw_one(const SamplerSpec& spec, std::uint64_t record,
                      const ordered_json& columns = ordered_json::object()) {
  Stream stream(stream_key(42, "x"), record);
  auto value = draw(spec, columns, stream);
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value.value_or(ordered_json());
}

TEST(Sampler, CategoryFollowsItsWeights) {
  const auto spec =
      spec_of("category", R"({"values": ["a", 2, null, true], "weights": [1, 0, 2.5, 0.5]})");
  std::map<std::string, int> counts;
  for (std::uint64_t i = 0; i < 40000; ++i) ++counts[draw_one(spec, i).dump()];
  EXPECT_EQ(counts.count("2"), 0U);
  EXPECT_NEAR(counts["\"a\""], 10000, 400);
  EXPECT_NEAR(counts["null"], 25000, 400);
  EXPECT_NEAR(counts["true"], 5000, 300);

  const auto even = spec_of("category", R"({"values": ["a", "b", "c"]})");
  counts.clear();
  for (std::uint64_t i = 0; i < 30000; ++i) ++counts[draw_one(even, i)];
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 10000, 400) << value;
}

TEST(Sampler, SubcategoryFollowsItsParent) {
  const auto spec = spec_of(
      "subcategory",
      R"({"category": "c", "values": {"fruit": ["apple", "pear"], "3": {"values": [1, 2], "weights": [0, 1]}}})");
  EXPECT_EQ(parent_of(spec), "c");
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 100; ++i) seen.insert(draw_one(spec, i, {{"c", "fruit"}}));
  EXPECT_EQ(seen, (std::set<std::string>{"apple", "pear"}));
  EXPECT_EQ(draw_one(spec, 0, {{"c", 3}}), 2);

  Stream stream(1, 1);
  const auto unknown = draw(spec, {{"c", "meat"}}, stream);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "no list for \"meat\" in column 'c'");
  EXPECT_FALSE(draw(spec, ordered_json::object(), stream));
}

TEST(Sampler, NumbersStayInRangeAndAreRounded) {
  struct Case {
    const char* kind;
    const char* params;
    double low, high;
    int decimals;  // -1: any
    double mean;
  };
  const Case cases[] = {
      {"uniform", R"({"low": -2, "high": 3})", -2, 3, -1, 0.5},
      {"uniform", R"({"low": 0, "high": 1, "decimals": 2})", 0, 1, 2, 0.5},
      {"uniform", R"({"low": 0.04, "high": 0.96, "decimal_places": 1})", 0.1, 0.9, 1, 0.5},
      {"uniform", R"({"low": 5, "high": 5})", 5, 5, -1, 5},
      {"gaussian", R"({"mean": 10, "stddev": 2})", -10, 30, -1, 10},
      {"gaussian", R"({"mean": 10, "stddev": 2, "min": 8, "max": 12, "decimals": 1})", 8, 12, 1,
       10},
      {"gaussian", R"({"mean": 0, "stddev": 1, "min": 0.37, "max": 0.41, "decimals": 2})", 0.37,
       0.41, 2, 0.39},
      {"gaussian", R"({"mean": 1.25, "stddev": 0, "decimals": 1})", 1.2, 1.2, 1, 1.2},
      {"integer", R"({"low": -3, "high": 3})", -3, 3, 0, 0},
      {"bernoulli", R"({"p": 0.25})", 0, 1, 0, 0.25},
      {"bernoulli_mixture",
       R"({"p": 0.5, "sampler": "uniform", "params": {"low": 1, "high": 3, "decimals": 1}})", 0, 3,
       1, 1},
      {"binomial", R"({"n": 20, "p": 0.5})", 0, 20, 0, 10},
      {"poisson", R"({"mean": 4})", 0, 40, 0, 4},
      {"exponential", R"({"mean": 2, "decimals": 3})", 0, 60, 3, 2},
      {"lognormal", R"({"mean": 0, "stddev": 0.5})", 0, 60, -1, std::exp(0.125)},
      {"gamma", R"({"shape": 3, "scale": 0.5})", 0, 30, -1, 1.5},
      {"beta", R"({"alpha": 2, "beta": 6})", 0, 1, -1, 0.25},
      {"beta", R"({"alpha": 0.001, "beta": 0.001})", 0, 1, -1, 0.5},
  };
  for (const Case& c : cases) {
    const auto spec = spec_of(c.kind, c.params);
    double sum = 0;
    double squares = 0;
    constexpr int kDraws = 20000;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      const ordered_json value = draw_one(spec, i);
      ASSERT_TRUE(value.is_number()) << c.kind << c.params;
      const double x = value.get<double>();
      ASSERT_GE(x, c.low) << c.kind << c.params;
      ASSERT_LE(x, c.high) << c.kind << c.params;
      if (c.decimals >= 0) {
        const std::string text = value.dump();
        const auto dot = text.find('.');
        const auto digits = dot == std::string::npos ? 0 : text.size() - dot - 1;
        ASSERT_LE(digits, static_cast<std::size_t>(std::max(1, c.decimals))) << text << c.params;
      }
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws;
    const double deviation = std::sqrt(std::max(0.0, squares / kDraws - mean * mean));
    EXPECT_NEAR(mean, c.mean, 5 * deviation / std::sqrt(kDraws) + 1e-9) << c.kind << c.params;
  }
}

TEST(Sampler, WholeRangeOfIntegers) {
  const auto spec =
      spec_of("integer", R"({"low": -9223372036854775808, "high": 9223372036854775807})");
  int negative = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) negative += draw_one(spec, i).get<std::int64_t>() < 0;
  EXPECT_NEAR(negative, 500, 80);
}

TEST(Sampler, DatesLieBetweenStartAndEndInTheirUnit) {
  struct Case {
    const char* params;
    std::set<std::string> values;
  };
  const Case cases[] = {
      {R"({"start": "2024-02-27", "end": "2024-03-01"})",
       {"2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01"}},
      {R"({"start": "2024-01-31", "end": "2024-04-29", "unit": "M"})",
       {"2024-01-31", "2024-02-29", "2024-03-31"}},
      {R"({"start": "2020-02-29", "end": "2022-02-28", "unit": "Y"})",
       {"2020-02-29", "2021-02-28", "2022-02-28"}},
      {R"({"start": "1999-12-31T23:30:00", "end": "2000-01-01T01:00:00", "unit": "hour"})",
       {"1999-12-31T23:30:00", "2000-01-01T00:30:00"}},
      {R"({"start": "2024-01-01T12:30:00", "end": "2024-01-01T12:30:02"})",
       {"2024-01-01T12:30:00", "2024-01-01T12:30:01", "2024-01-01T12:30:02"}},
      {R"({"start": "2024-01-01", "end": "2024-01-01T00:00:01"})",
       {"2024-01-01T00:00:00", "2024-01-01T00:00:01"}},
      {R"({"start": "0001-01-01", "end": "0001-01-03", "format": "%A, %d %b %Y (%j) %%"})",
       {"Monday, 01 Jan 0001 (001) %", "Tuesday, 02 Jan 0001 (002) %",
        "Wednesday, 03 Jan 0001 (003) %"}},
      {R"({"start": "2024-07-04 13:05:09", "end": "2024-07-04 13:05:09Z", "unit": "s", "format": "%I:%M:%S %p %y %s %F %T %B %a %H %m"})",
       {"01:05:09 PM 24 1720098309 2024-07-04 13:05:09 July Thu 13 07"}},
  };
  for (const Case& c : cases) {
    const auto spec = spec_of("datetime", c.params);
    std::set<std::string> seen;
    for (std::uint64_t i = 0; i < 200; ++i) seen.insert(draw_one(spec, i));
    EXPECT_EQ(seen, c.values) << c.params;
  }
}

TEST(Sampler, TimedeltaAddsToItsReference) {
  const auto spec = spec_of("timedelta", R"({"min": 1, "max": 2, "reference": "t", "unit": "D"})");
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 50; ++i) seen.insert(draw_one(spec, i, {{"t", "2023-12-31"}}));
  EXPECT_EQ(seen, (std::set<std::string>{"2024-01-01T00:00:00", "2024-01-02T00:00:00"}));

  const auto formats = spec_of(
      "timedelta",
      R"({"min": -1, "max": -1, "reference": "t", "unit": "M", "reference_format": "%d.%m.%Y", "format": "%F"})");
  EXPECT_EQ(draw_one(formats, 0, {{"t", "31.03.2024"}}), "2024-02-29");

  for (const char* text :
       {"\"31.03.2024\"", "\"2024-13-01\"", "\"2023-02-29\"", "7", "null", "\"\""}) {
    Stream stream(1, 1);
    const auto value = draw(spec, {{"t", ordered_json::parse(text)}}, stream);
    ASSERT_FALSE(value) << text;
    EXPECT_THAT(value.error().message, HasSubstr("column 't' has"));
  }
  Stream stream(1, 1);
  EXPECT_THAT(draw(spec, {{"t", "9999-12-31"}}, stream).error().message,
              HasSubstr("years 1 to 9999"));
}

TEST(DateTime, ParsesWhatItFormats) {
  Stream stream(8, 8);
  const Seconds first = *parse_iso_date("0001-01-01");
  const Seconds last = *parse_iso_date("9999-12-31T23:59:59");
  for (int i = 0; i < 20000; ++i) {
    const Seconds moment =
        first + static_cast<Seconds>(stream.below(static_cast<std::uint64_t>(last - first) + 1));
    ASSERT_EQ(parse_iso_date(format_date(moment, "%Y-%m-%dT%H:%M:%S")), moment);
    for (const char* format : {"%F %T", "%s", "%j/%Y %H%M%S", "%a %d %B %Y, %H:%M:%S"}) {
      ASSERT_EQ(parse_date(format_date(moment, format), format), moment) << format;
    }
    const auto count = static_cast<std::int64_t>(stream.below(1000));
    for (const DateUnit unit :
         {DateUnit::kYear, DateUnit::kMonth, DateUnit::kWeek, DateUnit::kHour}) {
      const auto later = add_units(moment, count, unit);
      if (!later) continue;
      const auto between = units_between(moment, *later, unit);
      ASSERT_EQ(between, count) << moment;
    }
  }
}

TEST(Sampler, Uuids) {
  const auto spec = spec_of("uuid", "{}");
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string text = draw_one(spec, i);
    EXPECT_THAT(text, testing::MatchesRegex(
                          "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_THAT(
      draw_one(spec_of("uuid", R"({"prefix": "id_", "short_form": true, "uppercase": true})"), 3)
          .get<std::string>(),
      testing::MatchesRegex("id_[0-9A-F]{8}"));
}

TEST(Sampler, People) {
  const auto spec = spec_of("person", R"({"age_range": [30, 31], "as_of": "2026-03-01"})");
  std::set<int> ages;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto person = draw_one(spec, i);
    EXPECT_EQ(person.size(), 11U);
    EXPECT_EQ(person["full_name"], person["first_name"].get<std::string>() + " " +
                                       person["last_name"].get<std::string>());
    EXPECT_THAT(person["email"].get<std::string>(),
                testing::MatchesRegex("[a-z]+\\.[a-z]+[0-9]+@example\\.(com|org|net)"));
    EXPECT_THAT(person["phone"].get<std::string>(),
                testing::MatchesRegex("\\+1 [2-9][0-9][0-9] 555 01[0-9][0-9]"));
    const int age = person["age"];
    const Seconds born = *parse_iso_date(person["birth_date"].get<std::string>());
    EXPECT_EQ(units_between(born, *parse_iso_date("2026-03-01"), DateUnit::kYear), age) << person;
    ages.insert(age);
  }
  EXPECT_EQ(ages, (std::set<int>{30, 31}));

  const auto given = spec_of("person", R"({"fields": ["full_name", "sex", "city"], "sex": "female",
      "first_names": ["Zo\u00eb"], "last_names": ["Q"], "cities": ["X"]})");
  EXPECT_EQ(draw_one(given, 1).dump(), R"({"full_name":"Zoë Q","sex":"female","city":"X"})");
  EXPECT_EQ(draw_one(spec_of("person", R"({"fields": ["age"]})"), 9)["age"],
            draw_one(spec_of("person", R"({"fields": ["city", "age"]})"), 9)["age"]);
}

TEST(Sampler, Conversions) {
  struct Case {
    const char* kind;
    const char* params;
    const char* to;
    const char* value;
  };
  const Case cases[] = {
      {"category", R"({"values": ["12"]})", "int", "12"},
      {"category", R"({"values": ["2.5"]})", "int", "2"},
      {"category", R"({"values": ["-1e3"]})", "float", "-1000.0"},
      {"category", R"({"values": [7]})", "str", "\"7\""},
      {"category", R"({"values": ["False"]})", "bool", "false"},
      {"uniform", R"({"low": 2.5, "high": 2.5})", "int", "2"},
      {"uniform", R"({"low": 3.5, "high": 3.5})", "str", "\"3.5\""},
      {"integer", R"({"low": 4, "high": 4})", "float", "4.0"},
      {"bernoulli", R"({"p": 1})", "bool", "true"},
      {"subcategory", R"({"category": "c", "values": {"k": ["1"]}})", "int", "1"},
  };
  for (const Case& c : cases) {
    SamplerSpec spec = spec_of(c.kind, c.params);
    const Status status = set_conversion(spec, c.to, "/convert_to");
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(draw_one(spec, 0, {{"c", "k"}}).dump(), c.value) << c.kind << c.params;
  }
  const std::tuple<const char*, const char*, const char*, const char*> wrong[] = {
      {"category", R"({"values": ["12", "x"]})", "int",
       "/convert_to: 'int' does not fit the value \"x\""},
      {"category", R"({"values": [[1]]})", "float", "does not fit the value [1]"},
      {"category", R"({"values": [1e300]})", "int", "does not fit the value 1e+300"},
      {"uuid", "{}", "int", "'int' for a sampler without numbers; valid: str"},
      {"integer", R"({"low": 1, "high": 2})", "integer",
       "/convert_to: 'integer'; valid: int, float, str, bool"},
  };
  for (const auto& [kind, params, to, message] : wrong) {
    SamplerSpec spec = spec_of(kind, params);
    const Status status = set_conversion(spec, to, "/convert_to");
    ASSERT_FALSE(status) << kind << params;
    EXPECT_THAT(status.error().message, HasSubstr(message));
  }
}

TEST(SamplerParse, ErrorsNameThePlaceTheValueAndWhatIsValid) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"uniform", R"({"low": 0, "hihg": 1})", "/c/params/hihg: unknown key, did you mean high?"},
      {"uniform", R"({"low": 0})", "/c/params/high: missing; valid: a number"},
      {"uniform", R"({"low": "0", "high": 1})", "/c/params/low: \"0\"; valid: a number"},
      {"uniform", R"({"low": 2, "high": 1})", "/c/params/high: 1; valid: at least low, 2"},
      {"uniform", R"({"low": 0, "high": 1e300})", "/c/params/high: 1e+300; valid: a number from"},
      {"uniform", R"({"low": 0.11, "high": 0.19, "decimals": 1})",
       "/c/params/decimals: 1; valid: enough"},
      {"uniform", R"({"low": 0, "high": 1, "decimals": 16})",
       "/c/params/decimals: 16; valid: an integer from 0 to 15"},
      {"uniform", "[]", "/c/params: []; valid: an object"},
      {"gaussian", R"({"mean": 0, "stddev": -1})", "/c/params/stddev: -1; valid: a number from 0"},
      {"gaussian", R"({"mean": 0, "stddev": 1, "min": 3, "max": 3})",
       "/c/params/max: 3; valid: more than min"},
      {"gaussian", R"({"mean": 0, "stddev": 1e-9, "min": 3})",
       "/c/params/min: 3; valid: at most a million"},
      {"integer", R"({"low": 0, "high": 1.5})", "/c/params/high: 1.5; valid: an integer"},
      {"integer", R"({"low": 0, "high": 18446744073709551615})",
       "/c/params/high: 18446744073709551615"},
      {"category", R"({"values": []})",
       "/c/params/values: []; valid: a list of at least one value"},
      {"category", R"({"values": [1, 2], "weights": [1]})",
       "/c/params/weights: [1]; valid: a list of 2 numbers"},
      {"category", R"({"values": [1, 2], "weights": [1, -1]})",
       "/c/params/weights/1: -1; valid: a number of at least 0"},
      {"category", R"({"values": [1, 2], "weights": [0, 0]})",
       "/c/params/weights: [0,0]; valid: at least one"},
      {"subcategory", R"({"category": "x", "values": {"a/b": []}})",
       "/c/params/values/a~1b: []; valid"},
      {"subcategory", R"({"category": "x", "values": {"a": {"vals": [1]}}})",
       "/c/params/values/a/vals: unknown key"},
      {"bernoulli", R"({"p": 1.5})", "/c/params/p: 1.5; valid: a number from 0 to 1"},
      {"bernoulli_mixture", R"({"p": 0.5, "sampler": "uniform", "params": {"low": 1}})",
       "/c/params/params/high: missing"},
      {"bernoulli_mixture", R"({"p": 0.5, "sampler": "timedelta", "params": {}})",
       "/c/params/sampler: \"timedelta\"; valid"},
      {"binomial", R"({"n": -1, "p": 0.5})",
       "/c/params/n: -1; valid: an integer from 0 to 1000000000"},
      {"poisson", R"({"mean": 1e10})",
       "/c/params/mean: 10000000000.0; valid: a number from 0 to 1000000000"},
      {"datetime", R"({"start": "2024-01-01", "end": "2023-01-01"})",
       "/c/params/end: \"2023-01-01\"; valid: a date that is not before"},
      {"datetime", R"({"start": "1.1.2024", "end": "2023-01-01"})",
       "/c/params/start: \"1.1.2024\"; valid: a date such as"},
      {"datetime", R"({"start": "2024-01-01", "end": "2024-01-01", "unit": "q"})",
       "/c/params/unit: \"q\"; valid: Y, M, W"},
      {"datetime", R"({"start": "2024-01-01", "end": "2024-01-01", "format": "%Q"})",
       "/c/params/format: '%Q'; valid: text with %Y"},
      {"timedelta", R"({"min": 2, "max": 1, "reference": "t"})",
       "/c/params/max: 1; valid: at least min, 2"},
      {"person", R"({"fields": ["shoe_size"]})",
       "/c/params/fields: [\"shoe_size\"]; valid: first_name"},
      {"person", R"({"fields": ["birth_date"]})", "birth_date only together with as_of"},
      {"person", R"({"age_range": [5, 4]})",
       "/c/params/age_range: [5,4]; valid: [youngest, oldest]"},
      {"person", R"({"age_range": [0, 18446744073709551615]})",
       "/c/params/age_range: [0,18446744073709551615]; valid: [youngest, oldest]"},
      {"person", R"({"age_range": 30})", "/c/params/age_range: 30; valid: [youngest, oldest]"},
      {"person", R"({"sex": "femal"})",
       "/c/params/sex: \"femal\"; valid: any, female, male (did you mean 'female'?)"},
      {"gausian", "{}", "/c/params: no sampler 'gausian'; valid: category"},
  };
  for (const auto& [kind, params, message] : cases) {
    const auto spec = parse_sampler(kind, ordered_json::parse(params), "/c/params");
    ASSERT_FALSE(spec) << kind << " " << params;
    EXPECT_THAT(spec.error().message, HasSubstr(message));
    EXPECT_EQ(spec.error().kind, ErrorKind::kInvalid);
  }
}

TEST(SamplerColumn, FirstConditionThatHoldsCounts) {
  const auto column = parse_sampler_column("price", ordered_json::parse(R"({
      "sampler": "integer", "params": {"low": 0, "high": 0}, "convert_to": "str",
      "conditional_params": {"kind == 'car' and year >= 2000": {"low": 2, "high": 2},
                             "{{ kind == 'car' }}": {"low": 1, "high": 1},
                             "kind is undefined": {"low": 3, "high": 3},
                             "'tr' ~ 'ue' if kind == 'boat'": {"low": 4, "high": 4}}})"),
                                           "/columns/0");
  ASSERT_TRUE(column) << column.error().message;
  EXPECT_EQ(column->needs(), (std::vector<std::string>{"kind", "year"}));
  const std::pair<const char*, const char*> cases[] = {{R"({"kind": "car", "year": 2001})", "2"},
                                                       {R"({"kind": "car", "year": 1999})", "1"},
                                                       {R"({"kind": "bike", "year": 2001})", "0"},
                                                       {R"({"kind": "boat", "year": 1})", "4"}};
  for (const auto& [record, value] : cases) {
    Stream stream(1, 1);
    EXPECT_EQ(*draw(*column, ordered_json::parse(record), stream), value) << record;
  }
  Stream stream(1, 1);
  const auto mixed = draw(*column, {{"kind", "car"}, {"year", "new"}}, stream);
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message,
              HasSubstr("/columns/0/conditional_params: condition 'kind =="));
}

TEST(SamplerColumn, Errors) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"params": {}})", "/k/sampler: missing"},
      {R"({"sampler": "uuid", "parms": {}})", "/k/parms: unknown key, did you mean params?"},
      {R"({"sampler": "uid"})", "/k/sampler: 'uid'; valid: category, subcategory"},
      {R"({"sampler": "bernoulli", "params": {"p": 1}, "conditional_params": {"a >": {"p": 0}}})",
       "/k/conditional_params: condition 'a >'"},
      {R"({"sampler": "bernoulli", "params": {"p": 1}, "conditional_params": {"a }} {{ b": {"p": 0}}})",
       "valid: one expression"},
      {R"({"sampler": "bernoulli", "params": {"p": 1}, "conditional_params": {"a > 1": {"q": 0}}})",
       "/k/conditional_params/a > 1/q: unknown key"},
      {R"({"sampler": "bernoulli", "params": {"p": 1}, "convert_to": 3})",
       "/k/convert_to: 3; valid: a string"},
  };
  for (const auto& [fields, message] : cases) {
    const auto column = parse_sampler_column("x", ordered_json::parse(fields), "/k");
    ASSERT_FALSE(column) << fields;
    EXPECT_THAT(column.error().message, HasSubstr(message));
  }
}

TEST(Rounding, DecimalsAreTheNearestAndInside) {
  EXPECT_EQ(round_decimals(0.125, 2), 0.12);
  EXPECT_EQ(round_decimals(-0.04, 1), 0);
  EXPECT_FALSE(std::signbit(round_decimals(-0.04, 1)));
  EXPECT_EQ(round_decimals(1e300, 2), 1e300);
  // Times ten million this is rounded down to a whole number, so that ceil has to go one further.
  const double above = 900000910.0 / 977;
  EXPECT_GE(ceil_decimals(above, 7), above);
  EXPECT_EQ(floor_decimals(above, 7), round_decimals(above, 7));
  EXPECT_LE(floor_decimals(-above, 7), -above);
  EXPECT_TRUE(rc::check([] {
    const double x =
        static_cast<double>(*rc::gen::inRange<std::int64_t>(-1000000000, 1000000000)) / 977;
    const int decimals = *rc::gen::inRange(0, 8);
    RC_ASSERT(ceil_decimals(x, decimals) >= x);
    RC_ASSERT(floor_decimals(x, decimals) <= x);
    const double step = std::pow(10, -decimals);
    RC_ASSERT(std::abs(round_decimals(x, decimals) - x) <= step / 2 + 1e-9);
    RC_ASSERT(ceil_decimals(x, decimals) - floor_decimals(x, decimals) <= step + 1e-9);
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
