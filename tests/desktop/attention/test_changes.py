"""Interventions in the window: their rows, files, refusals, and what answers say of them."""

import json

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.messages import (
    NO_CHANGES,
    AnswerRun,
    Ended,
    Interventions,
    InterventionsSet,
    ModelIdentity,
    ModelInterventions,
    ModelLoaded,
    SetInterventions,
)
from llm_lite.core.messages.interventions import Choose, Replace, Scale, Shift
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.composer import steered
from llm_lite.desktop.features.chat.message import writer
from llm_lite.desktop.features.chat.model import Regenerate, Send, extras_of, turn_to
from llm_lite.desktop.features.program.act import due
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.steer.host import InterventionFiles
from llm_lite.desktop.features.steer.model import (
    LoadInterventions,
    ReadInterventions,
    SaveInterventions,
    Steer,
)
from llm_lite.desktop.features.steer.words import in_words, row_words
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import READY
from tests.desktop.program.test_state import answered, play

HEADS = tuple(Scale(f"layers.{layer}.attention.heads", 0.0, 2) for layer in (0, 4, 5))
SHIFT = Shift("layers.3.feed_forward.residual", (3.0, 4.0, *(0.0,) * (MODEL.width - 2)))
ROUTE = "layers.1.feed_forward.route"
ROWS = Replace("layers.1.attention.heads", ((1.0,) * MODEL.width,), (7,))
CHANGES = Interventions((*HEADS, SHIFT), MODEL.name)


def loaded(state, changes):
    """The state, and the command of what a file holds."""
    state, commands = play(state, LoadInterventions(changes))
    (asked,) = [one for one in commands if isinstance(one, SetInterventions)]
    return state, asked


def test_what_a_file_holds_is_in_force_once_the_engine_has_taken_it():
    other = Interventions((replace(SHIFT, site="blocks.3.hook_resid_post"),))
    state, asked = loaded(answered(), other)
    assert asked.interventions == replace(other, model=MODEL.name)
    assert state.steering.interventions == NO_CHANGES == play(state)[0].steering.interventions
    named = Interventions((SHIFT,), MODEL.name)
    state, commands = play(state, (InterventionsSet(named), asked), (Ended(), asked))
    assert state.steering.interventions == named and commands == []
    assert extras_of(state).interventions.interventions == named
    assert steered(state) == in_words(named) == "1 direction added"


def test_what_the_engine_refuses_leaves_all_as_it_was():
    state, asked = loaded(answered(), Interventions(HEADS))
    state, _ = play(state, (InterventionsSet(asked.interventions), asked), (Ended(), asked))
    before = state.steering
    state, asked = loaded(state, Interventions((ROWS,)))
    state, commands = play(state, (Ended("interventions[0]: rows are put in place"), asked))
    assert state.steering == before and state.notices[-1].text.startswith("interventions[0]: rows")
    assert commands == [], "the engine has kept what it had"


def test_a_refusal_of_what_a_conversation_brings_leaves_it_with_what_it_has():
    """As of a model that was changed: in the next form it may fit."""
    kept = replace(extras_of(answered()), interventions=ModelInterventions(MODEL.path, CHANGES))
    state, told = due(turn_to(answered(), answered().tree, kept)[0])
    (asked,) = [one for one in told if isinstance(one, SetInterventions)]
    assert asked.interventions == CHANGES
    state, commands = play(state, (Ended("the model has no site"), asked))
    assert state.steering.interventions == NO_CHANGES and not commands
    assert (
        state.steering.kept.interventions == CHANGES == extras_of(state).interventions.interventions
    )


def test_newer_interventions_are_not_undone_by_what_is_heard_of_older_ones():
    state, (first, second) = play(answered(), Steer(CHANGES), Steer(Interventions(HEADS)))
    newest = state.steering
    state, _ = play(state, (InterventionsSet(CHANGES), first), (Ended("no"), first))
    assert state.steering == newest
    state, _ = play(state, (InterventionsSet(second.interventions), second), (Ended(), second))
    assert state.steering == newest


def test_an_answer_says_what_was_changed_as_it_was_written():
    state, _ = play(answered(), Steer(CHANGES), Send("Next?"))
    assert state.messages[-1].written.interventions == CHANGES
    told = writer(state.messages[-1])
    assert told.endswith("3 heads off, 1 direction added")
    state, _ = play(state, Steer(NO_CHANGES))
    assert writer(state.messages[-1]) == told, "it was written so"


