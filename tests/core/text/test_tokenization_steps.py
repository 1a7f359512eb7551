"""Steps of tokenization lead to the library's own ids, in the order of a plain implementation."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from llm_lite.core.hub import catalog
from llm_lite.core.messages.inspecting.tokenizing import Lattice, LongestMatches, MergeSteps
from llm_lite.core.text.sandbox.tokenizers import LoadedTokenizers
from llm_lite.core.text.token_merging import PairModel, merge_steps, merged
from llm_lite.core.text.token_spelling import candidate
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.text.traced_tokenizer import TracedLibrary

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "tokenizers"
TRAINED = ("llama", "t5", "bert", "qwen", "tekken", "gpt")
NAMES = ("smollm2", *TRAINED)
ALL = 1 << 30
PARTS = st.one_of(
    st.text(max_size=6),
    st.text("가나다한국어글하늘이 파랗습니다까각힣ㄱㅏ", max_size=8),
    st.text("0123456789.,_-+ ", max_size=8),
    st.text(" \t\n\r\u3000\xa0", max_size=4),
    st.text("eée\u0301Åñ̃ö\u0308ﬁ①", max_size=6),
    st.sampled_from(
        [
            "unbelievable",
            "the quick brown fox",
            "Don't",
            "def main(self) -> None:\n        return",
            "👩‍👩‍👧‍👦",
            "🇰🇷🙂",
            "안녕하세요",
            "tokenizer.encode(",
            "▁▁ ▁",
            "</s>",
            "[MASK]",
            "<|im_end|>",
            "<extra_id_1>",
            "<0xE2>",
            "QwertyUIOP",
            "tokens of the model",
        ]
    ),
)
TEXTS = st.lists(PARTS, max_size=8).map("".join)


@cache
def library(name: str) -> Library:
    """The bundled model's from its GGUF file, as the sandbox makes it; the others are trained."""
    if name != "smollm2":
        made = Library.from_file(str(FIXTURES / name / "tokenizer.json"))
        made.encode_special_tokens = True
        return made
    from llm_lite.core.formats.gguf_reader import read_metadata

    path = catalog.resolve(None)
    encoder = Tokenizer.from_gguf(read_metadata(path), path)._words
    loaded = LoadedTokenizers()
    loaded.load_pairs({"key": "it"}, encoder._parts())
    return loaded._loaded["it"]


@cache
def traced(name: str) -> TracedLibrary:
    return TracedLibrary(library(name))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=120, deadline=None)
@given(text=TEXTS)
@example(text="")
@example(text="unbelievable 한국어 \u1112\u1161\u11ab 👩‍👩‍👧‍👦 x  = 2024;")
def test_steps_lead_to_the_ids_of_the_library(name, text):
    told = traced(name).trace(text, ALL)
    encoding = library(name).encode(text, add_special_tokens=False)
    pieces = [piece for word in told["words"] for piece in word["pieces"]]
    assert [piece[1] for piece in pieces] == encoding.ids
    assert [piece[0] for piece in pieces] == encoding.tokens
    for word in told["words"]:
        low, high = word["span"]
        assert 0 <= low <= high <= len(text)
        assert all(low <= start <= end <= high for _, _, start, end in word["pieces"])
        if not word["marked"] and word["pieces"]:
            assert "steps" in word, word  # the same ids as the library, or there were none
            FOLLOWED[word["kind"]](word, name)
    starts = [word["span"][0] for word in told["words"]]
    assert starts == sorted(starts)


def follow_merges(word, name):
    steps = steps_of(word)
    assert merged(steps) == [piece[0] for piece in word["pieces"]]
    if not steps.whole:
        model = traced(name)._model
        assert isinstance(model, PairModel)
        assert plain_merges(list(steps.symbols), model.ranks, model.prefix) == [
            (merge.at, merge.rank, merge.made) for merge in steps.merges
        ]


def steps_of(word) -> MergeSteps:
    from llm_lite.core.text.stages import _STEPS

    return _STEPS[word["kind"]](word["steps"])


def plain_merges(pieces, ranks, prefix=""):
    """Again and again the first pair of the lowest rank."""
    merges = []
    while True:
        pairs = [(ranks[p], at) for at, p in enumerate(pairwise(pieces)) if p in ranks]
        if not pairs:
            return merges
        rank, at = min(pairs)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1].removeprefix(prefix)]
        merges.append((at, rank, pieces[at]))


def follow_lattice(word, name):
    lattice: Lattice = steps_of(word)
    spelled, path = word["spelled"], [lattice.edges[number] for number in lattice.best]
    assert [edge.start for edge in path] == [0, *(edge.end for edge in path[:-1])]
    assert path[-1].end == len(spelled)
    assert lattice.totals[-1] == pytest.approx(sum(edge.score for edge in path))
    for start in {edge.start for edge in lattice.edges}:
        assert any(edge.start == start and edge.end == start + 1 for edge in lattice.edges)
    if len(spelled) <= 10:
        assert lattice.totals[-1] == pytest.approx(best_score(lattice, 0, len(spelled)))


def best_score(lattice, start, end):
    """Of all paths, tried one by one."""
    if start == end:
        return 0.0
    return max(
        edge.score + best_score(lattice, edge.end, end)
        for edge in lattice.edges
        if edge.start == start
    )


def follow_matches(word, name):
    found: LongestMatches = steps_of(word)
    vocabulary, spelled = library(name).get_vocab(), word["spelled"]
    assert found.too_long == (len(spelled) > 100)
    for match in found.matches:
        longer = range((match.end or match.start) + 1, len(spelled) + 1)
        tried = [candidate(spelled, match.start, end, found.prefix) for end in longer]
        assert not any(each in vocabulary for each in tried)
    if not found.too_long and all(match.end for match in found.matches):
        ends = [candidate(spelled, m.start, m.end, found.prefix) for m in found.matches]
        assert ends == [piece[0] for piece in word["pieces"]]
    else:
        assert [piece[0] for piece in word["pieces"]] == ["[UNK]"]


FOLLOWED = {
    "MergeSteps": follow_merges,
    "Lattice": follow_lattice,
    "LongestMatches": follow_matches,
}


@given(st.text("abc", max_size=12), st.permutations(["ab", "bc", "abc", "aa", "bca", "cab", "cc"]))
def test_ranks_between_pieces_are_kept_while_they_merge(word, tokens):
    ranks = {}
    for token in tokens:
        for cut in range(1, len(token)):
            ranks[token[:cut], token[cut:]] = len(ranks)
    steps = merge_steps(list(word), lambda a, b: (ranks[a, b], a + b) if (a, b) in ranks else None)
    gaps, pieces = list(steps.ranks), list(word)
    for merge in steps.merges:
        assert gaps == [ranks.get(pair) for pair in pairwise(pieces)]
        assert merge.rank == min(rank for rank in gaps if rank is not None)
        pieces[merge.at : merge.at + 2] = [merge.made]
        del gaps[merge.at]
        if merge.at > 0:
            gaps[merge.at - 1] = merge.left
        if merge.at < len(gaps):
            gaps[merge.at] = merge.right
    assert gaps == [None] * len(gaps)


def test_a_trained_order_is_followed():
    """What training merged first is merged first."""
    steps = traced("smollm2")._model.trace("Ġthe")[1]
    assert [merge.made for merge in steps.merges] == ["Ġt", "he", "Ġthe"]
    assert [merge.rank for merge in steps.merges] == sorted(m.rank for m in steps.merges)
