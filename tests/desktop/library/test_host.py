"""The host: what fails becomes a sentence, what changes is told, and no frame waits."""

import threading

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.messages.library import QueueState
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import (
    ImportLocal,
    PauseJob,
    ReadRepo,
    RemoveModels,
    SearchHub,
    SetSearch,
    ShowLibrary,
    VerifyModel,
)
from llm_lite.desktop.features.library.state import HubSearch
from llm_lite.desktop.features.program.notices import defects
from tests.children import PATIENCE
from tools.tour.example_models import FOUND, LOCAL, QUEUE, ExampleServices

HIDDEN = "\x1b[31mred\x1b[0m\nline"


def notices(one):
    return [notice.text for notice in one.state.notices]


def test_what_fails_is_a_sentence_where_it_belongs(library):
    class Failing(ExampleServices):
        def search(self, search):
            raise RequestError("the hub cannot be reached")

        def read(self, repo):
            raise RequestError(f"{repo} is not on the hub")

        def verify(self, model, stop):
            raise FileError(model.path, "is cut short")

        def import_model(self, path):
            raise FileError(path, "no such file")

        def queue(self, action):
            raise RequestError("the disk is full")

    one = library("find", services=Failing())
    one.program.do(SearchHub())
    one.driver.wait("the problem", lambda s: s.library.find_problem)
    assert one.state.library.find_problem == "the hub cannot be reached"
    assert one.state.library.searching is None
    one.program.state = replace(
        one.state, library=replace(one.state.library, repo="a/b", found=FOUND)
    )
    one.program.do(ReadRepo("a/b"))
    one.driver.wait("the problem", lambda s: s.library.repo_problem)
    assert one.state.library.repo_problem == "a/b is not on the hub"
    one.program.do(VerifyModel(LOCAL[0].name))
    one.driver.wait("the check", lambda s: LOCAL[0].name in s.library.checked)
    checked = one.state.library.checked[LOCAL[0].name]
    assert not checked.good and "is cut short" in checked.words
    one.program.do(ImportLocal("/nowhere/a.gguf"))
    one.driver.wait("a toast", lambda s: any("no such file" in n.text for n in s.notices))
    one.program.do(PauseJob("aaaa"))
    one.driver.wait("a toast", lambda s: any("disk is full" in n.text for n in s.notices))


def test_a_defect_is_reported_and_the_page_goes_on(library):
    class Broken(ExampleServices):
        def search(self, search):
            raise ZeroDivisionError("of a library")

    one = library("find", services=Broken())
    one.driver.tolerant = True
    one.program.do(SearchHub())
    one.driver.wait("the defect", lambda s: defects(s))
    assert one.state.library.searching is None
    one.driver.click("library.tab.local")
    assert one.driver.shows("library.filter")


def test_a_slow_hub_holds_up_neither_frames_nor_the_next_question(library):
    gate = threading.Event()

    class Slow(ExampleServices):
        def search(self, search):
            if search.words == "slow":
                gate.wait(PATIENCE)
            return super().search(search)

    one = library("find", services=Slow())
    one.program.do(SetSearch(HubSearch("slow")))
    one.program.do(SearchHub())
    one.driver.frames(3)
    assert one.state.library.searching == HubSearch("slow")
    one.program.do(SetSearch(HubSearch("fast")))
    one.program.do(SearchHub())
    one.driver.wait("the second", lambda s: s.library.found is not None)
    assert one.state.library.found_for.words == "fast"
    gate.set()
    one.driver.frames(5)
    assert one.state.library.found_for.words == "fast"


def test_what_a_job_has_made_is_in_the_list_without_asking(library):
    told = []

    class Telling(ExampleServices):
        def begin_queue(self, tell):
            told.append(tell)
            tell(self.jobs)

    one = library(services=Telling(LOCAL[:2]))
    one.services.models = LOCAL
    first = QUEUE.jobs[0]
    done = replace(first, stages=(replace(first.stages[0], state="done"),))
    told[0](QueueState((done, *QUEUE.jobs[1:]), True))
    one.driver.wait("the list", lambda s: len(s.library.local) == len(LOCAL))


def test_only_the_newest_of_many_states_of_the_queue_is_folded(library):
    told = []

    class Telling(ExampleServices):
        def begin_queue(self, tell):
            told.append(tell)
            tell(self.jobs)

    one = library(services=Telling())
    for count in range(5):
        told[0](QueueState(QUEUE.jobs[:count], True))
    one.driver.frames(1)
    assert one.state.library.jobs == QUEUE.jobs[:4]


def test_what_the_hub_says_is_made_fit_to_show(library):
    class Hostile(ExampleServices):
        def search(self, search):
            return (replace(FOUND[0], description=HIDDEN * 2000, licence=HIDDEN),)

    one = library("find", services=Hostile())
    one.program.do(SearchHub())
    one.driver.wait("it", lambda s: s.library.found)
    (model,) = one.state.library.found
    assert "\x1b" not in model.description + model.licence and len(model.description) <= 2000
    one.driver.frames(3)


def test_a_model_that_is_gone_meanwhile_is_a_sentence(library):
    one = library()
    one.program.do(RemoveModels(("not-there",)))
    assert any("not-there is not listed any more" in text for text in notices(one))


def test_the_queue_is_ended_with_the_program(library):
    one = library()
    one.program.hosts["library"].close()
    assert one.services.requests[-1] == "closed"


def test_showing_the_page_again_looks_again(library):
    one = library()
    one.services.models = LOCAL[:4]
    one.program.do(ShowLibrary(False))
    one.program.do(ShowLibrary(True))
    one.driver.wait("the list", lambda s: len(s.library.local) == 4)
