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
  // Throws std::system_error where the system does not start that many threads.
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
  void work(std::uint64_t round);
  void serve();
  void stop();

  // The round under way, as one word, so that a task is claimed by one compare-and-swap that only
  // succeeds while its round lasts: a number that tells rounds apart, how many tasks it has, and
  // the next to be claimed. A thread that wakes up late finds nothing to claim; nobody waits for
  // it.
  std::atomic<std::uint64_t> round_{0};
  // Of the round under way; they hold still from its first claim to its last completion.
  std::atomic<Function> function_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> team_;
};

}  // namespace dovetail::cores
