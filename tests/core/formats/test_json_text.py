"""JSON of untrusted files: what is no text is refused, and how values are shown in sentences."""

import json
from array import array
from pathlib import Path

import pytest
from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, parse_object
from llm_lite.core.models.description.decoder import LAYERS, WIDTH
from llm_lite.core.models.description.rows import FieldRow, GgufFields, integers, read_rows, row
from llm_lite.core.records import FieldNotesMeta
from llm_lite.core.text.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata

FILE = Path("config.json")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (r'{"name": "a\ud800b"}', "under 'name'"),
        (r'{"name": "a\udc00"}', "under 'name'"),
        (r'{"name": "\udc00\ud800"}', "under 'name'"),
        (r'{"name": "\ud800\\udc00"}', "under 'name'"),
        (r'{"a": {"b": ["", {"c": "\uDBFF"}]}}', "under 'a.b[1].c'"),
        (r'{"a": {"\ud83d": 1}}', "in a key"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused(text, where):
    with pytest.raises(FileError, match=r"config\.json: the file is not valid Unicode") as e:
        parse_object(text.encode(), FILE, "the file")
    assert where in str(e.value)


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\\ud800", r"\\\ud83d\ude00", "😀"])
def test_whole_pairs_and_escaped_backslashes_are_text(text):
    raw = f'{{"name": "{text}"}}'.encode()
    assert parse_object(raw, FILE, "the file") == json.loads(raw)


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
    class Widths(Struct, metaclass=FieldNotesMeta):
        layers: int = row(LAYERS)
        widths: tuple = row(FieldRow("widths", None, integers()))

    class Width(Struct, metaclass=FieldNotesMeta):
        width: int = row(WIDTH)

    metadata = {"llama.block_count": 1, "llama.embedding_length": value, "llama.widths": [value]}
    fields = GgufFields(metadata, tmp_path, "llama.")
    with pytest.raises(FileError, match="expected an integer, found ") as caught:
        read_rows(Width, fields)
    assert str(caught.value).endswith(f"found {found(value)}")
    with pytest.raises(FileError, match="expected integers") as caught:
        read_rows(Widths, fields)
    assert str(caught.value).endswith(f"found {found(value)}")
