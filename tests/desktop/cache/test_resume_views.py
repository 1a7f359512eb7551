"""The strip above the input, and what the memory popover and the settings say of kept caches."""

import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    AnswerRun,
    CheckKept,
    GenerationStats,
    KeptChecked,
    KeptResumed,
    PromptToken,
    ResumeKept,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.history.state import HistoryState
from llm_lite.desktop.features.history.titles import SetTitles
from llm_lite.desktop.features.program.asked import Asked, Exchange
from llm_lite.desktop.features.program.cached_text import CachedText
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.resume.model import (
    CHECK,
    RESUMED,
    ClearKept,
    DismissOffer,
    Resume,
    SetResume,
)
from llm_lite.desktop.features.resume.state import KeptCache, Offer, OfferStatus, ResumeState
from llm_lite.desktop.features.resume.view import WHY, offer_words, seconds_to_read
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.headless import READY

OFFER = OfferStatus("ready", 2469, 2470, 56_902_020)
WRITTEN = AnswerRun.by(READY.model, READY.executor)
READ = GenerationStats(prompt_tokens=2438, prefill_tok_s=800.0)
TALK = (
    Message("user", "Hello"),
    Message("assistant", "Hi", stop_reason="end", written=WRITTEN, stats=READ),
)
KEPT = tuple(KeptCache(n, f"Talk {n}", n << 20, 1e9 + n) for n in range(1, 6))


def offering(offer=OFFER, **changes):
    history = HistoryState(open=7)
    state = replace(
        READY,
        tree=ConversationTree(TALK),
        history=history,
        resume=ResumeState(offer=Offer(7, "/caches/7.kv") if offer else None, **changes),
    )
    question = ResumeKept(7, "/caches/7.kv", ())
    if offer is None or offer.phase == "checking":
        return state
    if offer.phase == "resuming":
        waiting = Exchange(waiting=Asked(question, RESUMED.stamp(state)))
        return replace(state, asks={RESUMED: waiting})
    if offer.phase == "resumed":
        prompt = (PromptToken(0, "x", 0),) * offer.tokens
        state = with_cached(state, used=offer.tokens)
        return with_answer(state, RESUMED, question, KeptResumed(prompt, offer.total, 0.06))
    found = KeptChecked(offer.tokens, offer.total, offer.bytes, offer.unfit)
    return with_answer(state, CHECK, CheckKept(7, "/caches/7.kv", ()), found)


def test_the_strip_is_taken_or_sent_away(headless):
    one = headless(offering())
    one.driver.click("chat.resume")
    one.driver.click("chat.resume.dismiss")
    assert one.did(Resume) and one.did(DismissOffer)
    one.driver.frames(2)
    assert not one.driver.shows("chat.resume.words")


@pytest.mark.parametrize("phase", ["ready", "resuming", "resumed"])
def test_the_strip_stands_over_its_own_conversation_alone(headless, phase):
    one = headless(offering(replace(OFFER, phase=phase)))
    assert one.driver.shows("chat.resume.words")
    for other in (8, None):
        one.program.state = replace(one.state, history=HistoryState(open=other))
        one.driver.frames(2)
        assert not one.driver.shows("chat.resume.words")


@pytest.mark.parametrize(
    "changes",
    [
        {"cached": CachedText()},
        {"system_prompt": "Speak only French."},
        {"executor": replace(READY.executor, mode="int4")},
    ],
    ids=["another version", "another system prompt", "other weights"],
)
def test_what_was_resumed_is_told_while_the_cache_holds_it(headless, changes):
    one = headless(offering(replace(OFFER, phase="resumed")))
    assert one.driver.shows("chat.resume.words")
    one.program.state = replace(one.state, **changes)
    one.driver.frames(2)
    assert not one.driver.shows("chat.resume.words")


def test_the_strip_says_how_much_and_what_it_spares():
    state = offering()
    first, rest = offer_words(state, OFFER)
    assert first == "Resume at once: 2,469 of 2,470 tokens kept, 54.3 MiB."
    assert rest == "Reading them again takes about 3.1 s."
    done = replace(OFFER, phase="resumed", seconds=0.061)
    assert offer_words(state, done)[0] == "Resumed in 61 ms.", "no new number"


def test_what_nobody_measured_is_not_guessed():
    other = replace(TALK[1], written=replace(WRITTEN, mode="fp16"))
    few = replace(TALK[1], stats=replace(READ, reused_tokens=2430))
    for answer in (other, few, replace(TALK[1], stats=None)):
        state = replace(offering(), tree=ConversationTree((TALK[0], answer)))
        assert seconds_to_read(state, 2469) == 0.0
        assert offer_words(state, OFFER)[1] == ""


@pytest.mark.parametrize("why", WHY)
def test_the_strip_says_why_not(headless, why):
    offer = replace(OFFER, phase="unfit", unfit=why, tokens=0)
    one = headless(offering(offer))
    assert one.driver.shows("chat.resume.words") and not one.driver.shows("chat.resume")
    assert offer_words(one.state, offer)[0].startswith("Not resumed: ")


def test_nothing_flickers_before_it_is_known(headless):
    one = headless(offering(replace(OFFER, phase="checking")))
    assert not one.driver.shows("chat.resume.words")


def test_the_strip_does_not_cover_the_input(headless):
    one = headless(offering(), size=(900, 520))
    strip, field = one.driver.rect("chat.resume.words"), one.driver.rect("chat.input")
    assert strip[3] <= field[1]


def test_the_memory_popover_says_what_is_kept(headless):
    one = headless(replace(offering(None), resume=ResumeState(folder="/c", kept=KEPT)), (1400, 900))
    one.driver.click("rail.memory")
    one.driver.frames(3)
    one.driver.click("kept.mode.always")
    assert one.state.resume.mode == "always"
    one.driver.click("kept.clear")
    assert one.did(ClearKept) == [ClearKept()] and one.state.resume.kept == ()
    one.program.state = replace(one.state, resume=ResumeState(folder="/c", kept=KEPT))
    one.driver.frames(5)  # the popover finds its height
    one.driver.click("kept.0")
    assert one.did(OpenConversation) == [OpenConversation(1)]
    one.driver.click("kept.budget")
    assert one.did(SetResume)[-1].budget != ResumeState().budget


def test_titles_by_the_model_can_be_turned_off(headless):
    one = headless(READY)
    one.driver.click("rail.settings")
    one.driver.click("settings.titles")
    assert one.did(SetTitles) == [SetTitles(False)] and not one.state.history.titles
