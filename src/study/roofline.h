#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dovetail/engine.h"

namespace dovetail::study {

// What the machine could do at most, of each run, per second and for all lanes together. Empty:
// the instruction set has no products of the kind.
struct MachineRates {
  std::vector<double> bytes, bf16, floats;  // multiplications with their additions
  std::vector<double> memory;               // bytes read
  std::uint64_t memory_bytes = 0;           // of the buffer that was read
};

// Measures it with a thread for each lane that an engine with these options has, where that engine
// has it; automatic values must be filled in. `tell` gets a line before each kind.
// kExhausted: the system does not grant the threads or the memory.
Result<MachineRates> measure_machine(const EngineOptions& options, std::uint32_t runs,
                                     const std::function<void(const std::string&)>& tell);

}  // namespace dovetail::study
