#include "cores/laws/play.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

namespace dovetail::cores {
namespace {

using BlockKey = std::pair<TaskId, std::uint32_t>;

bool fits(const GroupSpec& group, const TaskShape& shape, LaneMask lanes) {
  return choose_lanes(group, shape, lanes) == lanes;
}

}  // namespace

Ticks Played::start_of(TaskId id) const {
  Ticks start = ~Ticks{0};
  for (const Span& span : spans) {
    if (span.task == id) start = std::min(start, span.start);
  }
  return start;
}

const Span& Played::only_part(TaskId id) const {
  const auto is_its = [&](const Span& span) { return span.task == id; };
  if (std::count_if(spans.begin(), spans.end(), is_its) != 1) {
    throw std::logic_error(fmt::format("task {} has not one part", id));
  }
  return *std::find_if(spans.begin(), spans.end(), is_its);
}

std::vector<TaskId> Played::order() const {
  std::vector<std::pair<Ticks, TaskId>> starts;
  for (const Span& span : spans) starts.emplace_back(start_of(span.task), span.task);
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<TaskId> order;
  for (const auto& [start, task] : starts) order.push_back(task);
  return order;
}

namespace {

// Where a law about waiting is broken: looks at every moment at which anything happened.
class Moments {
 public:
  Moments(const Topology& machine, const std::vector<Job>& jobs, const Played& played)
      : machine_(machine), jobs_(jobs), played_(played) {
    for (const Job& job : jobs) {
      times_.insert(job.at);
      last_start_.push_back(0);
    }
    for (const Span& span : played.spans) {
      times_.insert(span.start);
      times_.insert(span.end);
      last_start_[span.task] = std::max(last_start_[span.task], span.start);
    }
  }

  // No lane is idle while a task that needs no more waits, and no group while the oldest mixed one
  // does; except where lanes may be kept for somebody. For a mixed task they are so many as it
  // needs, of one group. Which ones are kept for cohorts is not known here.
  void check_idle_lanes(std::vector<std::string>& found) const {
    for (const Ticks now : times_) {
      const Job* mixed = oldest_waiting(now, [](const Job& job) { return is_mixed(job); });
      const bool cohort =
          oldest_waiting(now, [](const Job& job) { return is_cohort(job); }) != nullptr;
      if (cohort) continue;
      const std::vector<LaneMask> idle = idle_lanes(now);
      if (mixed != nullptr) {
        if (fits_anywhere(mixed->shape, idle)) {
          found.push_back(
              fmt::format("at {} mixed task {} waits beside idle lanes", now, mixed->id));
        }
      }
      for (const TaskShape shape : {kMatrixTask, kVectorTask, k1C1V, k1C2V, k2V, kWholeGroup}) {
        const Job* job = oldest_waiting(
            now, [&](const Job& one) { return one.shape == shape && !is_cohort(one); });
        if (job == nullptr || job == mixed || !fits_beside(mixed, shape, idle)) continue;
        found.push_back(fmt::format("at {} task {} waits beside idle lanes", now, job->id));
      }
    }
  }

  // While a task of one lane is the oldest of its kind that waits, few blocks of mixed tasks and
  // cohorts that use such lanes start.
  void check_patience(std::uint32_t patience, std::vector<std::string>& found) const {
    std::uint32_t most = patience;
    for (const Job& job : jobs_) {
      if (is_cohort(job)) most = std::max(most, patience + job.blocks);
    }
    for (const Job& job : jobs_) {
      if (is_mixed(job) || is_cohort(job) || job.blocks > 1) continue;
      std::uint32_t passed = 0;
      std::set<std::pair<TaskId, std::uint32_t>> seen;
      for (const Span& span : played_.spans) {
        const Job& other = jobs_[span.task];
        const bool uses = other.shape.whole_group ||
                          (job.shape.matrix > 0 ? other.shape.matrix > 0 : other.shape.vector > 0);
        if (!(other.shape.is_mixed() || is_cohort(other)) || !uses || span.start <= job.at ||
            span.start >= last_start_[job.id] || !seen.insert({span.task, span.block}).second) {
          continue;
        }
        // Of what starts at the same moment as the one before it in its queue nobody knows what
        // came first.
        const Job* oldest = oldest_waiting(span.start - 1, [&](const Job& one) {
          return one.shape == job.shape && !is_cohort(one);
        });
        passed += oldest == &job ? 1 : 0;
      }
      if (passed > most) {
        found.push_back(fmt::format("task {} was passed over by {} blocks", job.id, passed));
      }
    }
  }

