"""`llm-lite desktop` without a window."""

import pytest

from llm_lite.cli.main import main
from llm_lite.core.messages import EngineOptions, SamplingOptions


@pytest.mark.parametrize(
    ("ended", "code", "told"),
    [(True, 0, ""), (False, 1, "llm-lite: the engine did not end in time\n")],
)
def test_an_engine_that_never_ends_is_told(monkeypatch, capsys, ended, code, told):
    asked = []

    def open_window(*arguments):
        asked.append(arguments[:3])
        return ended

    monkeypatch.setattr("llm_lite.cli.commands.desktop.open_window", open_window)
    assert main(["desktop", "some.gguf", "--threads", "1"]) == code
    assert capsys.readouterr().err == told
    assert asked == [("some.gguf", EngineOptions(threads=1), SamplingOptions())]
