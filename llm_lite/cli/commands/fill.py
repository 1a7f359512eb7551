"""`llm-lite fill`: what the masked tokens of a text could be."""

from __future__ import annotations

import argparse

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.output import show, show_json, tell, warn
from llm_lite.cli.terminal.similarity_table import fitted, width
from llm_lite.core.encoding.masked import fill, filled
from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import encoder
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages.encoding import Mask

_MOST = 1000  # candidates


def run(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.top <= _MOST:
        raise RequestError(f"--top: expected 1 to {_MOST}, found {arguments.top}")
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    try:
        with encoder(file, engine_options(arguments)) as runner:
            tell(runner.note)
            tokens, masks = fill(runner.session, file.tokenizer, arguments.text, arguments.top)
        if arguments.json:
            show_json(_told(arguments.text, tokens, masks))
        else:
            _show(file, arguments.text, masks)
    finally:
        file.close()
    return 0


def _told(text: str, tokens: tuple[int, ...], masks: tuple[Mask, ...]) -> dict[str, object]:
    return {
        "text": text,
        "tokens": list(tokens),
        "masks": [
            {
                "position": mask.position,
                "candidates": [
                    {"token": one.token, "text": one.text, "probability": one.probability}
                    for one in mask.candidates
                ],
            }
            for mask in masks
        ],
    }


def _show(file: ModelFile, text: str, masks: tuple[Mask, ...]) -> None:
    """Print the sentence with each candidate; the other masks of several have their likeliest
    token."""
    best = [mask.candidates[0].text for mask in masks]
    for number, mask in enumerate(masks):
        if len(masks) > 1:
            show(f"mask {number + 1} of {len(masks)}")
        room = max(width(one.text) for one in mask.candidates)
        for one in mask.candidates:
            chosen = [*best[:number], one.text, *best[number + 1 :]]
            whole = filled(file.tokenizer, text, chosen)
            show(f"{one.probability:7.1%}  {fitted(one.text, room)}  {whole}")
