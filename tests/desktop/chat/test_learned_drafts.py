"""Learned drafts as a person sees them: the choice, how much was learned, and its end."""

import pytest

from llm_lite.core.handles import Report
from llm_lite.core.messages import (
    DraftsLearned,
    ForgetLearnedDrafts,
    GenerationStats,
    Reconfigure,
    SourceDrafts,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.history.model import EmptyTrash
from llm_lite.desktop.features.performance.model import ForgetLearned, by_source
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import fold
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.status_bar import learned_words
from tests.desktop.headless import READY

LEARNED = DraftsLearned(answers=1234, tokens=56_000, disk_bytes=3 << 20)


def menu(headless, learned=LEARNED, **options):
    state = fold([] if learned is None else [Report(learned)], READY, 1.0)
    state = replace(state, options=replace(state.options, **options))
    one = headless(state, size=(1400, 1900))
    one.driver.click("status.executor")
    one.driver.frames(2)
    return one


@pytest.mark.parametrize("chosen", ["off", "use"])
def test_the_choice(headless, chosen):
    one = menu(headless, learned_drafts="learn")
    one.driver.click(f"executor.learned.{chosen}")
    (action,) = one.did(SetOptions)
    assert action.options.learned_drafts == chosen and action.options.speculate == "auto"
    state = replace(READY, options=replace(READY.options, learned_drafts="learn"))
    (command,) = [c for c in act(action, state, 1.0)[1] if isinstance(c, Reconfigure)]
    assert command.options.learned_drafts == chosen


def test_all_of_it_is_deleted(headless):
    one = menu(headless)
    one.driver.click("executor.learned.delete")
    assert one.did(ForgetLearned) == [ForgetLearned()]
    assert act(ForgetLearned(), READY, 1.0) == (READY, (ForgetLearnedDrafts(),))


def test_with_conversations_that_go_for_good_it_goes_too():
    assert act(EmptyTrash(), READY, 1.0)[1] == (ForgetLearnedDrafts(),)


def test_there_is_nothing_to_delete_where_nothing_was_learned(headless):
    assert not menu(headless, DraftsLearned(0, 0, 0)).driver.shows("executor.learned.delete")


def test_nothing_is_said_before_the_engine_has(headless):
    one = menu(headless, None)
    assert one.driver.shows("executor.learned.learn")
    assert not one.driver.shows("executor.learned.delete")


def test_what_lies_on_disk_can_be_deleted_without_drafts(headless):
    one = menu(headless, DraftsLearned(0, 0, 1 << 20), speculate="off")
    assert one.driver.shows("executor.learned.delete")
    assert not one.driver.shows("executor.learned.learn"), "where there are no drafts at all"


@pytest.mark.parametrize("speculate", ["auto", "slice"])
def test_whatever_learns_can_be_told_not_to(headless, speculate):
    one = menu(headless, speculate=speculate, learned_drafts="learn")
    one.driver.click("executor.learned.off")
    (action,) = one.did(SetOptions)
    assert (action.options.learned_drafts, action.options.speculate) == ("off", speculate)


def test_words():
    assert learned_words(LEARNED) == "1,234 answers learned  ·  3.0 MiB on disk"
    assert learned_words(DraftsLearned(1, 9, 0)) == "1 answer learned"
    assert learned_words(DraftsLearned(0, 0, 1 << 20)) == "1.0 MiB on disk"


def test_the_source_is_told():
    stats = GenerationStats(drafted=5, accepted=3, drafted_by=(SourceDrafts("ngrams", 5, 3),))
    assert by_source(stats) == "3 of 5 by earlier answers"
