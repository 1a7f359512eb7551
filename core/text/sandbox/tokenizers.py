"""In the sandbox: the `tokenizers` library, with whatever a file makes of it.

A tokenizer is loaded under a key, and the last few are kept; who asks for one that is gone loads
it again.
"""

from __future__ import annotations

import json
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from llm_lite.core.text.additions import around, around_pair, leads, without_lead

if TYPE_CHECKING:
    from llm_lite.core.text.traced_tokenizer import TracedLibrary

_UNIGRAM_UNKNOWN = re.compile(rb'"unk_id"\s*:\s*(\d{1,9})')
_KEPT = 4
_TRACED = 2  # two are compared; each has its lists of tokens and merges once more


class LoadedTokenizers:
    def __init__(self) -> None:
        self._loaded: OrderedDict[str, Tokenizer] = OrderedDict()
        self._traced: OrderedDict[str, TracedLibrary] = OrderedDict()
        self._bare: dict[str, tuple[Normalizer | None, PreTokenizer | None]] = {}

    def load_file(self, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        """Load a tokenizer.json and return {"ids", "tokens", "added", "model", "decoder",
        "byte_fallback", "around", "pair", "leads", "unknown"}.

        "ids" is the largest id and one, "tokens" those below `most_ids` by id (None: there is
        none), "added" a list of (id, text, whether it is special, whether it takes whitespace after
        it along, whether that before it, whether it is none within a word), "model" the name of its
        kind, "around" the ids that the file puts before and behind a text, "pair" those before,
        between and behind two texts, "leads" where it puts a space before one, "unknown" the id of
        what its model has no token for. Where "most_ids" is not 0, tokens from that id on are as if
        they were not there.
        """
        library, most = Tokenizer.from_buffer(data), request["most_ids"] or sys.maxsize
        vocabulary = library.get_vocab(with_added_tokens=True)
        if len(vocabulary) > request["most_tokens"]:
            raise ValueError(f"it has {len(vocabulary)} tokens")
        if _could_become(library, vocabulary, most):
            library = Tokenizer.from_buffer(_of_rows(data, most))
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # what is typed is text
        vocabulary = {token: number for token, number in vocabulary.items() if number < most}
        added = [one for one in library.get_added_tokens_decoder().items() if one[0] < most]
        decoder = library.decoder
        count = max(vocabulary.values(), default=-1) + 1
        tokens: list[str | None] = [None] * min(count, request["most_ids"])
        for token, number in vocabulary.items():
            if number < len(tokens):
                tokens[number] = token
        described = {
            "ids": count,
            "tokens": tokens,
            "added": [
                (number, t.content, t.special, t.rstrip, t.lstrip, t.single_word)
                for number, t in added
            ],
            "model": type(library.model).__name__,
            "decoder": "" if decoder is None else decoder.__getstate__().decode(),
            "byte_fallback": bool(getattr(library.model, "byte_fallback", False)),
            "around": [[number for _, number in named] for named in around(library)],
            "pair": around_pair(library),
            "leads": leads(library),
            "unknown": _unknown(library, data),
        }
        self._keep(request["key"], library)
        return described

    def load_pairs(self, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        """Load pair encoding from its parts: "ids", "merges" (left, right, left, ...), "patterns",
        "whole_words", "composed" (text into normal form C), and "of_bytes": else pairs are of
        characters, with "▁" for spaces and <0x00> to <0xFF> for what is no token. With a
        "word_end", words are BERT's in lower case, that mark ends each, and "unknown" is what
        stands for a character without a token."""
        parts = json.loads(data)
        flat, of_bytes = iter(parts["merges"]), parts["of_bytes"]
        merges = list(zip(flat, flat, strict=True))
        if end := parts["word_end"]:
            words = models.BPE(
                parts["ids"], merges, end_of_word_suffix=end, unk_token=parts["unknown"]
            )
            self._keep(request["key"], _with_words_of_bert(Tokenizer(words)))
            return {}
        bpe = models.BPE(
            parts["ids"],
            merges,
            ignore_merges=parts["whole_words"],
            byte_fallback=not of_bytes,
            fuse_unk=not of_bytes,
        )
        library = Tokenizer(bpe)
        if parts["composed"]:
            library.normalizer = normalizers.NFC()
        if of_bytes:
            steps = [pre_tokenizers.Split(Regex(each), "isolated") for each in parts["patterns"]]
            to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            library.pre_tokenizer = pre_tokenizers.Sequence([*steps, to_bytes])
        else:
            library.normalizer = normalizers.Replace(" ", "▁")
        self._keep(request["key"], library)
        return {}

    def load_word_pieces(self, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        """Load a WordPiece tokenizer from its parts: "ids", "unknown", and of BERT's normalisation
        "lowercase", "strip_accents" (None: as lowercase) and "split_chinese"."""
        parts = json.loads(data)
        library = Tokenizer(models.WordPiece(parts["ids"], unk_token=parts["unknown"]))
        how = {
            "lowercase": parts["lowercase"],
            "strip_accents": parts["strip_accents"],
            "handle_chinese_chars": parts["split_chinese"],
        }
        self._keep(request["key"], _with_words_of_bert(library, **how))
        return {}

    def encode(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"ids"}, a list for each of "texts", or with "pieces" {"pieces"}, spelled as in
        the text where they are no tokens; {"unknown": True} if the key is not loaded. With "bare"
        no space is put before the texts."""
        library = self._loaded.get(request["key"])
        if library is None:
            return {"unknown": True}
        self._loaded.move_to_end(request["key"])
        with self._leading(request["key"], library, bare=bool(request.get("bare"))):
            found = [library.encode(text, add_special_tokens=False) for text in request["texts"]]
        if request.get("pieces"):
            return {"pieces": [one.tokens for one in found]}
        return {"ids": [one.ids for one in found]}

    def trace(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stages of each of "texts" as "traced", and what `TracedLibrary.about` says of
        the tokenizer; {"unknown": True} if the key is not loaded. Steps are given for words before
        character "stepped"; with "control", names of control tokens in a text count as these."""
        library = self._loaded.get(request["key"])
        if library is None:
            return {"unknown": True}
        traced = self._traced_under(request["key"], library)
        library.encode_special_tokens = not request["control"]
        try:
            with self._leading(request["key"], library, bare=bool(request.get("bare"))):
                traces = [traced.trace(text, request["stepped"]) for text in request["texts"]]
        finally:
            library.encode_special_tokens = True
        return {**traced.about, "traced": traces}

    @contextmanager
    def _leading(self, key: str, library: Tokenizer, *, bare: bool) -> Iterator[None]:
        """Put a space before texts as the file does, or with `bare` none."""
        if not bare:
            yield
            return
        if key not in self._bare:
            self._bare[key] = without_lead(library)
        led = library.normalizer, library.pre_tokenizer
        library.normalizer, library.pre_tokenizer = self._bare[key]
        try:
            yield
        finally:
            library.normalizer, library.pre_tokenizer = led

    def _traced_under(self, key: str, library: Tokenizer) -> TracedLibrary:
        from llm_lite.core.text.traced_tokenizer import TracedLibrary  # few ask for it

        traced = self._traced.pop(key, None) or TracedLibrary(library)
        self._traced[key] = traced
        if len(self._traced) > _TRACED:
            self._traced.popitem(last=False)
        return traced

    def _keep(self, key: str, library: Tokenizer) -> None:
        self._traced.pop(key, None)
        self._bare.pop(key, None)
        self._loaded[key] = library
        self._loaded.move_to_end(key)
        if len(self._loaded) > _KEPT:
            gone, _ = self._loaded.popitem(last=False)
            self._bare.pop(gone, None)


def _with_words_of_bert(library: Tokenizer, **how: Any) -> Tokenizer:
    """Cut texts into words as BERT does, made plain as `how` says."""
    library.normalizer = normalizers.BertNormalizer(**how)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return library


def _unknown(library: Tokenizer, data: bytes) -> int | None:
    named = getattr(library.model, "unk_token", None)
    if isinstance(named, str):
        return library.token_to_id(named)
    found = _UNIGRAM_UNKNOWN.search(data)  # which the library does not tell
    return int(found[1]) if found and isinstance(library.model, models.Unigram) else None


def _could_become(library: Tokenizer, vocabulary: Mapping[str, int], most: int) -> bool:
    """Return True if a text could become a token of an id from `most` on: special ones are not
    looked for in texts."""
    behind = {token: number for token, number in vocabulary.items() if number >= most}
    added = library.get_added_tokens_decoder() if behind else {}
    return any(
        number not in added
        or not added[number].special
        or library.model.token_to_id(token) is not None
        for token, number in behind.items()
    )


def _of_rows(data: bytes, most: int) -> bytes:
    """Return a tokenizer.json without the tokens from the id `most` on, and without the merges that
    make these."""
    parts = json.loads(data)
    model = parts["model"]
    parts["added_tokens"] = [one for one in parts.get("added_tokens") or () if one["id"] < most]
    if isinstance(model["vocab"], list):  # of Unigram: ids are places
        model["vocab"] = model["vocab"][:most]
        return json.dumps(parts).encode()
    known = {token: number for token, number in model["vocab"].items() if number < most}
    model["vocab"] = known
    if "merges" in model:
        prefix = model.get("continuing_subword_prefix") or ""
        pairs = (one.split(" ", 1) if isinstance(one, str) else one for one in model["merges"])
        model["merges"] = [
            [left, right]
            for left, right in pairs
            if left in known and right in known and left + right.removeprefix(prefix) in known
        ]
        if model.get("unk_token") not in known:
            model["unk_token"] = None
    return json.dumps(parts).encode()