  // On a machine of one group: while a mixed task that needs all of it is the oldest that waits,
  // few younger cohorts start.
  void check_cohorts(std::uint32_t patience, std::vector<std::string>& found) const {
    if (machine_.groups().size() != 1) return;
    for (const Job& job : jobs_) {
      if (!is_mixed(job) || !needs_all(job) || job.blocks > 1) continue;
      std::set<TaskId> passed;
      for (const Span& span : played_.spans) {
        const Job& other = jobs_[span.task];
        if (!is_cohort(other) || other.at <= job.at || span.start >= last_start_[job.id]) continue;
        const Job* oldest =
            oldest_waiting(span.start - 1, [](const Job& one) { return is_mixed(one); });
        if (oldest == &job) passed.insert(other.id);
      }
      if (passed.size() > patience) {
        found.push_back(
            fmt::format("mixed task {} was passed over by {} cohorts", job.id, passed.size()));
      }
    }
  }

  // On a machine of one group: while a mixed task that needs all of it is the oldest that waits, no
  // more tasks of one lane start there than were parked, and those whose turn it is.
  void check_turns(std::vector<std::string>& found) const {
    // Cohorts go first, and what is kept for them is nobody else's.
    if (machine_.groups().size() != 1 || std::any_of(jobs_.begin(), jobs_.end(), is_cohort)) return;
    for (const Job& job : jobs_) {
      if (!is_mixed(job) || !needs_all(job) || job.blocks > 1) continue;
      std::size_t before = 0;
      for (const Span& span : played_.spans) {
        if (jobs_[span.task].shape.is_mixed() || span.start <= job.at ||
            span.start >= last_start_[job.id]) {
          continue;
        }
        const Job* oldest = oldest_waiting(
            span.start, [](const Job& one) { return is_mixed(one) || is_cohort(one); });
        before += oldest == &job ? 1 : 0;
      }
      if (before > machine_.lanes() + 2) {
        found.push_back(
            fmt::format("mixed task {} waited for {} tasks of a single lane", job.id, before));
      }
    }
  }

 private:
  static bool is_cohort(const Job& job) { return job.together && job.blocks > 1; }
  static bool is_mixed(const Job& job) { return job.shape.is_mixed() && !is_cohort(job); }
  bool needs_all(const Job& job) const {
    return job.shape.whole_group || job.shape.lanes() == machine_.lanes();
  }

  template <class Which>
  const Job* oldest_waiting(Ticks now, Which which) const {
    const Job* oldest = nullptr;
    for (const Job& job : jobs_) {
      if (!which(job) || job.at > now || last_start_[job.id] <= now) continue;
      if (oldest == nullptr || std::pair(job.at, job.id) < std::pair(oldest->at, oldest->id)) {
        oldest = &job;
      }
    }
    return oldest;
  }

  std::vector<LaneMask> idle_lanes(Ticks now) const {
    std::vector<LaneMask> idle;
    for (const GroupSpec& group : machine_.groups()) idle.push_back(group.all());
    for (const Span& span : played_.spans) {
      if (span.start <= now && now < span.end) idle[span.group] &= ~(LaneMask{1} << span.lane);
    }
    return idle;
  }

  bool fits_anywhere(const TaskShape& shape, const std::vector<LaneMask>& idle) const {
    for (std::size_t group = 0; group < idle.size(); ++group) {
      if (choose_lanes(machine_.groups()[group], shape, idle[group]) != 0) return true;
    }
    return false;
  }

  // Whether there is room for the shape whichever lanes are kept for the mixed task, if there is
  // one.
  bool fits_beside(const Job* mixed, const TaskShape& shape,
                   const std::vector<LaneMask>& idle) const {
    std::size_t groups = 0;
    for (GroupId group = 0; group < idle.size(); ++group) {
      const GroupSpec& spec = machine_.groups()[group];
      if (choose_lanes(spec, shape, idle[group]) == 0) continue;
      if (mixed == nullptr || ++groups > 1) return true;
      if (mixed->shape.whole_group || shape.is_mixed()) continue;
      const LaneMask usable = idle[group] & (shape.matrix > 0 ? spec.matrix : spec.vector);
      if (static_cast<unsigned>(std::popcount(usable)) > mixed->shape.lanes()) return true;
    }
    return false;
  }

