// Empty tasks on StarPU with two CPU workers; dependencies from its data handles. Usage:
// starpu_tasks [WORKLOAD]

#include <starpu.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "workloads.h"

namespace dovetail::bench {
namespace {

void nothing(void**, void*) {}

starpu_codelet codelet(std::initializer_list<starpu_data_access_mode> modes) {
  starpu_codelet made;
  starpu_codelet_init(&made);
  made.cpu_funcs[0] = nothing;
  made.nbuffers = static_cast<int>(modes.size());
  int i = 0;
  for (const starpu_data_access_mode mode : modes) made.modes[i++] = mode;
  return made;
}

void submit(starpu_codelet& what, std::initializer_list<starpu_data_handle_t> handles) {
  starpu_task* task = starpu_task_create();
  task->cl = &what;
  int i = 0;
  for (const starpu_data_handle_t handle : handles) task->handles[i++] = handle;
  if (starpu_task_submit(task) != 0) std::abort();
}

class Buffers {
 public:
  explicit Buffers(std::size_t count) : values_(count), handles_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      starpu_variable_data_register(&handles_[i], STARPU_MAIN_RAM,
                                    reinterpret_cast<std::uintptr_t>(&values_[i]), 1);
    }
  }
  ~Buffers() {
    for (const starpu_data_handle_t handle : handles_) starpu_data_unregister(handle);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  starpu_data_handle_t operator[](std::size_t i) const { return handles_[i]; }

 private:
  std::vector<char> values_;
  std::vector<starpu_data_handle_t> handles_;
};

void run(int argc, char** argv) {
  starpu_codelet alone = codelet({});
  starpu_codelet link = codelet({STARPU_RW});
  starpu_codelet products = codelet({STARPU_R, STARPU_R, STARPU_W});
  starpu_codelet softmax = codelet({STARPU_R, STARPU_W});
  starpu_codelet update = codelet({STARPU_R, STARPU_RW});
  measure(argc, argv, "independent", [&] {
    for (int i = 0; i < kTasks; ++i) submit(alone, {});
    starpu_task_wait_for_all();
  });
  {
    const Buffers buffers(kTasks / kChain + 1);
    measure(argc, argv, "chains", [&] {
      for (std::size_t i = 0; i < kTasks; ++i) submit(link, {buffers[i / kChain]});
      starpu_task_wait_for_all();
    });
  }
  {
    const Buffers buffers(8 * (kTasks / 4));
    measure(argc, argv, "attention", [&] {
      for (std::size_t i = 0; i < kTasks / 4; ++i) {
        const std::size_t block = 8 * i, row = 8 * (i / kBlocksPerRow);
        submit(products, {buffers[row], buffers[block + 1], buffers[block + 3]});
        submit(softmax, {buffers[block + 3], buffers[block + 4]});
        submit(products, {buffers[block + 4], buffers[block + 2], buffers[block + 5]});
        submit(update, {buffers[block + 5], buffers[row + 6]});
      }
      starpu_task_wait_for_all();
    });
  }
}

}  // namespace
}  // namespace dovetail::bench

int main(int argc, char** argv) {
  setenv("STARPU_SILENT", "1", 1);
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = 2;
  conf.ncuda = 0;
  conf.nopencl = 0;
  if (starpu_init(&conf) != 0) {
    std::fprintf(stderr, "starpu_tasks: StarPU does not start\n");
    return 1;
  }
  dovetail::bench::run(argc, argv);
  starpu_shutdown();
}
