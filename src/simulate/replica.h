#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "observe/event_log.h"
#include "schedule/scheduler.h"
#include "simulate/histogram.h"
#include "simulate/workload.h"

namespace dovetail::simulate {

// What was seen of requests and steps; times in nanoseconds.
struct Figures {
  Histogram queue;        // arrival to admission
  Histogram first_token;  // arrival to the first token
  Histogram inter_token;  // between two tokens of a request; those of one step come together
  Histogram end_to_end;   // arrival to the last token
  std::uint64_t finished = 0, refused = 0;
  std::uint64_t prompt_tokens = 0;  // read, also again
  std::uint64_t cached_tokens = 0, recomputed_tokens = 0, new_tokens = 0;
  std::uint64_t guesses = 0, right_guesses = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t rows = 0;  // sequence-steps
  std::uint64_t prefill_steps = 0, mixed_steps = 0, decode_steps = 0;
  std::int64_t busy = 0;      // time in steps, over all replicas
  std::int64_t makespan = 0;  // the end of the last step

  void merge(const Figures& other);
};

struct ReplicaOptions {
  schedule::SchedulerOptions scheduler;
  schedule::StepCost cost;  // how long steps take
  bool knows_cost = true;   // the scheduler bounds steps by it
  double acceptance = 0.7;  // share of guesses that are right, one after the other
  std::uint64_t seed = 1;
};

// One scheduler under a virtual clock. Not thread-safe.
class Replica {
 public:
  // `log`, where there is one, and `figures` must outlive the replica.
  Replica(const ReplicaOptions& options, Figures& figures, observe::EventLog* log);

  // A request comes. `id` is new.
  void submit(std::uint64_t id, const Arrival& arrival);

  // Requests that have come and have not ended.
  std::uint32_t outstanding() const { return static_cast<std::uint32_t>(requests_.size()); }
  bool stepping() const { return stepping_; }

  // Plans at `now` and starts the step; when it will end, or nothing if there is nothing to do.
  // Nothing may be under way. kInternal: the scheduler is at a loss.
  Result<std::optional<std::int64_t>> begin(std::int64_t now);
  // The step under way ends at `now`.
  void finish(std::int64_t now);

 private:
  struct Request {
    std::int64_t arrived = 0;
    std::int64_t last_token = -1;
    std::uint32_t left = 0;  // new tokens
    bool admitted = false;
  };

  std::uint32_t right_guesses(std::uint64_t id, std::uint32_t left, std::uint32_t guesses) const;
  void tell_time(std::int64_t now);

  ReplicaOptions options_;
  Figures& figures_;
  observe::EventLog* log_;
  schedule::Scheduler scheduler_;
  schedule::StepPlan plan_;
  schedule::StepResult result_;
  std::int64_t began_ = 0;
  bool stepping_ = false;
  std::unordered_map<std::uint64_t, Request> requests_;
  std::vector<std::int32_t> prompt_;
};

}  // namespace dovetail::simulate
