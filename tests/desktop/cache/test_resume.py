"""What is computed of a conversation is kept when it is left, and taken when it is opened again."""

import time
from pathlib import Path

import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.handles import Report
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    CacheKept,
    CheckKept,
    Ended,
    EngineOptions,
    Generate,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    LoadModel,
    MakeTitle,
    MeasureModes,
    PromptToken,
    ResumeKept,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.chat.model import NewChat, Send, SetSampling, SetSystemPrompt
from llm_lite.desktop.features.history.model import (
    DeleteAll,
    DeleteConversation,
    OpenConversation,
    RenameConversation,
    UndoHistory,
)
from llm_lite.desktop.features.history.titles import AskTitle, SetTitles
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.quantization.state import Work
from llm_lite.desktop.features.resume import model as resuming
from llm_lite.desktop.features.resume.model import (
    CHECK,
    ClearKept,
    DismissOffer,
    IdleWork,
    KeepNow,
    Resume,
    SetResume,
    offer_status,
)
from llm_lite.desktop.features.resume.state import BUDGET, Offer, OfferStatus, ResumeState
from llm_lite.desktop.features.steer.state import Steering
from llm_lite.desktop.features.tokens.state import SYSTEM
from tests.changes import weighed
from tests.desktop.cached import with_answer
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import sent
from tests.desktop.history.test_history import Chat, chat  # noqa: F401

QUESTION = "Why is the sky blue?"


def files(one: Chat) -> list[str]:
    return sorted(path.name for path in (one.path.parent / "caches").glob("*.kv"))


def talked(one: Chat, question: str = QUESTION) -> int:
    """A conversation that was had and left; its number."""
    one.do(Send(question))
    number = one.state.history.open
    one.do(NewChat())
    one.wait(lambda s: number in [cache.conversation for cache in s.resume.kept])
    return number


def offered(one: Chat, number: int):
    one.open(number)
    one.wait(lambda s: offer_status(s) and offer_status(s).phase != "checking")
    return offer_status(one.state)


def test_a_conversation_that_is_left_is_kept_and_offered(chat):  # noqa: F811
    one = chat()
    number = talked(one)
    assert files(one) == [f"{number}.kv"] and one.state.resume.used > 0
    one = chat()
    offer = offered(one, number)
    assert (offer.phase, offer.unfit) == ("ready", "") and offer.tokens == offer.total > 0
    assert sent(one.engine, ResumeKept) == [] and one.state.owners == ()
    one.program.do(Resume())
    one.wait(lambda s: offer_status(s).phase == "resumed")
    assert len(one.state.owners) == one.state.context_used == offer.tokens
    assert {0, 1} <= set(one.state.owners)
    one.do(Send("And at night?"))
    assert one.state.messages[-1].stats.reused_tokens >= offer.tokens - 1
    assert one.state.resume.offer is None, "the answer says itself what was there"


def test_a_conversation_that_was_read_is_not_offered(chat):  # noqa: F811
    one = chat()
    number = talked(one)
    one = chat()
    assert offered(one, number).phase == "ready"
    one.do(ReadAgain())
    one.wait(lambda s: bool(s.owners) and s.reading is None)
    assert one.state.resume.offer is None


def test_always_needs_no_button_and_off_keeps_nothing(chat):  # noqa: F811
    one = chat()
    number = talked(one)
    one = chat()
    one.do(SetResume("always", BUDGET))
    one.open(number)
    one.wait(lambda s: bool(s.owners))
    assert offer_status(one.state).phase == "resumed"
    one.do(SetResume("off", BUDGET), NewChat(), Send("Another"), NewChat())
    assert sent(one.engine, KeepConversation) == []
    one.open(number)
    assert one.state.resume.offer is None


def test_always_waits_without_a_word_until_the_engine_is_free():
    work = Work(MeasureModes(EngineOptions()), "report")
    offering = ResumeState(mode="always", folder="x", offer=Offer(7, "7.kv"))
    state = AppState(model=MODEL, resume=offering)
    state = with_answer(state, CHECK, CheckKept(7, "7.kv", ()), KeptChecked(tokens=5))
    busy = replace(state, quantization=replace(state.quantization, work=work))
    assert due(busy) == (busy, ())
    (command,) = due(state)[1]
    assert isinstance(command, ResumeKept)


