"""`llm-lite tokenize`: a text on its way to token ids, stage by stage."""

from __future__ import annotations

import argparse
from typing import Any

from llm_lite.cli.terminal.output import show, show_json, warn
from llm_lite.core.engine.prompt_stages import prompt_stages
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_text
from llm_lite.core.loading import loader
from llm_lite.core.loading.tokenizers import name_of, open_tokenizer
from llm_lite.core.messages import ChatMessage
from llm_lite.core.messages.inspecting.tokenizing import (
    Lattice,
    LongestMatches,
    MergeSteps,
    TokenizedText,
    TokenPiece,
    Word,
)
from llm_lite.core.records import asdict
from llm_lite.core.text.stages import MOST_COUNTED
from llm_lite.core.text.token_spelling import (
    candidate,
    data_shown,
    hexadecimal,
    shown,
    symbol_shown,
)


def run(arguments: argparse.Namespace) -> int:
    text = arguments.text
    if arguments.text_file is not None:
        text = read_text(arguments.text_file, 4 * MOST_COUNTED)
    if text is None:
        raise RequestError("tokenize: expected a text behind the model, or --text-file F")
    told = _told(arguments, text)
    if arguments.json:
        show_json(_report(told, steps=arguments.steps))
    else:
        _print(told, steps=arguments.steps)
    return 0


def _told(arguments: argparse.Namespace, text: str) -> TokenizedText:
    if not arguments.chat:
        return open_tokenizer(arguments.model).stages(text, arguments.control)
    file = loader.open_model(arguments.model, lambda *_: None, warn, check_weights=False)
    try:
        return prompt_stages(file, name_of(file.path), [ChatMessage("user", text)])
    finally:
        file.close()


def _report(told: TokenizedText, *, steps: bool) -> dict[str, Any]:
    return {
        "tokenizer": told.tokenizer,
        "kind": told.kind,
        "vocabulary": told.vocabulary,
        "text": told.text,
        "characters": told.characters,
        "normalized": told.normalized,
        "normalizers": told.normalizers,
        "count": told.tokens,
        "ids": [piece.id for piece in told.pieces],
        "tokens": [_piece(piece) for piece in told.pieces],
        "words": [_word(word, steps=steps) for word in told.words],
    }


def _piece(piece: TokenPiece) -> dict[str, Any]:
    found = {"id": piece.id, "token": piece.token, "bytes": piece.data.hex()}
    return {**found, "start": piece.start, "end": piece.end}


def _word(word: Word, *, steps: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"start": word.start, "end": word.end, "spelled": word.spelled}
    found |= {"ids": [piece.id for piece in word.pieces], "control": word.control}
    if steps and word.steps is not None:
        found["steps"] = {"kind": type(word.steps).__name__, **asdict(word.steps)}
    return found


def _print(told: TokenizedText, *, steps: bool) -> None:
    kind = "BPE of bytes" if told.of_bytes else told.kind
    show(f"{told.tokenizer}: {kind}, {told.vocabulary:,} tokens in the vocabulary")
    if told.normalized != told.text:
        names = ", ".join(told.normalizers)
        show(f"normalized ({names}): {shown(told.normalized, 400)}")
    show("words: " + " | ".join(_said(told, word) for word in told.words))
    for word in told.words if steps else ():
        _print_steps(told, word)
    show()
    for piece in told.pieces:
        words = data_shown(piece.data) if piece.data else piece.token
        show(f"{piece.id:>8}  {words:<20}  {hexadecimal(piece.data)}")
    show(f"{told.tokens:,} tokens, {told.characters:,} characters")
    if told.characters > len(told.text):
        warn(f"the stages are those of the first {len(told.text):,} characters")


def _said(told: TokenizedText, word: Word) -> str:
    characters = told.text[word.start : word.end]
    return shown(characters) if characters else symbol_shown(word.spelled, told.of_bytes)


def _print_steps(told: TokenizedText, word: Word) -> None:
    if word.steps is None or not word.steps.count:
        return
    show(f"\n{_said(told, word)}")
    if isinstance(word.steps, MergeSteps):
        _print_merges(told, word.steps)
    elif isinstance(word.steps, Lattice):
        _print_lattice(word.steps)
    else:
        _print_matches(word, word.steps)


def _print_merges(told: TokenizedText, steps: MergeSteps) -> None:
    pieces = list(steps.symbols)
    for number, merge in enumerate(steps.merges, 1):
        names = (*pieces[merge.at : merge.at + 2], merge.made)
        left, right, made = (symbol_shown(name, told.of_bytes) for name in names)
        pieces[merge.at : merge.at + 2] = [merge.made]
        rank = f"score {-merge.rank:.2f}" if steps.scored else f"rank {merge.rank:,.0f}"
        show(f"{number:>5}  {left} + {right} → {made}  ({rank})")


def _print_lattice(lattice: Lattice) -> None:
    """Print every token that fits; those of the best path have a mark."""
    best = set(lattice.best)
    for number, edge in enumerate(lattice.edges):
        mark = "*" if number in best else " "
        known = "unknown" if edge.id is None else f"{edge.id}"
        place = f"{edge.start:>4}–{edge.end:<4}"
        show(f"  {mark} {place} {shown(edge.token)}  score {edge.score:.3f}  ({known})")
    show(f"    sum of the best path: {lattice.totals[-1] or 0.0:.3f}")


def _print_matches(word: Word, found: LongestMatches) -> None:
    for start, end, hit in found.tries:
        show(f"  {'*' if hit else ' '} {shown(candidate(word.spelled, start, end, found.prefix))}")
