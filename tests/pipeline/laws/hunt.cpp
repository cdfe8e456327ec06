// dovetail_run_hunt N: runs random pipelines with the N-th fault of the runner until a law is seen
// broken. Exit code 0: it was seen; or N is 0, the runner as it is, and nothing was.

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "pipeline/run/lease_board.h"
#include "pipeline/run/mutation.h"
#include "pipeline/run/run_fixture.h"
#include "support/mutant_argument.h"

namespace dovetail::pipeline {
namespace {

constexpr const char* kPipeline = R"(
models:
  one: {endpoint: "http://localhost:1/v1", model: g}
  two: {endpoint: "http://localhost:1/v1", model: j}
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
  - {name: a, type: llm-text, model: one, prompt: "a {{ i }}", skip_if: "{{ i % 5 == 4 }}"}
  - {name: b, type: llm-text, model: one, prompt: "b {{ a }}"}
  - {name: c, type: expression, value: "{{ b }}!"}
  - name: d
    type: llm-judge
    model: two
    answer: option
    prompt: "d {{ c }} {{ i }}"
    rubrics: [{name: good, description: is it, options: {"yes": it is, "no": it is not}}]
  - {name: e, type: llm-text, model: one, prompt: "e {{ i }}"}
)";

// The first violation of a run that two workers make, one after the other, while ranges are taken
// from them; empty: none.
std::string play_shared(std::uint32_t number) {
  std::mt19937 random(number);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random()) % bound;
  };
  const std::uint32_t records = 1 + below(60), size = 1 + below(12), slots = 1 + below(6);
  const PipelineSpec spec =
      spec_of(fmt::format("records: {}\nwindow: {}\norder: {}\n{}", records, 1 + below(30),
                          below(2) == 0 ? "fair" : "finish-first", kPipeline));
  std::vector<std::size_t> order((records + size - 1) / size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  LeaseBoard board(records, size, order);
  const RunFolder folder;
  const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
  RunLaws laws(spec);
  const int stop_after = static_cast<int>(below(100));
  std::atomic<int> answers{0};
  std::mutex mutex;
  const auto script = [&](const ModelRequest&) -> Result<ModelAnswer> {
    ++answers;
    const std::lock_guard lock(mutex);
    if (below(20) == 0) board.take_away(below(static_cast<std::uint32_t>(order.size())));
    if (below(20) == 0) return fail(ErrorKind::kTimeout, "away");
    return answer(below(10) == 0 ? "perhaps" : "yes");
  };
  for (int session = 0; session < 2; ++session) {
    ScriptedModel one(slots, script), two(slots, script);
    const auto stop = [&] {
      return session == 0 && answers.load() >= stop_after ? StopLevel::kFinish : StopLevel::kNone;
    };
    const Session result =
        run_worker(spec, *store, {one.client(), two.client()}, board.port(), stop, &laws);
    if (!result.progress) return result.progress.error().message;
    if (!result.violations.empty()) return result.violations.front();
    for (std::size_t range = 0; range < order.size(); ++range) board.take_away(range);
  }
  return "";
}

// The first violation of one run in up to two sessions; empty: none.
std::string play(std::uint32_t number) {
  std::mt19937 random(number);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random()) % bound;
  };
  const PipelineSpec spec =
      spec_of(fmt::format("records: {}\nwindow: {}\norder: {}\n{}", 1 + below(60), 1 + below(30),
                          below(2) == 0 ? "fair" : "finish-first", kPipeline));
  const std::uint32_t slots[] = {1 + below(6), 1 + below(6)};
  const std::uint32_t invalid = 2 + below(8), away = 2 + below(20);
  const RunFolder folder;
  RunLaws laws(spec);
  const int stop_after = static_cast<int>(below(100));
  for (int session = 0; session < 2; ++session) {
    std::atomic<int> answers{0};
    std::mutex mutex;
    std::map<std::string, std::uint32_t> asked;
    const auto script = [&](const ModelRequest& request) -> Result<ModelAnswer> {
      ++answers;
      const std::lock_guard lock(mutex);
      const std::uint32_t time = ++asked[prompt_of(request)];
      if (time == 1 && asked.size() % away == 0) return fail(ErrorKind::kTimeout, "away");
      return answer(time == 1 && asked.size() % invalid == 0 ? "perhaps" : "yes");
    };
    ScriptedModel one(slots[0], script), two(slots[1], script);
    const bool stops = session == 0 && stop_after > 0;
    const Session result = run_session(
        spec, folder.path(), {one.client(), two.client()},
        [&] {
          return stops && answers.load() >= stop_after ? StopLevel::kFinish : StopLevel::kNone;
        },
        &laws);
    if (!result.progress) return result.progress.error().message;
    if (!result.violations.empty()) return result.violations.front();
  }
  return "";
}

}  // namespace
}  // namespace dovetail::pipeline

int main(int argc, char** argv) {
  constexpr std::uint32_t kMost = 60;
  using dovetail::pipeline::RunMutant;
  const bool is_product = dovetail::activate_mutant_argument<RunMutant>(argc, argv) == 0;
  for (std::uint32_t number = 0; number < kMost; ++number) {
    std::string fault = dovetail::pipeline::play(number);
    if (fault.empty()) fault = dovetail::pipeline::play_shared(number);
    if (fault.empty()) continue;
    std::printf("mutant %s is seen in run %u: %s\n", argv[1], number, fault.c_str());
    return is_product ? 1 : 0;
  }
  std::printf("mutant %s is not seen in %u runs\n", argv[1], kMost);
  return is_product ? 0 : 1;
}
