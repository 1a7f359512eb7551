"""`llm-lite models`: hands over to what its second word names."""

from __future__ import annotations

import argparse
import importlib

from llm_lite.cli.library_words import ACTIONS


def run(arguments: argparse.Namespace) -> int:
    action = importlib.import_module(ACTIONS[arguments.action].module)
    return int(action.run(arguments))
