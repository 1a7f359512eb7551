"""The curated list is whole, and a damaged one is a sentence."""

import json

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.hub.remote.curated import LIST, curated_models
from llm_lite.core.hub.remote.files import format_of, is_read
from tools.check_models import differences


def test_the_list():
    models = curated_models()
    assert 8 <= len(models) <= 16
    assert len({(model.repo, model.file) for model in models}) == len(models)
    assert [model.size for model in models] == sorted(model.size for model in models)
    for model in models:
        assert is_read(format_of(model.file)), model.file
        assert 0.7 * model.size < model.memory < 3 * model.size
        assert model.reason.endswith(".")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": "1 GB"}, '"models"[0]["size"] is '),
        ({"repo": "../x"}, "are to be OWNER/NAME and a plain path"),
        ({"file": "/etc/passwd"}, "are to be OWNER/NAME and a plain path"),
        ({"reason": ""}, '"models"[0]["reason"]'),
        ({"date": "soon"}, "expected a date"),
    ],
)
def test_a_damaged_row(tmp_path, change, words):
    rows = json.loads(LIST.read_text())["models"]
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"models": [rows[0] | change]}))
    with pytest.raises(FileError) as caught:
        curated_models(path)
    assert words in str(caught.value)


def test_a_row_is_compared_with_the_hub(hub):
    row = curated_models()[0]
    assert "there is no repository" in differences(row)[0]
    hub.add(row.repo, {row.file: b"x"}, gguf={"architecture": "llama"})
    assert differences(row) == [
        f"{row.file} has 1 bytes, not {row.size}",
        f"its licence is '', not '{row.licence}'",
    ]
