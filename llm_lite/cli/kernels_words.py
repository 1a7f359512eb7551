"""The words of `llm-lite kernels`."""

from __future__ import annotations

import argparse

from llm_lite.cli.parser import DEVICE_HELP, at_least


def add_kernels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        choices=("vulkan", "cpu", "both"),
        default="both",
        help="measure shaders, C++ kernels or both (the default)",
    )
    parser.add_argument(
        "--device",
        type=at_least(0),
        metavar="N",
        help=DEVICE_HELP,
    )
    parser.add_argument(
        "--threads", type=at_least(0), default=0, metavar="N", help="threads of the C++ kernels"
    )
    parser.add_argument(
        "--size",
        type=at_least(0),
        default=0,
        metavar="N",
        help="rows and columns of the matrices; 0: chosen so that a measurement takes seconds",
    )
    parser.add_argument("--json", action="store_true")
