"""The whole interface, clicked and typed into through ImGui's input queue."""

from itertools import pairwise
from pathlib import Path

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import Cancel, Generate
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import Send, StopAnswer
from llm_lite.desktop.features.chat.places import Scroll, Stack
from llm_lite.desktop.features.library.model import ListModels, TellModels
from llm_lite.desktop.features.program.model import CancelLoading, ChooseFile, OpenModel
from llm_lite.desktop.features.program.rail import PANELS, icon_style
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, Load, Message, Notice, Running
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from tests.desktop.engine.answers import ANSWER
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY, sent
from tools.tour.example_models import LOCAL
from tools.tour.input_driver import InputDriverError

KEY = imgui.Key
OPENERS = [(p.opener, p.name) for p in PANELS] + [("status.executor", "executor")]


def with_engine(one, delay=0.0):
    engine = ScriptedEngine(delay)
    one.program.start(engine)
    return engine


def test_every_view_and_popover_is_shown(headless):
    one = headless()
    for view in VIEWS[1:]:
        if view.place == "beside":
            continue
        one.driver.click(f"tab.{view.name}")
        assert one.driver.shows(f"view.{view.name}")
    one.driver.click("layout.compare")
    assert one.driver.shows("view.runs")
    one.driver.click("layout.inspect")
    for opener, name in OPENERS:
        one.driver.click(opener)
        assert one.driver.shows(name)
        one.driver.press(KEY.escape)
        one.driver.frames(1)
        assert not one.driver.shows(name)


def test_popovers_stay_inside_a_small_window(headless):
    one = headless(size=(640, 400))
    for opener, name in OPENERS:
        one.driver.click(opener)
        one.driver.frames(3)
        x0, y0, x1, y1 = one.driver.rect(name)
        assert 0 <= x0 < x1 <= 640, name
        assert 0 <= y0 < y1 <= 400, name
        one.driver.press(KEY.escape)


@pytest.mark.parametrize(("font", "size"), [(26, (1300, 800)), (26, (900, 600)), (15, (900, 420))])
def test_buttons_of_the_rail_never_lie_on_each_other(headless, font, size):
    one = headless(replace(READY, font_size=font), size=size)
    rail = sorted(rect for name, rect in one.ui.rects.items() if name.startswith("rail."))
    assert len(rail) == len(PANELS) + 5
    for above, below in pairwise(sorted(rail, key=lambda rect: rect[1])):
        assert above[3] <= below[1] + 0.5
    assert max(rect[3] for rect in rail) <= one.ui.rects["status.executor"][1] + 0.5
    side = rail[0][3] - rail[0][1]
    assert one.ui.theme.size(icon_style(one.ui, side)) <= side, "icons are not cut"


@pytest.mark.parametrize("key", [KEY._1, KEY._2, KEY._3])
@pytest.mark.parametrize("size", [(1300, 800), (900, 600), (1920, 1080)])
def test_notices_never_lie_over_the_input(headless, size, key):
    notices = tuple(Notice(n, "info", "Undone: a fork.", 1e12, undo=n == 1) for n in (1, 2))
    one = headless(replace(READY, notices=notices), size=size)
    one.driver.press(KEY.mod_ctrl, key)
    one.driver.frames(5)
    send = one.driver.rect("chat.send")
    for number in (1, 2):
        x0, y0, x1, y1 = one.driver.rect(f"notice.{number}")
        assert min(x0, y0) >= 0 and x1 <= size[0] and y1 <= size[1]
        assert x0 >= send[2] or y1 <= send[1]


def test_the_model_has_its_whole_name_where_there_is_room(headless):
    """In an empty chat nothing stands between it and the layouts."""
    message = Message("user", "Where is rain?")
    widths, model = [], replace(MODEL, name="A long name " * 12)
    for messages in ((), (message,)):
        one = headless(
            replace(READY, tree=ConversationTree(messages), model=model), size=(1000, 800)
        )
        one.driver.frames(3)
        x0, _, x1, _ = one.driver.rect("chat.model")
        assert x1 < one.driver.rect("layout.read")[0]
        widths.append(x1 - x0)
    assert widths[0] > widths[1] + 20


