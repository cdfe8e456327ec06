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
#include "load/tensor_roles.h"
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

// Rows of a matrix that one thread takes at a time: of whole panels, and so few that threads stay
// near each other in the file, right behind what has been read.
struct Piece {
  std::size_t packing = 0;  // whose rows
  std::size_t first = 0, rows = 0;
};

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // as the file has them
// Pieces that are read before a thread takes them, at most, and that the disk is asked for before
// they are read.
constexpr std::size_t kReadAhead = 16, kAskedAhead = 64;

// In the order of the file, as far as matrices lie so.
std::vector<Piece> pieces_of(std::span<const Packing> packings) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < packings.size(); ++i) {
    const std::size_t all = packings[i].matrix->rows;
    const std::size_t fit = kPieceBytes / packings[i].row_bytes / kPanelRows * kPanelRows;
    const std::size_t each = std::max(fit, kPanelRows);
    for (std::size_t row = 0; row < all; row += each)
      pieces.push_back({i, row, std::min(each, all - row)});
  }
  return pieces;
}

// Rows that are made of parts and then packed: whole panels, and few enough for the caches.
constexpr std::size_t kRowsTogether = 8 * kPanelRows;

// Writes the panels, or rows, of rows [first, first + count) of a matrix.
void write_rows(const kernels::Kernels& kernels, const Packing& packing, std::size_t first,
                std::size_t count, std::byte* out) {
  const Matrix& matrix = *packing.matrix;
  if (matrix.parts == nullptr) {
    kernels.pack(matrix.type, matrix.data + first * packing.row_bytes, count, matrix.columns, out);
    return;
  }
  if (!packing.packed) {
    load::write_rows(*matrix.parts, first, count, out);
    return;
  }
  std::vector<std::byte> rows(std::min(kRowsTogether, count) * packing.row_bytes);
  for (std::size_t row = 0; row < count; row += kRowsTogether) {
    const std::size_t some = std::min(kRowsTogether, count - row);
    load::write_rows(*matrix.parts, first + row, some, rows.data());
    kernels.pack(matrix.type, rows.data(), some, matrix.columns, out);
    out += packed_bytes(kernels, matrix.type, some, matrix.columns);
  }
}

// What a piece is in the file: its rows, or, of parts, all of them with the first piece.
template <class Function>
void for_each_span(const Packing& packing, const Piece& piece, Function function) {
  const Matrix& matrix = *packing.matrix;
  if (matrix.parts == nullptr) {
    function(
        std::span(matrix.data + piece.first * packing.row_bytes, piece.rows * packing.row_bytes));
  } else if (piece.first == 0) {
    load::for_each_span(*matrix.parts, function);
  }
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
    add(&matrix, options.types.has(matrix.type) && !load::is_read_by_rows(name));
  if (packings.empty()) return {};
  const auto memory = std::make_shared<const PackedMemory>(all);
  if (memory->data() == nullptr) {
    return fail(ErrorKind::kExhausted,
                "packing the weights takes {} bytes of memory ({}); expected as much{}", all,
                std::strerror(errno), only_parts ? "" : ", or --no-pack");
  }

  const auto found = weights.matrices.find("token_embd.weight");
  const std::byte* embedding = found == weights.matrices.end() ? nullptr : found->second.data;
  std::sort(packings.begin(), packings.end(),
            [](const Packing& a, const Packing& b) { return begin_of(a) < begin_of(b); });
  const std::vector<Piece> pieces = pieces_of(packings);
  std::atomic<std::size_t> taken{0}, there{0};  // pieces that threads have, and that have been read
  std::vector<std::atomic<std::size_t>> rows_done(packings.size());
  std::size_t done = 0;
  std::mutex progress;
  const auto bytes_of = [&](const Packing& packing, std::size_t rows) {
    const Matrix& matrix = *packing.matrix;
    return packing.packed ? packed_bytes(kernels, matrix.type, rows, matrix.columns)
                          : rows * packing.row_bytes;
  };
  const auto work = [&] {
    for (std::size_t i = taken.fetch_add(1); i < pieces.size(); i = taken.fetch_add(1)) {
      taken.notify_one();
      for (std::size_t read = there; read <= i; read = there) there.wait(read);
      const Piece& piece = pieces[i];
      const Packing& packing = packings[piece.packing];
      const Matrix& matrix = *packing.matrix;
      write_rows(kernels, packing, piece.first, piece.rows,
                 memory->data() + packing.offset + bytes_of(packing, piece.first));
      const bool whole = rows_done[piece.packing].fetch_add(piece.rows) + piece.rows == matrix.rows;
      if (whole && matrix.parts != nullptr) {
        load::for_each_span(*matrix.parts,
                            [](std::span<const std::byte> span) { load::drop_pages(span); });
      } else if (whole && matrix.data != embedding) {
        // A tied output is the embedding as well, of which single rows are still read.
        load::drop_pages({matrix.data, matrix.rows * packing.row_bytes});
      }
      const std::lock_guard lock(progress);
      done += bytes_of(packing, piece.rows);
      if (whole) done += packing.bytes - bytes_of(packing, matrix.rows);
      if (options.progress) options.progress(done, all);
    }
  };
  {
    // One thread reads, in order: threads that packed what has not come would read it page by page,
    // each at a place of its own.
    const std::jthread reader([&] {
      std::size_t asked = 0;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        for (std::size_t had = taken; i >= had + kReadAhead; had = taken) taken.wait(had);
        for (; asked < std::min(pieces.size(), i + kAskedAhead); ++asked)
          for_each_span(packings[pieces[asked].packing], pieces[asked], load::prefetch);
        for_each_span(packings[pieces[i].packing], pieces[i], load::read_pages);
        there = i + 1;
        there.notify_all();
      }
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
