"""JSON of untrusted files: what is no text is refused, and the sentence says where it stands."""

import json
from pathlib import Path

import pytest

from core.errors import FileError
from core.formats.json_text import parse_object

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
