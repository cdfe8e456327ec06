#pragma once

#include "base/result.h"
#include "load/stored_tensor.h"

namespace dovetail::families {

// Some folders store the experts of a layer together, a column of a matrix after another: [experts,
// columns, rows]. Makes of such a tensor the same matrices as [experts, rows, columns], which still
// are a view of the file. Fails unless it has three dimensions and floats.
Status turn(load::StoredTensor& tensor);

}  // namespace dovetail::families
