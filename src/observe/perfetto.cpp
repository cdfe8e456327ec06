#include "observe/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace dovetail::observe {
namespace {

// Groups of tracks.
enum Process : int { kSteps = 1, kSlots = 2, kSequences = 3, kLanes = 4 };
constexpr std::uint32_t kTracksOfLane = 3;
enum StepTrack : int { kStepTrack = 1, kEngineTrack = 2, kAheadTrack = 3 };

struct RowOfStep {
  std::uint64_t sequence = 0;
  std::uint32_t slot = 0, first = 0, tokens = 0, drafts = 0;
  bool decode = false;
};

struct Step {
  std::int64_t planned = 0;  // when planning began
  bool ahead = false;
  std::uint32_t prefill_rows = 0, decode_rows = 0, prefill_tokens = 0, tokens = 0;
  std::optional<std::int64_t> started;  // the forward pass
  std::vector<RowOfStep> rows;
};

struct Sequence {
  const char* state = nullptr;  // the open slice
  std::int64_t since = 0;
  std::optional<std::uint32_t> slot;
};

class Writer {
 public:
  explicit Writer(const std::function<void(std::string_view)>& out) : out_(out) {}

  void write(std::span<const Event> events, std::span<const LaneSlice> lanes);

 private:
  template <class... Args>
  void item(fmt::format_string<Args...> format, Args&&... args) {
    text_.clear();
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    out_(text_);
  }
  double us(std::int64_t time) const { return static_cast<double>(time - begin_) / 1000.0; }

  void name_process(int process, std::string_view name);
  void name_thread(int process, std::uint64_t thread, std::string_view name);
  void slice(int process, std::uint64_t thread, std::string_view name, std::int64_t begin,
             std::int64_t end);
  void instant(std::uint64_t sequence, std::string_view name, std::int64_t time);
  void see(const Event& event);
  void state(std::uint64_t id, const char* next, std::int64_t time);
  void end_plan(const Event& event);
  void end_step(const Event& event);
  void counters(std::int64_t time, std::uint32_t tokens);
  void name_lane(std::uint64_t thread, const LaneSlice& lane);
  void write_lanes(std::span<const LaneSlice> lanes);

  const std::function<void(std::string_view)>& out_;
  std::string text_;
  bool first_ = true;
  std::int64_t begin_ = 0;
  std::int64_t plan_began_ = 0;
  std::int64_t forwarded_ = 0;
  std::int64_t step_ended_ = 0;
  bool ahead_ = false;
  std::vector<RowOfStep> rows_;
  std::map<std::uint64_t, Step> steps_;  // not committed
  std::map<std::uint64_t, Sequence> sequences_;
  std::map<std::uint32_t, bool> slots_;            // those that have a name
  std::map<std::uint32_t, std::uint32_t> owners_;  // of blocks in use
  std::set<std::uint32_t> cached_;                 // blocks without a holder, but indexed
  std::set<std::uint32_t> indexed_;                // indexed blocks
  std::int64_t running_ = 0, waiting_ = 0;
};

void Writer::name_process(int process, std::string_view name) {
  item(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", process, name);
}

void Writer::name_thread(int process, std::uint64_t thread, std::string_view name) {
  item(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", process,
       thread, name);
}

void Writer::slice(int process, std::uint64_t thread, std::string_view name, std::int64_t begin,
                   std::int64_t end) {
  item(R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})", name, process,
       thread, us(begin), static_cast<double>(std::max<std::int64_t>(end - begin, 0)) / 1000.0);
}

void Writer::instant(std::uint64_t sequence, std::string_view name, std::int64_t time) {
  item(R"({{"ph":"i","s":"t","name":"{}","pid":{},"tid":{},"ts":{:.3f}}})", name, int{kSequences},
       sequence, us(time));
}

// Closes the open slice of a sequence and opens the next; nullptr: none.
void Writer::state(std::uint64_t id, const char* next, std::int64_t time) {
  Sequence& sequence = sequences_[id];
  if (sequence.state == next) return;
  if (sequence.state != nullptr) slice(kSequences, id, sequence.state, sequence.since, time);
  sequence.state = next;
  sequence.since = time;
}

