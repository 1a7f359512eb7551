"""The popover that chooses the cache's types and size, with what they cost."""

from llm_lite.core.messages import Reconfigure
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.model import SetOptions
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY, sent


def test_memory_is_chosen_with_its_cost(cache_view):
    one, engine = cache_view(view=(1400, 900))
    one.driver.click("rail.memory")
    assert one.state.memory_available > 0
    one.driver.click("memory.keys.int8")
    assert one.state.options.keys == "fp16", "not before it is applied"
    one.driver.click("memory.revert")
    one.driver.click("memory.apply")
    assert sent(engine, Reconfigure) == []
    one.driver.click("memory.values.int8")
    one.driver.click("memory.apply")
    (command,) = sent(engine, Reconfigure)
    assert (command.options.keys, command.options.values) == ("fp16", "int8")


def test_what_does_not_fit_is_said(headless, monkeypatch):
    import llm_lite.desktop.app.program

    monkeypatch.setattr(llm_lite.desktop.app.program, "available_bytes", lambda: 1 << 20)
    one = headless(replace(READY, model=replace(MODEL, trained_context=1 << 20)), size=(1400, 900))
    said = []
    monkeypatch.setattr(
        "llm_lite.desktop.features.cache.memory.wrapped", lambda ui, words, *_: said.append(words)
    )
    one.program.do(SetOptions(replace(one.state.options, context=1 << 19)))
    one.program.state = replace(one.state, load=None)
    one.driver.click("rail.memory")
    one.driver.frames(3)
    assert any(words.startswith("That does not fit: 181 MiB are free") for words in said)
