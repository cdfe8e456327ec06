#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dovetail/engine.h"
#include "load/model_source.h"
#include "study/model_work.h"

namespace dovetail::study {

// Tokens of a step at most: a prompt of 512 beside 32 sequences.
inline constexpr std::uint32_t kStepTokens = 544;

// Steps whose speed is measured: a prompt that is read, sequences that decode, or both in a step,
// which then has at most kStepTokens of them.
struct BenchCase {
  std::uint32_t prompt = 0;     // tokens that are read; 0: none
  std::uint32_t sequences = 0;  // that decode; 0: none
  std::uint32_t depth = 0;      // positions that each of these has at first
  // Of which the first are computed and the others copies of these; see repeat_contexts().
  bool repeats = false;

  // "prefill 512", "decode x8 at 128", "mixed 512 + x8 at 128"
  std::string name() const;
  // That its longest sequence comes to have.
  std::uint64_t positions() const;
};

struct BenchTimes {
  std::string skipped;          // why there are none; empty: there are
  std::uint64_t tokens = 0;     // of a run, read and decoded
  std::uint64_t steps = 0;      // of a run
  StepWork work;                // of a run
  std::vector<double> seconds;  // by run
};

// Decode steps of a run.
inline constexpr std::uint32_t kDecodeSteps = 16;
// Measures a case, after a run that is not measured. Tokens are random. Where the model or
// `options.kv_memory` has no room for it, that is said in `skipped`. Options that are about steps
// and the cache are set by the case. Errors are those of the engine.
Result<BenchTimes> measure_case(const std::shared_ptr<const load::ModelSource>& source,
                                const EngineOptions& options, const BenchCase& what,
                                std::uint32_t runs);

}  // namespace dovetail::study
