#include "simulate/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dovetail::simulate {
namespace {

using testing::HasSubstr;

std::vector<Arrival> all(const Workload& workload) {
  std::vector<Arrival> arrivals;
  while (const auto next = workload()) arrivals.push_back(*next);
  return arrivals;
}

std::vector<Arrival> generated(const WorkloadSpec& spec) {
  const auto workload = generate(spec);
  EXPECT_TRUE(workload.has_value()) << workload.error().message;
  return all(*workload);
}

TEST(Workload, LawsOfArrival) {
  WorkloadSpec spec;
  spec.requests = 4;
  spec.arrivals = "all";
  for (const Arrival& arrival : generated(spec)) EXPECT_EQ(arrival.time, 0);
  spec.arrivals = "uniform:4";
  EXPECT_EQ(generated(spec)[3].time, 750000000);
  spec.arrivals = "burst:2@0.5";
  const auto bursts = generated(spec);
  EXPECT_EQ(bursts[1].time, 0);
  EXPECT_EQ(bursts[2].time, 500000000);
  EXPECT_EQ(bursts[3].time, 500000000);
  spec.requests = 20000;
  spec.arrivals = "poisson:100";
  const auto poisson = generated(spec);
  EXPECT_NEAR(static_cast<double>(poisson.back().time) * 1e-9, 200.0, 6.0);
  for (std::size_t i = 1; i < poisson.size(); ++i) EXPECT_LE(poisson[i - 1].time, poisson[i].time);
}

TEST(Workload, LawsOfLength) {
  WorkloadSpec spec;
  spec.requests = 20000;
  spec.prompt = "uniform:3-5";
  spec.output = "lognormal:100:0.5";
  std::vector<std::uint32_t> outputs;
  std::uint32_t seen[6] = {};
  for (const Arrival& arrival : generated(spec)) {
    ASSERT_GE(arrival.prompt_tokens, 3U);
    ASSERT_LE(arrival.prompt_tokens, 5U);
    ++seen[arrival.prompt_tokens];
    outputs.push_back(arrival.output_tokens);
  }
  for (int tokens = 3; tokens <= 5; ++tokens) EXPECT_NEAR(seen[tokens], 20000 / 3.0, 350);
  std::nth_element(outputs.begin(), outputs.begin() + 10000, outputs.end());
  EXPECT_NEAR(outputs[10000], 100, 3);
  spec.output = "longtail:10";
  std::uint32_t longest = 0;
  for (const Arrival& arrival : generated(spec)) {
    ASSERT_GE(arrival.output_tokens, 10U);
    longest = std::max(longest, arrival.output_tokens);
  }
  EXPECT_GT(longest, 500U);
  EXPECT_LE(longest, 640U);
}

TEST(Workload, TheSameSeedGivesTheSameRequests) {
  WorkloadSpec spec;
  spec.families = 3;
  spec.shared_tokens = 100;
  spec.tenants = 4;
  const auto one = generated(spec), again = generated(spec);
  spec.seed = 2;
  const auto other = generated(spec);
  ASSERT_EQ(one.size(), 1000U);
  bool differs = false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].time, again[i].time);
    EXPECT_EQ(one[i].family, again[i].family);
    EXPECT_EQ(one[i].shared_tokens, 100U);
    EXPECT_TRUE(one[i].family >= 1 && one[i].family <= 3 && one[i].tenant < 4);
    differs |= one[i].time != other[i].time;
  }
  EXPECT_TRUE(differs);
}

TEST(Workload, BadLawsAreNamed) {
  for (const char* law : {"", "fixed", "fixed:0", "fixed:x", "uniform:5-3", "uniform:5", "gauss:5",
                          "lognormal:5", "longtail:1e99", "fixed:nan"}) {
    WorkloadSpec spec;
    spec.prompt = law;
    const auto workload = generate(spec);
    ASSERT_FALSE(workload.has_value()) << law;
    EXPECT_THAT(workload.error().message, HasSubstr("prompt: '" + std::string(law) + "'"));
  }
  for (const char* law :
       {"", "poisson", "poisson:0", "poisson:-1", "burst:5", "burst:0@1", "now"}) {
    WorkloadSpec spec;
    spec.arrivals = law;
    const auto workload = generate(spec);
    ASSERT_FALSE(workload.has_value()) << law;
    EXPECT_THAT(workload.error().message, HasSubstr("arrivals: '" + std::string(law) + "'"));
  }
}

TEST(Trace, IsReadInAnyOrderOfColumnsAndTimes) {
  const auto arrivals = parse_trace(
      "# a comment\n output_tokens , arrival, prompt_tokens,tenant\r\n5, 2.5 "
      ",100,7\n\n6,0.25,50,8\n",
      "t.csv");
  ASSERT_TRUE(arrivals.has_value()) << arrivals.error().message;
  ASSERT_EQ(arrivals->size(), 2U);
  EXPECT_EQ((*arrivals)[0].time, 250000000);
  EXPECT_EQ((*arrivals)[0].prompt_tokens, 50U);
  EXPECT_EQ((*arrivals)[0].tenant, 8U);
  EXPECT_EQ((*arrivals)[1].output_tokens, 5U);
  EXPECT_EQ((*arrivals)[1].family, 0U);
}

TEST(Trace, ErrorsNameFileLineAndColumn) {
  const std::string head = "arrival,prompt_tokens,output_tokens\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "t.csv: it is empty"},
      {"arrival,prompt_tokens\n", "t.csv:1: column 'output_tokens' is missing"},
      {"arrival,prompt_tokens,output_tokens,colour\n", "column 'colour' is unknown"},
      {"arrival,arrival,prompt_tokens,output_tokens\n", "there twice"},
      {head + "1,2\n", "t.csv:2: 2 fields, expected 3"},
      {head + "1,2,3\n1,x,3\n", "t.csv:3: prompt_tokens: 'x' is no number"},
      {head + "1,0,3\n", "t.csv:2: prompt_tokens: 0 is out of range"},
      {head + "1,1.5,3\n", "expected a whole number"},
      {head + "-1,1,3\n", "t.csv:2: arrival: -1 is out of range"},
      {head + "inf,1,3\n", "t.csv:2: arrival: 'inf' is no number"},
      {head + "1,1,99999999999\n", "output_tokens: 99999999999 is out of range"}};
  for (const auto& [text, message] : cases) {
    const auto arrivals = parse_trace(text, "t.csv");
    ASSERT_FALSE(arrivals.has_value()) << text;
    EXPECT_THAT(arrivals.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace dovetail::simulate
