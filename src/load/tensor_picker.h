#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/result.h"
#include "load/model_source.h"
#include "load/stored_tensor.h"
#include "load/tensor_binding.h"

namespace dovetail::load {

// Picks tensors by name and checks type and shape of each; tensors that hold several matrices are
// cut. What fails leaves the first error there is, and nothing is picked after it.
class TensorPicker {
 public:
  struct Shape {
    std::size_t rows;
    std::size_t columns;
    friend bool operator==(const Shape&, const Shape&) = default;
  };

  // Several matrices one above the other in one tensor, of each expert if it is one of all of them:
  // their rows, and the first of the one in question.
  struct Fused {
    std::string_view name;  // without its ending; empty: there is none
    std::size_t rows;
    std::size_t first;
  };

  // `source` names the model in errors about a tensor that is missing. With `type_of` nothing is
  // stored, and all that is called for is taken to be there.
  TensorPicker(const StoredTensors& stored, std::string_view source, const TypeOfTensor* type_of)
      : stored_(stored), source_(source), type_of_(type_of) {}

  const std::optional<Error>& error() const { return error_; }
  // All that were picked, by name.
  std::unordered_map<std::string, TensorView> take() { return std::move(bound_); }

  bool has(const std::string& name) const { return stored_.contains(name); }
  // Of what is stored; of a table whose size no field tells.
  std::size_t rows_of(const std::string& name) const;

  // A matrix and the bias of its rows, on their own or as rows of a fused tensor.
  void product(const std::string& name, Shape wanted, bool bias, Fused fused = {{}, 0, 0});
  void matrix(const std::string& name, std::size_t rows, std::size_t columns);
  // One that no product reads by columns: rows are looked up, or read in a way of their own.
  void table(const std::string& name, std::size_t rows, std::size_t columns);
  // As many matrices in one tensor, one above the other.
  void stack(const std::string& name, std::size_t count, std::size_t rows, std::size_t columns);
  void vector(const std::string& name, std::size_t elements);
  // The rows of `wanted` from a fused tensor; of a bias, whose rows have one element, its elements.
  void slice(const std::string& name, std::string_view ending, Shape wanted, Fused fused);
  // The matrices of all experts of a layer: one tensor of them all, which may have another matrix
  // of each expert as well, or a tensor for each; with their biases.
  void experts(const std::string& stem, std::uint32_t count, bool bias, Shape wanted,
               Fused fused = {{}, 0, 0});
  // The experts of each token. A family has made floats of the numbers, so that they are exact.
  void token_experts(const std::string& name, std::size_t tokens, std::size_t used,
                     std::uint32_t count);
  // Of one that was picked: norms, biases and what is added are never quantised.
  void check_plain(const std::string& name);

  // What is stored, was not picked and is not harmless: function(name, tensor) says what is. An
  // error if there is any.
  template <class Function>
  void check_left_over(Function&& is_harmless) {
    if (error_) return;
    const StoredTensor* worst = nullptr;
    for (const auto& [name, tensor] : stored_) {
      if (used_.contains(name) || is_harmless(name, tensor)) continue;
      // The smallest name, so that the message does not depend on the map's order.
      if (worst == nullptr || tensor.stored_name < worst->stored_name) worst = &tensor;
    }
    if (worst == nullptr) return;
    reject(*worst, "not a part of the model that the configuration describes",
           "only tensors that the model uses, since leaving one out would change its results",
           ErrorKind::kUnsupported);
  }

 private:
  // Whether there is a tensor that was just picked, to be looked at further.
  bool is_stored() const { return !error_ && type_of_ == nullptr; }
  void pick(const std::string& name, Shape wanted);
  // A tensor of all experts of a layer, outermost first, to one for each; a bias has one row.
  void cut(const std::string& stem, std::string_view ending, std::uint32_t count, Shape wanted,
           Fused from);
  // What products of a matrix are multiplied by, as llama.cpp's converter writes it beside what it
  // makes of NVFP4: NAME.scale, a number for each of `count` matrices that are one tensor. Null:
  // there is none. How far activations reach, NAME.input_scale, is dropped.
  const StoredTensor* scales_of(std::string_view weight, std::size_t count);
  // Whether the tensor is there with type and shape; an error if not.
  bool fits(const StoredTensor* tensor, std::string_view name, Shape wanted);
  void check_plain(const StoredTensor& tensor);
  void reject(const StoredTensor& tensor, std::string_view value, std::string_view valid,
              ErrorKind kind);

  const StoredTensors& stored_;
  std::string_view source_;
  const TypeOfTensor* type_of_;
  std::unordered_map<std::string, TensorView> bound_;
  std::unordered_set<std::string_view> used_;  // names in stored_
  std::optional<Error> error_;
};

}  // namespace dovetail::load
