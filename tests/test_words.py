"""The words of the product: sentences in docstrings, and no names that say nothing."""

import pytest

from tests import words


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
