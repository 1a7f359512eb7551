"""The short form of `tools.cross.hostile_window`: a file a way, without the bars of time."""

import shutil
from dataclasses import fields

import pytest

from tests.children import PATIENCE
from tests.fuzz import hostile_files
from tests.make_gguf import write_tiny_llama
from tools.cross.hostile_window import Limits, try_file, x_server

pytestmark = [
    pytest.mark.vulkan,
    pytest.mark.skipif(shutil.which("Xvfb") is None, reason="Xvfb is not installed"),
]
# A machine may be busy, and a driver compile for long: each event is waited for.
LIMITS = Limits(*[PATIENCE] * len(fields(Limits)))
# The file, the way it is opened, what the window says of it.
CASES = (
    ("header: truncated", "argument", "truncated"),
    ("name: no UTF-8", "dialog", "answered: context"),
    ("path: missing", "drop", "missing\\xff.gguf: no such file"),
)


@pytest.fixture(scope="module")
def display():
    with x_server() as name:
        yield name


@pytest.mark.parametrize(("name", "way", "said"), CASES, ids=[case[1] for case in CASES])
def test_a_hostile_file_costs_a_sentence(display, tmp_path, name, way, said):
    good = write_tiny_llama(tmp_path / "good.gguf", seed=2)
    files = tmp_path / "files"
    files.mkdir()
    (hostile,) = (one for one in hostile_files.make(files) if one.name == name)
    result = try_file(display, good, hostile, way, LIMITS)
    assert result.moves > 0 and not result.frozen
    assert any(said in words for words in result.told), result.told
    assert (result.code, result.stderr) == (0, "")