def test_an_answer_is_made_exactly_so_again():
    """Under what was changed then, and nothing else."""
    plain = answered()
    assert play(plain, Steer(CHANGES), Regenerate(exactly=True))[1][-1].interventions == NO_CHANGES
    written = replace(plain.messages[1].written, interventions=CHANGES)
    path = (plain.messages[0], replace(plain.messages[1], written=written))
    changed = replace(plain, tree=plain.tree.with_path(path))
    assert play(changed, Regenerate(exactly=True))[1][-1].interventions == CHANGES
    assert play(plain, Regenerate(exactly=True))[1][-1].interventions is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), ""),
        (HEADS[:1], "1 head off"),
        ((*HEADS, Scale(HEADS[0].site, 0.5, 8)), "3 heads off, 1 head weighed"),
        ((SHIFT, SHIFT, ROWS), "2 directions added, 1 change: replace"),
        ((*HEADS, Scale(HEADS[0].site, 0.5, 2)), "3 heads off"),
        ((Scale("layers.0.attention.heads", 0.0), *HEADS[1:]), "2 heads off, 1 layer's heads off"),
        (
            (Scale("layers.0.attention.heads", 0.5), Scale("layers.1.attention.heads", 2.0)),
            "2 layers' heads weighed",
        ),
        ((Scale("layers.0.feed_forward.residual", 0.5),), "1 change: scale"),
        (
            (
                Scale("layers.1.feed_forward.route", 0.0, 3),
                Choose("layers.1.feed_forward.route", "last", 4),
            ),
            "2 experts switched",
        ),
    ],
)
def test_changes_in_words(changes, words):
    assert in_words(Interventions(changes)) == words


def test_a_row_says_where_and_how_much():
    assert row_words(SHIFT) == ("layers.3.feed_forward.residual", "shift  ·  length 5")
    some = Scale("layers.0.attention.heads", 0.25, 3, tuple(range(9)))
    assert row_words(some) == (
        "layers.0.attention.heads  ·  unit 3  ·  positions 0, 1, 2, 3 …",
        "scale  ·  0.25",
    )
    assert row_words(Choose("layers.0.feed_forward.route", "always", 1))[1] == "choose  ·  always"


def test_each_change_has_a_row_that_ends_it(headless):
    second = replace(SHIFT, site="layers.9.feed_forward.residual")
    changes = Interventions((HEADS[0], SHIFT, HEADS[1], second), MODEL.name)
    one = headless(READY)
    one.driver.click("tab.steer")
    assert not one.driver.shows("steer.other.0")
    one.program.do(Steer(changes))
    one.driver.frames(3)
    assert one.driver.shows("steer.other.1") and not one.driver.shows("steer.other.2")
    one.driver.click("steer.end.0")
    left = Interventions((HEADS[0], HEADS[1], second), MODEL.name)
    assert one.state.steering.interventions == left
    one.driver.click("steer.0.2")  # the head is on again, and the direction stays
    assert one.state.steering.interventions.changes == (second, HEADS[1])
    one.driver.click("steer.reset")
    assert one.state.steering.interventions == NO_CHANGES
    assert not one.driver.shows("steer.other.0")


def test_many_rows_leave_the_heads_in_sight(headless):
    one = headless(READY, size=(1280, 720))
    one.driver.click("tab.steer")
    many = tuple(replace(SHIFT, site=f"layers.{n}.feed_forward.residual") for n in range(20))
    one.program.do(Steer(Interventions(many)))
    one.driver.frames(3)
    assert one.driver.shows("steer.other.0") and one.driver.shows("steer.0.0")


def test_files_are_read_and_written(tmp_path, headless):
    """In the form that the command line takes."""
    files, path = InterventionFiles(), tmp_path / "changes.json"
    state = replace(READY, steering=replace(READY.steering, interventions=CHANGES))
    assert files.do(SaveInterventions(str(path)), state) == []
    assert files.do(ReadInterventions(str(path)), READY) == [LoadInterventions(CHANGES)]
    assert json.loads(path.read_text())["changes"][0] == {
        "kind": "scale", "site": HEADS[0].site, "factor": 0.0, "unit": 2, "positions": None,
    }  # fmt: skip
    path.write_text('{"changes": [{"kind": "shift", "site": "embedding", "vector": [1, "a"]}]}')
    with pytest.raises(FileError, match=r"changes.json.*vector\[1\]: expected a number"):
        files.do(ReadInterventions(str(path)), READY)
    with pytest.raises(FileError, match="no such file"):
        files.do(ReadInterventions(str(tmp_path / "none.json")), READY)
    one = headless(state)
    one.driver.click("tab.steer")
    one.driver.click("steer.file")
    one.driver.frames(2)
    one.driver.click("steer.save")
    (saved,) = one.did(SaveInterventions)
    assert saved.path.endswith(".json") and "-interventions-" in saved.path
    one.driver.click("steer.file")
    one.driver.frames(2)
    one.driver.click("steer.load")
    assert one.did(ReadInterventions)


def test_nothing_is_loaded_without_a_model():
    state, commands = play(AppState(), LoadInterventions(CHANGES))
    assert commands == [] and "where the model runs" in state.notices[-1].text


def test_another_model_has_none_and_the_own_one_has_them_again():
    other = replace(MODEL, path="/models/other.gguf", name="Other")
    state, _ = play(answered(), Steer(CHANGES), ModelLoaded(other, EXECUTOR, 1.0))
    assert state.steering.interventions == NO_CHANGES and steered(state) == ""
    state, commands = play(state, ModelLoaded(MODEL, EXECUTOR, 1.0))
    assert state.steering.interventions == CHANGES
    assert SetInterventions(CHANGES) in commands


def test_an_answer_of_elsewhere_says_nothing_of_what_is_changed_here():
    run = AnswerRun(ModelIdentity("far"), backend="remote")
    assert writer(Message("assistant", "Hi", written=run)) == "far"
