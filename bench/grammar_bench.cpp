// What a grammar costs: compiling it, the mask of a place that is known and of one that is not, and
// choosing a token with a mask and without. The vocabulary is made up: all bytes, and pieces of
// words and of JSON.
//
// Usage: grammar_bench [TOKENS]. Microseconds, medians.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "grammar/compiler.h"
#include "grammar/matcher.h"

namespace dovetail {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double microseconds(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::shared_ptr<const grammar::Vocabulary> made_up(std::size_t size, std::mt19937& random) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("</s>");
  for (const char* piece :
       {"{\"", "\":", "\": \"", "\",", "\", \"", "\"}", "]}", "}}", "[\"", "\\n"})
    tokens.emplace_back(piece);
  while (tokens.size() < size) {
    std::string token = random() % 2 == 0 ? " " : "";
    for (std::size_t i = 1 + random() % 9; i > 0; --i) {
      token += static_cast<char>(random() % 40 == 0 ? "0123456789_-.,:\"}]\n"[random() % 19]
                                                    : 'a' + random() % 26);
    }
    tokens.push_back(std::move(token));
  }
  const std::vector<TokenId> ends = {256};
  return std::make_shared<const grammar::Vocabulary>(
      grammar::Vocabulary::create(tokens, ends).value());
}

struct Named {
  const char* name;
  grammar::SourceKind kind;
  const char* text;
};

constexpr Named kGrammars[] = {
    {"any JSON object", grammar::SourceKind::kJsonObject, ""},
    {"a person", grammar::SourceKind::kJsonSchema,
     R"({"type":"object","properties":{"name":{"type":"string","maxLength":40},"age":{"type":"integer",
     "minimum":0,"maximum":120},"email":{"type":"string","format":"email"},"tags":{"type":"array",
     "items":{"enum":["red","green","blue"]},"maxItems":5},"note":{"type":"string"}},
     "required":["name","age","email","tags","note"],"additionalProperties":false})"},
    {"a tree", grammar::SourceKind::kJsonSchema,
     R"({"type":"object","properties":{"value":{"type":"number"},"children":{"type":"array",
     "items":{"$ref":"#"}}},"required":["value","children"],"additionalProperties":false})"},
    {"a call if any", grammar::SourceKind::kStructure,
     R"({"sequence":[{"free":[{"literal":"<tool_call>"}]},{"optional":{"sequence":[
     {"literal":"<tool_call>\n{\"name\": \"weather_of\", \"arguments\": "},
     {"schema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer",
     "minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}},
     {"literal":"}\n</tool_call>"}]}}]})"},
    {"a call", grammar::SourceKind::kStructure,
     R"({"sequence":[{"literal":"<tool_call>\n{\"name\": \"weather_of\", \"arguments\": "},
     {"schema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer",
     "minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}},
     {"literal":"}\n</tool_call>"}]})"},
};

void measure(const Named& named, const std::shared_ptr<const grammar::Vocabulary>& vocabulary,
             std::mt19937& random) {
  std::vector<double> compiling;
  std::shared_ptr<const grammar::TokenMasks> masks;
  for (int i = 0; i < 3; ++i) {
    grammar::Compiler compiler(vocabulary);
    compiling.push_back(
        microseconds([&] { masks = compiler.compile(named.kind, named.text).value(); }));
  }
  std::vector<std::uint64_t> mask(vocabulary->words());
  std::vector<float> logits(vocabulary->size());
  std::normal_distribution<float> normal(0.0F, 3.0F);
  for (float& logit : logits) logit = normal(random);
  SamplingParams greedy;
  greedy.temperature = 0.0F;
  SamplingParams warm;
  warm.top_p = 0.95F;
  std::vector<double> first, again, accepting, greedy_plain, greedy_masked, warm_plain, warm_masked;
  for (int walk = 0; walk < 8; ++walk) {
    grammar::Matcher matcher(masks);
    for (int step = 0; step < 60 && !matcher.must_end(); ++step) {
      const std::size_t before = masks->kept_bytes();
      const double one = microseconds([&] { matcher.allowed(mask); });
      if (masks->kept_bytes() != before) first.push_back(one);
      again.push_back(microseconds([&] { matcher.allowed(mask); }));
      const auto choose = [&](const SamplingParams& params, bool masked) {
        engine::SamplingContext context;
        context.params = &params;
        context.seed = static_cast<std::uint64_t>(walk);
        context.position = static_cast<std::uint32_t>(step);
        if (masked) context.allowed = mask;
        return engine::sample(logits, context).value_or(0);
      };
      TokenId token = 0;
      greedy_plain.push_back(microseconds([&] { token = choose(greedy, false); }));
      greedy_masked.push_back(microseconds([&] { token = choose(greedy, true); }));
      warm_plain.push_back(microseconds([&] { token = choose(warm, false); }));
      warm_masked.push_back(microseconds([&] { token = choose(warm, true); }));
      bool taken = false;
      accepting.push_back(microseconds([&] { taken = matcher.accept(token); }));
      if (!taken || matcher.ended()) break;
    }
  }
  std::printf("%-18s %9.0f %9.0f %9.1f %7.1f %8.0f %8.0f %8.0f %8.0f %8zu %8.1f\n", named.name,
              median(compiling), median(first), median(again), median(accepting),
              median(greedy_plain), median(greedy_masked), median(warm_plain), median(warm_masked),
              masks->automaton().states(), static_cast<double>(masks->bytes()) / (1 << 20));
}

}  // namespace
}  // namespace dovetail

int main(int argc, char** argv) {
  using namespace dovetail;
  const std::size_t size = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 128'000;
  std::mt19937 random(1);
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
  const double making =
      microseconds([&] { vocabulary = made_up(std::max<std::size_t>(size, 300), random); });
  std::printf("%zu tokens, made in %.0f us\n", vocabulary->size(), making);
  std::printf("%-18s %9s %9s %9s %7s %8s %8s %8s %8s %8s %8s\n", "grammar", "compile", "new mask",
              "mask", "accept", "greedy", "masked", "top-p", "masked", "states", "MiB");
  for (const Named& named : kGrammars) measure(named, vocabulary, random);
  return 0;
}
