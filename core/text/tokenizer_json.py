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
from itertools import chain
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, found, read_bytes, read_object
from llm_lite.core.text.sandbox.encoder import SandboxedEncoder
from llm_lite.core.text.special_tokens import NAMES, content
from llm_lite.core.text.tokenizer_files import CONFIG, TOKENIZER_FILE
from llm_lite.core.text.vocabulary import (
    BYTE_LEVEL_BPE,
    SENTENCE_PIECE,
    WORD_END,
    WORD_ENDS,
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
    """Ids of texts that hold no control token, through the `tokenizers` library; `bare`: without
    the space that it puts before a text."""

    def __init__(
        self, library: SandboxedEncoder, control: frozenset[int], *, bare: bool = False
    ) -> None:
        self._library, self._control, self._is_bare = library, control, bare

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._library.encode_all(texts, bare=self._is_bare)
        return [
            ids if self._control.isdisjoint(ids) else self._by_characters(text)
            for text, ids in zip(texts, found, strict=True)
        ]

    def trace_all(self, texts: Sequence[str], stepped: int) -> dict[str, Any]:
        """Return the stages of each text, as `SandboxedEncoder.trace_all` does."""
        answer = self._library.trace_all(texts, stepped=stepped, bare=self._is_bare)
        for number, trace in enumerate(answer["traced"]):
            ids = {piece[1] for word in trace["words"] for piece in word["pieces"]}
            if not self._control.isdisjoint(ids):
                answer["traced"][number] = self._traced_by_characters(texts[number], trace)
        return answer

    def _traced_by_characters(self, text: str, whole: dict[str, Any]) -> dict[str, Any]:
        """Return the stages as `_by_characters` encodes; every character is a word."""
        words = []
        first = self._library.trace_all([text[:1]], stepped=0, bare=self._is_bare)["traced"]
        others = self._library.trace_all(list(text[1:]), stepped=0, bare=True)["traced"]
        for at, each in enumerate([*first, *others]):
            found = [piece for word in each["words"] for piece in word["pieces"]]
            pieces = [(p[0], p[1], at, at + 1) for p in found if p[1] not in self._control]
            words.append({"spelled": text[at], "span": (at, at + 1), "pieces": pieces})
        count = sum(len(word["pieces"]) for word in words)
        return {"normalized": whole["normalized"], "words": words, "tokens": count}

    def _by_characters(self, text: str) -> list[int]:
        """Encode by characters, as a model that takes whole words has made a control token of what
        was typed."""
        first = self._library.encode_all([text[:1]], bare=self._is_bare)
        others = self._library.encode_all(list(text[1:]), bare=True)
        return [i for piece in (*first, *others) for i in piece if i not in self._control]


def read_tokenizer(folder: Path, rows: int) -> tuple[Vocabulary, LibraryEncoder, LibraryEncoder]:
    """Read ids up to `rows`, as many as the embedding has; those without a token stand for nothing,
    and tokens behind them are as if they were not there. Returns the encoder of what begins a
    text, and of what goes on.

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
    if not about["ids"]:
        raise FileError(path, f"has no token for the {rows} rows of the embedding")
    before, behind = map(tuple, about["around"])
    if beyond := [i for i in (*before, *behind, *chain(*about["pair"])) if i >= rows]:
        problem = f"puts token {beyond[0]} around texts, but the embedding has {rows} rows"
        raise FileError(path, f"the post_processor {problem}")
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
    bos = ids.get(special.get("bos_token", ""), before[0] if before else None)
    eos = ids.get(special.get("eos_token", ""), behind[-1] if behind else None)
    if eos is not None and eos not in behind and _asks_for_end(folder):
        behind = (*behind, eos)
    unknown = ids.get(special.get("unk_token", ""), about["unknown"])
    unknown = unknown if unknown is not None and unknown < rows else None
    if unknown is not None:
        types[unknown] = TokenType.UNKNOWN.value
        control.discard(unknown)  # it stands for text that has no tokens
    vocabulary = Vocabulary(
        path=path,
        model=model,
        pre=library.digest,
        tokens=tuple(tokens),
        types=bytes(types),
        scores=array("d"),
        merges=(),
        bos_id=bos,
        eos_id=eos,
        marked_end_ids=_end_ids(folder, rows),
        unknown_id=unknown,
        around=(before, behind),
        add_space_prefix=model == WORD_PIECE,  # of others the library puts it there
        leads_once=about["leads"] == "once",
        stripping=frozenset(i for i, _, _, after, _, _ in about["added"] if after),
        stripping_before=frozenset(i for i, _, _, _, before, _ in about["added"] if before),
        standing_alone=frozenset(i for i, *_, alone in about["added"] if alone),
        mask_id=ids.get(special.get("mask_token", "[MASK]")),
        around_pair=tuple(map(tuple, about["pair"])),
    )
    marked = frozenset(control)
    words = LibraryEncoder(library, marked)
    bare = LibraryEncoder(library, marked, bare=True) if about["leads"] else words
    return vocabulary, words, bare


def _decoding(path: Path, model: str, decoder: str) -> str:
    """Return how tokens stand for bytes: GPT-2's characters, text with "▁" for spaces, words with
    "##" before their later pieces, or with "</w>" behind their last one."""
    if model == "WordPiece":
        return WORD_PIECE
    if '"BPEDecoder"' in decoder and f'"{WORD_END}"' in decoder:
        return WORD_ENDS
    if '"ByteLevel"' in decoder:
        return BYTE_LEVEL_BPE
    if "▁" in decoder or "\\u2581" in decoder:
        return SENTENCE_PIECE
    raise UnsupportedError(f"{path}: the tokenizer decodes otherwise than is known here")


def _mark_added(
    added: Sequence[tuple[int, str, bool, bool, bool, bool]], types: list[int], model: str
) -> set[int]:
    """Set the types of added tokens; return the ids of those that control the model."""
    control = set()
    for token_id, text, is_special, *_ in added:
        if is_special:
            types[token_id] = TokenType.CONTROL.value
            control.add(token_id)
        elif model == BYTE_LEVEL_BPE or _TURN.fullmatch(text):
            types[token_id] = TokenType.USER_DEFINED.value
        # Other added tokens of SentencePiece ("▁▁", "\n\n", "</s>" as HTML has it) are text.
    return control


def _asks_for_end(folder: Path) -> bool:
    """Return True if tokenizer_config.json wants an end token behind every text, whatever the
    post-processor puts there: Llama's tokenizer in transformers before 5 heard it, and e5-mistral
    was trained so."""
    values = read_object(folder / CONFIG) if (folder / CONFIG).exists() else {}
    kind = values.get("tokenizer_class")
    is_llama = isinstance(kind, str) and kind.removesuffix("Fast") == "LlamaTokenizer"
    return is_llama and values.get("add_eos_token") is True


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
        if not all(type(end) is int for end in ends):
            shown = json.dumps(value)[:60]
            raise FileError(folder / file, f"eos_token_id is {shown}, expected ids")
        return frozenset(end for end in ends if 0 <= end < rows)  # no other is ever chosen
    return frozenset()
