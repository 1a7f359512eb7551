"""In the sandbox: the `tokenizers` library, with whatever a file makes of it.

A tokenizer is loaded under a key, and the last few are kept; who asks for one that is gone loads
it again.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

if TYPE_CHECKING:
    from llm_lite.core.text.traced_tokenizer import TracedLibrary

_KEPT = 4
_TRACED = 2  # two are compared; each has its lists of tokens and merges once more


class LoadedTokenizers:
    def __init__(self) -> None:
        self._loaded: OrderedDict[str, Tokenizer] = OrderedDict()
        self._traced: OrderedDict[str, TracedLibrary] = OrderedDict()

    def load_file(self, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        """Load a tokenizer.json and return {"ids", "tokens", "added", "model", "decoder",
        "byte_fallback", "around", "pair"}.

        "ids" is the largest id and one, "tokens" those below `most_ids` by id (None: there is
        none), "added" a list of (id, text, whether it is special, whether it takes whitespace after
        it along, whether that before it), "model" the name of its kind, "around" the ids that the
        file puts around a text, "pair" those before, between and behind two texts.
        """
        library = Tokenizer.from_buffer(data)
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # what is typed is text
        vocabulary = library.get_vocab(with_added_tokens=True)
        if len(vocabulary) > request["most_tokens"]:
            raise ValueError(f"it has {len(vocabulary)} tokens")
        added = library.get_added_tokens_decoder().items()
        decoder = library.decoder
        count = max(vocabulary.values(), default=-1) + 1
        tokens: list[str | None] = [None] * min(count, request["most_ids"])
        for token, number in vocabulary.items():
            if number < len(tokens):
                tokens[number] = token
        described = {
            "ids": count,
            "tokens": tokens,
            "added": [(number, t.content, t.special, t.rstrip, t.lstrip) for number, t in added],
            "model": type(library.model).__name__,
            "decoder": "" if decoder is None else decoder.__getstate__().decode(),
            "byte_fallback": bool(getattr(library.model, "byte_fallback", False)),
            "around": library.encode("", add_special_tokens=True).ids,
            "pair": _around_pair(library),
        }
        self._keep(request["key"], library)
        return described

    def load_pairs(self, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
        """Load pair encoding from its parts: "ids", "merges" (left, right, left, ...), "patterns",
        "whole_words", "composed" (text into normal form C), and "of_bytes": else pairs are of
        characters, with "▁" for spaces and <0x00> to <0xFF> for what is no token."""
        parts = json.loads(data)
        flat, of_bytes = iter(parts["merges"]), parts["of_bytes"]
        merges = list(zip(flat, flat, strict=True))
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
        library.normalizer = normalizers.BertNormalizer(
            lowercase=parts["lowercase"],
            strip_accents=parts["strip_accents"],
            handle_chinese_chars=parts["split_chinese"],
        )
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self._keep(request["key"], library)
        return {}

    def encode(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"ids"}, a list for each of "texts", or with "pieces" {"pieces"}, spelled as in
        the text where they are no tokens; {"unknown": True} if the key is not loaded."""
        library = self._loaded.get(request["key"])
        if library is None:
            return {"unknown": True}
        self._loaded.move_to_end(request["key"])
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
            traces = [traced.trace(text, request["stepped"]) for text in request["texts"]]
        finally:
            library.encode_special_tokens = True
        return {**traced.about, "traced": traces}

    def _traced_under(self, key: str, library: Tokenizer) -> TracedLibrary:
        from llm_lite.core.text.traced_tokenizer import TracedLibrary  # few ask for it

        traced = self._traced.pop(key, None) or TracedLibrary(library)
        self._traced[key] = traced
        if len(self._traced) > _TRACED:
            self._traced.popitem(last=False)
        return traced

    def _keep(self, key: str, library: Tokenizer) -> None:
        self._traced.pop(key, None)
        self._loaded[key] = library
        self._loaded.move_to_end(key)
        if len(self._loaded) > _KEPT:
            self._loaded.popitem(last=False)


def _around_pair(library: Tokenizer) -> list[list[int]]:
    """Return the ids before, between and behind two texts; [] if the file has none."""
    found = library.encode("a", "a", add_special_tokens=True)
    places = found.sequence_ids
    first = [i for i, text in enumerate(places) if text == 0]
    second = [i for i, text in enumerate(places) if text == 1]
    if not first or not second or len(places) == len(first) + len(second):
        return []
    ids = found.ids
    return [ids[: first[0]], ids[first[-1] + 1 : second[0]], ids[second[-1] + 1 :]]
