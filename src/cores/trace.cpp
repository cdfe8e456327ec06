#include "cores/trace.h"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <set>

#include "cores/names.h"

namespace dovetail::cores {
namespace {

constexpr int kCounterProcess = 1;
enum Track : unsigned { kRunning, kPending, kReserved, kTracks };

std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else {
      quoted += letter;
    }
  }
  return quoted + '"';
}

class Writer {
 public:
  Writer(const Topology& topology, const LaneTrace& trace,
         const std::function<void(std::string_view)>& out)
      : topology_(topology), trace_(trace), out_(out) {}

  void write() {
    out_("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    name_tracks();
    for (const LaneTrace::Counter& counter : trace_.counters) {
      for (const auto& [time, value] : counter.samples) {
        item(R"({{"ph":"C","pid":{},"ts":{:.3f},"name":{},"args":{{"value":{}}}}})",
             kCounterProcess, us(time), in_quotes(counter.name), value);
      }
    }
    for (const Span& span : trace_.running) slice(span, kRunning);
    for (const Span& span : trace_.pending) slice(span, kPending);
    for (const ReservedSpan& span : trace_.reserved) {
      slice(span.group, span.lane, kReserved, span.start, span.end, "kept", "");
    }
    out_("\n]}\n");
  }

 private:
  template <class... Args>
  void item(fmt::format_string<Args...> format, Args&&... args) {
    text_.assign(first_ ? "\n" : ",\n");
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    out_(text_);
  }

  static double us(Ticks time) { return static_cast<double>(time) / 1000.0; }
  static std::uint64_t process(GroupId group) { return kCounterProcess + 1 + std::uint64_t{group}; }
  static unsigned thread(unsigned lane, Track track) { return lane * kTracks + track + 1; }

  void meta(std::uint64_t process, unsigned thread, std::string_view what, std::string_view value) {
    item(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{}}})", process, thread, what, value);
  }

  void name_tracks() {
    if (!trace_.counters.empty()) {
      meta(kCounterProcess, 0, "process_name", R"({"name":"rings"})");
    }
    std::set<std::pair<GroupId, unsigned>> pending, reserved;
    for (const Span& span : trace_.pending) pending.insert({span.group, span.lane});
    for (const ReservedSpan& span : trace_.reserved) reserved.insert({span.group, span.lane});
    for (GroupId group = 0; group < topology_.groups().size(); ++group) {
      const GroupSpec& spec = topology_.groups()[group];
      meta(process(group), 0, "process_name", fmt::format(R"({{"name":"group {}"}})", group));
      meta(process(group), 0, "process_sort_index",
           fmt::format(R"({{"sort_index":{}}})", process(group)));
      for (LaneMask lanes = spec.all(); lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
        const std::string name = lane_name(spec, group, lane);
        name_track(group, lane, kRunning, name);
        if (pending.contains({group, lane})) name_track(group, lane, kPending, name + " · parked");
        if (reserved.contains({group, lane})) name_track(group, lane, kReserved, name + " · kept");
      }
    }
  }

  void name_track(GroupId group, unsigned lane, Track track, const std::string& name) {
    const unsigned number = thread(lane, track);
    meta(process(group), number, "thread_name", fmt::format(R"({{"name":{}}})", in_quotes(name)));
    meta(process(group), number, "thread_sort_index",
         fmt::format(R"({{"sort_index":{}}})", number));
  }

  void slice(const Span& span, Track track) {
    slice(span.group, span.lane, track, span.start, span.end, trace_.name(span.task),
          fmt::format(R"("task":{},"block":{})", span.task, span.block));
  }

  void slice(GroupId group, unsigned lane, Track track, Ticks start, Ticks end,
             const std::string& name, std::string_view arguments) {
    item(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"args":{{{}}}}})",
         process(group), thread(lane, track), us(start), us(end - start), in_quotes(name),
         arguments);
  }

  const Topology& topology_;
  const LaneTrace& trace_;
  const std::function<void(std::string_view)>& out_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

void write_lane_trace(const Topology& topology, const LaneTrace& trace,
                      const std::function<void(std::string_view)>& out) {
  Writer(topology, trace, out).write();
}

namespace {

// By its number over all groups.
std::uint32_t lane_number(const Topology& topology, GroupId group, unsigned lane) {
  int before = 0;
  for (GroupId other = 0; other < group; ++other)
    before += std::popcount(topology.groups()[other].all());
  return static_cast<std::uint32_t>(before) + lane;
}

}  // namespace

observe::LaneSlice lane_slice(const Span& span, const Topology& topology, const char* task) {
  observe::LaneSlice slice;
  slice.start = static_cast<std::int64_t>(span.start);
  slice.end = static_cast<std::int64_t>(span.end);
  slice.task = task;
  slice.block = span.block;
  slice.lane = lane_number(topology, span.group, span.lane);
  return slice;
}

observe::LaneSlice lane_slice(const ReservedSpan& span, const Topology& topology) {
  observe::LaneSlice slice;
  slice.start = static_cast<std::int64_t>(span.start);
  slice.end = static_cast<std::int64_t>(span.end);
  slice.task = "kept";
  slice.lane = lane_number(topology, span.group, span.lane);
  slice.track = observe::LaneTrack::kReserved;
  return slice;
}

void write_slices(const LaneSpans& spans, const Topology& topology,
                  const std::function<observe::LaneSlice(const Span&)>& slice_of,
                  observe::LaneLog& log) {
  for (const Span& span : spans.running) log.write(slice_of(span));
  for (const Span& span : spans.pending) {
    observe::LaneSlice slice = slice_of(span);
    slice.track = observe::LaneTrack::kPending;
    log.write(slice);
  }
  for (const ReservedSpan& span : spans.reserved) log.write(lane_slice(span, topology));
}

}  // namespace dovetail::cores
