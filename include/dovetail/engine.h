#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dovetail/request.h"
#include "observe/event_log.h"

namespace dovetail {

namespace load {
struct ModelSource;
}
namespace text {
class Tokenizer;
}

// The order in which waiting requests are admitted; see docs/scheduling.md.
enum class PolicyOption : std::uint8_t {
  kFcfs,      // by arrival
  kPriority,  // by Request::priority, then arrival; what waits long enough becomes more urgent
  kFair,      // by the tenant that was served least
};

// Whether threads that compute stay on a physical core each, and so do threads that an event sink
// starts.
enum class PinOption : std::uint8_t {
  kAuto,  // while these cores are uncontested
  kAlways,
  kNever,
};

// Zero means "automatic" where the comment says so.
struct EngineOptions {
  std::uint32_t max_num_seqs = 64;             // sequences in one step
  std::uint32_t max_num_batched_tokens = 512;  // tokens in one step; at least max_num_seqs
  std::uint32_t long_prefill_token_threshold =
      0;                          // of one prompt in one step; 0: no limit but the step's
  std::uint32_t block_size = 16;  // positions of a cache block; the kernels are built for 16
  std::uint32_t kv_blocks = 0;    // 0: enough for max_num_seqs sequences of max_context, within
                                  // kv_memory
  std::uint64_t kv_memory =
      0;  // bytes; bounds the automatic kv_blocks; 0: half of the memory, 4 GiB at most
  std::uint32_t max_context = 0;     // positions per sequence; 0: the model's
  std::uint32_t max_waiting = 1024;  // sequences waiting for admission; beyond: kExhausted
  std::uint32_t threads = 0;         // 0: the physical cores
  PinOption pin_threads = PinOption::kAuto;
  std::string cache_type = "auto";  // of keys and values: "f32", "f16", "bf16", "q8_0", "fp8";
                                    // "auto": f32 for models whose weights are F32, else f16
  std::string kernels;  // "portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16",
                        // "amx"; empty: what DOVETAIL_ISA names, else the best that the CPU runs

  // Weights of block types are repacked at load into memory of their own, in which products read
  // them faster and most types take the file's size (docs/models.md has a table of those that take
  // more); else they stay in the mapped file, and every product packs what it reads. The same bits
  // either way.
  bool pack_weights = true;
  // Else types stay in the file, those that grow most first, where what is free when the model is
  // loaded would not hold all of them and the cache (of an automatic one, a quarter).
  bool always_pack = false;
  // Told in a line for a person when weights stay in the file for that reason; may be empty.
  std::function<void(const std::string& message)> on_unpacked;
  // Told while weights are packed how many bytes of all are done; may be empty.
  std::function<void(std::size_t done, std::size_t all)> on_pack;

  PolicyOption policy = PolicyOption::kFcfs;
  bool mixed = true;         // prefill chunks and decode rows in one step
  bool prefix_cache = true;  // find the cache of earlier requests with the same beginning
  // For models whose layers have states, so that their prompts may begin with what earlier ones
  // computed, and draft tokens be taken back: states that are kept, the least recently used goes
  // first; and after how many blocks of 16 positions one is kept, beside those at the ends of
  // prompts and where prompts part.
  static constexpr std::uint32_t kAutoSavedStates = 0xffffffff;  // a quarter of kv_memory for them
  std::uint32_t saved_states = kAutoSavedStates;
  std::uint32_t state_interval = 32;
  bool async_scheduling = false;  // plan the next step while one is computed
  // Draft tokens per decode row at most, by the layer that the model has for that or, where it has
  // none, looked up in the sequence; 0: off.
  std::uint32_t speculative_tokens = 0;
  // While sequences decode, a step should take at most so many milliseconds; prompts are cut to
  // that. 0: twice what its decode rows alone would take.
  double target_inter_token_ms = 0.0;
  std::uint32_t min_prefill_tokens = 4;  // that prompts get in any case, in every
  std::uint32_t prefill_interval = 1;    // prefill_interval-th step
  std::uint32_t prefill_alignment = 0;   // chunks are cut to multiples; 0: 64; 1: anywhere
  std::uint32_t ageing_steps = 1000;     // after which a waiting request counts one class up

  // Events of the log, and slices of the executor's lanes, that trace() returns the last of; 0: no
  // log.
  std::size_t trace_events = 0;

  // Where a step has made no progress for so long, on_stall is told what stands still, in a line
  // for a person, once for each time; zero milliseconds, or no function: no watchdog. Called on the
  // watchdog's thread; it may not wait for the engine.
  std::chrono::milliseconds stall_limit{10'000};
  std::function<void(const std::string& message)> on_stall;

  bool poison_freed_blocks = false;  // fill freed cache blocks with NaN: shows reads of stale cache
};

struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;      // computed by prefill, also again after a preemption
  std::uint64_t cached_tokens = 0;      // found in the prefix cache instead
  std::uint64_t recomputed_tokens = 0;  // of prompt_tokens: lost by a preemption
  std::uint64_t drafted_tokens = 0;     // draft tokens that were computed
  std::uint64_t accepted_tokens = 0;    // of them, those that were accepted
  std::uint64_t mixed_steps = 0;        // with prefill chunks and decode rows
  std::uint64_t generated_tokens = 0;   // sampled
  std::uint64_t requests_finished = 0;  // by stop or length; counts sequences (choices)
  std::uint64_t requests_cancelled = 0;
  std::uint64_t requests_timed_out = 0;
  std::uint64_t preemptions = 0;
  std::uint32_t running = 0;  // sequences now
  std::uint32_t waiting = 0;
  std::uint32_t kv_blocks = 0;
  std::uint32_t kv_blocks_used = 0;
  std::uint32_t kv_blocks_cached = 0;  // free, but findable by the prefix cache
  bool threads_pinned = false;         // to a core each, now
  double step_seconds = 0.0;           // total time in steps
  double forward_seconds = 0.0;        // of it, in the model's forward pass
};

struct EngineHealth {
  bool ok = true;      // steps are being made, or nothing waits
  std::string reason;  // where not
};

// What an engine did last.
struct EngineTrace {
  std::vector<observe::Event> events;     // oldest first
  std::vector<observe::LaneSlice> lanes;  // in no order
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

  // Queues all of several requests, or none: `sink` is told which of them an event is of. More than
  // the queue ever holds are taken where nothing waits. Errors as submit().
  Result<std::vector<RequestId>> submit_all(std::vector<Request> requests, const GroupSink& sink);

  // What a request's output must be, for Request::grammar: `text` is the JSON schema, the regular
  // expression, the structure or the grammar; empty for kJsonObject. Runs on the calling thread, up
  // to a second or two; the last ones are kept. kInvalid and kUnsupported: a message that names the
  // keyword by its JSON pointer or the place in the expression or grammar; but for annotations, and
  // for what a part of a structure lets be left out, nothing of them is ever ignored. Once `stop`
  // is set, from any thread, it returns within milliseconds with kUnavailable. Each thread inside
  // takes up to some 200 MiB.
  Result<CompiledGrammar> compile(GrammarKind kind, std::string_view text,
                                  const std::atomic<bool>* stop = nullptr);

  // The outcome of an earlier compile(), while it is kept; takes microseconds.
  std::optional<Result<CompiledGrammar>> find_grammar(GrammarKind kind,
                                                      std::string_view text) const;

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

  // The last events and slices (EngineOptions::trace_events). Waits for the end of the step under
  // way, so that a sink may not call it.
  EngineTrace trace() const;

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
