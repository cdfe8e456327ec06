#include <array>

#include "kernels/kernels.h"
#include "kernels/portable/portable.h"

namespace dovetail::kernels {
namespace {

struct Available {
  std::array<const Kernels*, 1> list{};
  std::size_t count = 0;

  Available() { list[count++] = &portable::kKernels; }
};

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const Available available;
  return std::span(available.list).first(available.count);
}

const Kernels& best_kernels() { return *available_kernels().front(); }

const Kernels* find_kernels(std::string_view name) {
  for (const Kernels* kernels : available_kernels()) {
    if (kernels->name == name) return kernels;
  }
  return nullptr;
}

}  // namespace dovetail::kernels
