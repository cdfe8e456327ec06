#include "model/linear.h"

#include <algorithm>
#include <cassert>

namespace dovetail::model {
namespace {

// Output columns are shared out in multiples of a cache line of floats, so that no two threads
// write to one.
constexpr std::size_t kColumnGrain = 16;

struct Part {
  const Product* product;
  std::size_t begin, end;
};

std::vector<Part> split_columns(std::span<const Product> products, std::size_t grain) {
  std::vector<Part> parts;
  for (const Product& product : products) {
    for (std::size_t begin = 0; begin < product.weights->rows; begin += grain) {
      parts.push_back({&product, begin, std::min(begin + grain, product.weights->rows)});
    }
  }
  return parts;
}

}  // namespace

void PreparedRows::reset(std::size_t rows, std::size_t k, std::span<const Product> products) {
  rows_ = rows;
  k_ = k;
  forms_.clear();
  std::size_t bytes = 0;
  for (const Product& product : products) {
    const load::DataType type = product.weights->type;
    assert(product.weights->columns == k);
    if (std::any_of(forms_.begin(), forms_.end(),
                    [&](const Form& form) { return form.type == type; }))
      continue;
    const std::size_t stride = kernels_.activation_bytes(type, k);
    forms_.push_back({type, stride, bytes});
    bytes += stride * rows;
  }
  buffer_.reserve(bytes);
}

void PreparedRows::set(std::size_t row, const float* x) {
  assert(row < rows_);
  for (const Form& form : forms_)
    kernels_.prepare(form.type, x, k_, buffer_.data() + form.begin + row * form.stride);
}

const PreparedRows::Form& PreparedRows::form(load::DataType type) const {
  return *std::find_if(forms_.begin(), forms_.end(),
                       [&](const Form& candidate) { return candidate.type == type; });
}

void PreparedRows::multiply(cores::Workers& workers, std::span<const Product> products) const {
  std::size_t columns = 0;
  for (const Product& product : products) columns += product.weights->rows;
  const bool shared = workers.size() > 1 && rows_ * k_ * columns >= kWorthSharing;
  // Some parts per thread, so that a slow one does not hold up the others.
  const std::size_t wanted = shared ? columns / (workers.size() * 4) : columns;
  const std::size_t grain =
      std::max(kColumnGrain, (wanted + kColumnGrain - 1) / kColumnGrain * kColumnGrain);
  const std::vector<Part> parts = split_columns(products, grain);
  const auto compute = [&](std::size_t index) {
    const Part& part = parts[index];
    const Form& rows = form(part.product->weights->type);
    kernels::MatmulArgs args;
    args.type = rows.type;
    args.weights = part.product->weights->data.data();
    args.activations = buffer_.data() + rows.begin;
    args.activation_stride = rows.stride;
    args.output = part.product->output;
    args.output_stride = part.product->output_stride;
    args.m = rows_;
    args.k = k_;
    args.n_begin = part.begin;
    args.n_end = part.end;
    kernels_.matmul(args);
  };
  if (shared) {
    workers.run(parts.size(), compute);
  } else {
    for (std::size_t i = 0; i < parts.size(); ++i) compute(i);
  }
}

}  // namespace dovetail::model
