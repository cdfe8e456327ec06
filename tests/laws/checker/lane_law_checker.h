#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cores/dispatcher.h"
#include "laws/checker/lane_events.h"

namespace dovetail::laws {

// What a run over lanes has promised, and how well its clock tells.
struct LaneRules {
  // How parts start that belong together, those of a mixed block or all of a cohort.
  enum class Together : std::uint8_t {
    kAtOnce,       // at the same time
    kOverlapping,  // none ends before all have started
    kAnyhow,
  };
  Together mixed = Together::kAtOnce;
  Together cohorts = Together::kAtOnce;
  // Who becomes ready first, starts first: among cohorts, and among tasks of one lane for the same
  // kind of work,
  bool oldest_first = true;
  bool oldest_mixed_first = true;  // and among mixed tasks of one shape.
  // No lane is idle beside a task that could use it, and waiting is bounded both ways.
  bool bounded = true;
  // As in cores::DispatchOptions.
  std::uint32_t patience = 8;
  bool parks = true;

  // What the dispatcher promises, on lanes of a clock that shows it.
  static LaneRules of(const cores::DispatchOptions& options);
  // What clocks of threads can tell. `together`: every lane has a thread of its own.
  static LaneRules on_threads(bool together);
};

// Judges a run over lanes by its events alone. It keeps books of its own of every lane and every
// task; it knows nothing of how decisions are made. A violation names the law, as LawChecker does:
//
// 1 (live frontier): nothing starts before it is ready; no lane is idle beside a task that could
// use it, but those that are kept for the oldest cohort and the oldest mixed task. Which ones these
// are nobody says: there has to be a choice that explains it (kept_lanes.h).
// 2 (whole resource): every block runs on lanes of one group that fit its shape, a lane does one
// thing at a time, parts that belong together start together.
// 4 (oldest first, nothing lost): every part of every block runs once; equal tasks start in the
// order in which they became ready. Waiting is bounded: a task of one lane is passed over by
// `patience` blocks of mixed tasks and cohorts (a cohort that has begun to be counted counts
// whole), a mixed one by `patience` younger cohorts that leave it no room. The oldest mixed task
// has lanes of one group kept for it, the same ones until it starts, but while a cohort waits that
// goes first: what that does not need, anybody may use. (Where it could have other lanes, they may
// be others once a cohort has started.) So there has to be a choice of lanes on which, from the
// moment at which they are kept, it waits for no more others than can have been parked, one on each
// lane that still does what it did before, and those of one lane whose turn it is, one for each
// `patience` blocks of mixed tasks and cohorts that have started since one for the same kind of
// work did (those of known cost, which may be sure to end in time, are not counted).
//
// Events come in the order of lane_events.h. What has the same time is judged together, when time
// goes on: nobody knows in which order decisions of one moment were made.
class LaneLawChecker {
 public:
  LaneLawChecker(const cores::Topology& machine, const LaneRules& rules);

  // Takes the next event. What follows the first violation is not judged: the books are off then.
  void see(const LaneEvent& event);

  // No more events come, and everything should have ended.
  void finish();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Task;

  struct Block {
    cores::GroupId group = 0;
    cores::LaneMask lanes = 0;  // of the parts that have started
    cores::LaneMask ended = 0;  // ... and ended
  };

  // Tasks among which the oldest goes first, and what happened to them in this moment.
  struct Line {
    cores::TaskShape shape;
    std::map<std::uint64_t, Task*> waiting;  // those with blocks that have not started, by age
    Task* youngest = nullptr;                // of those that had a block start
    std::uint32_t started = 0;               // blocks

    Task* oldest() const { return waiting.empty() ? nullptr : waiting.begin()->second; }
  };

  struct Task {
    cores::ReadyTask is;
    std::uint64_t order = 0;
    std::vector<Block> blocks;
    std::uint32_t begun = 0, ended = 0;  // blocks
    std::uint32_t started = 0;           // blocks, in this moment
    Line* line = nullptr;
  };

  struct Running {
    Task* task = nullptr;
    std::uint32_t block = 0;
    cores::Ticks since = 0;
  };

  // What a lane has done since lanes are kept for the oldest mixed task.
  struct Since {
    std::uint32_t started = 0;  // parts of others
    bool may_have_parked = false;
  };

  enum Kind : std::size_t { kMatrix, kVector };

  template <class... Args>
  void violate(fmt::format_string<Args...> format, Args&&... args) {
    if (!violations_.empty()) return;
    violations_.push_back(
        fmt::format("at {}: {}", now_, fmt::format(format, std::forward<Args>(args)...)));
  }

  void ready(const LaneEvent& event);
  void start(const LaneEvent& event);
  void end(const LaneEvent& event);

  void judge_moment();
  void judge_together();
  void judge_order();
  void judge_idle_lanes();
  void judge_patience(Kind kind);
  void judge_cohorts();
  void count_turns();
  void judge_kept();
  void begin_moment();

  static bool is_cohort(const Task& task) { return task.is.together && task.is.blocks > 1; }
  bool is_whole(const Task& task, const Block& block) const;
  bool leaves_no_room(const Task& cohort, const cores::TaskShape& shape) const;
  Line& line_of(const cores::ReadyTask& task);
  const Line* oldest_mixed() const;
  const Task* has_lanes_kept() const;
  bool has_one_choice(const cores::TaskShape& shape) const;

  std::vector<cores::GroupSpec> groups_;
  LaneRules rules_;
  std::vector<std::string> violations_;
  cores::Ticks now_ = 0;

  std::map<cores::TaskId, Task> tasks_;
  std::size_t unended_ = 0;
  std::vector<std::vector<Running>> running_;  // by group and lane
  std::vector<cores::LaneMask> idle_;          // by group
  Line cohorts_;
  std::array<Line, 2> singles_;
  std::map<std::pair<bool, unsigned>, Line> mixed_;  // by shape

  // Of this moment.
  std::vector<std::pair<Task*, std::uint32_t>> starts_, ends_;  // blocks, one for each part
  std::vector<Task*> started_cohorts_;
  std::array<Task*, 2> single_waits_{};  // the oldest that waited when it began,
  Task* mixed_waits_ = nullptr;          // and the same of mixed tasks

  // How often whoever waits as the oldest has been passed over.
  std::array<std::uint32_t, 2> passed_by_blocks_{};
  std::uint32_t passed_by_cohorts_ = 0;

  // For whom lanes are kept, and what lanes have done since, by group and lane.
  const Task* has_kept_ = nullptr;
  std::vector<std::vector<Since>> since_kept_;
  std::array<std::size_t, 2> for_a_turn_{};  // blocks, with those from before that began
  // Blocks of mixed tasks and cohorts since one of a single lane started, while one waited.
  std::array<std::size_t, 2> since_single_{};
};

}  // namespace dovetail::laws
