#include "observe/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace dovetail::observe {
namespace {

constexpr std::int64_t kUnset = -1;

enum Process { kEngine = 1, kSlots = 2, kWaiting = 3 };
enum EngineTrack { kSteps = 1, kPlanning = 2, kSampling = 3 };

// What a plan holds, and when it was carried out.
struct Step {
  std::uint32_t chunks = 0;
  std::uint32_t prefill_tokens = 0;
  std::uint32_t decodes = 0;
  std::uint32_t guesses = 0;
  std::int64_t planned = kUnset;
  std::int64_t forward = kUnset;
  std::int64_t forwarded = kUnset;

  std::string name() const {
    const std::string prefill =
        fmt::format("p={} {}/{} tok", chunks, chunks == 1 ? "chunk" : "chunks", prefill_tokens);
    std::string decode = fmt::format("d={}", decodes);
    if (guesses > 0) decode += fmt::format("+{} guesses", guesses);
    if (decodes == 0) return fmt::format("prefill[{}]", prefill);
    if (chunks == 0) return fmt::format("decode[{}]", decode);
    return fmt::format("mixed[{}, {}]", prefill, decode);
  }
};

struct Sequence {
  std::int64_t waiting = kUnset;  // since when
  std::int64_t phase = kUnset;    // since when it holds a slot, or decodes in it
  std::uint32_t slot = 0;
  bool decoding = false;
  std::uint32_t prompt = 0;
};

class Trace {
 public:
  explicit Trace(std::span<const Event> events) : events_(events) {
    if (!events.empty()) {
      begin_ = events.front().time;
      end_ = events.back().time;
    }
  }

  std::string json() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    name_process(kEngine, "engine");
    name_process(kSlots, "slots");
    name_process(kWaiting, "waiting");
    name_track(kEngine, kSteps, "steps");
    name_track(kEngine, kPlanning, "planning");
    name_track(kEngine, kSampling, "sampling");
    for (const Event& event : events_) read(event);
    close();
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  void read(const Event& event) {
    switch (event.kind) {
      case EventKind::kPlan:
        plan_ = {};
        planning_ = event.time;
        break;
      case EventKind::kRow:
        read_row(event);
        break;
      case EventKind::kPlanned:
        planned(event);
        break;
      case EventKind::kForward:
        if (Step* step = find(event.id)) step->forward = event.time;
        break;
      case EventKind::kForwarded:
        if (Step* step = find(event.id)) step->forwarded = event.time;
        break;
      case EventKind::kSampled:
        if (const Step* step = find(event.id); step != nullptr && step->forwarded != kUnset)
          slice(kEngine, kSampling, "sample", step->forwarded, event.time);
        break;
      case EventKind::kCommit:
        commit(event);
        break;
      case EventKind::kTakeBlock:
      case EventKind::kShareBlock:
        held(event.a, 1);
        break;
      case EventKind::kReleaseBlock:
        held(event.a, -1);
        break;
      default:
        read_life(event);
    }
  }

  void read_row(const Event& event) {
    if ((event.flags & kRowDecode) != 0) {
      ++plan_.decodes;
      plan_.guesses += event.c;
    } else {
      ++plan_.chunks;
      plan_.prefill_tokens += event.b;
    }
  }

  void planned(const Event& event) {
    if (planning_ == kUnset) return;  // its beginning is lost
    slice(kEngine, kPlanning, "plan", planning_, event.time);
    planning_ = kUnset;
    if (plan_.chunks + plan_.decodes == 0) return;
    plan_.planned = event.time;
    steps_[event.id] = plan_;
    counter("running", event.time, running_);
    counter("waiting", event.time, waiting_);
    counter("blocks used", event.time, used_.size());
    counter("prefill tokens", event.time, plan_.prefill_tokens);
    counter("decode tokens", event.time, std::uint64_t{plan_.decodes} + plan_.guesses);
  }

  void commit(const Event& event) {
    if (const Step* step = find(event.id)) {
      emit_step(event.id, *step, step->forwarded != kUnset ? step->forwarded : event.time);
      steps_.erase(event.id);
    }
  }

  void emit_step(std::uint64_t number, const Step& step, std::int64_t end) {
    slice(kEngine, kSteps, step.name(), step.forward != kUnset ? step.forward : step.planned, end,
          fmt::format("\"step\":{}", number));
  }

  void read_life(const Event& event) {
    Sequence& sequence = sequences_[event.id];
    switch (event.kind) {
      case EventKind::kArrive:
        sequence.prompt = event.a;
        wait(sequence, event.time);
        break;
      case EventKind::kAdmit:
        end_wait(event.id, sequence, event.time);
        sequence.slot = event.a;
        sequence.phase = event.time;
        sequence.decoding = false;
        ++running_;
        break;
      case EventKind::kAccept:
        // The first new tokens of a stay in a slot come from the end of its prefill.
        if (event.a > 0 && sequence.phase != kUnset && !sequence.decoding) {
          end_phase(event.id, sequence, event.time);
          sequence.phase = event.time;
          sequence.decoding = true;
        }
        break;
      case EventKind::kPreempt:
        leave(event.id, sequence, event.time);
        mark(event.a, fmt::format("preempt {}", event.id), event.time,
             fmt::format("\"lost\":{}", event.b));
        wait(sequence, event.time);
        break;
      case EventKind::kFinish:
      case EventKind::kCancel:
        leave(event.id, sequence, event.time);
        end_wait(event.id, sequence, event.time);
        sequences_.erase(event.id);
        break;
      default:
        if (sequence.waiting == kUnset && sequence.phase == kUnset) sequences_.erase(event.id);
    }
  }

