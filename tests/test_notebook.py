"""The notebook of the documentation runs, cell by cell, in a kernel as a person's."""

import os
import re

import pytest

from tests.children import PATIENCE
from tests.paths import ROOT


@pytest.fixture(scope="module")
def cells(smollm2):
    """Its cells after a run; CellExecutionError where one fails."""
    import jupytext  # half a second that collecting need not take
    from nbclient import NotebookClient

    notebook = jupytext.read(ROOT / "docs" / "notebook.py")
    there = {"env": os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}, "cwd": str(ROOT)}
    NotebookClient(notebook, timeout=PATIENCE, startup_timeout=PATIENCE).execute(**there)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cells, words):
    """What the one cell with these words in it printed."""
    (found,) = [cell for cell in cells if words in cell.source]
    return "".join(out.text for out in found.outputs if out.output_type == "stream")


def shown(cells, words):
    (found,) = [cell for cell in cells if words in cell.source]
    return [out.data for out in found.outputs if out.output_type == "execute_result"]


def test_it_says_what_its_text_promises(cells):
    assert "blue" in printed(cells, "for token in answer:")
    assert "(30, 9, 5, 5) float32" in printed(cells, "maps = model.attention(text)")
    fp16, int4 = map(float, re.findall(r"perplexity ([\d.]+)", printed(cells, "perplexity")))
    assert 1 < fp16 < int4
    changes = re.findall(r"head \d: ([+-][\d.]+) nats", printed(cells, "model.gains[at] = 0"))
    assert len(changes) == 5 and float(changes[0]) < -0.8 and float(changes[-1]) < 0


def test_its_pictures_are_shown(cells):
    (answer,) = [cell for cell in cells if cell.source == "answer"]
    assert "<span" in answer.outputs[0].data["text/html"]
    assert "<svg" in shown(cells, "model.head_map(")[0]["text/html"]
    assert "Paris" in shown(cells, "lens = model.lens(")[0]["text/html"]
    assert not [out for cell in cells for out in cell.outputs if out.get("name") == "stderr"]