def test_a_reply_is_of_the_command_that_asked_for_it_alone():
    offer = Offer(7, "7.kv")
    asking = AppState(model=MODEL, resume=ResumeState(mode="ask", folder="x", offer=offer))
    state, (check,) = due(asking)
    told = KeptChecked(tokens=5, total=9, bytes=99)
    assert apply(told, state, 0.0, replace(check)) == state, "a file of before"
    ready = apply(Ended(), apply(told, state, 0.0, check), 0.0, check)
    assert offer_status(ready) == OfferStatus("ready", 5, 9, 99)
    resuming, (resume,) = act(Resume(), ready, 0.0)
    there = KeptResumed((PromptToken(1, "<s>", -1),), 9, 0.1)
    assert apply(there, resuming, 0.0, replace(resume)) == resuming
    assert apply(told, resuming, 0.0, check) == resuming, "it was checked before"
    assert apply(there, resuming, 0.0, resume).positions == ("<s>",)
    for before, asked in ((state, check), (resuming, resume)):
        failed = apply(Ended("the model is gone"), before, 0.0, asked)
        assert offer_status(failed) == OfferStatus("unfit", unfit="failed")


@pytest.mark.parametrize("end", [Ended(), Ended("it was cancelled", True)])
def test_a_check_that_ends_without_a_reply_offers_nothing(end):
    state = AppState(model=MODEL, resume=ResumeState(offer=Offer(1, "1.kv")))
    state, (asked,) = due(state)
    assert apply(end, state, 0.0, asked).resume.offer is None


