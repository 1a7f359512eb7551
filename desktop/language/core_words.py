"""Fixed words of the engine and the history that the window shows; core says them in English.

Its whole sentences (why a file cannot be read, which field is wrong) are shown as they are.
"""

from __future__ import annotations

import re

from llm_lite.desktop.language.translate import mark, tr

WORDS = (
    # what is under way: loading, converting, measuring
    mark("opening"),
    mark("starting"),
    mark("ready"),
    mark("reading the header"),
    mark("reading the vocabulary"),
    mark("checking the weights"),
    mark("checking the source"),
    mark("mapping the variant on disk"),
    mark("preparing the weights"),
    mark("preparing the executor"),
    mark("calibrating"),
    mark("writing a text to calibrate with"),
    mark("asking B for what A said"),
    mark("measuring memory"),
    mark("measuring a step"),
    mark("run A"),
    mark("run B"),
    # devices
    mark("discrete"),
    mark("integrated"),
    mark("software"),
    mark("virtual"),
    mark("other"),
    mark("auto"),
    # what is undone and done again
    mark("Rename"),
    mark("Pin"),
    mark("Unpin"),
    mark("Archive"),
    mark("Unarchive"),
    mark("Delete"),
    mark("Delete all"),
    mark("Restore"),
    mark("Show version"),
)
_ENDS = re.compile(r"(, |: )")


def said(words: str) -> str:
    """`words` of core in the language in use; parts that are none of these stay: names, modes."""
    whole = tr(words)
    return whole if whole != words else "".join(tr(part) for part in _ENDS.split(words) if part)
