"""The page of an encoder-decoder, with a real engine and a tiny model."""

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import LoadModel
from llm_lite.desktop.actions.program import SetAttention
from llm_lite.desktop.actions.texts.translating import ChooseBeams, WriteTarget
from llm_lite.desktop.state.state import AppState
from tests.fixtures.seq2seq import t5
from tests.runners import exact
from tests.seq2seq_checks import write_case


def test_a_source_gets_its_target_and_tells_where_tokens_look(headless, tmp_path):
    one, engine = headless(AppState(), size=(1400, 900)), Engine(None)
    one.program.start(engine)
    engine.send(LoadModel(str(write_case(t5.FAMILY, "gated", tmp_path)), exact("cpu")))
    one.driver.wait("the model", lambda s: s.model is not None)
    for beams in (1, 4):
        one.program.do(ChooseBeams(beams))
        one.program.do(WriteTarget("Where is it?"))
        one.driver.wait("the target", lambda s: s.translating.result is not None)
        result = one.state.translating.result
        assert result.tokens and len(result.others) == beams - 1 and not result.problem
    one.driver.point("translating.target.1")
    one.driver.wait("the row", lambda s: s.attention_rows is not None)
    assert len(one.state.attention_rows.weights) == len(one.state.translating.source)
    for part in ("encoder", "decoder", "cross"):
        one.program.do(SetAttention(one.state.attention.showing(part)))
        one.driver.frames(3)
    assert "translating.other.2" in one.ui.rects and "translating.target.1" in one.ui.rects