def test_the_default_layout_puts_everything_in_its_place(headless):
    one = headless()
    names = ("conversations", "chat", "attention", "performance")
    listed, chat, attention, log = (one.driver.rect(f"view.{name}") for name in names)
    assert listed[0] == pytest.approx(one.driver.rect("rail.library")[2], abs=16)
    assert listed[2] <= chat[0]
    assert 0.14 * 1280 < listed[2] - listed[0] < 0.2 * 1280
    assert chat[2] <= attention[0]
    assert attention[3] <= log[1]
    assert log[3] <= one.driver.rect("status.executor")[1] + 4
    assert chat[2] - chat[0] > 0.42 * 1280
    one.driver.click("rail.conversations")
    assert not one.driver.shows("view.conversations")
    assert one.driver.rect("view.chat")[0] == pytest.approx(listed[0], abs=4)


def test_a_narrow_window_has_no_list_until_it_is_asked_for(headless):
    one = headless(size=(1000, 700))
    assert not one.driver.shows("view.conversations")
    one.driver.press(KEY.mod_ctrl, KEY.b)
    assert one.driver.shows("view.conversations")


def test_panels_keep_their_share_on_a_denser_screen(headless):
    one = headless()
    share = one.driver.rect("view.attention")[0] / 1280
    imgui.get_io().display_size = imgui.ImVec2(2560, 1440)
    one.program.interface.scale = 2.0
    one.driver.frames(4)
    assert one.driver.rect("view.attention")[0] / 2560 == pytest.approx(share, abs=0.01)


def test_layout_is_remembered_and_reset(headless):
    first = headless()
    first.driver.click("tab.log")
    text = imgui.save_ini_settings_to_memory()
    first.driver.frames(1)
    second = headless(settings=Settings(layout=text, layout_version=1))
    assert second.driver.shows("view.log")
    second.program.interface.reset_layout()
    second.driver.frames(3)
    assert second.driver.shows("view.attention")


@pytest.mark.parametrize(
    "text", ["[Docking][Data]\nDockSpace ID=zz\n", "nonsense", "[Window][chat\n"]
)
def test_broken_layout_text_still_shows_the_chat(headless, text):
    one = headless(settings=Settings(layout=text, layout_version=1))
    assert one.driver.shows("chat.input")


def test_typing_and_enter_sends(headless):
    one = headless()
    one.driver.click("chat.input")
    one.driver.type("héllo 안녕 😀")
    one.driver.press(KEY.enter)
    assert one.did(Send) == [Send("héllo 안녕 😀")]
    assert one.state.draft == ""
    one.driver.type("next")
    assert one.state.draft == "next"


def test_a_person_can_write_without_clicking_first(headless):
    one = headless(replace(READY, model=None))
    one.program.state = replace(one.program.state, model=READY.model)
    one.driver.frames(3)
    one.driver.type("hello")
    assert one.state.draft == "hello"
    one.driver.press(KEY.enter)
    one.driver.click("rail.new_chat")
    one.driver.type("again")
    assert one.state.draft == "again"


def test_shift_enter_breaks_the_line_and_the_input_grows(headless):
    one = headless()
    one.driver.click("chat.input")
    low = one.driver.rect("chat.input")
    one.driver.type("one")
    one.driver.press(KEY.mod_shift, KEY.enter)
    one.driver.type("two")
    assert one.state.draft == "one\ntwo"
    assert not one.did(Send)
    high = one.driver.rect("chat.input")
    assert high[3] - high[1] > low[3] - low[1]


def test_a_long_text_does_not_grow_the_input_without_end(headless):
    one = headless(replace(READY, draft="line\n" * 200))
    _, y0, _, y1 = one.driver.rect("chat.input")
    assert y1 - y0 < 200
    assert y0 > 300