  void wait(Sequence& sequence, std::int64_t time) {
    sequence.waiting = time;
    ++waiting_;
  }

  void end_wait(std::uint64_t id, Sequence& sequence, std::int64_t time) {
    if (sequence.waiting == kUnset) return;
    --waiting_;
    for (const auto& [phase, at] : {std::pair{'b', sequence.waiting}, std::pair{'e', time}}) {
      open();
      add("\"ph\":\"{}\",\"cat\":\"waiting\",\"name\":\"{} waits\",\"id\":{},\"pid\":{},\"tid\":0,"
          "\"ts\":{:.3f}}}",
          phase, id, id, static_cast<int>(kWaiting), microseconds(at));
    }
    sequence.waiting = kUnset;
  }

  void leave(std::uint64_t id, Sequence& sequence, std::int64_t time) {
    if (sequence.phase == kUnset) return;
    --running_;
    end_phase(id, sequence, time);
    sequence.phase = kUnset;
  }

  void end_phase(std::uint64_t id, const Sequence& sequence, std::int64_t time) {
    if (named_slots_.insert(sequence.slot).second)
      name_track(kSlots, static_cast<int>(sequence.slot), fmt::format("slot {}", sequence.slot));
    slice(kSlots, static_cast<int>(sequence.slot),
          fmt::format("{} {}", id, sequence.decoding ? "decode" : "prefill"), sequence.phase, time,
          fmt::format("\"prompt\":{}", sequence.prompt));
  }

  void held(std::uint32_t block, int change) {
    std::uint32_t& count = used_[block];
    if (change > 0) {
      ++count;
    } else if (count <= 1) {
      used_.erase(block);
    } else {
      --count;
    }
  }

  // Ends what is open, in an order that does not depend on hashes.
  void close() {
    for (const auto& [number, step] : steps_)
      emit_step(number, step, step.forwarded != kUnset ? step.forwarded : end_);
    std::vector<std::uint64_t> ids;
    for (const auto& [id, sequence] : sequences_) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    for (const std::uint64_t id : ids) {
      leave(id, sequences_[id], end_);
      end_wait(id, sequences_[id], end_);
    }
  }

  Step* find(std::uint64_t number) {
    const auto found = steps_.find(number);
    return found == steps_.end() ? nullptr : &found->second;
  }

  double microseconds(std::int64_t time) const { return static_cast<double>(time - begin_) / 1000; }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void open() {
    text_ += first_ ? "{" : ",\n{";
    first_ = false;
  }

  void name_process(Process process, std::string_view name) {
    open();
    add("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"{}\"}}}}",
        static_cast<int>(process), name);
  }

  void name_track(Process process, int track, std::string_view name) {
    open();
    add("\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}"
        "}",
        static_cast<int>(process), track, name);
  }

  void slice(Process process, int track, std::string_view name, std::int64_t from, std::int64_t to,
             std::string_view args = "") {
    open();
    add("\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{{}}}}}",
        name, static_cast<int>(process), track, microseconds(from),
        microseconds(to) - microseconds(from), args);
  }

  void mark(std::uint32_t slot, std::string_view name, std::int64_t at, std::string_view args) {
    open();
    add("\"ph\":\"i\",\"s\":\"t\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},"
        "\"args\":{{{}}}}}",
        name, static_cast<int>(kSlots), slot, microseconds(at), args);
  }

  void counter(std::string_view name, std::int64_t at, std::uint64_t value) {
    open();
    add("\"ph\":\"C\",\"name\":\"{0}\",\"pid\":{1},\"ts\":{2:.3f},\"args\":{{\"{0}\":{3}}}}}", name,
        static_cast<int>(kEngine), microseconds(at), value);
  }

  std::span<const Event> events_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::string text_;
  bool first_ = true;

  Step plan_;
  std::int64_t planning_ = kUnset;
  std::map<std::uint64_t, Step> steps_;  // planned, not committed
  std::unordered_map<std::uint64_t, Sequence> sequences_;
  std::unordered_map<std::uint32_t, std::uint32_t> used_;  // holders of each block
  std::unordered_set<std::uint32_t> named_slots_;
  std::uint64_t running_ = 0;
  std::uint64_t waiting_ = 0;
};

}  // namespace

std::string perfetto_json(std::span<const Event> events) { return Trace(events).json(); }

}  // namespace dovetail::observe
