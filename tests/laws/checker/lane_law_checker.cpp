#include "laws/checker/lane_law_checker.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "laws/checker/cheapest_lanes.h"
#include "laws/checker/reserved_lanes.h"

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

}  // namespace

LaneRules LaneRules::of(const cores::DispatchOptions& options) {
  LaneRules rules;
  rules.starvation_bound = options.starvation_bound;
  rules.pending_slots = options.pending_slots;
  if (options.may_stage()) rules.oldest_mixed_first = rules.bounded = false;
  if (options.policy == cores::AdmissionPolicy::kStrict) return rules;
  // Parts of mixed tasks are given to lanes one by one, and bound to their group where they are
  // pending.
  rules.mixed = Together::kAnyhow;
  rules.oldest_mixed_first = false;
  rules.bounded = false;
  return rules;
}

LaneRules LaneRules::on_threads(bool together) {
  LaneRules rules;
  rules.mixed = rules.gangs = together ? Together::kOverlapping : Together::kAnyhow;
  rules.oldest_first = rules.oldest_mixed_first = rules.bounded = false;
  return rules;
}

LaneLawChecker::LaneLawChecker(const cores::Topology& machine, const LaneRules& rules)
    : groups_(machine.groups().begin(), machine.groups().end()), rules_(rules) {
  for (const GroupSpec& group : groups_) {
    one_kind_ = one_kind_ && group.matrix == group.vector;
    lane_count_[kMatrix] += static_cast<std::size_t>(std::popcount(group.matrix));
    lane_count_[kVector] += static_cast<std::size_t>(std::popcount(group.vector));
    idle_.push_back(group.all());
    running_.emplace_back(static_cast<std::size_t>(std::bit_width(group.all())));
    since_reserved_.emplace_back(running_.back().size());
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
  if (task.together && task.blocks > 1) return gangs_;
  if (!task.shape.is_mixed()) return singles_[kind_of(task.shape)];
  const std::pair key{task.shape.whole_group, task.shape.matrix * 256U + task.shape.vector};
  Line& line = mixed_[key];
  line.shape = task.shape;
  return line;
}

// Where all lanes do both kinds of work, tasks of one lane are equal.
LaneLawChecker::Kind LaneLawChecker::kind_of(const TaskShape& shape) const {
  return shape.matrix > 0 && !one_kind_ ? kMatrix : kVector;
}

LaneMask LaneLawChecker::lanes_for(Kind kind, GroupId group) const {
  return kind == kMatrix ? groups_[group].matrix : groups_[group].vector;
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
  if (!is_gang(task) && (task.is.shape.is_mixed() || task.is.cost == 0))
    ++since_reserved_[event.group][event.lane].started;
  if (is_gang(task) || task.is.shape.is_mixed()) {
    wide_parts_.push_back({&task, number, event.group, event.lane});
  } else if ((groups_[event.group].matrix & groups_[event.group].vector & bit(event.lane)) != 0) {
    on_both_.push_back(&task);
  }
  if (!begins) return;
  Line& line = *task.line;
  if (++task.started == 1 && is_gang(task)) started_gangs_.push_back(&task);
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
  started_gangs_.clear();
  wide_parts_.clear();
  on_both_.clear();
  const auto begin = [](Line& line) {
    line.youngest = nullptr;
    line.started = 0;
  };
  begin(gangs_);
  for (Line& line : singles_) begin(line);
  for (auto& [shape, line] : mixed_) begin(line);
  for (const Kind kind : {kMatrix, kVector}) single_waits_[kind] = singles_[kind].oldest();
  const Line* mixed = oldest_mixed();
  mixed_waits_ = mixed == nullptr ? nullptr : mixed->oldest();
}

void LaneLawChecker::judge_moment() {
  judge_together();
  judge_order();
  if (rules_.oldest_first && !one_kind_) judge_kinds();
  if (!rules_.bounded) return;
  judge_idle_lanes();
  for (const Kind kind : {kMatrix, kVector}) judge_starvation_bound(kind);
  judge_gangs();
  count_turns();
  judge_reserved();
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
      if (rules_.gangs == how && is_gang(*task) &&
          !std::all_of(task->blocks.begin(), task->blocks.end(), whole))
        return violate("law 2: the blocks of gang {} start apart", task->is.id);
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
    judge(gangs_);
    for (const Line& line : singles_) judge(line);
  }
  if (rules_.oldest_mixed_first) {
    for (const auto& [shape, line] : mixed_) judge(line);
  }
}

