"""How values of files are shown in sentences."""

from array import array

import pytest

from core.errors import FileError
from core.formats.json_text import found
from core.models.fields import Fields
from core.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (10**60, "1" + "0" * 39),
        ("a\x1b", "'a\\x1b'"),
        ("x" * 100, "'" + "x" * 61 + "...'"),
        (b"ab", "2 bytes"),
        ([None], "a list of 1"),
        ((1, 2), "a list of 2"),
        (array("d", [0.5]), "a list of 1"),
        ({"a": None}, "an object of 1"),
    ],
)
def test_found(value, shown):
    assert found(value) == shown


@pytest.mark.parametrize("value", [None, [None], array("f", [1.0]), {"x": 1}])
@pytest.mark.parametrize("key", ["tokens", "merges", "token_type"])
def test_a_vocabulary_s_element_is_shown_so(value, key, tmp_path):
    metadata = dict(tokenizer_metadata(300))
    metadata[f"tokenizer.ggml.{key}"] = [*metadata[f"tokenizer.ggml.{key}"][:-1], value]
    with pytest.raises(FileError, match=rf"{key}\[\d+\] is ") as caught:
        Tokenizer.from_gguf(metadata, tmp_path / "x.gguf")
    assert "None" not in str(caught.value)
    assert "array(" not in str(caught.value)


@pytest.mark.parametrize("value", [None, [None], array("f", [1.0]), "x"])
def test_a_field_is_shown_so(value, tmp_path):
    fields = Fields({"llama.width": value, "llama.widths": [value]}, tmp_path, "llama.")
    with pytest.raises(FileError, match="expected an integer, found ") as caught:
        fields.integer("width")
    assert str(caught.value).endswith(f"found {found(value)}")
    with pytest.raises(FileError, match="expected integers") as caught:
        fields.integers("widths", 1)
    assert str(caught.value).endswith(f"found {found(value)}")