def test_escape_stops_and_keeps_the_text(headless):
    one = headless()
    engine = with_engine(one, delay=0.05)
    one.driver.click("chat.input")
    one.driver.type("first")
    one.driver.press(KEY.enter)
    one.driver.type("second, half")
    one.driver.press(KEY.escape)
    assert one.did(StopAnswer)
    assert one.state.draft == "second, half"
    one.driver.wait("the end", lambda s: not s.busy)
    assert one.state.messages[-1].stop_reason == "stopped"
    one.driver.type(" written")
    assert one.state.draft == "second, half written"
    asked, stop = engine.commands[:2]
    assert isinstance(stop, Cancel) and stop.command is asked
    assert sent(engine, Generate) == [asked]


def test_enter_while_an_answer_runs_is_refused_and_loses_nothing(headless):
    one = headless(
        replace(
            READY,
            running=Running(Generate(()), 0.0),
            tree=ConversationTree((Message("user", "q"),)),
        )
    )
    one.driver.click("chat.input")
    one.driver.type("too early")
    one.driver.press(KEY.enter)
    assert one.state.draft == "too early"
    assert "being written" in one.state.notices[-1].text
    one.driver.frames(2)
    one.driver.type("!")
    assert one.state.draft == "too early!"


def test_whole_conversation_with_the_mouse(headless):
    one = headless(AppState())
    engine = with_engine(one)
    one.driver.click("chat.load_default")
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.frames(2)
    one.driver.click("example.0")
    one.driver.wait("the answer", lambda s: not s.busy)
    assert one.state.messages[-1].text == ANSWER
    one.driver.frames(3)
    one.driver.click("chat.regenerate")
    one.driver.wait("the second answer", lambda s: not s.busy and len(sent(engine, Generate)) == 2)
    one.driver.frames(3)
    one.driver.click("chat.continue")
    one.driver.wait("the continuation", lambda s: not s.busy and len(sent(engine, Generate)) == 3)
    assert one.state.messages[-1].text == ANSWER * 2
    one.driver.frames(3)
    one.driver.click("message.1.copy")
    assert imgui.get_clipboard_text() == ANSWER * 2
    one.driver.click("rail.new_chat")
    assert one.state.messages == ()


def test_edit_of_an_earlier_message(headless):
    messages = (Message("user", "first"), Message("assistant", "yes", stop_reason="end"))
    one = headless(replace(READY, tree=ConversationTree(messages)))
    one.driver.point("message.0")
    one.driver.frames(2)
    one.driver.click("message.0.edit")
    assert (one.state.draft, one.state.editing) == ("first", 0)
    one.driver.frames(2)
    one.driver.press(KEY.escape)
    assert (one.state.draft, one.state.editing) == ("", None)


def test_a_load_can_be_cancelled_with_the_conversation_in_sight(headless):
    messages = (Message("user", "first"), Message("assistant", "yes", stop_reason="end"))
    one = headless(
        replace(READY, tree=ConversationTree(messages), load=Load("x.gguf", "reading", 0.4))
    )
    assert one.driver.shows("chat.loading")
    one.driver.click("chat.cancel_load")
    assert one.did(CancelLoading)
    assert one.state.load.cancelling


def test_shortcuts(headless):
    one = headless(replace(READY, tree=ConversationTree((Message("user", "q"),))))
    one.driver.click("chat.input")
    one.driver.press(KEY.mod_ctrl, KEY.equal)
    assert one.state.font_size == 16.0
    one.driver.press(KEY.mod_ctrl, KEY.minus)
    assert one.state.font_size == 15.0
    one.driver.press(KEY.mod_ctrl, KEY.o)
    assert one.did(ChooseFile)
    one.driver.press(KEY.escape)  # the window's own chooser, where the system has no dialog
    one.driver.press(KEY.mod_ctrl, KEY.n)
    assert one.state.messages == ()
    one.driver.press(KEY.mod_ctrl, KEY.comma)
    assert one.driver.shows("settings")


def test_model_path_can_be_typed(headless):
    one = headless(AppState())
    one.driver.click("chat.model")
    one.driver.click("models.path")
    one.driver.type("/some/model.gguf")
    one.driver.press(KEY.enter)
    assert one.did(OpenModel) == [OpenModel("/some/model.gguf")]


