"""`llm-lite translate` and `generate`: from a source text to a target, with an encoder-decoder."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.inputs import executor_fields
from llm_lite.cli.terminal.output import show, show_json, tell, warn
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.translation import Translator, encode_source, target_text
from llm_lite.core.loading import loader
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.runner import Runner
from llm_lite.core.text.tokenizer import Tokenizer


def run(arguments: argparse.Namespace) -> int:
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        if not file.model.translates:
            raise RequestError(
                f"{file.path}: is no encoder-decoder, expected one such as T5 or Marian; "
                "`llm-lite chat` continues texts with a decoder"
            )
        runner = loader.start(file, engine_options(arguments), None, lambda *_: None)
        try:
            tell(runner.note)
            runner.report_drafts(tell)
            translator = translator_of(runner)
            translator.options(arguments.beam)  # refused before anything is read
            for text in _texts(arguments.text):
                _show(_translated(runner, file.tokenizer, translator, arguments, text), arguments)
        finally:
            runner.close()
    finally:
        file.close()
    return 0


def _texts(text: str | None) -> Iterator[str]:
    if text is not None:
        yield text
        return
    yield from (line.rstrip("\n") for line in sys.stdin if line.strip())


def _translated(
    runner: Runner,
    tokenizer: Tokenizer,
    translator: Translator,
    arguments: argparse.Namespace,
    text: str,
) -> dict[str, object]:
    source = encode_source(tokenizer, text, runner.session.context)
    began = time.perf_counter()
    translator.read_source(source)
    options = translator.options(arguments.beam, arguments.max_tokens)
    target = translator.whole(options)
    seconds = time.perf_counter() - began
    return {
        "text": target_text(tokenizer, target.tokens),
        "score": target.score,
        "tokens": list(target.tokens),
        "others": [
            {"text": target_text(tokenizer, o.tokens), "score": o.score} for o in target.others
        ],
        "source_tokens": source,
        "beam": options.width,
        **executor_fields(runner.executor_info),
        "seconds": seconds,
    }


def _show(found: dict[str, object], arguments: argparse.Namespace) -> None:
    if arguments.json:
        show_json(found)
    else:
        show(str(found["text"]))
