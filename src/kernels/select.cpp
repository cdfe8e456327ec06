#include <vector>

#include "kernels/candidates.h"
#include "kernels/kernels.h"
#include "kernels/portable/portable.h"

namespace dovetail::kernels {

std::span<const Kernels* const> available_kernels() {
  static const std::vector<const Kernels*> available = [] {
    std::vector<const Kernels*> found = candidates();
    found.push_back(&portable::kKernels);
    return found;
  }();
  return available;
}

const Kernels& best_kernels() { return *available_kernels().front(); }

const Kernels* find_kernels(std::string_view name) {
  for (const Kernels* kernels : available_kernels()) {
    if (kernels->name == name) return kernels;
  }
  return nullptr;
}

}  // namespace dovetail::kernels
