#include "kernels/portable/roofline.h"

// Of builds that have no other instruction set.
namespace dovetail::kernels {

Roofline roofline_of(std::string_view) { return portable::roofline(); }

}  // namespace dovetail::kernels
