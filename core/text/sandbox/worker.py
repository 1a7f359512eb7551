"""The sandbox itself: what it does for a request. Started by `process` only."""

from __future__ import annotations

import gc
from collections.abc import Mapping

from llm_lite.core.text.sandbox.serving import Action, serve
from llm_lite.core.text.sandbox.templates import Templates
from llm_lite.core.text.sandbox.tokenizers import LoadedTokenizers


def main() -> None:
    serve(_actions)


def _actions() -> Mapping[str, Action]:
    gc.freeze()
    gc.set_threshold(200_000)  # a vocabulary is a million objects and no cycle
    templates, tokenizers = Templates(), LoadedTokenizers()
    return {
        "check template": lambda request, _: templates.check(request),
        "render template": lambda request, _: templates.render(request),
        "load tokenizer": tokenizers.load_file,
        "load pairs": tokenizers.load_pairs,
        "load word pieces": tokenizers.load_word_pieces,
        "encode": lambda request, _: tokenizers.encode(request),
        "trace": lambda request, _: tokenizers.trace(request),
    }
