#include "pipeline/sample/sampler_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

Result<SamplerSet> make(const char* columns, const char* constraints = "[]",
                        std::vector<std::string> others = {}, SamplerSetOptions options = {}) {
  std::vector<SamplerColumn> parsed;
  const auto given = ordered_json::parse(columns);
  for (const auto& [name, fields] : given.items()) {
    auto column = parse_sampler_column(name, fields, "/" + name);
    if (!column) return fail(column.error());
    parsed.push_back(*std::move(column));
  }
  std::vector<Constraint> rules;
  std::size_t at = 0;
  const auto given_rules = ordered_json::parse(constraints);
  for (const auto& rule : given_rules) {
    auto constraint = parse_constraint(rule, fmt::format("/constraints/{}", at++));
    if (!constraint) return fail(constraint.error());
    rules.push_back(*std::move(constraint));
  }
  return SamplerSet::make(std::move(parsed), std::move(rules), others, options);
}

constexpr const char* kPair = R"({
    "a": {"sampler": "integer", "params": {"low": 0, "high": 9}},
    "b": {"sampler": "integer", "params": {"low": 0, "high": 9}},
    "c": {"sampler": "uuid"}})";

TEST(SamplerSet, ConstraintsGiveTheJointDistribution) {
  const auto set = make(kPair, R"([{"column": "a", "operator": "<", "other": "b"},
                                   {"column": "a", "operator": "ne", "value": 3}])");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->groups().size(), 2U);
  EXPECT_EQ(set->group_of(0), set->group_of(1));
  std::map<std::pair<int, int>, int> counts;
  constexpr std::uint64_t kRecords = 39000;
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    auto record = ordered_json::object();
    const Status status = set->draw_all(i, record);
    ASSERT_TRUE(status) << status.error().message;
    ++counts[{record["a"].get<int>(), record["b"].get<int>()}];
  }
  // 45 pairs with a < b, of which 6 have a = 3.
  EXPECT_EQ(counts.size(), 39U);
  double chi = 0;
  for (const auto& [pair, count] : counts) {
    EXPECT_LT(pair.first, pair.second);
    chi += (count - 1000.0) * (count - 1000.0) / 1000;
  }
  EXPECT_LT(chi, 87);  // 38 degrees of freedom; above it with chance 1e-5
}

TEST(SamplerSet, AnUnmetConstraintIsNamedWithItsFailures) {
  const auto set = make(kPair, R"([{"column": "a", "operator": ">=", "value": 10},
                                   {"column": "b", "operator": "<=", "value": 9},
                                   {"column": "a", "operator": "<", "other": "b"}])",
                        {}, {.run_seed = 1, .most_attempts = 50});
  ASSERT_TRUE(set);
  auto record = ordered_json::parse(R"({"z": 1})");
  const Status status = set->draw_all(0, record);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("'a >= 10' failed 50 times, 'a < b' failed"));
  EXPECT_THAT(status.error().message, testing::Not(HasSubstr("b <= 9")));
  EXPECT_EQ(record.dump(), R"({"z":1})");
}

TEST(SamplerSet, GroupsFollowNeedsAndConstraints) {
  // c hangs between a and b, which a constraint ties together: all three are drawn together.
  const auto set = make(R"({
      "late": {"sampler": "timedelta", "params": {"min": 1, "max": 2, "reference": "b"}},
      "b": {"sampler": "timedelta", "params": {"min": -5, "max": 5, "reference": "c"}},
      "c": {"sampler": "timedelta", "params": {"min": -5, "max": 5, "reference": "a"}},
      "a": {"sampler": "datetime", "params": {"start": "2024-01-01", "end": "2024-12-31"}},
      "d": {"sampler": "bernoulli", "params": {"p": 0}, "conditional_params": {"seed.x > 1": {"p": 1}}}})",
                        R"([{"column": "a", "operator": "<", "other": "b"},
                            {"column": "d", "operator": "==", "other": "flag"}])",
                        {"seed", "flag"});
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->groups().size(), 3U);
  const auto& group = set->groups()[set->group_of(3)];
  EXPECT_THAT(group.columns, ElementsAre(3, 2, 1));
  EXPECT_THAT(group.needs, testing::IsEmpty());
  EXPECT_THAT(set->groups()[set->group_of(0)].needs, ElementsAre("b"));
  EXPECT_THAT(set->groups()[set->group_of(4)].needs, ElementsAre("seed", "flag"));
  EXPECT_LT(set->group_of(3), set->group_of(0));
  for (std::uint64_t i = 0; i < 500; ++i) {
    auto record = ordered_json::parse(R"({"seed": {"x": 2}, "flag": 1})");
    ASSERT_TRUE(set->draw_all(i, record));
    EXPECT_LT(record["a"], record["b"]);
    EXPECT_LT(record["b"], record["late"]);
    EXPECT_EQ(record["d"], 1);
  }
}