  const Topology& machine_;
  const std::vector<Job>& jobs_;
  const Played& played_;
  std::set<Ticks> times_;
  std::vector<Ticks> last_start_;  // by task: of its blocks
};

}  // namespace

Played play(const std::string& topology, const std::vector<Job>& jobs,
            const DispatchOptions& options) {
  const auto machine = Topology::parse(topology);
  if (!machine) throw std::logic_error(machine.error().message);
  VirtualMachine player(*machine, options, [&](TaskId task, std::uint32_t, GroupId, unsigned) {
    return jobs.at(task).takes;
  });
  for (const Job& job : jobs) {
    const Status ok =
        player.submit({job.id, job.shape, job.blocks, job.together, job.cost}, job.at);
    if (!ok) throw std::logic_error(ok.error().message);
  }
  Played played;
  played.left = player.run();
  played.spans = player.spans();
  played.moves = player.moves();
  played.waits = player.waits();
  played.end = player.now();
  return played;
}

namespace {

// How parts that have to start together may do so.
enum class Together { kAtOnce, kOverlapping, kAnyhow };

bool started_together(const std::vector<Span>& parts, Together how) {
  if (how == Together::kAnyhow) return true;
  Ticks first = parts.front().start, last = first, end = parts.front().end;
  for (const Span& part : parts) {
    first = std::min(first, part.start);
    last = std::max(last, part.start);
    end = std::min(end, part.end);
  }
  return how == Together::kAtOnce ? first == last : last <= end;
}

// Every part of every block runs once, where and when it may.
void check_safety(const Topology& machine, const std::vector<Job>& jobs,
                  const std::vector<Span>& all, Together mixed, Together cohorts,
                  std::vector<std::string>& found) {
  std::map<std::pair<GroupId, unsigned>, std::vector<Span>> by_lane;
  std::map<BlockKey, std::vector<Span>> by_block;
  for (const Span& span : all) {
    by_lane[{span.group, span.lane}].push_back(span);
    by_block[{span.task, span.block}].push_back(span);
    if (span.start < jobs.at(span.task).at) {
      found.push_back(fmt::format("task {} ran before it was ready", span.task));
    }
  }
  for (auto& [lane, spans] : by_lane) {
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < spans.size(); ++i) {
      if (spans[i].start < spans[i - 1].end) {
        found.push_back(fmt::format("group {} lane {} runs tasks {} and {} at a time", lane.first,
                                    lane.second, spans[i - 1].task, spans[i].task));
      }
    }
  }
  for (const Job& job : jobs) {
    std::vector<Span> of_job;
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
      const auto parts = by_block.find({job.id, block});
      if (parts == by_block.end()) {
        found.push_back(fmt::format("task {} block {} did not run", job.id, block));
        continue;
      }
      of_job.insert(of_job.end(), parts->second.begin(), parts->second.end());
      const GroupId group = parts->second.front().group;
      LaneMask lanes = 0;
      for (const Span& part : parts->second) {
        const LaneMask bit = LaneMask{1} << part.lane;
        if (part.group != group || (lanes & bit) != 0) {
          found.push_back(
              fmt::format("task {} block {} ran in two groups, or a part twice", job.id, block));
        }
        lanes |= bit;
      }
      if (job.shape.is_mixed() && !started_together(parts->second, mixed)) {
        found.push_back(fmt::format("task {} block {}: its parts start apart", job.id, block));
      }
      if (!fits(machine.groups()[group], job.shape, lanes)) {
        found.push_back(fmt::format("task {} block {} ran on lanes {:b} of group {}", job.id, block,
                                    lanes, group));
      }
    }
    if (job.together && job.blocks > 1 && !of_job.empty() && !started_together(of_job, cohorts)) {
      found.push_back(fmt::format("the blocks of cohort {} start apart", job.id));
    }
  }
}

}  // namespace

std::vector<std::string> violations_of_threads(const Topology& machine,
                                               const std::vector<Job>& jobs,
                                               const std::vector<Span>& spans, bool together) {
  std::vector<std::string> found;
  const Together how = together ? Together::kOverlapping : Together::kAnyhow;
  check_safety(machine, jobs, spans, how, how, found);
  return found;
}

std::vector<std::string> violations(const std::string& topology, const std::vector<Job>& jobs,
                                    const Played& played, const DispatchOptions& options) {
  const AdmissionPolicy policy = options.policy;
  std::vector<std::string> found;
  const auto machine = *Topology::parse(topology);
  if (played.left > 0) found.push_back(fmt::format("{} tasks never ran", played.left));
  check_safety(machine, jobs, played.spans,
               policy == AdmissionPolicy::kStrict ? Together::kAtOnce : Together::kAnyhow,
               Together::kAtOnce, found);
  std::vector<Ticks> starts(jobs.size(), ~Ticks{0});
  for (const Span& span : played.spans) {
    starts[span.task] = std::min(starts[span.task], span.start);
  }
  for (const Job& older : jobs) {
    for (const Job& younger : jobs) {
      const bool equal = older.shape == younger.shape && older.together == younger.together &&
                         older.cost == younger.cost && older.blocks == 1 && younger.blocks == 1;
      // Mixed tasks that are parked in parts are bound to their group.
      if (older.shape.is_mixed() && policy != AdmissionPolicy::kStrict) continue;
      if (!equal || std::pair(older.at, older.id) >= std::pair(younger.at, younger.id)) continue;
      if (starts[older.id] > starts[younger.id]) {
        found.push_back(fmt::format("task {} overtakes its equal {}", younger.id, older.id));
      }
    }
  }
  if (played.left == 0 && policy == AdmissionPolicy::kStrict) {
    const Moments moments(machine, jobs, played);
    moments.check_idle_lanes(found);
    moments.check_patience(options.patience, found);
    moments.check_cohorts(options.patience, found);
    const bool lengths_known =
        std::any_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.cost > 0; });
    if (!lengths_known) moments.check_turns(found);
  }
  return found;
}

