#include "cores/laws/thread_laws.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <deque>
#include <random>
#include <thread>

#include "cores/executor.h"

namespace dovetail::cores {
namespace {

constexpr TaskShape kGroupOf1C2V = {1, 2, false};
constexpr TaskShape kBothVectors = {0, 2, false};

// An executor with a thread for each lane, beside that of the caller, and what its tasks share.
class Stage {
 public:
  Stage(const char* topology, const DispatchOptions& dispatch, std::chrono::milliseconds limit,
        const std::function<void(const std::string&)>& on_stall, bool caller_serves = false)
      : limit_(limit), executor_(*Topology::parse(topology), [&] {
          ExecutorOptions options;
          options.dispatch = dispatch;
          options.caller_serves = caller_serves;
          options.stall_limit = 2 * limit;
          options.on_stall = [on_stall](const Stall& stall) { on_stall(stall.message); };
          return options;
        }()) {}

  // Until it holds. Where it does not within the limit, no task waits any more.
  template <class Holds>
  void until(Holds holds) {
    const auto deadline = std::chrono::steady_clock::now() + limit_;
    while (!holds() && !gave_up_) {
      if (std::chrono::steady_clock::now() > deadline) gave_up_ = true;
      std::this_thread::yield();
    }
  }
  bool gave_up() const { return gave_up_; }

  TaskNumber submit(const TaskSpec& spec, const TaskFunction& function,
                    const std::vector<TaskNumber>& after = {}) {
    return executor_.submit(spec, function, {}, after).value();
  }

  // So many tasks of a lane each that wait for open(part), which all run before this returns.
  template <class Open>
  void hold(const TaskShape& shape, std::uint32_t lanes, Open open) {
    const std::uint32_t before = held_;
    for (std::uint32_t i = 0; i < lanes; ++i) {
      submit({shape}, [this, open](const Part& part) {
        ++held_;
        until([&] { return open(part); });
        ++let_go_;
      });
    }
    until([&] { return held_ == before + lanes; });
  }
  std::uint32_t let_go() const { return let_go_; }

  // No task fails.
  void wait() {
    [[maybe_unused]] const Status done = executor_.wait();
    assert(done);
  }
  std::size_t lanes() const { return executor_.topology().lanes(); }

 private:
  std::chrono::milliseconds limit_;
  std::atomic<bool> gave_up_{false};
  std::atomic<std::uint32_t> held_{0}, let_go_{0};
  Executor executor_;
};

// The numbers of tasks in the order in which they started: with whichever of their parts runs
// first, so that nothing that uses one of their lanes later is before them.
class Order {
 public:
  explicit Order(std::size_t tasks) : begun_(tasks), started_(tasks) {}

  // Its place, for the first of its parts.
  std::size_t start(std::uint32_t task) {
    if (begun_[task].exchange(true)) return 0;
    const std::size_t place = count_++;
    started_[place] = task;
    return place;
  }
  std::size_t count() const { return count_; }
  std::span<const std::uint32_t> started() const { return started_; }

 private:
  std::atomic<std::size_t> count_{0};
  std::vector<std::atomic<bool>> begun_;  // by task
  std::vector<std::uint32_t> started_;
};

// How many started before it.
std::size_t before(std::uint32_t task, std::span<const std::uint32_t> started) {
  return static_cast<std::size_t>(std::find(started.begin(), started.end(), task) -
                                  started.begin());
}

class Trial {
 public:
  Trial(std::uint64_t seed, std::chrono::milliseconds limit,
        const std::function<void(const std::string&)>& on_stall)
      : random_(seed), limit_(limit), on_stall_(on_stall) {
    dispatch_.starvation_bound = static_cast<std::uint32_t>(1 + below(8));
    dispatch_.pending_slots = below(4) != 0;
  }

