"""The page with mouse and keyboard: the ways to it, and what is done with the machine's models."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import LoadModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.library import host
from llm_lite.desktop.features.library.local import LocalControls, rows_of
from llm_lite.desktop.features.library.model import (
    ChooseImport,
    ChooseLocal,
    ChooseRepo,
    ImportLocal,
    ListModels,
    QuantizeModel,
    RemoveModels,
    RevealModel,
    SetFitOptions,
    ShowLibrary,
    SliceModel,
    VerifyModel,
)
from llm_lite.desktop.features.library.view import OpenPopup
from llm_lite.desktop.features.program.model import OpenModel, SetFontSize
from llm_lite.desktop.features.program.state import AppState
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.headless import READY, sent
from tools.tour.example_models import FOUND, LOCAL, ExampleServices
from tools.tour.scenes.library import look_at_library

QWEN = "qwen3-4b-instruct"


def path_of(name):
    return str(next(model.path for model in LOCAL if model.name == name))


@pytest.mark.parametrize("way", ["rail", "menu", "keys", "palette"])
def test_there_are_four_ways_to_it_and_back(headless, way):
    one = headless(READY)
    one.program.use("library", host.LibraryHost(ExampleServices(), lambda: None))
    if way == "rail":
        one.driver.click("rail.library")
    elif way == "menu":
        one.driver.click("chat.model")
        one.driver.click("models.manage")
    elif way == "keys":
        one.driver.press(imgui.Key.mod_ctrl, imgui.Key.mod_shift, imgui.Key.m)
    else:
        one.driver.press(imgui.Key.mod_ctrl, imgui.Key.k)
        one.driver.type("manage models")
        one.driver.press(imgui.Key.enter)
    one.driver.wait("the list", lambda s: s.library.local)
    one.driver.frames(2)
    assert one.driver.shows("library.tab.local") and not one.driver.shows("chat.input")
    if way == "rail":
        one.driver.click("rail.library")
    elif way == "menu":
        one.driver.click("library.close")
    else:
        one.driver.press(imgui.Key.escape)
    one.driver.frames(3)
    assert one.driver.shows("chat.input") and not one.driver.shows("library.tab.local")


def test_a_model_is_opened_and_the_conversation_is_there(library):
    one, engine = library(), ScriptedEngine(0.0)
    one.program.start(engine)
    one.driver.click(f"library.local.{QWEN}-int4")
    one.driver.click("library.open")
    assert one.done[-1] == OpenModel(path_of(f"{QWEN}-int4"))
    one.driver.frames(3)
    assert sent(engine, LoadModel)[0].source == path_of(f"{QWEN}-int4")
    assert one.driver.shows("chat.model")


def test_what_is_in_use_or_broken_is_not_opened(library):
    one = library()
    for name in (LOCAL[0].name, "granite-3.3-2b-instruct", "nomic-embed-text-v1.5"):
        one.program.do(ChooseLocal(name))
        one.driver.frames(3)
        one.driver.click("library.open")
    assert not one.did(OpenModel)


def test_what_can_be_done_with_a_local_model(library, monkeypatch):
    shown = []
    monkeypatch.setattr(host, "reveal", shown.append)
    one = library()
    one.driver.click(f"library.local.{QWEN}")
    one.driver.click("library.verify")
    one.driver.wait("the verification", lambda s: QWEN in s.library.checked)
    one.driver.click("library.copy")
    assert imgui.get_clipboard_text() == path_of(QWEN)
    one.driver.click("library.reveal")
    assert one.done[1:] == [VerifyModel(QWEN), RevealModel(path_of(QWEN))]
    assert [str(path) for path in shown] == [path_of(QWEN)]


def test_a_model_is_quantized_and_its_source_may_go(library):
    one = library()
    one.driver.click(f"library.local.{QWEN}")
    one.driver.click("library.quantize.open")
    one.driver.click("library.quantize.mode.int8")
    one.driver.click("library.quantize.delete")
    one.driver.click("library.quantize.go")
    wanted = QuantizeModel(QWEN, "int8", True)
    assert one.done[-1] == wanted and one.state.library.tab == "queue"
    one.driver.wait("the queue", lambda s: wanted in one.services.requests)


def test_only_gemma_3n_s_e4b_is_sliced(library):
    one = library()
    one.driver.click(f"library.local.{QWEN}")
    assert not one.driver.shows("library.slice")
    one.driver.click("library.local.gemma-3n-e4b-it")
    one.driver.click("library.slice")
    assert one.done[-1] == SliceModel("gemma-3n-e4b-it")


@pytest.mark.parametrize(("row", "names"), [
    (0, (QWEN,)),
    (1, (f"{QWEN}-int4", f"{QWEN}-int8")),
    (2, (QWEN, f"{QWEN}-int4", f"{QWEN}-int8")),
])  # fmt: skip
def test_deleting_says_what_each_choice_frees(library, row, names):
    one = library()
    one.driver.click(f"library.local.{QWEN}")
    one.driver.click("library.remove.open")
    one.driver.wait("the sizes", lambda s: s.library.removal is not None)
    freed = one.state.library.removal[names].freed
    assert freed == sum(model.size for model in LOCAL if model.name in names)
    one.driver.click(f"library.remove.{row}")
    assert one.done[-1] == RemoveModels(names) and one.state.library.tab == "queue"


def test_what_cannot_be_deleted_says_why(library):
    class Refusing(ExampleServices):
        def weigh(self, models):
            raise host.RequestError(f"{models[0].name} is Ollama's")

    one = library(services=Refusing())
    one.driver.click("library.local.phi4-mini")
    one.driver.click("library.remove.open")
    one.driver.wait("why not", lambda s: s.library.removal is not None)
    one.driver.frames(2)
    one.driver.click("library.remove.0")
    assert not one.did(RemoveModels)
    assert one.state.library.removal[("phi4-mini",)].problem == "phi4-mini is Ollama's"


def test_a_path_is_imported_and_a_file_can_be_chosen(library):
    one = library()
    one.driver.click("library.import.open")
    one.driver.click("library.import.path")
    one.driver.type("/data/a model.gguf")
    one.driver.click("library.import.add")
    assert one.did(ImportLocal) == [ImportLocal("/data/a model.gguf")]
    one.driver.wait("it", lambda s: s.library.chosen == LOCAL[0].name)
    one.driver.click("library.import.open")
    one.driver.click("library.import.choose")
    assert one.did(ChooseImport)


def test_another_tab_looks_for_nothing(library):
    one = library()
    for tab in ("find", "queue", "local"):
        one.driver.click(f"library.tab.{tab}")
        assert one.state.library.tab == tab and not one.state.library.listing


def test_the_list_is_looked_through_again(library):
    one = library()
    one.services.models = LOCAL[:3]
    one.driver.click("library.refresh")
    assert one.did(ListModels)
    one.driver.wait("the list", lambda s: len(s.library.local) == 3)


def test_the_filter_finds_by_every_word_and_keeps_sources(library):
    one = library()
    one.driver.click("library.filter")
    one.driver.type("QWEN int4")
    one.driver.frames(2)
    rows = [name for name in one.ui.rects if name.startswith("library.local.")]
    assert rows == [f"library.local.{QWEN}", f"library.local.{QWEN}-int4"]


@pytest.mark.parametrize("column", ["name", "format", "size", "context", "licence", "place"])
def test_rows_are_sorted_by_a_column_with_variants_below_their_source(library, column):
    one = library()
    one.driver.click(f"library.by.{column}")
    names = [row.model.name for row in rows_of(LOCAL, "", column, column in ("size", "context"))]
    rows = sorted((r[1], n) for n, r in one.ui.rects.items() if n.startswith("library.local."))
    if column != "name":  # which is the order from the beginning, turned round by the click
        assert [name.removeprefix("library.local.") for _, name in rows] == names
    at = names.index(QWEN)
    assert set(names[at + 1 : at + 3]) == {f"{QWEN}-int4", f"{QWEN}-int8"}
    assert sorted(names) == sorted(model.name for model in LOCAL)


def test_models_that_say_they_are_made_of_each_other_are_listed_all_the_same():
    one, other = (replace(LOCAL[1], name=name) for name in "ab")
    circle = (replace(one, made_of="b"), replace(other, made_of="a"))
    itself = (replace(one, made_of="a"),)
    assert [row.model.name for row in rows_of(circle, "", "name", False)] == ["a", "b"]
    assert [row.model.name for row in rows_of(itself, "", "name", False)] == ["a"]


def test_the_fit_is_told_for_the_mode_and_the_context_that_are_chosen(library):
    one = library()
    one.driver.click(f"library.local.{QWEN}")
    one.driver.wait("the fit", lambda s: s.library.fits)
    one.driver.frames(2)
    assert one.driver.shows("library.fit")
    one.driver.click("library.fit.mode.int4")
    assert one.done[-1] == SetFitOptions("int4", 4096)
    one.driver.click("library.fit.context")
    one.driver.click("library.fit.context.8192")
    assert one.done[-1] == SetFitOptions("int4", 8192)
    one.driver.wait("the fit", lambda s: any(q.context == 8192 for q in s.library.fits))


def test_escape_closes_a_panel_and_not_the_page(library):
    one = library()
    one.driver.click(f"library.local.{QWEN}")
    one.driver.click("library.remove.open")
    one.driver.frames(2)
    assert imgui_popup_open(one)
    one.driver.press(imgui.Key.escape)
    one.driver.frames(3)
    assert one.state.library.shown and not imgui_popup_open(one)
    one.driver.press(imgui.Key.escape)
    one.driver.frames(2)
    assert not one.state.library.shown


def imgui_popup_open(one):
    return one.ui.local(OpenPopup).shown


def test_keys_go_through_the_rows(library):
    one = library()
    one.driver.click("library.filter")
    for _ in range(3):
        one.driver.press(imgui.Key.tab)
    for _ in range(2):
        one.driver.press(imgui.Key.down_arrow)
    one.driver.press(imgui.Key.space)
    assert one.did(ChooseLocal), one.done
    one.driver.press(imgui.Key.escape)
    one.driver.frames(2)
    assert not one.state.library.shown


@pytest.mark.parametrize("font", [10, 15, 32])
def test_every_tab_is_drawn_at_every_size_of_text(found, font):
    one = found(size=(1280, 800))
    one.program.do(SetFontSize(font))
    one.driver.frames(3)
    for tab in ("local", "find", "queue"):
        one.driver.click(f"library.tab.{tab}")
        one.driver.frames(2)
        one.program.do(ChooseLocal(QWEN))
        one.program.do(ChooseRepo(FOUND[0].repo))
        one.driver.frames(3)
        for name, (x0, _, x1, _) in one.ui.rects.items():
            if name.startswith("library."):
                assert x0 >= -1 and x1 <= 1281, name


def test_many_models_and_results_cost_a_frame_no_more_than_what_is_in_sight(found):
    many = tuple(replace(LOCAL[1], name=f"model-{n:03}", made_of="") for n in range(500))
    results = tuple(replace(FOUND[0], repo=f"owner/model-{n:03}") for n in range(200))

    class Many(ExampleServices):
        def search(self, search):
            return results

    one = found(services=Many(many))
    drawn = [name for name in one.ui.rects if name.startswith("library.card.")]
    assert 3 < len(drawn) < 20
    one.driver.click("library.tab.local")
    one.driver.frames(2)
    drawn = [name for name in one.ui.rects if name.startswith("library.local.")]
    assert 10 < len(drawn) < 40
    listing = one.ui.local(LocalControls).listing
    one.driver.frames(3)
    assert one.ui.local(LocalControls).listing is listing  # made once, not in each frame


def test_an_empty_machine_shows_the_way_to_find_models(headless):
    one = headless(AppState(), size=(1280, 800))
    one.program.use("library", host.LibraryHost(ExampleServices(()), lambda: None))
    one.program.do(ShowLibrary(True, "local"))
    one.driver.wait("the list", lambda s: s.library.local == ())
    one.driver.frames(2)
    one.driver.click("library.find_some")
    assert one.state.library.tab == "find"


def test_the_tour_goes_through_the_page_and_leaves_nothing(headless):
    one, pictures = headless(READY, size=(1280, 720)), []
    before = one.state
    look_at_library(one.driver, pictures.append, "models")
    assert len(pictures) == len(set(pictures)) == 9
    assert "library" not in one.program.hosts and one.state.library == before.library
    assert one.driver.shows("chat.input")
