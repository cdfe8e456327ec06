#include "model/pack_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "load/mapped_file.h"

namespace dovetail::model {
namespace {

using kernels::kPanelRows;

// Zeroed pages of its own for the panels, large ones where the system has them: decoding reads all
// of them for every token, and address translation of small pages costs a tenth of that.
class PackedMemory {
 public:
  explicit PackedMemory(std::size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ != MAP_FAILED) madvise(memory_, bytes_, MADV_HUGEPAGE);
  }
  ~PackedMemory() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  PackedMemory(const PackedMemory&) = delete;
  PackedMemory& operator=(const PackedMemory&) = delete;

  // Null where the system gave none.
  std::byte* data() const {
    return memory_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory_);
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

// Gives back the whole pages of a mapped file under [data, data + bytes); of any other memory the
// contents would be lost.
void drop_pages(const std::byte* data, std::size_t bytes) {
  if (load::mapped_path(data) == nullptr) return;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t before = (page - address % page) % page;
  if (before >= bytes) return;
  const std::size_t whole = (bytes - before) / page * page;
  if (whole > 0) madvise(const_cast<std::byte*>(data) + before, whole, MADV_DONTNEED);
}

// A matrix on its way into panels.
struct Packing {
  Matrix* matrix = nullptr;
  std::size_t row_bytes = 0, panel_bytes = 0;
  std::size_t offset = 0;  // of its panels in the memory
};

std::vector<Matrix*> packable(DecoderWeights& weights) {
  std::vector<Matrix*> matrices = {&weights.output};
  for (LayerWeights& layer : weights.layers) {
    matrices.insert(matrices.end(), {&layer.query, &layer.key, &layer.value,
                                     &layer.attention_output, &layer.router});
    for (FeedForward& feed_forward : layer.feed_forward) {
      matrices.insert(matrices.end(), {&feed_forward.gate, &feed_forward.up, &feed_forward.down});
    }
  }
  return matrices;
}

}  // namespace

Status pack_weights(DecoderWeights& weights, const kernels::Kernels& kernels,
                    const PackOptions& options) {
  std::vector<Packing> packings;
  std::size_t all = 0;
  for (Matrix* matrix : packable(weights)) {
    if (matrix->data == nullptr || matrix->packed) continue;
    const std::size_t panel = kernels.panel_bytes(matrix->type, matrix->columns);
    if (panel == 0) continue;
    packings.push_back({matrix, kernels::row_bytes(matrix->type, matrix->columns), panel, all});
    all += (matrix->rows + kPanelRows - 1) / kPanelRows * panel;
  }
  if (packings.empty()) return {};
  const auto memory = std::make_shared<const PackedMemory>(all);
  if (memory->data() == nullptr) {
    return fail(ErrorKind::kExhausted,
                "packing the weights takes {} bytes of memory ({}); expected as much, or --no-pack",
                all, std::strerror(errno));
  }

  // Matrix by matrix, so that the file is read in order, as far as it lies so.
  std::sort(packings.begin(), packings.end(),
            [](const Packing& a, const Packing& b) { return a.matrix->data < b.matrix->data; });
  std::atomic<std::size_t> next{0};
  std::size_t done = 0;
  std::mutex progress;
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < packings.size(); i = next.fetch_add(1)) {
      const Packing& packing = packings[i];
      const Matrix& matrix = *packing.matrix;
      kernels.pack(matrix.type, matrix.data, matrix.rows, matrix.columns,
                   memory->data() + packing.offset);
      // A tied output is the embedding as well, of which single rows are still read.
      if (matrix.data != weights.embedding.data) {
        drop_pages(matrix.data, matrix.rows * packing.row_bytes);
      }
      const std::lock_guard lock(progress);
      done += (matrix.rows + kPanelRows - 1) / kPanelRows * packing.panel_bytes;
      if (options.progress) options.progress(done, all);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 1; i < options.threads; ++i) threads.emplace_back(work);
    work();
  }
  for (const Packing& packing : packings) {
    packing.matrix->data = memory->data() + packing.offset;
    packing.matrix->packed = true;
  }
  weights.packed = memory;
  return {};
}

}  // namespace dovetail::model
