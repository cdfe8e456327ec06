#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/run_event.h"

namespace dovetail::pipeline {

// Judges a run of a pipeline by its events alone, in its sessions from the first to the last. It
// knows the spec and keeps its own books; it has never seen the runner. A
// violation names the law:
//
//   law 1  live frontier   a model with room is offered every cell that is ready, and a record is
//                          opened where one would bring it a cell and the window allows it; a cell
//                          waits for the end only where its model was away
//   law 2  whole resource  a model has at most as many requests as slots, the window at most as
//   many
//                          records as it holds
//   law 3  in flight first of the ready cells of a model the one that finishes a record first goes
//                          first (or, with fair order, that of the column served least)
//   law 4  oldest first,   records are opened and emitted in order, each once; every cell ends once
//          nothing lost    and is durable before its record is emitted. In a shared run they are
//                          opened in the order of their leases, the cells of a range are durable
//                          before it is complete, and of a lost one nothing more is heard
//   law 5  same answer     a cell is made when all that it needs has ended, stored no earlier than
//                          that, and asked for with a seed that is always the same
class RunLaws {
 public:
  explicit RunLaws(const PipelineSpec& spec);

  // A session begins: what was not durable is forgotten. `shared`: with leases. Not `in_order`:
  // records are emitted as they finish.
  void begin(bool shared = false, bool in_order = true);
  void see(const RunEvent& event);
  // The last session has ended with all that there is to do.
  void finish();

  // What follows the first violation is not judged.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  // kHeld: its request has ended, and nothing has been made of that yet.
  enum class State : std::uint8_t { kOpen, kSent, kHeld, kDeferred, kEnded };

  struct CellBook {
    State state = State::kOpen;
    bool away = false;         // its last request found no model
    std::uint64_t batch = 0;   // with which it went to the store; 0: not in this session
    bool from_before = false;  // the store had it
    bool dropped = false;
  };
  struct RecordBook {
    std::vector<CellBook> cells;
    std::size_t turn = 0;  // in which it was opened
    bool gone = false;     // dropped
    bool ended = false;
  };

  template <class... Args>
  void violate(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(
        fmt::format("event {}: {}", seen_, fmt::format(format, std::forward<Args>(args)...)));
  }

  void open(RecordId record);
  void stored(const RunEvent& event);
  void send(const RunEvent& event);
  void answer(const RunEvent& event);
  void end(const RunEvent& event);
  void store(const RunEvent& event);
  void emit(const RunEvent& event);
  void pass(const RunEvent& event);
  void lease(const RunEvent& event);
  void lose(const RunEvent& event);
  void complete(const RunEvent& event);

  void check_durable(RecordId id, const char* what);
  // Records that could be opened.
  bool any_unopened() const { return shared_ ? !leased_.empty() : opened_ < spec_.records; }
  CellBook& book(Cell cell) { return records_.at(cell.record).cells[cell.column]; }
  bool ready(const RecordBook& record, ColumnId column) const;
  bool goes_before(Cell a, Cell b) const;
  bool brings(ColumnId column) const;
  std::size_t open_records() const;
  void settle(RecordId id);
  std::string name(Cell cell) const;

  const PipelineSpec& spec_;
  std::vector<int> models_;  // by column; -1: none
  std::vector<std::uint32_t> depths_;
  std::vector<std::string> violations_;
  std::size_t seen_ = 0;

  std::map<std::pair<RecordId, std::pair<ColumnId, std::uint32_t>>, std::uint64_t> seeds_;

  // Of this session.
  std::map<RecordId, RecordBook> records_;
  std::vector<std::uint64_t> room_;    // by model
  std::vector<std::uint64_t> served_;  // by column
  RecordId opened_ = 0, emitted_ = 0;
  // Of a shared run.
  bool in_order_ = true;
  bool shared_ = false;
  std::deque<RecordId> leased_;  // not opened yet, in the order of the leases
  std::size_t lost_ = 0;         // open records that were; their answers may still hold a place
  std::uint64_t durable_ = 0;
};

}  // namespace dovetail::pipeline
