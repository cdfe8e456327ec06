#!/usr/bin/env python3
"""Writes src/kernels/types/iq_grids.h: the points of the grids of the IQ weight types, from the gguf
package.

    python3 -m venv VENV && VENV/bin/pip install gguf
    VENV/bin/python tools/golden/make_iq_grids.py src/kernels/types/iq_grids.h

A point of a grid is a row of digits (which magnitude each of its elements has). Read as a number,
the first digit the lowest, the points ascend, so that the steps from one to the next are stored: a
character from '0' on for each step, after a small letter for each 43 that a step has more.
"""

import sys

from gguf import quants

# Name in C++, class of the gguf package, digits' base.
GRIDS = [
    ("Iq2XxsGrid", quants.IQ2_XXS, 3),
    ("Iq2XsGrid", quants.IQ2_XS, 3),
    ("Iq2SGrid", quants.IQ2_S, 3),
    ("Iq3XxsGrid", quants.IQ3_XXS, 8),
    ("Iq3SGrid", quants.IQ3_S, 8),
    ("Iq1Grid", quants.IQ1_S, 3),
]
STEPS = 43  # '0' to 'Z'
WIDTH = 92

HEAD = """\
#pragma once

#include <cstddef>
#include <cstdint>

// Written by tools/golden/make_iq_grids.py, which says how the points are stored.
namespace dovetail::kernels {
namespace {

// Points of kDigits digits to kBase, as numbers with kBits bits for each digit, the first digit the
// lowest.
template <std::size_t kPoints, unsigned kBase, unsigned kDigits, unsigned kBits>
struct Grid {
  std::uint16_t points[kPoints] = {};
  constexpr explicit Grid(const char* steps) {
    unsigned point = 0;
    for (std::uint16_t& out : points) {
      if (*steps >= 'a') point += 43U * static_cast<unsigned>(*steps++ - 'a' + 1);
      point += static_cast<unsigned>(*steps++ - '0');
      unsigned bits = 0;
      for (unsigned digit = 0, rest = point; digit < kDigits; ++digit, rest /= kBase) {
        bits |= rest % kBase << digit * kBits;
      }
      out = static_cast<std::uint16_t>(bits);
    }
  }
};

// clang-format off
"""
TAIL = """\
// clang-format on

}  // namespace
}  // namespace dovetail::kernels
"""


def main() -> None:
    text = HEAD
    for name, grid, base in GRIDS:
        grid.init_grid()
        magnitudes = list(grid.grid_map)
        assert len(magnitudes) == base and base in (3, 8)
        points = grid.grid.reshape(grid.grid_shape)
        steps = ""
        last = 0
        for point in points:
            number = sum(magnitudes.index(x) * base**i for i, x in enumerate(point))
            many, few = divmod(number - last, STEPS)
            assert 0 <= many <= 26, f"{name}: a step of {number - last}"
            steps += (chr(ord("a") + many - 1) if many else "") + chr(ord("0") + few)
            last = number
        count, digits = grid.grid_shape
        template = f"Grid<{count}, {base}, {digits}, {2 if base == 3 else 3}>"
        lines = [steps[i : i + WIDTH] for i in range(0, len(steps), WIDTH)]
        text += f"constexpr {template} k{name}(\n"
        text += "\n".join(f'    "{line}"' for line in lines) + ");\n"
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(text + TAIL)


if __name__ == "__main__":
    main()
