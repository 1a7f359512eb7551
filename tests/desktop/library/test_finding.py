"""Models of the hub: searched for, chosen and fetched with mouse and keyboard."""

from imgui_bundle import imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import (
    ChooseHubFile,
    ChooseRepo,
    FetchModel,
    ForgetFound,
    ReadRepo,
    SearchHub,
)
from llm_lite.desktop.features.library.state import HubSearch
from llm_lite.desktop.features.program.model import OpenLink, OpenModel
from llm_lite.desktop.language.incoming import fit_to_show
from tools.tour.example_models import CURATED, FOUND, LOCAL, ExampleServices


def test_nothing_is_asked_of_the_network_before_search_is_pressed(library):
    one = library("find")
    one.driver.click("library.words")
    one.driver.type("qwen3 4b")
    one.driver.click(f"library.card.{CURATED[0].repo}")
    one.driver.click("library.runnable")
    one.driver.frames(3)
    assert one.services.requests == []
    one.driver.click("library.search")
    one.driver.wait("what was found", lambda s: s.library.found is not None)
    assert one.services.requests == [HubSearch("qwen3 4b", runnable=False)]


def test_enter_searches_too(library):
    one = library("find")
    one.driver.click("library.words")
    one.driver.type("qwen3")
    one.driver.press(imgui.Key.enter)
    one.driver.wait("what was found", lambda s: s.library.found is not None)
    assert one.did(SearchHub)


def test_a_file_of_a_repository_is_chosen_and_fetched(found):
    one = found()
    model = FOUND[0]
    one.driver.click(f"library.card.{model.repo}")
    assert one.done == [ChooseRepo(model.repo), ReadRepo(model.repo)]
    one.driver.wait("the fits", lambda s: len(s.library.fits) == len(model.files))
    file = model.files[1]
    one.driver.click(f"library.file.{file.name}")
    assert one.done[-1] == ChooseHubFile(file.name)
    one.driver.click("library.download")
    wanted = FetchModel(model.repo, file.name, file.size)
    assert one.done[-1] == wanted and one.state.library.tab == "queue"
    one.driver.wait("the queue", lambda s: wanted in one.services.requests)


def test_a_file_is_fetched_and_quantized(found):
    one = found()
    model = FOUND[1]
    one.driver.click(f"library.card.{model.repo}")
    one.driver.wait("the fits", lambda s: s.library.fits)
    one.driver.frames(2)
    one.driver.click("library.fetch_quantize.open")
    one.driver.click("library.fetch_quantize.delete")
    one.driver.click("library.fetch_quantize.go")
    file = model.files[0]
    whole = (model.repo, file.name, file.size)
    assert one.done[-1] == FetchModel(*whole, "int4", True)


def test_what_a_page_says_of_a_model_is_shown_whole():
    """Its first paragraph is longer than a name may be."""
    words = "A model of few parameters that writes. " * 10
    assert fit_to_show(replace(FOUND[0], description=words)).description == words


def test_the_page_of_a_repository_is_opened_in_the_browser(found):
    one = found()
    gated = next(model for model in FOUND if model.gated)
    opened = []
    one.program.on_open_link = opened.append
    one.driver.click(f"library.card.{gated.repo}")
    one.driver.frames(2)
    one.driver.click("library.page")
    assert one.done[-1] == OpenLink(f"https://huggingface.co/{gated.repo}")
    one.driver.click("library.details.close")
    one.driver.click("library.curated")
    assert one.done[-1] == ForgetFound()


def test_the_short_list_is_fetched_without_asking_for_more(library):
    one = library("find")
    known = CURATED[0]
    one.driver.click(f"library.card.{known.repo}")
    one.driver.click("library.read")
    assert one.done[-1] == ReadRepo(known.repo)
    one.driver.click("library.download")
    assert one.done[-1] == FetchModel(known.repo, known.file, known.size)


def test_what_is_here_is_opened_and_what_is_on_its_way_is_not_fetched_again(found):
    model = FOUND[0]
    held = replace(LOCAL[6], repo=model.repo, path=LOCAL[6].path / model.files[2].name)
    one = found(services=ExampleServices((*LOCAL, held)))
    one.driver.click(f"library.card.{model.repo}")
    one.driver.frames(2)
    one.driver.click(f"library.file.{model.files[0].name}")
    one.driver.click("library.download")
    assert not one.did(FetchModel)  # the example's queue fetches it already
    one.driver.click(f"library.file.{model.files[2].name}")
    one.driver.click("library.open_here")
    assert one.done[-1] == OpenModel(str(held.path))
