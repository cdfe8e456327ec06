#include "laws/checker/lane_law_checker.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "laws/checker/cheapest_lanes.h"
#include "laws/checker/kept_lanes.h"

namespace dovetail::laws {

using cores::GroupId;
using cores::GroupSpec;
using cores::LaneMask;
using cores::TaskShape;
using Together = LaneRules::Together;

namespace {

constexpr LaneMask bit(unsigned lane) { return LaneMask{1} << lane; }

// Whether a block may run on these lanes and some more.
bool may_be_part(const GroupSpec& group, const TaskShape& shape, LaneMask lanes) {
  if (shape.whole_group) return true;
  const auto count = [](LaneMask mask) { return static_cast<unsigned>(std::popcount(mask)); };
  return count(lanes & ~group.vector) <= shape.matrix &&
         count(lanes & ~group.matrix) <= shape.vector && count(lanes) <= shape.lanes();
}

bool uses(const TaskShape& shape, bool matrix) {
  return shape.whole_group || (matrix ? shape.matrix : shape.vector) > 0;
}

}  // namespace

LaneRules LaneRules::of(const cores::DispatchOptions& options) {
  LaneRules rules;
  rules.patience = options.patience;
  rules.parks = options.parks;
  if (options.policy == cores::AdmissionPolicy::kStrict) return rules;
  // Parts of mixed tasks are given to lanes one by one, and bound to their group where they are
  // parked.
  rules.mixed = Together::kAnyhow;
  rules.oldest_mixed_first = false;
  rules.bounded = false;
  return rules;
}

LaneRules LaneRules::on_threads(bool together) {
  LaneRules rules;
  rules.mixed = rules.cohorts = together ? Together::kOverlapping : Together::kAnyhow;
  rules.oldest_first = rules.oldest_mixed_first = rules.bounded = false;
  return rules;
}

LaneLawChecker::LaneLawChecker(const cores::Topology& machine, const LaneRules& rules)
    : groups_(machine.groups().begin(), machine.groups().end()), rules_(rules) {
  for (const GroupSpec& group : groups_) {
    idle_.push_back(group.all());
    running_.emplace_back(static_cast<std::size_t>(std::bit_width(group.all())));
    since_kept_.emplace_back(running_.back().size());
  }
  singles_[kMatrix].shape = cores::kMatrixTask;
  singles_[kVector].shape = cores::kVectorTask;
}

void LaneLawChecker::see(const LaneEvent& event) {
  if (!violations_.empty()) return;
  if (event.at < now_) return violate("an event of {} comes late", event.at);
  if (event.at > now_) {
    judge_moment();
    if (!violations_.empty()) return;
    begin_moment();
    now_ = event.at;
  }
  switch (event.kind) {
    case LaneEvent::Kind::kReady:
      return ready(event);
    case LaneEvent::Kind::kStart:
      return start(event);
    case LaneEvent::Kind::kEnd:
      return end(event);
  }
}

void LaneLawChecker::finish() {
  if (!violations_.empty()) return;
  judge_moment();
  if (!violations_.empty() || unended_ == 0) return;
  for (const auto& [id, task] : tasks_) {
    for (std::uint32_t block = 0; block < task.blocks.size(); ++block) {
      const Block& one = task.blocks[block];
      if (one.lanes == 0) return violate("law 4: task {} block {} did not run", id, block);
      if (!is_whole(task, one) || one.ended != one.lanes)
        return violate("law 4: task {} block {} did not run to its end", id, block);
    }
  }
}

LaneLawChecker::Line& LaneLawChecker::line_of(const cores::ReadyTask& task) {
  if (task.together && task.blocks > 1) return cohorts_;
  if (!task.shape.is_mixed()) return singles_[task.shape.matrix > 0 ? kMatrix : kVector];
  const std::pair key{task.shape.whole_group, task.shape.matrix * 256U + task.shape.vector};
  Line& line = mixed_[key];
  line.shape = task.shape;
  return line;
}

const LaneLawChecker::Line* LaneLawChecker::oldest_mixed() const {
  const Line* oldest = nullptr;
  for (const auto& [shape, line] : mixed_) {
    if (line.waiting.empty()) continue;
    if (oldest == nullptr || line.oldest()->order < oldest->oldest()->order) oldest = &line;
  }
  return oldest;
}

bool LaneLawChecker::is_whole(const Task& task, const Block& block) const {
  return block.lanes != 0 &&
         choose_lanes(groups_[block.group], task.is.shape, block.lanes) == block.lanes;
}

void LaneLawChecker::ready(const LaneEvent& event) {
  const std::uint64_t order = tasks_.size();
  const auto [place, is_new] = tasks_.try_emplace(event.task.id);
  if (!is_new) return violate("law 4: task {} becomes ready twice", event.task.id);
  Task& task = place->second;
  task.is = event.task;
  task.order = order;
  task.blocks.resize(task.is.blocks);
  if (task.is.blocks == 0) return;  // it only joins others
  task.line = &line_of(task.is);
  task.line->waiting.emplace(order, &task);
  ++unended_;
}

void LaneLawChecker::start(const LaneEvent& event) {
  const auto [id, number] = std::pair(event.task.id, event.block);
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return violate("law 1: task {} starts before it is ready", id);
  Task& task = found->second;
  if (number >= task.blocks.size())
    return violate("law 4: task {} block {} runs, but it has {}", id, number, task.blocks.size());
  if (event.group >= groups_.size() || (groups_[event.group].all() & bit(event.lane)) == 0)
    return violate("law 2: task {} runs on lane {} of group {}", id, event.lane, event.group);
  Running& lane = running_[event.group][event.lane];
  if (lane.task != nullptr) {
    return violate("law 2: group {} lane {} runs tasks {} and {} at a time", event.group,
                   event.lane, lane.task->is.id, id);
  }
  Block& block = task.blocks[number];
  if (block.lanes != 0 && block.group != event.group)
    return violate("law 2: task {} block {} runs in two groups", id, number);
  if (is_whole(task, block) || (block.lanes & bit(event.lane)) != 0)
    return violate("law 4: task {} block {} runs twice", id, number);
  const bool begins = block.lanes == 0;
  block.group = event.group;
  block.lanes |= bit(event.lane);
  if (!may_be_part(groups_[event.group], task.is.shape, block.lanes)) {
    return violate("law 2: task {} block {} runs on lanes {:b} of group {}", id, number,
                   block.lanes, event.group);
  }
  lane = {&task, number, now_};
  idle_[event.group] &= ~bit(event.lane);
  starts_.emplace_back(&task, number);
  if (!is_cohort(task) && (task.is.shape.is_mixed() || task.is.cost == 0))
    ++since_kept_[event.group][event.lane].started;
  if (!begins) return;
  Line& line = *task.line;
  if (++task.started == 1 && is_cohort(task)) started_cohorts_.push_back(&task);
  ++line.started;
  if (line.youngest == nullptr || line.youngest->order < task.order) line.youngest = &task;
  if (++task.begun == task.blocks.size()) line.waiting.erase(task.order);
}

void LaneLawChecker::end(const LaneEvent& event) {
  const auto [id, number] = std::pair(event.task.id, event.block);
  const bool exists =
      event.group < groups_.size() && (groups_[event.group].all() & bit(event.lane)) != 0;
  Running* lane = exists ? &running_[event.group][event.lane] : nullptr;
  if (lane == nullptr || lane->task == nullptr || lane->task->is.id != id ||
      lane->block != number) {
    return violate("law 2: task {} block {} ends on group {} lane {}, where it does not run", id,
                   number, event.group, event.lane);
  }
  Task& task = *lane->task;
  Block& block = task.blocks[number];
  *lane = {};
  idle_[event.group] |= bit(event.lane);
  block.ended |= bit(event.lane);
  ends_.emplace_back(&task, number);
  if (block.ended == block.lanes && is_whole(task, block) && ++task.ended == task.blocks.size())
    --unended_;
}

void LaneLawChecker::begin_moment() {
  for (const auto& [task, block] : starts_) task->started = 0;
  starts_.clear();
  ends_.clear();
  started_cohorts_.clear();
  const auto begin = [](Line& line) {
    line.youngest = nullptr;
    line.started = 0;
  };
  begin(cohorts_);
  for (Line& line : singles_) begin(line);
  for (auto& [shape, line] : mixed_) begin(line);
  for (const Kind kind : {kMatrix, kVector}) single_waits_[kind] = singles_[kind].oldest();
  const Line* mixed = oldest_mixed();
  mixed_waits_ = mixed == nullptr ? nullptr : mixed->oldest();
}

void LaneLawChecker::judge_moment() {
  judge_together();
  judge_order();
  if (!rules_.bounded) return;
  judge_idle_lanes();
  for (const Kind kind : {kMatrix, kVector}) judge_patience(kind);
  judge_cohorts();
  count_turns();
  judge_kept();
}

// Where parts start at once, all that have started in this moment are whole; where they overlap,
// all of which a part has ended.
void LaneLawChecker::judge_together() {
  const auto judge = [&](const auto& parts, Together how) {
    for (const auto& [task, number] : parts) {
      const Block& block = task->blocks[number];
      if (rules_.mixed == how && !is_whole(*task, block))
        return violate("law 2: task {} block {}: its parts start apart", task->is.id, number);
      const auto whole = [&, one = task](const Block& other) { return is_whole(*one, other); };
      if (rules_.cohorts == how && is_cohort(*task) &&
          !std::all_of(task->blocks.begin(), task->blocks.end(), whole))
        return violate("law 2: the blocks of cohort {} start apart", task->is.id);
    }
  };
  judge(starts_, Together::kAtOnce);
  judge(ends_, Together::kOverlapping);
}

void LaneLawChecker::judge_order() {
  const auto judge = [&](const Line& line) {
    const Task* oldest = line.oldest();
    if (line.youngest == nullptr || oldest == nullptr || line.youngest->order <= oldest->order)
      return;
    violate("law 4: task {} overtakes its equal {}", line.youngest->is.id, oldest->is.id);
  };
  if (rules_.oldest_first) {
    judge(cohorts_);
    for (const Line& line : singles_) judge(line);
  }
  if (rules_.oldest_mixed_first) {
    for (const auto& [shape, line] : mixed_) judge(line);
  }
}

void LaneLawChecker::judge_idle_lanes() {
  Waiting waiting;
  std::vector<const Task*> who;
  if (const Task* cohort = cohorts_.oldest()) {
    waiting.cohort = {cohort->is.shape, cohort->is.blocks};
    who.push_back(cohort);
  }
  const Line* oldest = oldest_mixed();
  if (oldest != nullptr) waiting.mixed = oldest->shape;
  const auto add = [&](const Line& line) {
    if (line.waiting.empty()) return;
    if (&line != oldest) waiting.shapes.push_back(line.shape);
    who.push_back(line.oldest());
  };
  for (const auto& [shape, line] : mixed_) add(line);
  for (const Line& line : singles_) add(line);
  if (who.empty() || may_be_idle(groups_, idle_, waiting)) return;
  std::sort(who.begin(), who.end(),
            [](const Task* a, const Task* b) { return a->order < b->order; });
  std::string names;
  for (const Task* task : who) names += fmt::format(" {}", task->is.id);
  violate("law 1: lanes are idle that need not be kept, and these wait:{}", names);
}

// By blocks of mixed tasks and cohorts that need lanes of the kind.
void LaneLawChecker::judge_patience(Kind kind) {
  std::uint32_t& passed = passed_by_blocks_[kind];
  if (single_waits_[kind] == nullptr || singles_[kind].started > 0) {
    passed = 0;
    return;
  }
  std::uint32_t blocks = 0, largest = 1;
  for (const auto& [shape, line] : mixed_) {
    if (uses(line.shape, kind == kMatrix)) blocks += line.started;
  }
  for (const Task* task : started_cohorts_) {
    if (!uses(task->is.shape, kind == kMatrix)) continue;
    blocks += task->started;
    largest = std::max(largest, task->started);
  }
  passed += blocks;
  if (blocks == 0 || passed < rules_.patience + largest) return;
  violate("law 4: task {} was passed over by {} blocks", single_waits_[kind]->is.id, passed);
}

bool LaneLawChecker::leaves_no_room(const Task& cohort, const TaskShape& shape) const {
  std::vector<LaneMask> taken(groups_.size(), 0);
  for (const Block& block : cohort.blocks) taken[block.group] |= block.lanes;
  for (GroupId group = 0; group < groups_.size(); ++group) {
    const GroupSpec& spec = groups_[group];
    if (choose_lanes(spec, shape, spec.all() & ~taken[group]) != 0) return false;
  }
  return true;
}

// While the oldest mixed task waits, younger cohorts start that leave it no room.
void LaneLawChecker::judge_cohorts() {
  if (mixed_waits_ == nullptr || mixed_waits_->started > 0) {
    passed_by_cohorts_ = 0;
    return;
  }
  for (const Task* task : started_cohorts_) {
    if (task->order > mixed_waits_->order && leaves_no_room(*task, mixed_waits_->is.shape))
      ++passed_by_cohorts_;
  }
  if (passed_by_cohorts_ <= rules_.patience) return;
  violate("law 4: mixed task {} was passed over by {} cohorts", mixed_waits_->is.id,
          passed_by_cohorts_);
}

// The oldest mixed task, if no cohort goes first: those that wait do, until as many younger ones
// have started as may.
const LaneLawChecker::Task* LaneLawChecker::has_lanes_kept() const {
  const Line* line = oldest_mixed();
  if (line == nullptr) return nullptr;
  if (rules_.patience == 0) return nullptr;  // then it is always the turn of those of one lane
  if (!cohorts_.waiting.empty() && passed_by_cohorts_ < rules_.patience) return nullptr;
  return line->oldest();
}

bool LaneLawChecker::has_one_choice(const TaskShape& shape) const {
  std::size_t groups = 0, whole = 0;
  for (const GroupSpec& group : groups_) {
    const LaneMask lanes = choose_lanes(group, shape, group.all());
    groups += lanes != 0;
    whole += lanes == group.all();
  }
  return groups == 1 && whole == 1;
}

void LaneLawChecker::count_turns() {
  std::size_t blocks = cohorts_.started;
  for (const auto& [shape, line] : mixed_) blocks += line.started;
  for (const Kind kind : {kMatrix, kVector}) {
    const Line& line = singles_[kind];
    if (line.started > 0) since_single_[kind] = 0;
    if (line.started == 0 && line.waiting.empty()) continue;
    since_single_[kind] += blocks;
    for_a_turn_[kind] += blocks;
  }
}

// Once lanes are kept for a mixed task, nothing more is parked there. Something can be parked
// behind what began before that moment, and nothing else: lanes are kept before tasks are parked,
// and a lane that has just begun what was parked there has nothing more.
void LaneLawChecker::judge_kept() {
  const Task* has_kept = has_lanes_kept();
  const bool same = has_kept == has_kept_ && has_kept != nullptr && has_kept->started == 0 &&
                    (cohorts_.started == 0 || has_one_choice(has_kept->is.shape));
  has_kept_ = has_kept;
  if (has_kept == nullptr) return;
  if (!same) {
    for_a_turn_ = since_single_;
    for (GroupId group = 0; group < groups_.size(); ++group) {
      for (unsigned index = 0; index < running_[group].size(); ++index) {
        const Running& lane = running_[group][index];
        const bool from_before = lane.task != nullptr && lane.since < now_;
        since_kept_[group][index] = {0, rules_.parks && from_before};
      }
    }
    return;
  }
  std::int64_t turns = 0;
  for (const std::size_t passed : for_a_turn_)
    turns += static_cast<std::int64_t>(passed / rules_.patience);
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), others = 0;
  for (GroupId group = 0; group < groups_.size() && least > turns; ++group) {
    std::vector<std::int64_t> too_many;
    for (const Since& lane : since_kept_[group])
      too_many.push_back(std::int64_t{lane.started} - (lane.may_have_parked ? 1 : 0));
    const LaneMask lanes = cheapest_lanes(groups_[group], has_kept->is.shape, too_many);
    if (lanes == 0) continue;
    std::int64_t sum = 0, started = 0;
    cores::for_each_lane(lanes, [&](unsigned lane) {
      sum += too_many[lane];
      started += since_kept_[group][lane].started;
    });
    if (sum >= least) continue;
    least = sum;
    others = started;
  }
  if (least <= turns) return;
  violate("law 4: mixed task {} waited for {} others, whichever lanes were kept for it",
          has_kept->is.id, others);
}

}  // namespace dovetail::laws
