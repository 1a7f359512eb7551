"""The tokenizer of ByT5, which has no file of its own: a token for each byte of UTF-8, behind those
for padding, the end and what is unknown; then the sentinels of spans that pretraining masks.

Source: `ByT5Tokenizer` of https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.text.token_merging import Token, word_entry
from llm_lite.core.text.tokenizer_files import CONFIG
from llm_lite.core.text.vocabulary import BYTES, TokenType, Vocabulary, around_text

_CLASS = "ByT5Tokenizer"
_CONTROL = ("<pad>", "</s>", "<unk>")
_END, _UNKNOWN = 1, 2
_BYTES = 256
_SENTINELS = 125  # where no file says how many there are


class ByteEncoder:
    """Ids of the bytes of a text. For any thread."""

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [[len(_CONTROL) + byte for byte in text.encode()] for text in texts]

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text as `SandboxedEncoder.trace_all` does: nothing is merged,
        and each character is the span of its bytes."""
        about = {"kind": "BPE", "normalizers": [], "of_bytes": False, "own_words": True}
        return {**about, "traced": [self._trace(text) for text in texts]}

    def _trace(self, text: str) -> dict[str, Any]:
        tokens = [
            Token(f"<0x{number - len(_CONTROL):02X}>", number, (at, at + 1))
            for at, character in enumerate(text)
            for number in self.encode_all([character])[0]
        ]
        words = [word_entry(text, (0, len(text)), tokens)] if text else []
        return {"normalized": text, "words": words, "tokens": len(tokens)}


def is_of_bytes(folder: Path) -> bool:
    """Return True if the directory's tokenizer is ByT5's."""
    path = folder / CONFIG
    return path.is_file() and read_object(path).get("tokenizer_class") == _CLASS


def read_bytes_of(folder: Path, rows: int) -> Vocabulary:
    """Return the vocabulary for an embedding of `rows` rows. FileError if these are too few."""
    path = folder / CONFIG
    names = [*_CONTROL, *(f"<0x{byte:02X}>" for byte in range(_BYTES))]
    if rows < len(names):
        raise FileError(path, f"is of ByT5: expected at least {len(names)} rows of embedding")
    sentinels = _sentinels(path, rows - len(names))
    control = [f"<extra_id_{i}>" for i in range(sentinels)]
    unused = [f"[unused{i}]" for i in range(len(names) + sentinels, rows)]
    types = [TokenType.CONTROL.value] * len(_CONTROL) + [TokenType.BYTE.value] * _BYTES
    types[_UNKNOWN] = TokenType.UNKNOWN.value
    types += [TokenType.CONTROL.value] * len(control) + [TokenType.UNUSED.value] * len(unused)
    return Vocabulary(
        path=path,
        model=BYTES,
        pre="default",
        tokens=(*names, *control, *unused),
        types=bytes(types),
        scores=array("d"),
        merges=(),
        bos_id=None,
        eos_id=_END,
        marked_end_ids=frozenset(),
        unknown_id=_UNKNOWN,
        around=around_text(None, _END),
        add_space_prefix=False,
    )


def _sentinels(path: Path, most: int) -> int:
    """Return how many sentinels follow the bytes: later files list them among added tokens and say
    that there are 0 more."""
    given = read_object(path).get("extra_ids", _SENTINELS)
    if type(given) is not int or given < 0:
        raise FileError(path, f"extra_ids is {found(given)}, expected a count")
    return min(given or _SENTINELS, most)
