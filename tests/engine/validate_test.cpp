#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/sampling_table.h"
#include "engine/options.h"
#include "support/sampling_samples.h"

namespace dovetail::engine {
namespace {

constexpr RequestLimits kLimits{100, 64, 4, 10};

Request good() {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 5;
  return request;
}

TEST(Validate, AcceptsWhatFits) {
  EXPECT_TRUE(validate(good(), kLimits));
  Request whole = good();
  whole.max_tokens = 61;
  EXPECT_TRUE(validate(whole, kLimits));
  whole.max_tokens = 0;
  EXPECT_TRUE(validate(whole, kLimits));
  // It has no new tokens that would not fit.
  whole.max_tokens = 1000;
  whole.no_output = true;
  whole.prompt_logprobs = 20;
  EXPECT_TRUE(validate(whole, kLimits));
}

TEST(Validate, AnEndlessQueueIsNoOverflow) {
  RequestLimits limits = kLimits;
  limits.max_waiting = std::numeric_limits<std::uint32_t>::max();
  Request request = good();
  request.n = 128;
  EXPECT_TRUE(validate(request, limits));
  request.n = 129;
  EXPECT_FALSE(validate(request, limits));
}

TEST(Validate, NamesFieldValueAndWhatIsValid) {
  struct Case {
    void (*change)(Request&);
    const char* message;
  };
  const Case cases[] = {
      {[](Request& r) { r.prompt.clear(); }, "prompt: it has no tokens, expected at least one"},
      {[](Request& r) { r.prompt[1] = 100; },
       "prompt: token id 100 is out of range, expected 0 to 99"},
      {[](Request& r) { r.prompt[1] = -1; },
       "prompt: token id -1 is out of range, expected 0 to 99"},
      {[](Request& r) { r.max_tokens = -2; }, "max_tokens: -2 is out of range, expected 1 or more"},
      {[](Request& r) { r.max_tokens = 62; },
       "max_tokens: a prompt of 3 tokens and 62 new ones need 65 positions, but the context has "
       "64"},
      {[](Request& r) { r.prompt.assign(64, 1), r.max_tokens = 0; },
       "prompt: 64 tokens, but the context has 64 positions, one of them for what follows"},
      {[](Request& r) { r.min_tokens = 6; },
       "min_tokens: 6 is out of range, expected 0 to max_tokens (5)"},
      {[](Request& r) {
         r.stop = {"a", ""};
       },
       "stop: an empty string"},
      {[](Request& r) { r.stop_ids = {100}; },
       "stop_ids: token id 100 is out of range, expected 0 to 99"},
      {[](Request& r) { r.logprobs = 21; }, "logprobs: 21 is out of range, expected 0 to 20"},
      {[](Request& r) { r.prompt_logprobs = 21; },
       "prompt_logprobs: 21 is out of range, expected 0 to 20"},
      {[](Request& r) { r.prompt_logprobs = -2; },
       "prompt_logprobs: -2 is out of range, expected 0 to 20"},
      {[](Request& r) { r.prompt_logprobs = 3, r.embed = true; },
       "prompt_logprobs: 3 beside embed, expected one of the two"},
      {[](Request& r) { r.no_output = true, r.embed = true; },
       "no_output: true beside embed, expected one of the two"},
      {[](Request& r) { r.n = 0; }, "n: 0 is out of range, expected 1 to 14"},
      {[](Request& r) { r.n = 15; }, "n: 15 is out of range, expected 1 to 14"},
      {[](Request& r) { r.priority = 1001; },
       "priority: 1001 is out of range, expected -1000 to 1000"},
      {[](Request& r) { r.priority = -1001; },
       "priority: -1001 is out of range, expected -1000 to 1000"},
      {[](Request& r) { r.timeout = std::chrono::milliseconds(0); },
       "timeout: 0 ms is out of range, expected 1 to 31536000000"},
      {[](Request& r) { r.timeout = std::chrono::milliseconds::max(); },
       "timeout: 9223372036854775807 ms is out of range"},
      {[](Request& r) { r.tenant.assign(513, 'x'); },
       "tenant: 513 bytes are too long, expected at most 512"},
      {[](Request& r) { r.cache_salt.assign(513, 'x'); },
       "cache_salt: 513 bytes are too long, expected at most 512"},
      {[](Request& r) { r.sampling.temperature = -1; },
       "temperature: -1 is out of range, expected 0 to 100"},
      {[](Request& r) { r.sampling.temperature = std::numeric_limits<float>::quiet_NaN(); },
       "temperature: nan is out of range, expected 0 to 100"},
      {[](Request& r) { r.sampling.top_k = -1; },
       "top_k: -1 is out of range, expected 0 (off) or more"},
      {[](Request& r) { r.sampling.top_p = 0; },
       "top_p: 0 is out of range, expected above 0 and at most 1"},
      {[](Request& r) { r.sampling.min_p = 1.5F; }, "min_p: 1.5 is out of range, expected 0 to 1"},
      {[](Request& r) { r.sampling.repetition_penalty = 0; },
       "repetition_penalty: 0 is out of range, expected above 0 and at most 100"},
      {[](Request& r) { r.sampling.presence_penalty = 3; },
       "presence_penalty: 3 is out of range, expected -2 to 2"},
      {[](Request& r) { r.sampling.frequency_penalty = -3; },
       "frequency_penalty: -3 is out of range, expected -2 to 2"},
      {[](Request& r) {
         r.sampling.logit_bias = {{100, 1.0F}};
       },
       "logit_bias: token id 100 is out of range, expected 0 to 99"},
      {[](Request& r) {
         r.sampling.logit_bias = {{1, 101.0F}};
       },
       "logit_bias: 101 is out of range, expected -100 to 100"},
  };
  for (const Case& c : cases) {
    Request request = good();
    c.change(request);
    const Status status = validate(request, kLimits);
    ASSERT_FALSE(status) << c.message;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(status.error().message, testing::HasSubstr(c.message));
  }
}

TEST(Validate, HoldsParametersAgainstTheTable) {
  for (const SamplingRow& row : kSamplingRows) {
    Request request = good();
    for (const double value : {test::sample_of(row), row.most}) {
      set_sampling_value(request.sampling, row, value);
      EXPECT_EQ(sampling_value(request.sampling, row), value) << row.name;
      EXPECT_TRUE(validate(request, kLimits)) << row.name;
    }
    set_sampling_value(request.sampling, row, test::too_little(row));
    const Status status = validate(request, kLimits);
    ASSERT_FALSE(status) << row.name;
    EXPECT_THAT(status.error().message,
                testing::StartsWith(fmt::format("{}: {} is out of range, expected ", row.name,
                                                test::too_little(row))));
  }
}

}  // namespace
}  // namespace dovetail::engine
