#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace dovetail::cores {

// Physical cores that this process may use (hardware threads of one core count once); at least 1.
unsigned physical_cores();

// A fixed team of threads that works through indexed tasks together: the caller is one of them.
// Tasks are taken one at a time from a shared counter, so which thread runs a task is not fixed;
// results may not depend on it. One caller at a time.
class Workers {
 public:
  explicit Workers(unsigned threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  unsigned size() const { return static_cast<unsigned>(team_.size()) + 1; }

  // Calls task(i) once for every i < count, on this and the other threads; returns when all have
  // ended. What the tasks wrote is visible to the caller. task may not throw and may not call
  // run().
  template <class Task>
  void run(std::size_t count, Task&& task) {
    using Callable = std::remove_reference_t<Task>;
    run_erased(
        count, [](void* context, std::size_t index) { (*static_cast<Callable*>(context))(index); },
        const_cast<void*>(static_cast<const void*>(&task)));
  }

 private:
  using Function = void (*)(void* context, std::size_t index);

  void run_erased(std::size_t count, Function function, void* context);
  void work();
  void serve();

  // A round is published by raising round_; the fields below it are written before and read after.
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> busy_{0};  // threads of the team that have not finished the round
  std::atomic<std::size_t> next_{0};
  std::size_t count_ = 0;
  Function function_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  std::vector<std::thread> team_;
};

}  // namespace dovetail::cores
