"""Drafts as a person sees them: tints, what had been drafted, what it brought, and the switch."""

from dataclasses import replace

import pytest

from llm_lite.core.messages import (
    DraftedToken,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PromptToken,
    TokenDecoded,
)
from llm_lite.desktop.actions.inspecting import SetXRay
from llm_lite.desktop.actions.program import SetOptions
from llm_lite.desktop.state.apply import fold
from llm_lite.desktop.state.state import Message, Running, Token
from llm_lite.desktop.views.program import status_bar
from llm_lite.desktop.views.program.drafting import pass_share
from llm_lite.desktop.views.program.performance import _read_rate
from llm_lite.desktop.views.tokens import colors, tokens
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
    return TokenDecoded(1, at, PIECES[at], 0.5, 2 + at, (), step_ms, **drafting)


def answered():
    """A state behind an answer of drafts: one token came as drafted, one did not."""
    asked = replace(READY, messages=(Message("user", "Go on"),), running=Running(1, 0.0))
    prompt = tuple(PromptToken(n, "x", 0) for n in range(2))
    rejected = (DraftedToken(8, " was"), DraftedToken(9, " red"))
    events = (
        GenerationStarted(1, 2, 0, prompt),
        decoded(0, 4.0),
        decoded(1, 5.0, accepted=True),
        decoded(2, 0.0, rejected=rejected),
        decoded(3, 4.0),
        GenerationFinished(1, "length", STATS),
    )
    return fold(events, asked, 1.0)


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
    assert any("verified with an earlier token" in words for words in said)


def test_the_status_bar_tells_what_drafts_brought():
    def shown(stats):
        names = {
            name: words for name, words, _ in status_bar._measures(replace(READY, last_stats=stats))
        }
        return names.get("drafts")

    assert shown(STATS) == "Drafts 75%, 18 ms saved"
    assert "lost" in shown(replace(STATS, saved_ms=-3.0))
    assert shown(replace(STATS, drafted=0, accepted=0)) is None
    assert shown(None) is None


def test_reads_are_those_of_passes():
    """Four passes for ten tokens read the weights four times."""
    assert pass_share(STATS) == 0.4
    assert pass_share(GenerationStats()) == 1
    assert _read_rate(READY, STATS).startswith("4.0 GB/s")


@pytest.mark.parametrize(
    "stats", [STATS, replace(STATS, pass_ms=CURVE[:1]), replace(STATS, drafted=0)]
)
def test_the_curve_is_drawn_where_there_is_one(headless, stats):
    one = headless(replace(answered(), last_stats=stats), size=(1400, 2400))
    one.driver.click("tab.performance")
    one.driver.frames(2)
    assert one.driver.shows("performance.passes") == (len(stats.pass_ms) > 1)


def test_the_switch(one):
    one.driver.click("status.executor")
    one.driver.click("executor.speculate.off")
    (action,) = one.did(SetOptions)
    assert action.options.speculate == "off"
