"""The words of `llm-lite embed` and `llm-lite fill`."""

from __future__ import annotations

import argparse


def add_embedding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an encoder, or any other model")
    parser.add_argument(
        "-p",
        "--prompt",
        action="append",
        metavar="TEXT",
        help="may be given several times; without it, every line of standard input is a text",
    )
    parser.add_argument(
        "--json", action="store_true", help="the vectors, as one object, instead of similarities"
    )


def add_filling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an encoder with a masked-token head")
    parser.add_argument(
        "text", metavar="TEXT", help='with the model\'s mask: "Paris is the [MASK] of France."'
    )
    parser.add_argument(
        "--top", type=int, default=5, metavar="N", help="how many candidates; by default 5"
    )
    parser.add_argument("--json", action="store_true")