// No lane of both kinds for the younger of two kinds. Lanes that are reserved go to those that are
// sure to end in time, which the older one is not where its cost is not known or larger.
void LaneLawChecker::judge_kinds() {
  for (const Task* task : on_both_) {
    const Task* other = singles_[kind_of(task->is.shape) == kMatrix ? kVector : kMatrix].oldest();
    if (other == nullptr || other->order > task->order) continue;
    const bool may_be_in_time =
        task->is.cost > 0 && (other->is.cost == 0 || other->is.cost > task->is.cost);
    if (may_be_in_time) continue;
    return violate("law 4: task {} has a lane of both kinds, for which the older {} waits",
                   task->is.id, other->is.id);
  }
}

void LaneLawChecker::judge_idle_lanes() {
  Waiting waiting;
  std::vector<const Task*> who;
  if (const Task* gang = gangs_.oldest()) {
    waiting.gang = {gang->is.shape, gang->is.blocks};
    who.push_back(gang);
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
  violate("law 1: lanes are idle that need not be reserved, and these wait:{}", names);
}

// Parts of mixed tasks and gangs that have started in this moment on lanes for the kind.
std::size_t LaneLawChecker::parts_for(Kind kind) const {
  return static_cast<std::size_t>(std::count_if(
      wide_parts_.begin(), wide_parts_.end(),
      [&](const WidePart& part) { return (lanes_for(kind, part.group) & bit(part.lane)) != 0; }));
}

// One that is older than all that wait of the kind has a lane of both.
bool LaneLawChecker::has_lost_its_turn(Kind kind) const {
  return std::any_of(on_both_.begin(), on_both_.end(), [&](const Task* task) {
    return kind_of(task->is.shape) != kind && task->order < single_waits_[kind]->order;
  });
}

// By mixed tasks and gangs on lanes for the kind.
void LaneLawChecker::judge_starvation_bound(Kind kind) {
  std::size_t& passed = passed_by_parts_[kind];
  if (single_waits_[kind] == nullptr || singles_[kind].started > 0 || has_lost_its_turn(kind)) {
    passed = 0;
    return;
  }
  const std::size_t parts = parts_for(kind);
  if (parts == 0) return;
  passed += parts;
  // Of the largest that goes as one: a gang, or a block.
  std::map<std::pair<const Task*, std::uint32_t>, std::size_t> whole;
  std::size_t largest = 0;
  for (const WidePart& part : wide_parts_) {
    if ((lanes_for(kind, part.group) & bit(part.lane)) == 0) continue;
    const std::uint32_t block = is_gang(*part.task) ? 0 : part.block;
    largest = std::max(largest, ++whole[{part.task, block}]);
  }
  if (passed < rules_.starvation_bound * lane_count_[kind] + largest) return;
  violate("law 4: task {} was passed over by {} parts, and a round has {}",
          single_waits_[kind]->is.id, passed, lane_count_[kind]);
}

bool LaneLawChecker::leaves_no_room(const Task& gang, const TaskShape& shape) const {
  std::vector<LaneMask> taken(groups_.size(), 0);
  for (const Block& block : gang.blocks) taken[block.group] |= block.lanes;
  for (GroupId group = 0; group < groups_.size(); ++group) {
    const GroupSpec& spec = groups_[group];
    if (choose_lanes(spec, shape, spec.all() & ~taken[group]) != 0) return false;
  }
  return true;
}

// While the oldest mixed task waits, younger gangs start that leave it no room.
void LaneLawChecker::judge_gangs() {
  if (mixed_waits_ == nullptr || mixed_waits_->started > 0) {
    passed_by_gangs_ = 0;
    return;
  }
  for (const Task* task : started_gangs_) {
    if (task->order > mixed_waits_->order && leaves_no_room(*task, mixed_waits_->is.shape))
      ++passed_by_gangs_;
  }
  if (passed_by_gangs_ <= rules_.starvation_bound) return;
  violate("law 4: mixed task {} was passed over by {} gangs", mixed_waits_->is.id,
          passed_by_gangs_);
}

// The oldest mixed task, if no gang goes first: those that wait do, until as many younger ones
// have started as may.
const LaneLawChecker::Task* LaneLawChecker::has_lanes_reserved() const {
  const Line* line = oldest_mixed();
  if (line == nullptr) return nullptr;
  if (rules_.starvation_bound == 0)
    return nullptr;  // then it is always the turn of those of one lane
  if (!gangs_.waiting.empty() && passed_by_gangs_ < rules_.starvation_bound) return nullptr;
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
  for (const Kind kind : {kMatrix, kVector}) {
    const Line& line = singles_[kind];
    if (line.started > 0) since_single_[kind] = 0;
    if (line.started == 0 && line.waiting.empty()) continue;
    const std::size_t parts = parts_for(kind);
    since_single_[kind] += parts;
    for_a_turn_[kind] += parts;
  }
}

// Once lanes are reserved for a mixed task, nothing more is pending there. Something can be pending
// behind what began before that moment, and nothing else: lanes are reserved before tasks are
// pending, and a lane that has just begun what was pending there has nothing more.
void LaneLawChecker::judge_reserved() {
  const Task* has_reserved = has_lanes_reserved();
  const bool same = has_reserved == has_reserved_ && has_reserved != nullptr &&
                    has_reserved->started == 0 &&
                    (gangs_.started == 0 || has_one_choice(has_reserved->is.shape));
  has_reserved_ = has_reserved;
  if (has_reserved == nullptr) return;
  if (!same) {
    for_a_turn_ = since_single_;
    for (GroupId group = 0; group < groups_.size(); ++group) {
      for (unsigned index = 0; index < running_[group].size(); ++index) {
        const Running& lane = running_[group][index];
        const bool from_before = lane.task != nullptr && lane.since < now_;
        since_reserved_[group][index] = {0, rules_.pending_slots && from_before};
      }
    }
    return;
  }
  std::int64_t turns = 0;
  for (const Kind kind : {kMatrix, kVector}) {
    if (lane_count_[kind] == 0) continue;
    turns += static_cast<std::int64_t>(for_a_turn_[kind] /
                                       (rules_.starvation_bound * lane_count_[kind]));
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), others = 0;
  for (GroupId group = 0; group < groups_.size() && least > turns; ++group) {
    std::vector<std::int64_t> too_many;
    for (const Since& lane : since_reserved_[group])
      too_many.push_back(std::int64_t{lane.started} - (lane.may_have_pending ? 1 : 0));
    const LaneMask lanes = cheapest_lanes(groups_[group], has_reserved->is.shape, too_many);
    if (lanes == 0) continue;
    std::int64_t sum = 0, started = 0;
    cores::for_each_lane(lanes, [&](unsigned lane) {
      sum += too_many[lane];
      started += since_reserved_[group][lane].started;
    });
    if (sum >= least) continue;
    least = sum;
    others = started;
  }
  if (least <= turns) return;
  violate("law 4: mixed task {} waited for {} others, whichever lanes were reserved for it",
          has_reserved->is.id, others);
}

}  // namespace dovetail::laws