void Writer::see(const Event& event) {
  switch (event.kind) {
    case EventKind::kArrive:
      name_thread(kSequences, event.id, fmt::format("sequence {}", event.id));
      state(event.id, "waiting", event.time);
      ++waiting_;
      break;
    case EventKind::kAdmit:
      sequences_[event.id].slot = event.a;
      if (!slots_[event.a]) name_thread(kSlots, event.a, fmt::format("slot {}", event.a));
      slots_[event.a] = true;
      state(event.id, "prefill", event.time);
      ++running_;
      waiting_ = std::max<std::int64_t>(waiting_ - 1, 0);
      break;
    case EventKind::kPreempt:
      sequences_[event.id].slot.reset();
      instant(event.id, "preempted", event.time);
      state(event.id, "waiting", event.time);
      ++waiting_;
      running_ = std::max<std::int64_t>(running_ - 1, 0);
      break;
    case EventKind::kFinish:
    case EventKind::kCancel: {
      instant(event.id, event.kind == EventKind::kCancel ? "cancelled" : "finished", event.time);
      auto& count = sequences_[event.id].slot ? running_ : waiting_;
      count = std::max<std::int64_t>(count - 1, 0);
      state(event.id, nullptr, event.time);
      sequences_.erase(event.id);
      break;
    }
    case EventKind::kTakeBlock:
    case EventKind::kShareBlock:
      ++owners_[event.a];
      cached_.erase(event.a);
      break;
    case EventKind::kReleaseBlock:
      if (const auto owner = owners_.find(event.a);
          owner != owners_.end() && --owner->second == 0) {
        owners_.erase(owner);
        if (indexed_.contains(event.a)) cached_.insert(event.a);
      }
      break;
    case EventKind::kIndexBlock:
      indexed_.insert(event.a);
      break;
    case EventKind::kDropBlock:
      indexed_.erase(event.a);
      cached_.erase(event.a);
      break;
    case EventKind::kPlan:
      plan_began_ = event.time;
      ahead_ = event.a != 0;
      rows_.clear();
      break;
    case EventKind::kRow: {
      const auto sequence = sequences_.find(event.id);
      if (sequence == sequences_.end() || !sequence->second.slot) break;
      const bool decode = (event.flags & kRowDecode) != 0;
      if (decode) state(event.id, "decode", event.time);
      rows_.push_back({event.id, *sequence->second.slot, event.a, event.b, event.c, decode});
      break;
    }
    case EventKind::kPlanned:
      end_plan(event);
      break;
    case EventKind::kForward:
      if (const auto step = steps_.find(event.id); step != steps_.end())
        step->second.started = event.time;
      break;
    case EventKind::kForwarded:
      if (const auto step = steps_.find(event.id); step != steps_.end() && step->second.started) {
        slice(kSteps, kEngineTrack, "forward", *step->second.started, event.time);
        forwarded_ = event.time;
      }
      break;
    case EventKind::kSampled:
      if (const auto step = steps_.find(event.id); step != steps_.end() && step->second.started)
        slice(kSteps, kEngineTrack, "sample", forwarded_, event.time);
      break;
    case EventKind::kCommit:
      end_step(event);
      break;
    default:
      break;
  }
}

void Writer::end_plan(const Event& event) {
  if (event.a + event.b == 0) return;
  Step& step = steps_[event.id];
  step.planned = plan_began_;
  step.ahead = ahead_;
  step.prefill_rows = event.a;
  step.decode_rows = event.b;
  step.tokens = event.c;
  step.rows = std::exchange(rows_, {});
  for (const RowOfStep& row : step.rows) step.prefill_tokens += row.decode ? 0 : row.tokens;
  if (ahead_) slice(kSteps, kAheadTrack, "plan", plan_began_, event.time);
}

