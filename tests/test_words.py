"""The words of the product: sentences in docstrings, and no names that say nothing."""

from pathlib import Path

import pytest

from tests import words
from tests.paths import ROOT


@pytest.mark.parametrize(
    "text",
    [
        "Of vectors.",
        "Whether a dialog is.",
        "As they go with the message.",
        "By full index. Raises nothing.",
        "The tokens that were read.",
        "What follows all tokens, of float32 [V].",
        "Names of tensors.",
        "Bytes.",
        "FileError.",
        "Hash of a file.",
    ],
)
def test_a_fragment_is_found(text):
    assert words.is_fragment(text, "function")


@pytest.mark.parametrize(
    "text",
    [
        "Return the dimension of the embedding vectors.",
        "Returns None.",
        "The caller must close it.",
        "The text that the model was given is kept.",
        "float32 [T, K] -> uint8 [T, bytes of a row].",
        "Temporarily disable the guard.",
        "Hash a file.",
    ],
)
def test_a_sentence_is_none(text):
    assert not words.is_fragment(text, "function")


def test_classes_and_modules_may_be_named():
    assert not words.is_fragment("A queue of requests, for any thread.", "class")
    assert words.is_fragment("What the threads share.", "class")
    assert words.is_fragment("Of a plan: its steps.", "module")


def test_the_product_says_what_it_does():
    """Docstrings are sentences, and no name or phrase is a banned one: all at once."""
    offenders = [f"{one.place}: {one.text.partition(chr(10))[0]}" for one in words.fragments()]
    for path in words.checked_files():
        place, text = path.relative_to(ROOT), path.read_text("utf-8")
        offenders += [*words.bad_names(place, text), *words.bad_phrases(place, text)]
    assert not offenders, "\n".join(offenders)


def test_bad_names_and_phrases_are_found():
    text = (
        '"""Whoever asks."""\n\nclass TokenTeller:\n    def told(self):  # of which two are left\n'
        "        self.told = 1\n\n    def _look(self): ...\n\n    def foretold(self): ...\n"
    )
    place = Path("core/a.py")
    assert [line.split()[1].strip(":") for line in words.bad_names(place, text)] == [
        "TokenTeller",
        "told",
        "_look",
        "told",
    ]
    assert len(list(words.bad_phrases(place, text))) == 2
