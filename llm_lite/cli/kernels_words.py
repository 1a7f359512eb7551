"""The words of `llm-lite kernels`."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def add_kernels(
    parser: argparse.ArgumentParser, at_least: Callable[[int], Callable[[str], int]]
) -> None:
    parser.add_argument(
        "--on",
        choices=("vulkan", "cpu", "both"),
        default="both",
        help="measure shaders, C++ or both, if there is a Vulkan device; both if left out",
    )
    parser.add_argument("--device", type=at_least(0), metavar="N", help="see `llm-lite doctor`")
    parser.add_argument("--threads", type=at_least(0), default=0, metavar="N", help="of C++")
    parser.add_argument(
        "--size",
        type=at_least(0),
        default=0,
        metavar="N",
        help="rows and columns of the matrices; 0: as large as takes the device seconds",
    )
    parser.add_argument("--json", action="store_true")
