"""The tokenizer of T5's checkpoints without a tokenizer.json, as mT5 and T5 1.1 are: the pieces of
spiece.model, and behind them the sentinels of spans that pretraining masks, the last one first.

Source: `T5Tokenizer` of https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from array import array
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.tokenizer_files import CONFIG, PIECES
from llm_lite.core.text.vocabulary import UNIGRAM, TokenType, Vocabulary, around_text

_END, _PADDING = "</s>", "<pad>"
_SENTINELS = 100  # where no file says how many there are


def read_spiece(folder: Path, rows: int) -> Vocabulary:
    """Read the vocabulary for an embedding of `rows` rows; pieces behind these are left out.
    FileError naming the file."""
    path = folder / PIECES
    model = read_sentencepiece(path)
    pieces = model.pieces[:rows]
    names, scores = [piece for piece, _ in pieces], [score for _, score in pieces]
    if _END not in names or model.unknown >= rows:
        lacking = _END if _END not in names else "piece for unknown text"
        raise FileError(path, f"has no {lacking} among the {rows} rows of the embedding")
    types = [TokenType.NORMAL.value] * len(names)
    types[model.unknown] = TokenType.UNKNOWN.value
    sentinels = _sentinels(folder, rows - len(names))
    names += [f"<extra_id_{i}>" for i in reversed(range(sentinels))]
    types += [TokenType.CONTROL.value] * sentinels
    unused = range(len(names), rows)
    names += [f"[unused{i}]" for i in unused]
    types += [TokenType.UNUSED.value] * len(unused)
    for control in (_END, _PADDING):
        if control in names:
            types[names.index(control)] = TokenType.CONTROL.value
    return Vocabulary(
        path=path,
        model=UNIGRAM,
        pre="default",
        tokens=tuple(names),
        types=bytes(types),
        scores=array("d", scores + [min(scores)] * (rows - len(scores))),
        merges=(),
        bos_id=None,
        eos_id=names.index(_END),
        marked_end_ids=frozenset(),
        unknown_id=model.unknown,
        around=around_text(None, names.index(_END)),
        add_space_prefix=False,  # the library puts it there
        charsmap=model.charsmap,
        joins_spaces=model.joins_spaces,
    )


def _sentinels(folder: Path, most: int) -> int:
    """Return how many sentinels follow the pieces, at most as many as there are rows."""
    path = folder / CONFIG
    given = read_object(path).get("extra_ids", _SENTINELS) if path.is_file() else _SENTINELS
    if type(given) is not int or given < 0:
        raise FileError(path, f"extra_ids is {found(given)}, expected a count")
    return min(given, most)