void Writer::end_step(const Event& event) {
  const auto found = steps_.find(event.id);
  if (found == steps_.end()) return;
  const Step& step = found->second;
  // A step that was planned ahead begins where the one before it ends.
  const std::int64_t begin =
      std::max(step.ahead && step.started ? *step.started : step.planned, step_ended_);
  step_ended_ = std::max(begin, event.time);
  std::string name;
  if (step.prefill_rows == 0) {
    name = fmt::format("decode[d={}]", step.decode_rows);
  } else if (step.decode_rows == 0) {
    name = fmt::format("prefill[p={} chunks/{} tok]", step.prefill_rows, step.prefill_tokens);
  } else {
    name = fmt::format("mixed[p={} chunks/{} tok, d={}]", step.prefill_rows, step.prefill_tokens,
                       step.decode_rows);
  }
  slice(kSteps, kStepTrack, name, begin, event.time);
  for (const RowOfStep& row : step.rows) {
    slice(kSlots, row.slot,
          fmt::format("{} {}: {}+{}", row.decode ? "decode" : "prefill", row.sequence, row.first,
                      row.tokens),
          begin, event.time);
  }
  counters(event.time, step.tokens);
  steps_.erase(found);
}

void Writer::counters(std::int64_t time, std::uint32_t tokens) {
  const double ts = us(time);
  item(
      R"({{"ph":"C","name":"sequences","pid":{},"ts":{:.3f},"args":{{"running":{},"waiting":{}}}}})",
      int{kSteps}, ts, running_, waiting_);
  item(R"({{"ph":"C","name":"blocks","pid":{},"ts":{:.3f},"args":{{"in use":{},"cached":{}}}}})",
       int{kSteps}, ts, owners_.size(), cached_.size());
  item(R"({{"ph":"C","name":"tokens of a step","pid":{},"ts":{:.3f},"args":{{"tokens":{}}}}})",
       int{kSteps}, ts, tokens);
}

// Below a lane its pending and reserved spans, where there are any.
void Writer::name_lane(std::uint64_t thread, const LaneSlice& lane) {
  const std::string_view what = lane.track == LaneTrack::kPending    ? " · parked"
                                : lane.track == LaneTrack::kReserved ? " · kept"
                                                                     : "";
  name_thread(kLanes, thread, fmt::format("lane {}{}", lane.lane, what));
  item(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
       int{kLanes}, thread, thread);
}

// Slices that begin before the log does are left out.
void Writer::write_lanes(std::span<const LaneSlice> lanes) {
  if (lanes.empty()) return;
  name_process(kLanes, "lanes");
  std::set<std::uint64_t> named;
  for (const LaneSlice& lane : lanes) {
    if (lane.start < begin_) continue;
    const auto thread =
        std::uint64_t{lane.lane} * kTracksOfLane + static_cast<std::uint64_t>(lane.track);
    if (named.insert(thread).second) name_lane(thread, lane);
    const std::string layer = lane.layer < 0 ? std::string() : fmt::format("layer {} ", lane.layer);
    item(
        R"({{"ph":"X","name":"{}{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"tile":{},"block":{}}}}})",
        layer, lane.task, int{kLanes}, thread, us(lane.start),
        static_cast<double>(lane.end - lane.start) / 1000.0, lane.tile, lane.block);
  }
}

void Writer::write(std::span<const Event> events, std::span<const LaneSlice> lanes) {
  out_(R"({"displayTimeUnit":"ms","traceEvents":[)");
  if (!events.empty()) begin_ = plan_began_ = forwarded_ = step_ended_ = events.front().time;
  name_process(kSteps, "steps");
  name_thread(kSteps, kStepTrack, "steps");
  name_thread(kSteps, kEngineTrack, "engine");
  name_thread(kSteps, kAheadTrack, "planned ahead");
  name_process(kSlots, "slots");
  name_process(kSequences, "sequences");
  for (const Event& event : events) see(event);
  // Slices open at the end of the log end with it.
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state != nullptr)
      slice(kSequences, id, sequence.state, sequence.since, events.back().time);
  }
  if (!events.empty()) write_lanes(lanes);
  out_("\n]}\n");
}

}  // namespace

void write_perfetto(std::span<const Event> events, std::span<const LaneSlice> lanes,
                    const std::function<void(std::string_view)>& out) {
  Writer(out).write(events, lanes);
}

std::string perfetto_json(std::span<const Event> events, std::span<const LaneSlice> lanes) {
  std::string text;
  write_perfetto(events, lanes, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace dovetail::observe
