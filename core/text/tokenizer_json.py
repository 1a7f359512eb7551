"""tokenizer.json: the vocabulary it holds, and an encoder that runs it with the library.

Format: https://huggingface.co/docs/tokenizers. Which tokens control the model is decided here, and
text never becomes one of them.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, read_bytes, read_object
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.special_tokens import NAMES, content
from llm_lite.core.text.tokenizer_files import TOKENIZER_FILE
from llm_lite.core.text.vocabulary import (
    BYTE_LEVEL_BPE,
    SENTENCE_PIECE,
    WORD_PIECE,
    TokenType,
    Vocabulary,
)

_MAX_IDS = 1 << 22
_STRINGS = NAMES[:3]  # what must be a string where it is there
_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(256))
# Control, whatever the file says of it.
_TURN = re.compile(r"<[|｜].*[|｜]>|<\|\w+>|<\w+\|>|<(start|end)_of_turn>")


class LibraryEncoder:
    """Ids of texts that hold no control token, through the `tokenizers` library."""

    def __init__(self, library: SandboxedEncoder, control: frozenset[int]) -> None:
        self._library, self._control = library, control

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            ids if self._control.isdisjoint(ids) else self._by_characters(text)
            for text, ids in zip(texts, self._library.encode_all(texts), strict=True)
        ]

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text, as `SandboxedEncoder.trace_all` does."""
        answer = self._library.trace_all(texts, stepped=stepped)
        for number, trace in enumerate(answer["traced"]):
            ids = {piece[1] for word in trace["words"] for piece in word["pieces"]}
            if not self._control.isdisjoint(ids):
                answer["traced"][number] = self._traced_by_characters(texts[number], trace)
        return answer

    def _traced_by_characters(self, text: str, whole: dict[str, Any]) -> dict[str, Any]:
        """Return the stages as `_by_characters` encodes; every character is a word."""
        words = []
        for at, each in enumerate(self._library.trace_all(list(text), stepped=0)["traced"]):
            found = [piece for word in each["words"] for piece in word["pieces"]]
            pieces = [(p[0], p[1], at, at + 1) for p in found if p[1] not in self._control]
            words.append({"spelled": text[at], "span": (at, at + 1), "pieces": pieces})
        count = sum(len(word["pieces"]) for word in words)
        return {"normalized": whole["normalized"], "words": words, "tokens": count}

    def _by_characters(self, text: str) -> list[int]:
        """Encode by characters, as a model that takes whole words has made a control token of what
        was typed."""
        pieces = self._library.encode_all(list(text))
        return [i for piece in pieces for i in piece if i not in self._control]


