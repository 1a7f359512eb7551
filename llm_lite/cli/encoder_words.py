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
        help="a text; may be repeated; without it, each line of standard input is a text",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="the vectors as one JSON object, instead of similarities",
    )


def add_filling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an encoder with a masked-token head")
    parser.add_argument(
        "text",
        metavar="TEXT",
        help='a text with the model\'s mask, such as "Paris is the [MASK] of France."',
    )
    parser.add_argument(
        "--top", type=int, default=5, metavar="N", help="candidates for each mask; by default 5"
    )
    parser.add_argument("--json", action="store_true")
