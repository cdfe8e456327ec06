#pragma once

#include "base/result.h"
#include "dovetail/engine.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cache.h"

namespace dovetail::engine {

// Options with every automatic value filled in, and what follows from them.
struct ResolvedOptions {
  EngineOptions options;
  const kernels::Kernels* kernels = nullptr;
  model::CacheShape cache_shape;
};

// kInvalid names the option, its value and what would be valid for this model and machine.
Result<ResolvedOptions> resolve(EngineOptions options, const load::ModelSource& source);

}  // namespace dovetail::engine
