#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "dovetail/request.h"

namespace dovetail {

namespace load {
struct ModelSource;
}
namespace text {
class Tokenizer;
}

enum class CacheTypeOption : std::uint8_t {
  kAuto,  // F32 for models whose weights are F32, else F16
  kF32,
  kF16,
};

struct EngineOptions {
  std::uint32_t max_num_seqs = 64;             // sequences in one step
  std::uint32_t max_num_batched_tokens = 512;  // tokens in one step; at least max_num_seqs
  std::uint32_t long_prefill_token_threshold =
      0;                        // of one prompt in one step; 0: no limit but the step's
  std::uint32_t kv_blocks = 0;  // blocks of 16 positions; 0: enough for max_num_seqs sequences of
                                // max_context, within kv_memory
  std::uint64_t kv_memory =
      0;  // bytes; bounds the automatic kv_blocks; 0: half of the memory, 4 GiB at most
  std::uint32_t max_context = 0;     // positions per sequence; 0: the model's
  std::uint32_t max_waiting = 1024;  // sequences waiting for admission; beyond: kExhausted
  std::uint32_t threads = 0;         // 0: the physical cores
  CacheTypeOption cache_type = CacheTypeOption::kAuto;
  std::string kernels;  // "portable", "avx2", "avx512"; empty: the best that the CPU runs
  bool poison_freed_blocks = false;  // fill freed cache blocks with NaN: shows reads of stale cache
};

struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;      // computed by prefill
  std::uint64_t generated_tokens = 0;   // sampled
  std::uint64_t requests_finished = 0;  // by stop or length; counts sequences (choices)
  std::uint64_t requests_cancelled = 0;
  std::uint64_t preemptions = 0;
  std::uint32_t running = 0;  // sequences now
  std::uint32_t waiting = 0;
  std::uint32_t kv_blocks = 0;
  std::uint32_t kv_blocks_used = 0;
  double step_seconds = 0.0;     // total time in steps
  double forward_seconds = 0.0;  // of it, in the model's forward pass
};

struct EngineHealth {
  bool ok = true;      // steps are being made, or nothing waits
  std::string reason;  // where not
};

// One model and its step loop: plan, execute, sample, emit. One thread of its own makes the steps;
// all member functions may be called from any thread.
class Engine {
 public:
  // Loads the model, allocates the cache and starts the loop. Fails with a message for a person.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const load::ModelSource> source,
                                                const EngineOptions& options);

  // Stops at once; what is unfinished ends as cancelled.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request. kInvalid: a parameter out of range, or a prompt that can never fit (the
  // message has the numbers); kExhausted: the queue is full; kUnavailable: draining. On an error
  // the sink is never called.
  Result<RequestId> submit(Request request, EventSink sink);

  // Ends a request and frees its blocks before the next step; its choices end with kCancelled. An
  // unknown or finished id is ignored.
  void cancel(RequestId id);

  // From now on submit() refuses; returns when everything accepted has ended, or after `limit` with
  // what is left cancelled. True if nothing had to be cancelled.
  bool drain(std::chrono::milliseconds limit);

  EngineStats stats() const;
  // ok while steps are made or nothing waits; not ok if work waits and no step has ended for
  // `stall`, or after the loop has failed.
  EngineHealth health(std::chrono::milliseconds stall = std::chrono::seconds(30)) const;

  const load::ModelSource& source() const;
  const text::Tokenizer& tokenizer()
      const;                             // asserts that the model has one: create() fails without
  const EngineOptions& options() const;  // with the automatic values filled in

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dovetail
