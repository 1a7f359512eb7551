"""Whatever is in front, no slot draws an answer about what was: all slots of all features are tried
after each change that a person can make."""

import importlib
import pkgutil

import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Generate, ToolSpec
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.records import replace
from llm_lite.desktop import features
from llm_lite.desktop.features.chat.model import NewChat, SetSystemPrompt, SetThinking
from llm_lite.desktop.features.encoder.model import ChooseEncoding
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.scopes import next_model
from llm_lite.desktop.features.program.state import AnswerComparison, AppState, Message
from llm_lite.desktop.features.registry import FEATURES
from llm_lite.desktop.features.steer.model import Steer
from llm_lite.desktop.features.tokenizer.model import ChooseTokenizing
from llm_lite.desktop.features.tools.state import DECLARED
from tests.changes import weighed
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL

SLOTS = [slot for feature in FEATURES for slot in feature.asks]
TALK = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
BASE = AppState(
    model=replace(MODEL, tool_style="hermes"), executor=EXECUTOR, tree=ConversationTree(TALK)
)
BASE = replace(BASE, tokenizer=replace(BASE.tokenizer, form="chat"))
BASE = with_cached(BASE, ("<s>", "Hello", "Hi", "!"), (-1, 0, 1, 1))
CHANGES = weighed(((0.5,) * MODEL.heads,) * MODEL.layers, MODEL)
OTHER_ANSWER = (TALK[0], Message("assistant", "Ho", stop_reason="end"))


def by(action):
    return lambda state: act(action(state), state, 0.0)[0]


def read_anew(state):
    """The same words, computed again: by other kernels, or without a part that was forgotten."""
    runs = ((0, state.cached.computed),)
    return replace(state, cached=replace(state.cached, runs=runs, computed=9))


def with_tools(state):
    on = frozenset({(DECLARED, "list")})
    return replace(state, tools=replace(state.tools, functions=(ToolSpec("list"),), on=on))


# Of the program: after these no answer is drawn.
EVERYTHING = {
    "another conversation": by(lambda state: NewChat()),
    "a conversation in its place": lambda state: replace(state, chat=state.chat + 1),
    "another model": lambda state: next_model(state, replace(MODEL, path="/other.gguf")),
    "a model in its place": lambda state: replace(state, model=replace(MODEL, path="/other.gguf")),
    "another mode": lambda state: replace(state, executor=replace(EXECUTOR, mode="int4")),
    "another device": lambda state: replace(state, executor=replace(EXECUTOR, backend="vulkan")),
}
# Of the prompt: after these none about its tokens is.
PROMPT = {
    "another version": lambda s: replace(s, tree=s.tree.with_path(OTHER_ANSWER)),
    "a version without the answer": lambda s: replace(s, tree=s.tree.with_path(TALK[:1])),
    "another system prompt": by(lambda state: SetSystemPrompt("Be brief.")),
    "the switch for thoughts": by(lambda state: SetThinking(not state.thinking)),
    "functions": with_tools,
    "tokens that are computed again": read_anew,
}
# Of a view, whose text is its own.
SUBJECTS = {
    "the tokenizer's form": by(
        lambda s: ChooseTokenizing(replace(s.tokenizer, form="plain", stage="tokens"))
    ),
    "another tokenizer": by(lambda s: ChooseTokenizing(replace(s.tokenizer, other="/other.json"))),
    "the encoder's page": by(lambda s: ChooseEncoding(replace(s.encoding, mode="fill"))),
    "a pair of sentences": by(lambda s: ChooseEncoding(replace(s.encoding, pair=(0, 2)))),
    "two answers": lambda s: replace(s, compared=AnswerComparison(TALK[0].id, TALK[1].id)),
}
STEERED = by(lambda state: Steer(CHANGES))
SAMPLES = {int: 1, str: "a", float: 1.0, bool: True, Generate: Generate(())}


def question(slot: Slot):
    """A question of a slot, about the last token where it is about one."""
    row = BY_REQUEST.get(slot.question)
    if row is not None:
        found = row.example
    else:
        needed = [one for one in fields(slot.question) if one.default is NODEFAULT]
        needed = [one for one in needed if one.default_factory is NODEFAULT]
        values = {one.name: SAMPLES.get(one.type, ()) for one in needed}
        found = slot.question(**values)
    of_token = hasattr(found, "position")
    return replace(found, position=len(BASE.positions) - 1) if of_token else found


def answered(slot: Slot) -> AppState:
    state = with_answer(BASE, slot, question(slot), "answer")
    assert slot.answer(state) == "answer" and not slot.wanted(state, question(slot))
    return state


def drawn(slot: Slot, change) -> bool:
    state = change(answered(slot))
    failed = change(with_answer(BASE, slot, question(slot), problem="No."))
    assert (slot.answer(state) is None) == (slot.problem(failed) == "")
    return slot.answer(state) is not None


def stale(slots=SLOTS) -> list[tuple[str, str]]:
    """Slots, and the changes after which each draws an answer that is not of what is in front."""
    found = []
    for slot in slots:
        changes = EVERYTHING if slot.subject else {**EVERYTHING, **PROMPT}
        changes = changes if slot.recorded else {**changes, "gains": STEERED}
        found += [(slot.name, name) for name, change in changes.items() if drawn(slot, change)]
    return found


def test_every_slot_is_of_a_feature():
    """Answers of another one would reach nobody, and this file would not try it."""
    found = []
    for info in pkgutil.walk_packages(features.__path__, f"{features.__name__}."):
        for value in vars(importlib.import_module(info.name)).values():
            found += value if isinstance(value, tuple) else [value]
    assert {id(one) for one in found if isinstance(one, Slot)} == set(map(id, SLOTS))
    assert len({slot.name for slot in SLOTS}) == len(SLOTS)


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.name)
def test_no_answer_is_drawn_of_what_was_in_front(slot):
    assert not stale([slot])


@pytest.mark.parametrize("slot", [s for s in SLOTS if s.subject], ids=lambda slot: slot.name)
def test_an_answer_goes_with_its_subject(slot):
    """What it is about changes in some way, and then it is not drawn; else it stays."""
    before, seen = answered(slot), set()
    for change in (PROMPT | SUBJECTS).values():
        is_same = slot.subject(change(before)) == slot.subject(before)
        assert drawn(slot, change) == is_same
        seen.add(is_same)
    assert seen == {True, False}


def test_answers_come_back_with_what_they_are_about():
    """Nothing is thrown away: an undo shows them again."""
    for slot in SLOTS:
        other = act(SetSystemPrompt("Be brief."), answered(slot), 0.0)[0]
        assert slot.answer(act(SetSystemPrompt(""), other, 0.0)[0]) == "answer"


@pytest.mark.parametrize("part", ["chat", "model", "executor", "interventions", "length", "runs"])
def test_a_stamp_that_lacks_a_part_is_found(monkeypatch, part):
    whole = Slot.stamp
    nothing = {"chat": 0, "model": "", "length": 0, "runs": ()}.get(part)
    monkeypatch.setattr(
        Slot, "stamp", lambda slot, state: replace(whole(slot, state), **{part: nothing})
    )
    assert stale()
