"""Versions of messages in an opened conversation, who wrote them, and a message that was found."""

from llm_lite.core.handles import Report
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    AnswerRun,
    ChatMessage,
    ExecutorChanged,
    Generate,
    Interventions,
    InterventionsSet,
    InterventionSwitch,
    ModelIdentity,
    SetInterventions,
    TokenDecoded,
    WeightSwitch,
)
from llm_lite.core.messages.interventions import Scale
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.message import writer
from llm_lite.desktop.features.chat.model import EditMessage, Regenerate
from llm_lite.desktop.features.chat.panels import other_writer
from llm_lite.desktop.features.history.model import Reveal
from llm_lite.desktop.features.program.apply import apply, fold
from llm_lite.desktop.features.program.model import OpenModel, SetOptions
from llm_lite.desktop.features.program.state import Message, Running
from llm_lite.desktop.features.tree.model import SwitchVersion
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import READY
from tests.desktop.history.test_conversations import TALK, TREE, WROTE


def test_a_question_has_versions_and_an_answer_can_be_asked_for_again(headless):
    one = headless(replace(READY, tree=TREE))
    one.driver.click("message.0.before")
    assert one.did(SwitchVersion) == [SwitchVersion(0, 0)]
    assert [m.text for m in one.state.messages] == ["First"]
    one.program.do(SwitchVersion(0, 1))
    one.driver.frames(2)
    one.driver.point("message.1")
    one.driver.click("message.1.edit")
    assert one.did(EditMessage) == [EditMessage(1)]
    assert one.state.draft == "Said."
    one.driver.point("message.1")
    one.driver.click("message.1.exactly")
    assert one.did(Regenerate) == [Regenerate(1, exactly=True)]


def test_an_answer_of_another_model_says_which_and_offers_it(headless):
    other = replace(WROTE, model=ModelIdentity("Another", "/models/another.gguf"))
    talk = (TALK[0], replace(TALK[1], written=other))
    one = headless(replace(READY, tree=ConversationTree(talk)))
    one.driver.click("message.1.exactly")
    assert not one.did(Regenerate)
    one.driver.click("chat.again.load")
    assert one.did(OpenModel) == [OpenModel("/models/another.gguf")]
    one = headless(
        replace(
            READY,
            tree=ConversationTree((TALK[0], replace(TALK[1], written=replace(WROTE, mode="int4")))),
        )
    )
    one.driver.click("message.1.exactly")
    one.driver.click("chat.again.load")
    assert one.did(SetOptions)[0].options.mode == "int4"


def test_an_answer_is_headed_by_what_wrote_it_and_by_nothing_else():
    """An imported one does not say, whatever model is loaded now."""
    other = replace(WROTE, model=ModelIdentity("Another", "/models/another.gguf"))
    assert writer(replace(TALK[1], written=other)) == "Another"
    assert writer(replace(TALK[1], written=None)) == "Assistant"
    assert (
        writer(replace(TALK[1], written=AnswerRun(), edited=True)) == "Assistant  ·  edited by you"
    )


def test_a_message_that_was_found_is_scrolled_to(headless):
    talk = tuple(
        Message("user" if n % 2 == 0 else "assistant", f"{n} " * 300, stop_reason="end")
        for n in range(20)
    )
    one = headless(replace(READY, tree=ConversationTree(talk)))
    assert not one.driver.shows("message.3")
    one.program.do(Reveal(talk[3].id))
    one.driver.frames(5)
    assert one.driver.shows("message.3")
    assert one.state.history.reveal is None


def test_a_switch_of_weights_in_an_answer_is_recorded_where_it_was():
    asked = Generate((ChatMessage("user", "hello"),))
    running = Running(asked, 0.0)
    answer = Message("assistant", "", written=AnswerRun.by(MODEL, EXECUTOR))
    talk = (Message("user", "hello"), answer)
    state = replace(READY, tree=ConversationTree(talk), running=running)

    def said(state, count):
        events = (TokenDecoded(n, "x", 1.0, n) for n in range(count))
        return fold([Report(event, asked) for event in events], state, 1.0)

    def switched(state, **changes):
        return apply(ExecutorChanged(replace(EXECUTOR, **changes), MODEL), state, 1.0)

    state = switched(said(state, 3), mode="int4")
    state = switched(said(switched(state, mode="int8"), 2), mode="int8", backend="vulkan")
    state = switched(said(state, 1), mode="int8", backend="vulkan", threads=2)
    (answer,) = state.messages[1:]
    assert answer.written.switches == (
        WeightSwitch(3, "int8", "a8", "cpu"),
        WeightSwitch(5, "int8", "a8", "vulkan"),
    )
    assert writer(answer) == f"{MODEL.name}  ·  int8 from token 4  ·  vulkan from token 6"
    assert "as-stored, a8; int8 from token 4" in other_writer(state, answer.written)


def test_interventions_in_an_answer_are_recorded_where_they_were_set():
    none, off = Interventions(), Interventions((Scale("layers.0.attention.heads", 0.0, 1),))
    old_name = Interventions((Scale("blocks.0.attn.hook_z", 0.0, 1),))

    def answered(*steps, own=None, written=none):
        """Say so many tokens, or set interventions: what was sent, and the engine's names of it."""
        asked = Generate((ChatMessage("user", "hello"),), interventions=own)
        run = AnswerRun.by(MODEL, EXECUTOR, interventions=written)
        talk = (Message("user", "hello"), Message("assistant", "", written=run))
        state = replace(READY, tree=ConversationTree(talk), running=Running(asked, 0.0))
        for step in steps:
            if isinstance(step, int):
                events = [Report(TokenDecoded(n, "x", 1.0, n), asked) for n in range(step)]
            else:
                sent, found = step
                known = replace(state.engine_interventions, sent=sent)
                state = replace(state, engine_interventions=known)
                events = [Report(InterventionsSet(found), SetInterventions(sent))]
            state = fold(events, state, 1.0)
        return state.messages[1]

    answer = answered(3, (off, off), 2, (none, none), 1)
    assert answer.written.interventions == none
    assert answer.written.intervention_switches == (
        InterventionSwitch(3, off),
        InterventionSwitch(5, none),
    )
    said = "1 head off from token 4  ·  nothing changed from token 6"
    assert writer(answer) == f"{MODEL.name}  ·  {said}"
    # Set again as it was before the next token came: nothing was computed under the other.
    assert answered(3, (off, off), (none, none), 1).written.intervention_switches == ()
    begun = answered((old_name, off), 3, written=old_name).written
    assert (begun.interventions, begun.intervention_switches) == (off, ())
    own = answered(3, (off, off), 2, own=none)  # which the chat's interventions leave alone
    assert own.written.intervention_switches == ()