  // What broke the first of them that is broken.
  std::vector<std::string> run() {
    const std::function<void()> laws[] = {
        [this] { gang_is_whole(); },        [this] { every_lane_runs(); },
        [this] { oldest_first(false); },    [this] { oldest_first(true); },
        [this] { both_kinds_by_age(); },    [this] { single_among_mixed(); },
        [this] { mixed_among_singles(); },  [this] { mixed_among_gangs(); },
        [this] { no_block_is_lost(); },     [this] { pending_work_moves(); },
        [this] { takes_no_lane_in_vain(); }};
    for (const auto& law : laws) {
      law();
      if (!found_.empty()) break;
    }
    return std::move(found_);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  Stage on(const char* topology, bool caller_serves = false) {
    return Stage(topology, dispatch_, limit_, on_stall_, caller_serves);
  }

  template <class... Values>
  void broken(fmt::format_string<Values...> text, Values&&... values) {
    found_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  // Rounds of as many parts as there are lanes, each of which waits for all others of its round.
  // One mixed task or gang at most: two would not be sure to find lanes beside single ones that
  // do not end.
  void every_lane_runs() {
    struct Kind {
      const char* topology;
      TaskSpec wide;
      std::uint32_t matrix, vector;          // beside it
      std::uint32_t all_matrix, all_vector;  // without it
    };
    static constexpr Kind kKinds[] = {
        {"2x(1C2V)", {kGroupOf1C2V}, 1, 2, 2, 4},
        {"2x(1C2V)", {kVectorTask, true, 4}, 2, 0, 2, 4},
        {"2x(1C2V)", {kBothVectors, true, 2}, 2, 0, 2, 4},
        {"1x(4L)", {kWholeGroup}, 0, 0, 2, 2},
        {"2x(2L)", {kWholeGroup}, 1, 1, 3, 1},
    };
    const Kind& kind = kKinds[below(std::size(kKinds))];
    Stage stage = on(kind.topology, below(2) == 0);
    const auto lanes = static_cast<std::uint32_t>(stage.lanes());
    std::deque<std::atomic<std::uint32_t>> met(20);
    std::vector<TaskNumber> after;
    for (auto& arrived : met) {
      const auto meets = [&stage, &arrived, lanes](const Part&) {
        ++arrived;
        stage.until([&] { return arrived == lanes; });
      };
      const bool wide = below(2) == 0;
      std::vector<TaskSpec> singles(wide ? kind.matrix : kind.all_matrix, {kMatrixTask});
      singles.resize(singles.size() + (wide ? kind.vector : kind.all_vector), {kVectorTask});
      std::shuffle(singles.begin(), singles.end(), random_);
      std::vector<TaskNumber> round;
      if (wide) round.push_back(stage.submit(kind.wide, meets, after));
      for (const TaskSpec& spec : singles) round.push_back(stage.submit(spec, meets, after));
      after = {stage.submit({TaskShape{}}, {}, round)};
    }
    stage.wait();
    if (!stage.gave_up()) return;
    const auto late = std::find_if(met.begin(), met.end(), [&](auto& n) { return n < lanes; });
    broken("{}: a lane of {} stood idle beside ready work, in round {} of {}", kind.topology, lanes,
           late - met.begin(), met.size());
  }

  // As many as there are lanes run at once, and are the oldest of both kinds.
  void oldest_first(bool dispatched) {
    static constexpr const char* kMachines[] = {"1x(4L)", "2x(2L)", "1x(1L)"};
    const char* topology = kMachines[below(std::size(kMachines))];
    Stage stage = on(topology);
    const auto lanes = static_cast<std::uint32_t>(stage.lanes());
    Order order(10 * lanes);
    std::atomic<bool> open{false};
    if (dispatched) {
      // While a mixed task is ready, no lane takes anything by itself, nor as long as there is
      // something with the dispatcher.
      stage.hold(kVectorTask, lanes, [&open](const Part&) { return open.load(); });
      stage.submit({kWholeGroup}, [](const Part&) {});
    }
    for (std::uint32_t task = 0; task < 10 * lanes; ++task) {
      const TaskShape shape = below(2) == 0 ? kMatrixTask : kVectorTask;
      stage.submit({shape}, [&stage, &order, task, lanes](const Part&) {
        const std::size_t wave = order.start(task) / lanes;
        stage.until([&] { return order.count() >= (wave + 1) * lanes; });
      });
    }
    open = true;
    stage.wait();
    for (std::uint32_t wave = 0; wave < 10; ++wave) {
      const auto started = order.started().subspan(wave * lanes, lanes);
      const std::uint32_t youngest = *std::max_element(started.begin(), started.end());
      if (youngest < (wave + 1) * lanes) continue;
      broken("{}: tasks {} start before older ones", topology, started);
      return;
    }
    if (stage.gave_up()) broken("{}: tasks of a lane each do not run at once", topology);
  }

  // The lane of the other kind is busy all the time.
  void both_kinds_by_age() {
    Stage stage = on("1x(1C1L)");
    static constexpr std::uint32_t kTasks = 60;
    Order order(kTasks);
    std::atomic<bool> open{false};
    stage.hold(kMatrixTask, 2, [&](const Part& part) {
      return part.lane == 0 ? order.count() == kTasks : open.load();
    });
    for (std::uint32_t task = 0; task < kTasks; ++task) {
      stage.submit({below(2) == 0 ? kMatrixTask : kVectorTask},
                   [&order, task](const Part&) { order.start(task); });
    }
    open = true;
    stage.wait();
    if (stage.gave_up()) broken("1x(1C1L): a lane of two kinds does not do both");
    if (!std::is_sorted(order.started().begin(), order.started().end()))
      broken("1x(1C1L): started in the order {}", order.started());
  }

  // In which order so many tasks start on 1x(1C2V), all of which are ready before the first of them
  // starts: of those that have a lane in common it is certain.
  template <class SpecOf>
  std::vector<std::uint32_t> order_of_starts(std::uint32_t tasks, SpecOf spec_of) {
    Stage stage = on("1x(1C2V)");
    Order order(tasks);
    std::atomic<bool> open{false};
    const auto opened = [&open](const Part&) { return open.load(); };
    stage.hold(kMatrixTask, 1, opened);
    stage.hold(kVectorTask, 2, opened);
    for (std::uint32_t task = 0; task < tasks; ++task) {
      // Of several lengths, so that the lanes do not come free at the same time.
      const auto yields = static_cast<std::uint32_t>(below(20));
      stage.submit(spec_of(task), [&order, task, yields](const Part&) {
        order.start(task);
        for (std::uint32_t i = 0; i < yields; ++i) std::this_thread::yield();
      });
    }
    open = true;
    stage.wait();
    return {order.started().begin(), order.started().end()};
  }

  void single_among_mixed() {
    static constexpr std::uint32_t kMixed = 40;
    std::vector<std::uint32_t> started = order_of_starts(kMixed + 1, [](std::uint32_t task) {
      return TaskSpec{task < kMixed ? kGroupOf1C2V : kVectorTask};
    });
    const std::size_t waited = before(kMixed, started);
    if (waited > dispatch_.starvation_bound) {
      broken("1x(1C2V): a vector task waited for {} mixed ones, starvation bound {}", waited,
             dispatch_.starvation_bound);
    }
    std::erase(started, kMixed);
    if (!std::is_sorted(started.begin(), started.end()))
      broken("1x(1C2V): mixed tasks started in the order {}", started);
  }

  void mixed_among_singles() {
    static constexpr std::uint32_t kSingles = 100, kMixed = 50;
    const std::vector<std::uint32_t> started = order_of_starts(
        kSingles + 1,
        [](std::uint32_t task) { return TaskSpec{task == kMixed ? kGroupOf1C2V : kVectorTask}; });
    const std::size_t waited = before(kMixed, started);
    if (waited > 4) broken("1x(1C2V): a mixed task waited for {} vector ones", waited);
  }

  void mixed_among_gangs() {
    static constexpr std::uint32_t kGangs = 40;
    const std::vector<std::uint32_t> started = order_of_starts(kGangs + 1, [](std::uint32_t task) {
      return task == 0 ? TaskSpec{kGroupOf1C2V} : TaskSpec{kVectorTask, true, 2};
    });
    const std::size_t waited = before(0, started);
    if (waited > dispatch_.starvation_bound) {
      broken("1x(1C2V): a mixed task waited for {} younger gangs, starvation bound {}", waited,
             dispatch_.starvation_bound);
    }
  }

  // The dispatcher hears of them, since a mixed task is ready.
  void no_block_is_lost() {
    Stage stage = on("1x(2L)");
    std::atomic<std::uint32_t> ran{0};
    std::atomic<bool> open{false};
    stage.hold(kVectorTask, 2, [&open](const Part&) { return open.load(); });
    stage.submit({kWholeGroup}, [](const Part&) {});
    std::uint32_t blocks = 0;
    for (std::uint32_t more = 1; more <= 8; ++more) {
      blocks += more;
      stage.submit({kVectorTask, false, more}, [&ran](const Part&) { ++ran; });
    }
    open = true;
    stage.wait();
    if (ran != blocks) broken("1x(2L): {} blocks ran instead of {}", ran.load(), blocks);
  }

  // The mixed task waits for the first group. The others, which came after it, are pending in the
  // second, where nothing ends before they have run: they have to find lanes in the first.
  void pending_work_moves() {
    Stage stage = on("2x(2L)");
    std::atomic<std::uint32_t> ran{0};
    std::atomic<bool> open{false};
    stage.hold(kVectorTask, 4,
               [&](const Part& part) { return part.group == 0 ? open.load() : ran == 2; });
    stage.submit({kWholeGroup}, [](const Part&) {});
    for (int i = 0; i < 2; ++i) stage.submit({kVectorTask}, [&ran](const Part&) { ++ran; });
    open = true;
    stage.wait();
    if (stage.gave_up()) broken("2x(2L): what was pending stayed behind a busy lane");
  }

  // Two mixed tasks wait, each for a vector lane of a group; one has lanes reserved for it, those
  // of the other group stay usable, and the vector lanes are let go by a task that needs one.
  void takes_no_lane_in_vain() {
    Stage stage = on("2x(1C2V)");
    std::atomic<bool> ran{false};
    stage.hold(kVectorTask, 4, [&ran](const Part&) { return ran.load(); });
    for (int i = 0; i < 2; ++i) stage.submit({kGroupOf1C2V}, [](const Part&) {});
    stage.submit({kMatrixTask}, [&ran](const Part&) { ran = true; });
    stage.wait();
    if (stage.gave_up()) broken("2x(1C2V): a mixed task took lanes before it had all");
  }

  // A gang that needs all vector lanes, of which some are held until a matrix task has run that
  // came after it.
  void gang_is_whole() {
    for (int round = 0; round < 20; ++round) {
      Stage stage = on("2x(1C2V)");
      const auto held = static_cast<std::uint32_t>(1 + below(3));
      std::atomic<bool> ran{false}, early{false};
      stage.hold(kVectorTask, held, [&ran](const Part&) { return ran.load(); });
      stage.submit({kVectorTask, true, 4}, [&stage, &early, held](const Part&) {
        if (stage.let_go() < held) early = true;
      });
      stage.submit({kMatrixTask}, [&ran](const Part&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for blocks that start early
        ran = true;
      });
      stage.wait();
      if (stage.gave_up()) return broken("2x(1C2V): {} tasks do not run at once", held);
      if (!early) continue;
      broken("2x(1C2V): a gang started where {} of its lanes were taken", held);
      return;
    }
  }

  std::mt19937_64 random_;
  std::chrono::milliseconds limit_;
  const std::function<void(const std::string&)>& on_stall_;
  DispatchOptions dispatch_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> broken_on_threads(
    std::uint64_t seed, std::chrono::milliseconds limit,
    const std::function<void(const std::string&)>& on_stall) {
  return Trial(seed, limit, on_stall).run();
}

}  // namespace dovetail::cores
