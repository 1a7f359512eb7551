"""The window while its server's page switches the weight mode of the model, which both use."""

from llm_lite.core.engine.engine import Engine
from llm_lite.desktop.features.program.model import SetOptions
from tests.desktop.serving.conftest import Window


def test_the_window_and_the_page_see_what_the_other_switches(tmp_path, monkeypatch, tiny_llama):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    window = Window(engine=Engine(None))
    try:
        window.load(str(tiny_llama))
        window.switch_on()
        before = window.state.options
        window.ask("/page/mode", {"mode": "int8", "activations": "a8"})
        window.wait(lambda s: window.state.options.mode == "int8" and window.state.load is None)
        assert (window.state.executor.mode, window.state.executor.activations) == ("int8", "a8")
        assert window.state.options.activations == "a8"
        window.do(SetOptions(before))
        window.wait(lambda s: window.state.executor.mode == before.mode)
        window.wait(lambda s: window.ask("/page/status")["run"]["mode"] == before.mode)
        modes = window.ask("/page/status")["modes"]
        assert modes["asked"] == {"mode": before.mode, "activations": "auto"}
    finally:
        window.close()


def test_ignored_fields_stand_in_the_log(window):
    window.switch_on()
    body = {"messages": [{"role": "user", "content": "x"}], "cache_prompt": True}
    window.ask("/v1/chat/completions", body)
    notices = window.state.notices
    window.wait(lambda s: "ignored: cache_prompt" in window.state.log[-1].text)
    assert window.state.log[-1].level == "info"
    assert window.state.notices == notices, "nobody is disturbed"