std::vector<std::string> violations_of_backfill(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  static constexpr const char* kMachines[] = {"1x(1C2V)", "2x(1C2V)", "1x(4L)",
                                              "2x(3L)",   "1x(2C4V)", "1x(2C2V)+2x(1C1V)"};
  const std::string topology = kMachines[below(std::size(kMachines))];
  DispatchOptions options;
  options.parks = false;  // the younger one may not push what is parked to other lanes, either
  std::vector<Job> jobs;
  const auto add = [&](const TaskShape& shape, Ticks at, std::uint32_t blocks = 1) {
    const Ticks takes = 1 + below(40);
    jobs.push_back({jobs.size(), shape, at, takes, blocks, blocks > 1, takes});
  };
  const std::uint64_t before = 1 + below(8);
  for (std::uint64_t i = 0; i < before; ++i)
    add(below(3) == 0 ? kMatrixTask : kVectorTask, below(10));
  const Dispatcher dispatcher(*Topology::parse(topology), options);
  static constexpr TaskShape kWide[] = {k1C1V, k1C2V, k2V, kWholeGroup};
  const TaskId wide = jobs.size();
  const bool cohort = below(3) == 0;
  add(cohort ? kVectorTask : kWide[below(4)], 10, cohort ? 2 + below(4) : 1);
  if (!dispatcher.check({wide, jobs[wide].shape, jobs[wide].blocks, cohort, 0})) return {};
  const Ticks without = play(topology, jobs, options).start_of(wide);
  add(below(2) == 0 ? kMatrixTask : kVectorTask, 11 + below(20));
  const Ticks with = play(topology, jobs, options).start_of(wide);
  if (with <= without) return {};
  return {fmt::format("{}: with task {} at {} task {} starts at {} and not at {}", topology,
                      wide + 1, jobs.back().at, wide, with, without)};
}

namespace {

History draw(std::mt19937_64& random, const Load& load) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  History history;
  history.topology = load.topology;
  history.options.patience = static_cast<std::uint32_t>(1 + below(8));
  history.options.parks = below(4) != 0;
  const Dispatcher dispatcher(*Topology::parse(history.topology), history.options);
  static constexpr TaskShape kShapes[] = {kMatrixTask, kVectorTask, kVectorTask, k1C1V,
                                          k1C2V,       k2V,         kWholeGroup};
  const bool costs_known = below(3) == 0;
  const bool cohorts = below(2) == 0, many_cohorts = cohorts && below(2) == 0;
  const std::uint64_t mixed_share = 1 + below(6);
  const Ticks spread = 1 + below(100);
  const std::uint64_t count = 1 + below(load.jobs);
  Ticks at = 0;
  while (history.jobs.size() < count) {
    Job job;
    job.id = history.jobs.size();
    job.shape = below(mixed_share) == 0 ? kShapes[3 + below(4)] : kShapes[below(3)];
    if (job.id % load.burst == 0) at += below(spread);
    job.at = at;
    job.takes = 1 + below(40);
    if (costs_known) job.cost = job.takes;
    if (below(many_cohorts ? 2 : 5) == 0) {
      job.blocks = static_cast<std::uint32_t>(2 + below(load.blocks - 1));
    }
    job.together = cohorts && below(many_cohorts ? 2 : 3) == 0;
    if (dispatcher.check({job.id, job.shape, job.blocks, job.together, job.cost})) {
      history.jobs.push_back(job);
    }
  }
  return history;
}

}  // namespace

History random_history(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  static constexpr const char* kMachines[] = {"1x(1C2V)", "2x(1C2V)", "5x(1C2V)",
                                              "1x(4L)",   "2x(3L)",   "1x(2C2V)+2x(1C1V)"};
  Load load;
  load.topology = kMachines[random() % std::size(kMachines)];
  return draw(random, load);
}

History random_history(std::uint64_t seed, const Load& load) {
  std::mt19937_64 random(seed);
  return draw(random, load);
}

}  // namespace dovetail::cores