def read_tokenizer(folder: Path, rows: int) -> tuple[Vocabulary, LibraryEncoder]:
    """Read ids up to `rows`, as many as the embedding has; those without a token stand for nothing.

    Reads tokenizer.json and, where they are there, tokenizer_config.json and the end tokens in
    generation_config.json and config.json. Raises FileError, UnsupportedError.
    """
    path = folder / TOKENIZER_FILE
    most = min(rows, _MAX_IDS)
    library = SandboxedEncoder(
        path,
        "load tokenizer",
        {"most_tokens": 2 * rows + 1024, "most_ids": most},
        partial(read_bytes, path, MAX_TOKENIZER_BYTES),
    )
    about = library.load()
    if not 0 < about["ids"] <= most:
        last = about["ids"] - 1
        raise FileError(path, f"has ids up to {last}, but the embedding has {rows} rows")
    named: list[str | None] = about["tokens"] + [None] * (rows - about["ids"])
    normal, unused = TokenType.NORMAL.value, TokenType.UNUSED.value
    tokens = [f"[unused{i}]" if token is None else token for i, token in enumerate(named)]
    types = [unused if token is None else normal for token in named]
    model = _decoding(path, about["model"], about["decoder"])
    special = _special_names(folder)
    wanted = _BYTES.union(special.values(), ("[MASK]",))
    ids = {token: i for i, token in enumerate(named) if token in wanted}
    if about["byte_fallback"]:
        for byte in _BYTES & ids.keys():
            types[ids[byte]] = TokenType.BYTE.value
    control = _mark_added(about["added"], types, model)
    eos = ids.get(special.get("eos_token", ""))
    begin, end = _additions(about["around"], eos)
    bos = ids.get(special.get("bos_token", ""), begin)
    unknown = ids.get(special.get("unk_token", ""))
    if unknown is not None:
        types[unknown] = TokenType.UNKNOWN.value
        control.add(unknown)
        if about["model"] in ("WordPiece", "Unigram"):  # it stands for text that has no pieces
            control.discard(unknown)
    vocabulary = Vocabulary(
        path=path,
        model=model,
        pre=library.digest,
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d"),
        merges=(),
        bos_id=bos,
        eos_id=end if eos is None else eos,
        marked_end_ids=_end_ids(folder, rows),
        unknown_id=unknown,
        add_bos=begin is not None and begin == bos,
        add_eos=end is not None,
        add_space_prefix=model == WORD_PIECE,  # of others the library puts it there
        stripping=frozenset(i for i, _, _, after, _ in about["added"] if after),
        stripping_before=frozenset(i for i, _, _, _, before in about["added"] if before),
        mask_id=ids.get(special.get("mask_token", "[MASK]")),
        around_pair=tuple(map(tuple, about["pair"])),
    )
    return vocabulary, LibraryEncoder(library, frozenset(control))


def _decoding(path: Path, model: str, decoder: str) -> str:
    """Return how tokens stand for bytes: GPT-2's characters, text with "▁" for spaces, or words
    with "##" before their later pieces."""
    if model == "WordPiece":
        return WORD_PIECE
    if '"ByteLevel"' in decoder:
        return BYTE_LEVEL_BPE
    if "▁" in decoder or "\\u2581" in decoder:
        return SENTENCE_PIECE
    raise UnsupportedError(f"{path}: the tokenizer decodes otherwise than is known here")


def _mark_added(
    added: Sequence[tuple[int, str, bool, bool, bool]], types: list[int], model: str
) -> set[int]:
    """Set the types of added tokens; return the ids of those that control the model."""
    control = set()
    for token_id, text, is_special, _, _ in added:
        if is_special:
            types[token_id] = TokenType.CONTROL.value
            control.add(token_id)
        elif model == BYTE_LEVEL_BPE or _TURN.fullmatch(text):
            types[token_id] = TokenType.USER_DEFINED.value
        # Other added tokens of SentencePiece ("▁▁", "\n\n", "</s>" as HTML has it) are text.
    return control


def _additions(around: Sequence[int], eos: int | None) -> tuple[int | None, int | None]:
    """Return the begin and the end token that the library would put around a text."""
    if list(around) == [eos]:
        return None, eos
    return (around[0] if around else None), (around[-1] if len(around) > 1 else None)


def _special_names(folder: Path) -> dict[str, str]:
    """Return bos_token and the like from tokenizer_config.json or special_tokens_map.json."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if not (folder / file).exists():
            continue
        values = read_object(folder / file)
        for key in NAMES:
            name = content(values.get(key))
            if name is not None:
                names[key] = name
            elif values.get(key) is not None and key in _STRINGS:
                problem = f"{key} is {found(values[key])}, expected a string"
                raise FileError(folder / file, problem)
    return names


def _end_ids(folder: Path, rows: int) -> frozenset[int]:
    for file in ("generation_config.json", "config.json"):
        values: Mapping[str, Any] = read_object(folder / file) if (folder / file).exists() else {}
        value = values.get("eos_token_id")
        if value is None:
            continue
        ends = value if isinstance(value, list) else [value]
        if not all(type(end) is int and 0 <= end < rows for end in ends):
            shown = json.dumps(value)[:60]
            raise FileError(folder / file, f"eos_token_id is {shown}, expected ids below {rows}")
        return frozenset(ends)
    return frozenset()