TEST(SamplerSet, ValuesDoNotDependOnOrderOrOnOtherColumns) {
  const auto all = make(kPair);
  const auto one = make(R"({"b": {"sampler": "integer", "params": {"low": 0, "high": 9}}})");
  ASSERT_TRUE(all && one);
  for (std::uint64_t i = 100; i-- > 0;) {
    auto left = ordered_json::object();
    auto right = ordered_json::object();
    ASSERT_TRUE(all->draw_all(i, left) && one->draw_all(i, right));
    EXPECT_EQ(left["b"], right["b"]);
  }
}

TEST(SamplerSet, Errors) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"({"a": {"sampler": "timedelta", "params": {"min": 1, "max": 2, "reference": "b"}},
           "b": {"sampler": "timedelta", "params": {"min": 1, "max": 2, "reference": "c"}},
           "c": {"sampler": "timedelta", "params": {"min": 1, "max": 2, "reference": "b"}}})",
       "[]", "sampler columns need each other: b -> c -> b"},
      {R"({"a": {"sampler": "timedelta", "params": {"min": 1, "max": 2, "reference": "sed"}}})",
       "[]", "column 'a' needs 'sed', an unknown column; valid: seed, a (did you mean 'seed'?)"},
      {R"({"seed": {"sampler": "uuid"}})", "[]", "column 'seed' is there twice"},
      {R"({"k": {"sampler": "category", "params": {"values": ["x", 2]}},
           "s": {"sampler": "subcategory", "params": {"category": "k", "values": {"x": [1]}}}})",
       "[]", "column 's': no list for the value 2 of its category 'k'"},
      {R"({"a": {"sampler": "uuid"}})", R"([{"column": "q", "operator": "<", "value": 1}])",
       "constraint 'q < 1': unknown column 'q'; valid: seed, a"},
      {R"({"a": {"sampler": "uuid"}})", R"([{"column": "seed", "operator": "<", "value": 1}])",
       "constraint 'seed < 1': no sampler column"},
      {R"({"a": {"sampler": "uuid"}})", R"([{"column": "a", "operator": "=<", "value": 1}])",
       "/constraints/0/operator: \"=<\"; valid: <, <="},
      {R"({"a": {"sampler": "uuid"}})", R"([{"column": "a", "operator": "<"}])",
       "/constraints/0/value: missing"},
      {R"({"a": {"sampler": "uuid"}})",
       R"([{"column": "a", "operator": "<", "value": 1, "other": "b"}])",
       "/constraints/0/other: \"b\"; valid: only one"},
      {R"({"a": {"sampler": "uuid"}})", R"([{"column": "a", "operator": "<", "value": [1]}])",
       "/constraints/0/value: [1]; valid: a number or text"},
  };
  for (const auto& [columns, constraints, message] : cases) {
    const auto set = make(columns, constraints, {"seed"});
    ASSERT_FALSE(set) << columns << constraints;
    EXPECT_THAT(set.error().message, HasSubstr(message));
  }
  const auto set =
      make(R"({"a": {"sampler": "uuid"}})", R"([{"column": "a", "operator": "<", "value": 1}])");
  ASSERT_TRUE(set);
  auto record = ordered_json::object();
  EXPECT_THAT(set->draw_all(0, record).error().message,
              HasSubstr("have no order; valid: two numbers"));
}

}  // namespace
}  // namespace dovetail::pipeline
