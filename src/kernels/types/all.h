#pragma once

#include "kernels/data_type.h"
#include "kernels/types/int.h"
#include "kernels/types/iq1.h"
#include "kernels/types/iq2.h"
#include "kernels/types/iq3.h"
#include "kernels/types/iq4.h"
#include "kernels/types/mxfp4.h"
#include "kernels/types/plain.h"
#include "kernels/types/q2_k.h"
#include "kernels/types/q3_k.h"
#include "kernels/types/q4_0.h"
#include "kernels/types/q4_1.h"
#include "kernels/types/q4_k.h"
#include "kernels/types/q5_0.h"
#include "kernels/types/q5_1.h"
#include "kernels/types/q5_k.h"
#include "kernels/types/q6_k.h"
#include "kernels/types/q8_0.h"
#include "kernels/types/tq.h"

namespace dovetail::kernels {
namespace {

// Calls function(T{}) with the description of `type`.
template <class Function>
decltype(auto) with_type(DataType type, Function&& function) {
  switch (type) {
#define DOVETAIL_CASE(name) \
  case DataType::k##name:   \
    return function(name());
    DOVETAIL_WEIGHT_TYPES(DOVETAIL_CASE)
#undef DOVETAIL_CASE
  }
  __builtin_unreachable();
}

}  // namespace
}  // namespace dovetail::kernels
