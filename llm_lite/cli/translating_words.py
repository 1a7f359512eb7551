"""The words of `llm-lite translate` and `llm-lite generate`, which are one command."""

from __future__ import annotations

import argparse

from llm_lite.cli.parser import at_least

TRANSLATING = (
    ("translate", "translate a text with an encoder-decoder such as Marian"),
    ("generate", "answer a text with an encoder-decoder such as T5"),
)


def add_translating(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="without it, each line of standard input is a text"
    )
    parser.add_argument(
        "--beam",
        type=at_least(1),
        default=0,
        metavar="N",
        help="width of the beam; 1: greedy decoding; by default as the model's file says",
    )
    parser.add_argument(
        "--max-tokens", type=at_least(1), default=0, metavar="N", help="longest target, in tokens"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each text")
