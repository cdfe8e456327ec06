#include "model/cpu/pack_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "load/mapped_file.h"
#include "load/stored_parts.h"
#include "model/cpu/weight_bytes.h"

namespace dovetail::model {
namespace {

using kernels::kPanelRows;

// Zeroed pages of its own for panels and rows, large ones where the system has them: decoding reads
// all of them for every token, and address translation of small pages costs a tenth of that.
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

// A matrix on its way into panels or rows.
struct Packing {
  Matrix* matrix = nullptr;
  bool packed = false;  // else rows
  std::size_t row_bytes = 0;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the memory
};

// Rows that are made of parts and then packed: whole panels, and few enough for the caches.
constexpr std::size_t kRowsTogether = 8 * kPanelRows;

// Writes the panels, or rows, of a matrix.
void write_matrix(const kernels::Kernels& kernels, const Packing& packing, std::byte* out) {
  const Matrix& matrix = *packing.matrix;
  if (matrix.parts == nullptr) {
    kernels.pack(matrix.type, matrix.data, matrix.rows, matrix.columns, out);
    return;
  }
  if (!packing.packed) {
    load::write_rows(*matrix.parts, 0, matrix.rows, out);
    return;
  }
  std::vector<std::byte> rows(std::min(kRowsTogether, matrix.rows) * packing.row_bytes);
  for (std::size_t row = 0; row < matrix.rows; row += kRowsTogether) {
    const std::size_t some = std::min(kRowsTogether, matrix.rows - row);
    load::write_rows(*matrix.parts, row, some, rows.data());
    kernels.pack(matrix.type, rows.data(), some, matrix.columns, out);
    out += packed_bytes(kernels, matrix.type, some, matrix.columns);
  }
}

void read_ahead(const Packing& packing) {
  const Matrix& matrix = *packing.matrix;
  if (matrix.parts != nullptr) return load::for_each_span(*matrix.parts, load::prefetch);
  load::prefetch({matrix.data, matrix.rows * packing.row_bytes});
}

// Where the file has it, or its codes.
const std::byte* begin_of(const Packing& packing) {
  const Matrix& matrix = *packing.matrix;
  if (matrix.parts == nullptr) return matrix.data;
  return matrix.parts->bytes.empty() ? matrix.parts->nibbles.words.data()
                                     : matrix.parts->bytes.data();
}

}  // namespace

Status pack_weights(ModelWeights& weights, const kernels::Kernels& kernels,
                    const PackOptions& options) {
  weights.packs = options.types;
  std::vector<Packing> packings;
  std::size_t all = 0;
  bool only_parts = true;  // which have to be made in any case
  const auto add = [&](Matrix* matrix, bool pack) {
    const bool in_parts = matrix->data == nullptr && matrix->parts != nullptr;
    if ((matrix->data == nullptr && !in_parts) || matrix->packed) return;
    const std::size_t packed =
        pack ? packed_bytes(kernels, matrix->type, matrix->rows, matrix->columns) : 0;
    if (packed == 0 && !in_parts) return;
    const std::size_t row = kernels::row_bytes(matrix->type, matrix->columns);
    const std::size_t bytes =
        packed == 0 ? made_bytes(matrix->type, matrix->rows, matrix->columns) : packed;
    packings.push_back({matrix, packed > 0, row, bytes, all});
    all += bytes;
    only_parts = only_parts && in_parts;
  };
  for (auto& [name, matrix] : weights.matrices)
    add(&matrix, options.types.has(matrix.type) && !is_read_by_rows(name));
  if (packings.empty()) return {};
  const auto memory = std::make_shared<const PackedMemory>(all);
  if (memory->data() == nullptr) {
    return fail(ErrorKind::kExhausted,
                "packing the weights takes {} bytes of memory ({}); expected as much{}", all,
                std::strerror(errno), only_parts ? "" : ", or --no-pack");
  }

  const auto found = weights.matrices.find("token_embd.weight");
  const std::byte* embedding = found == weights.matrices.end() ? nullptr : found->second.data;
  // Matrix by matrix, so that the file is read in order, as far as it lies so.
  std::sort(packings.begin(), packings.end(),
            [](const Packing& a, const Packing& b) { return begin_of(a) < begin_of(b); });
  std::atomic<std::size_t> next{0};
  std::size_t done = 0;
  std::mutex progress;
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < packings.size(); i = next.fetch_add(1)) {
      const Packing& packing = packings[i];
      const Matrix& matrix = *packing.matrix;
      write_matrix(kernels, packing, memory->data() + packing.offset);
      if (matrix.parts != nullptr) {
        load::for_each_span(*matrix.parts,
                            [](std::span<const std::byte> span) { load::drop_pages(span); });
      } else if (matrix.data != embedding) {
        // A tied output is the embedding as well, of which single rows are still read.
        load::drop_pages({matrix.data, matrix.rows * packing.row_bytes});
      }
      const std::lock_guard lock(progress);
      done += packing.bytes;
      if (options.progress) options.progress(done, all);
    }
  };
  {
    // The file is read ahead of what is packed: the request waits for the disk where that has many.
    const std::jthread reader([&packings] {
      for (const Packing& packing : packings) read_ahead(packing);
    });
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 1; i < options.threads; ++i) threads.emplace_back(work);
    work();
  }
  for (const Packing& packing : packings) {
    packing.matrix->data = memory->data() + packing.offset;
    packing.matrix->packed = packing.packed;
  }
  weights.packed = memory;
  return {};
}

}  // namespace dovetail::model
