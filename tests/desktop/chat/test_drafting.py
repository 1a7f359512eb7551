"""Drafts as a person sees them: tints, what had been drafted, what it brought, and the switch."""

from pathlib import Path

import pytest

from llm_lite.core.handles import Report
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    DraftedToken,
    DraftModelInfo,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    LoadModel,
    PromptToken,
    SourceDrafts,
    TokenDecoded,
)
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import ListModels
from llm_lite.desktop.features.library.state import LibraryState
from llm_lite.desktop.features.performance.model import by_source
from llm_lite.desktop.features.performance.view import _read_rate
from llm_lite.desktop.features.program import status_bar
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import fold
from llm_lite.desktop.features.program.model import OpenModel, SetOptions
from llm_lite.desktop.features.program.state import Message, Running, Token
from llm_lite.desktop.features.program.status_bar import draft_models
from llm_lite.desktop.features.tokens import colors, tokens
from llm_lite.desktop.features.tokens.model import SetXRay
from tests.desktop.headless import READY

PIECES = ("The", " sea", " is", " blue")
CURVE = ((1, 4.0), (2, 4.8), (8, 9.0))
STATS = GenerationStats(
    new_tokens=11,
    decode_tok_s=100.0,
    passes=4,
    drafted=8,
    accepted=6,
    drafted_passes=2,
    saved_ms=18.0,
    read_bytes=10**8,
    pass_ms=CURVE,
)


def decoded(at, step_ms, **drafting):
    return TokenDecoded(at, PIECES[at], 0.5, 2 + at, (), step_ms, **drafting)


def answered():
    """A state behind an answer of drafts: one token came as drafted, one did not."""
    command = Generate(())
    running = Running(command, 0.0)
    talk = ConversationTree((Message("user", "Go on"), Message("assistant", "")))
    asked = replace(READY, tree=talk, running=running)
    prompt = tuple(PromptToken(n, "x", 0) for n in range(2))
    rejected = (DraftedToken(8, " was"), DraftedToken(9, " red"))
    events = (
        GenerationStarted(2, 0, prompt),
        decoded(0, 4.0),
        decoded(1, 5.0, accepted=True),
        decoded(2, 0.0, rejected=rejected),
        decoded(3, 4.0),
        GenerationFinished("length", STATS),
    )
    return fold([Report(event, command) for event in events], asked, 1.0)


def measured(stats):
    """A state behind an answer with such figures; None: behind none."""
    state = answered()
    messages = () if stats is None else (state.messages[0], replace(state.messages[1], stats=stats))
    return replace(state, tree=ConversationTree(messages))


@pytest.fixture
def one(headless):
    return headless(answered(), size=(1400, 1700))


def test_tokens_know_how_their_drafts_did():
    state = answered()
    answer = state.messages[-1]
    assert [answer.drafting(at) for at in (0, 1, 2, 3)] == ["", "accepted", "rejected", ""]
    assert answer.drafting(None) == answer.drafting(4) == answer.drafting(-1) == ""
    assert answer.tokens[2].rejected == (" was", " red")
    assert isinstance(answer.tokens[2], Token)


def test_tints_stand_in_the_text(one):
    one.driver.click("chat.xray")
    one.driver.click("xray.drafts")
    assert one.state.xray.drafts and not one.state.xray.probabilities
    tints = {
        outcome: colors.draft_tint(one.ui, outcome) for outcome in ("", "accepted", "rejected")
    }
    assert len(set(tints.values())) == 3 and tints[""] == 0
    one.driver.click("xray.likely")
    assert one.state.xray.probabilities and not one.state.xray.drafts, "one tint at a time"
    one.driver.click("xray.drafts")
    assert one.state.xray.drafts and not one.state.xray.probabilities
    one.driver.leave()
    assert one.driver.shows("xray.legend")


def test_what_had_been_drafted_is_said(one, monkeypatch):
    said = []
    for name in ("text", "wrapped"):
        draw = getattr(tokens, name)
        monkeypatch.setattr(
            tokens,
            name,
            lambda ui, words, *a, draw=draw, **k: (said.append(words), draw(ui, words, *a, **k)),
        )
    one.program.do(SetXRay(replace(one.state.xray, shown=True)))
    one.driver.frames(3)
    one.driver.point("token.1.2")
    assert any("was red" in words for words in said)
    one.driver.point("token.1.1")
    assert any("Drafted, and accepted." in words for words in said)


def hint_of_speed(stats):
    measures = status_bar._measures(measured(stats))
    return next(hint for name, _, hint in measures if name == "decode")


def test_the_status_bar_tells_what_drafts_brought():
    """In the tooltip of the speed, which they explain."""
    assert "Drafts: 75% of 8 tokens accepted, 18 ms saved." in hint_of_speed(STATS)
    assert "lost" in hint_of_speed(replace(STATS, saved_ms=-3.0))
    assert "Drafts" not in hint_of_speed(replace(STATS, drafted=0, accepted=0))
    assert "Drafts" not in hint_of_speed(None)


def test_reads_are_those_of_passes():
    """Four passes for ten tokens read the weights four times."""
    assert STATS.pass_share == 0.4
    assert GenerationStats().pass_share == 1
    assert _read_rate(READY, STATS).startswith("4.0 GB/s")


