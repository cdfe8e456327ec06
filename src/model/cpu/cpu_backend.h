#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "cores/executor.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/backend.h"
#include "model/cpu/pack_weights.h"

namespace dovetail::model {

// Tasks that an executor must have room for (GraphOptions::tasks) to run a model's passes.
std::uint32_t cpu_tasks(const load::ModelConfig& config);

// A backend on the lanes of `executor`, which has room for cpu_tasks() and a thread for each lane;
// the thread that calls forward() serves the first. Nothing else runs there meanwhile; in between
// the executor is its owner's. Kernels and executor outlive the backend, and the source's files
// live as long as it. The trace has what the executor kept since it was last asked.
// kExhausted: the memory is not there. May throw std::bad_alloc and, where threads that pack
// weights do not start, std::system_error.
Result<std::unique_ptr<Backend>> open_cpu(std::shared_ptr<const load::ModelSource> source,
                                          const BackendOptions& options,
                                          const kernels::Kernels& kernels,
                                          cores::Executor& executor, const PackOptions& packing);

}  // namespace dovetail::model