def test_the_models_of_this_machine_are_chosen_by_name(headless):
    """All that run, but for those that are listed above; a few at once."""
    models = tuple(
        replace(LOCAL[0], name=f"model {n}", path=Path(f"/models/{n}.gguf"), problem="")
        for n in range(12)
    )
    broken = replace(models[0], name="broken", path=Path("/models/b.gguf"), problem="is cut short")
    one = headless(replace(READY, recent=("/models/0.gguf",)), size=(1280, 1200))
    one.driver.click("chat.model")
    assert one.did(ListModels) and not one.driver.shows("models.local.0")
    one.program.do(TellModels((*models, broken), None))
    one.driver.frames(3)
    assert sum(name.startswith("models.local.") for name in one.ui.rects) == 5
    one.driver.click("models.search")
    one.driver.type("model 1")
    one.driver.frames(3)
    assert sum(name.startswith("models.local.") for name in one.ui.rects) == 3  # 1, 10 and 11
    one.driver.click("models.local.2")
    assert one.did(OpenModel) == [OpenModel("/models/11.gguf")]


def test_sampler_sliders_change_the_sampling(headless):
    one = headless()
    one.driver.click("rail.sampler")
    one.driver.click("sampler.temperature")
    assert one.state.sampling.temperature == pytest.approx(1.02, abs=0.1)
    one.driver.click("sampler.greedy")
    assert one.state.sampling.temperature == 0.0
    one.driver.frames(2)  # the panel is another height now, and moves to stay in the window
    one.driver.click("sampler.defaults")
    assert one.state.sampling == AppState().sampling


def test_following_the_answer_ends_when_the_person_scrolls_up(headless):
    messages = tuple(
        Message("user" if n % 2 == 0 else "assistant", ANSWER, stop_reason="end") for n in range(20)
    )
    one = headless(replace(READY, tree=ConversationTree(messages)))
    assert one.ui.local(Scroll).follows_end
    assert not one.driver.shows("chat.jump")
    one.driver.point("view.chat")
    one.driver.wheel(5.0)
    one.driver.frames(3)
    assert not one.ui.local(Scroll).follows_end
    one.driver.click("chat.jump")
    assert one.ui.local(Scroll).follows_end


def test_long_conversation_draws_only_what_is_in_sight(headless):
    messages = tuple(
        Message("user" if n % 2 == 0 else "assistant", f"{n} {ANSWER}", stop_reason="end")
        for n in range(200)
    )
    one = headless(replace(READY, tree=ConversationTree(messages)))
    while one.ui.local(Stack).measuring:
        one.driver.frames(1)
    shown = [name for name in one.ui.rects if name.startswith("message.") and name.count(".") == 1]
    assert 1 <= len(shown) <= 4
    assert "message.199" in shown
    pages = len(rich_text(one.ui)._pages)
    one.driver.frames(5)
    assert len(rich_text(one.ui)._pages) == pages


def test_while_an_answer_is_written_only_its_last_block_is_laid_out(headless, monkeypatch):
    import llm_lite.desktop.widgets.markdown.rich_text as rich_text

    head = "\n\n".join(f"Paragraph {n} of many words." for n in range(50))
    state = replace(READY, running=Running(Generate(()), 0.0, "decode"))
    one = headless(
        replace(state, tree=ConversationTree((Message("user", "q"), Message("assistant", head))))
    )
    laid, lay_out = [], rich_text.lay_out
    monkeypatch.setattr(rich_text, "lay_out", lambda *args: laid.append(args[1]) or lay_out(*args))
    one.program.state = replace(
        one.state,
        tree=ConversationTree((Message("user", "q"), Message("assistant", head + " More"))),
    )
    one.driver.frames(1)
    assert len(laid) == 1


def test_the_driver_says_what_is_missing(headless):
    one = headless()
    with pytest.raises(InputDriverError, match="nothing called 'no such thing'"):
        one.driver.click("no such thing")
    with pytest.raises(InputDriverError, match="waited 0 s for the moon"):
        one.driver.wait("the moon", lambda s: False, 0.0)