@pytest.mark.parametrize(
    "changes",
    [
        {"system_prompt": "Speak only French."},
        {"thinking": False},
        {"tree": ConversationTree((Message("user", "Hi"),))},
        {"executor": replace(EXECUTOR, mode="int4")},
        {"steering": Steering(weighed(((0.5,) * MODEL.heads,) * MODEL.layers, MODEL))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_offer_is_checked_for_what_is_in_front(changes):
    offering = ResumeState(folder="x", offer=Offer(7, "7.kv"))
    state, (check,) = due(AppState(model=MODEL, executor=EXECUTOR, resume=offering))
    state = apply(KeptChecked(tokens=5, total=9, bytes=99), state, 0.0, check)
    other = replace(apply(Ended(), state, 0.0, check), **changes)
    assert offer_status(other).phase == "checking"
    assert not any(isinstance(one, ResumeKept) for one in act(Resume(), other, 0.0)[1])
    again = [one for one in due(other)[1] if isinstance(one, CheckKept)]
    assert len(again) == 1


def test_what_was_resumed_is_of_the_prompt_that_was_asked_for():
    """The system prompt is typed on while the file is read: the cache has the one of before."""
    offering = ResumeState(folder="x", offer=Offer(7, "7.kv"))
    state = AppState(model=MODEL, resume=offering, system_prompt="A")
    state = with_answer(state, CHECK, CheckKept(7, "7.kv", ()), KeptChecked(tokens=5))
    state, (command,) = act(Resume(), state, 0.0)
    state = replace(state, system_prompt="AB")
    there = KeptResumed((PromptToken(1, "<s>", 0), PromptToken(2, "Hi", 1)), 9, 0.1, is_cut=True)
    state = apply(there, state, 0.0, command)
    assert state.cached.prompt_settings.system_prompt == "A" and state.positions == ()
    assert state.cached.owners == (SYSTEM, 0) and state.cached.is_cut


def test_why_a_cache_was_not_kept_is_told():
    asked = KeepConversation(7, "7.kv", 99)
    state = apply(Ended("the disk is full"), AppState(model=MODEL), 0.0, asked)
    assert (state.notices[-1].level, state.resume.kept_tokens) == ("warning", 0)
    assert "disk is full" in state.notices[-1].text


def test_what_is_of_no_use_says_why_and_is_looked_at_again_for_another_model(chat):  # noqa: F811
    one = chat()
    number = talked(one)
    one = chat()
    one.engine.unfit = "weights"
    offer = offered(one, number)
    assert (offer.phase, offer.unfit) == ("unfit", "weights")
    one.do(Resume())
    assert sent(one.engine, ResumeKept) == [] and files(one) == [f"{number}.kv"]
    one.engine.unfit = ""
    executor = replace(one.state.executor, mode="int8")
    one.program.state = replace(one.state, executor=executor)
    one.wait(lambda s: offer_status(s).phase == "ready")
    assert len(sent(one.engine, CheckKept)) == 2
    one.do(DismissOffer())
    assert one.state.resume.dismissed


def test_a_damaged_file_is_one_sentence_and_gone(chat):  # noqa: F811
    one = chat()
    number = talked(one)
    one = chat()
    (one.path.parent / "caches" / f"{number}.kv").write_text("damaged")
    assert offered(one, number).unfit == "damaged"
    (notice,) = one.state.notices
    assert notice.text.startswith("The kept cache of this conversation is damaged and was removed")
    one.wait(lambda s: s.resume.kept == ())
    assert files(one) == []
    one.do(Send("And at night?"))
    assert one.state.messages[-1].text


def test_what_is_kept_goes_with_its_conversation(chat):  # noqa: F811
    one = chat()
    first, second = talked(one), talked(one, "Another question?")
    one.open(first)
    one.do(DeleteConversation(first))
    one.wait(lambda s: [cache.conversation for cache in s.resume.kept] == [second])
    assert files(one) == [f"{second}.kv"]
    path = one.path.parent / "caches" / f"{first}.kv"
    path.write_text("kept late")
    kept = Report(CacheKept(9, 9, "", 0.0, 0.0), KeepConversation(first, str(path), 99))
    one.program.history.take(kept, one.state)
    one.do(UndoHistory())
    one.wait(lambda s: first in [row.id for row in s.history.rows])
    assert not path.exists()
    one.do(DeleteAll())
    one.wait(lambda s: s.resume.kept == ())
    assert files(one) == []


def test_the_budget_lets_the_oldest_go_and_clear_all_of_them(chat):  # noqa: F811
    one = chat()
    first, second = talked(one), talked(one, "Another question?")
    size = max(cache.bytes for cache in one.state.resume.kept)
    one.do(SetResume("ask", size))
    one.wait(lambda s: len(s.resume.kept) == 1)
    assert files(one) == [f"{second}.kv"] and first not in one.state.resume.kept
    one.do(ClearKept())
    assert one.state.resume.kept == ()
    one.wait(lambda s: files(one) == [])


def test_the_end_of_the_program_and_another_model_keep_it_too(chat):  # noqa: F811
    one = chat()
    one.do(Send(QUESTION))
    number = one.state.history.open
    one.program.do(OpenModel(None))
    kinds = [type(command) for command in one.engine.commands]
    assert kinds.index(KeepConversation) < len(kinds) - 1 - kinds[::-1].index(LoadModel)
    one.wait(lambda s: s.load is None and not s.owners)
    one.do(Send("And at night?"))
    one.program.keep()
    one.engine.close()
    one.program.take_last_events()
    assert one.program.history.finish(10.0)
    assert files(one) == [f"{number}.kv"]
    assert len(sent(one.engine, KeepConversation)) == 2


def test_it_is_one_file_from_the_real_engine_to_the_next(tiny_llama, tmp_path):
    """Read again or resumed: the same answer, and as many tokens reused as were kept."""
    answers = []
    for mode in ("off", "ask", "always"):
        folder = tmp_path / mode
        folder.mkdir()
        first = Real(tiny_llama, folder, mode)
        first.do(Send("Hello there, what do you know of ships?"))
        number = first.state.history.open
        first.end()
        again = Real(tiny_llama, folder, mode)
        again.open(number)
        if mode == "ask":
            again.wait(lambda s: offer_status(s) and offer_status(s).phase == "ready")
            again.do(Resume())
        if mode != "off":
            again.wait(lambda s: bool(s.owners))
        kept = len(again.state.owners)
        again.do(Send("And then?"))
        last = again.state.messages[-1]
        assert last.stats.reused_tokens == kept and bool(kept) == (mode != "off")
        answers.append([token.id for token in last.tokens])
        again.end()
    assert answers[0] == answers[1] == answers[2]


class Real(Chat):
    """With a model."""

    def __init__(self, model: Path, folder: Path, mode):
        super().__init__(folder / "history.db")
        self.engine.close()
        self.engine = Engine(None)
        self.program.engine = self.engine
        self.program.state = replace(self.state, model=None, executor=None)
        sampling = replace(self.state.sampling, temperature=0.0, max_new_tokens=8)
        self.program.do(SetSampling(sampling))
        self.program.do(SetSystemPrompt(""))
        self.program.do(SetResume(mode, BUDGET))
        self.engine.submit(LoadModel(str(model), EngineOptions(backend="cpu")))
        self.wait(lambda s: s.model is not None and bool(s.resume.folder))

    def end(self):
        self.program.history.end()
        self.program.keep()
        assert self.engine.close(10.0)
        self.program.take_last_events()
        assert self.program.history.finish(10.0)


def test_titles_are_made_when_nothing_is_done(chat, monkeypatch):  # noqa: F811
    monkeypatch.setattr(resuming, "TITLE_SECONDS", 0.0)
    one = chat()
    one.engine.title = '"Sky and light."\nMore'
    one.do(Send(QUESTION))
    number = one.state.history.open
    one.rows(lambda titles: titles == ["Sky and light"])
    assert one.history.summary(number).title_source == "model"
    assert len(sent(one.engine, MakeTitle)) == 1
    assert sent(one.engine, MakeTitle)[0].messages[-1].content == one.state.messages[-1].text
    one.do(NewChat(), SetTitles(False), Send("Another question?"))
    one.rows(lambda titles: "Another question?" in titles)
    assert len(sent(one.engine, MakeTitle)) == 1, "it was turned off"


@pytest.mark.parametrize("title", ["", "sky " * 12, "I can help you with that!", None, "<think>"])
def test_nonsense_leaves_the_title_that_is_there(chat, monkeypatch, title):  # noqa: F811
    monkeypatch.setattr(resuming, "TITLE_SECONDS", 0.0)
    one = chat()
    one.engine.title = title
    one.do(Send(QUESTION))
    asked = resuming.TRIES if title is None else 1
    one.wait(lambda s: len(sent(one.engine, MakeTitle)) == asked)
    end = time.monotonic() + 0.2
    one.wait(lambda s: time.monotonic() > end)
    assert len(sent(one.engine, MakeTitle)) == asked, "asked again only where it was interrupted"
    assert one.history.summary(one.state.history.open).title == QUESTION


def test_a_title_that_a_person_gave_stays(chat, monkeypatch):  # noqa: F811
    one = chat()
    one.engine.title = "Sky and light"
    one.do(Send(QUESTION))
    number = one.state.history.open
    one.do(RenameConversation(number, "Mine"))
    one.rows(lambda titles: titles == ["Mine"])
    one.do(AskTitle(number))
    one.do(OpenConversation(number))
    one.rows(lambda titles: titles == ["Mine"])
    assert sent(one.engine, MakeTitle) == []


def test_idle_work_waits_for_rest_and_is_done_once(chat):  # noqa: F811
    one, work = chat(), IdleWork()
    one.do(Send(QUESTION))
    state = one.state
    assert work.poll(state, 100.0) == []
    assert work.poll(state, 102.0) == []
    number = state.history.open
    assert work.poll(state, 103.5) == [AskTitle(number)]
    assert KeepNow() in work.poll(state, 116.0)
    assert [a for a in work.poll(state, 200.0) if isinstance(a, KeepNow)] == []
    kept = replace(state, resume=replace(state.resume, kept_tokens=state.context_used))
    fresh = IdleWork()
    assert fresh.poll(kept, 0.0) == [] and KeepNow() not in fresh.poll(kept, 60.0)
    busy = replace(state, tree=ConversationTree(state.messages[:-1]))
    assert work.poll(busy, 300.0) == [], "another chat begins its own time"


def test_every_question_says_whose_it_is(chat):  # noqa: F811
    one = chat()
    one.do(Send(QUESTION))
    (command,) = sent(one.engine, Generate)
    assert command.conversation == one.state.history.open