@pytest.mark.parametrize(
    "stats", [STATS, replace(STATS, pass_ms=CURVE[:1]), replace(STATS, drafted=0)]
)
def test_the_curve_is_drawn_where_there_is_one(headless, stats):
    one = headless(measured(stats), size=(1400, 2400))
    one.driver.click("tab.performance")
    one.driver.frames(2)
    assert one.driver.shows("performance.passes") == (len(stats.pass_ms) > 1)


def test_the_switch(one):
    one.driver.click("status.executor")
    one.driver.click("executor.speculate.off")
    (action,) = one.did(SetOptions)
    assert action.options.speculate == "off"


def test_a_slice_drafts_where_the_model_has_one(headless):
    one = headless(answered(), size=(1400, 1700))
    one.driver.click("status.executor")
    assert not one.driver.shows("executor.speculate.slice")
    sliced = replace(answered(), model=replace(READY.model, has_slice=True))
    one = headless(sliced, size=(1400, 1700))
    one.driver.click("status.executor")
    one.driver.click("executor.speculate.slice")
    (action,) = one.did(SetOptions)
    assert action.options.speculate == "slice"
    state = replace(sliced, options=action.options)
    after, commands = act(OpenModel("/models/other"), state, 1.0)
    assert after.options.speculate == commands[-1].options.speculate == "auto", "it may have none"


def local(name, **changes):
    like = {"vocabulary": READY.model.vocabulary, "parameters": READY.model.parameters // 4}
    path = Path("/models") / name
    return LocalModel(name, path, "imported", "gguf", (path,), 10, **like | changes)


LOCAL = (
    local("small"),
    local("other-vocabulary", vocabulary=READY.model.vocabulary + 1),
    local("larger", parameters=READY.model.parameters * 2),
    local("damaged", problem="cannot be read"),
)


def with_models(state, models=LOCAL):
    return replace(state, library=replace(state.library, local=models))


def test_models_of_the_same_vocabulary_are_offered(headless):
    one = headless(with_models(answered()), size=(1400, 1700))
    assert [model.name for model in draft_models(one.state)] == ["small"]
    one.driver.click("status.executor")
    one.driver.click("executor.draft")
    one.driver.click("executor.draft./models/small")
    (action,) = one.did(SetOptions)
    assert action.options.draft_model == "/models/small"
    assert action.options.speculate == "auto"


def test_where_no_model_could_draft_none_is_offered(headless):
    one = headless(with_models(answered(), LOCAL[1:]), size=(1400, 1700))
    one.driver.click("status.executor")
    assert one.driver.shows("executor.speculate.off") and not one.driver.shows("executor.draft")


def test_models_are_looked_for_once(headless):
    one = headless(replace(answered(), library=LibraryState()), size=(1400, 1700))
    one.driver.click("status.executor")
    one.driver.frames(3)
    assert len(one.did(ListModels)) == 1


def test_what_the_draft_model_takes_is_shown(headless, monkeypatch):
    said = []
    shown = lambda ui, words, *rest: said.append(words)  # noqa: E731
    monkeypatch.setattr("llm_lite.desktop.features.program.status_bar.wrapped", shown)
    info = DraftModelInfo("Small", "/models/small", "int4", 80 << 20, 12 << 20, 4096)
    state = with_models(answered())
    executor = replace(state.executor, draft=info)
    options = replace(state.options, draft_model="/elsewhere/small.gguf")
    one = headless(replace(state, executor=executor, options=options), size=(1400, 1700))
    one.driver.click("status.executor")
    one.driver.frames(2)
    assert any("80.0 MiB" in words and "12.0 MiB" in words for words in said)
    assert one.driver.shows("executor.draft"), "a model from elsewhere is one of the list"


def test_another_model_has_other_tokens():
    state = replace(answered(), running=None)
    state = replace(state, options=replace(state.options, draft_model="/models/small"))
    after, commands = act(OpenModel("/models/other"), state, 1.0)
    assert after.options.draft_model == ""
    assert [c.options.draft_model for c in commands if isinstance(c, LoadModel)] == [""]
    after, _ = act(OpenModel(None), replace(state, model=None), 1.0)
    assert after.options.draft_model == "/models/small", "as the program was started"
    again, _ = act(OpenModel(None), replace(after, load=None), 2.0)
    assert again.options.draft_model == "/models/small", "what was cancelled is tried again"
    other, commands = act(OpenModel("/models/other"), replace(after, load=None), 2.0)
    assert other.options.draft_model == "", "not the model that was asked for at start"
    assert commands[-1].options.draft_model == ""


def test_a_model_elsewhere_is_another_too():
    """The draft model was chosen for a model that is out of use by then."""
    state = replace(answered(), running=None, first_source="/models/first")
    state = replace(state, options=replace(state.options, draft_model="/models/small"))
    after, _ = act(OpenModel("/models/first"), state, 1.0)
    assert after.options.draft_model == ""


def test_sources_are_told():
    drafts = (SourceDrafts("lookup", 3, 2), SourceDrafts("model", 5, 4))
    stats = replace(STATS, drafted_by=drafts)
    assert by_source(stats) == "2 of 3 by the text, 4 of 5 by the draft model"
    assert by_source(STATS) == ""
    assert hint_of_speed(stats).endswith(by_source(stats))
