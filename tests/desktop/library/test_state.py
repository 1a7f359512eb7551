"""What the page knows, as pure functions."""

from llm_lite.core.messages import MODES, EngineOptions
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.layouts.model import KeepSizes, UseLayout
from llm_lite.desktop.features.layouts.state import Sizes
from llm_lite.desktop.features.library.model import (
    ChooseLocal,
    ChooseRepo,
    ForgetFound,
    ReadRepo,
    SearchHub,
    SetFitOptions,
    SetSearch,
    ShowLibrary,
    TellCurated,
    TellFits,
    TellFound,
    TellModels,
    TellRepo,
    TellVerified,
    with_library,
)
from llm_lite.desktop.features.library.state import (
    MOST_CHECKED,
    MOST_FITS,
    Checked,
    FitAnswer,
    FitQuestion,
    HubSearch,
    LibraryState,
    fit_of_file,
    modes_of,
    recommended,
    removal_choices,
    wanted_fits,
)
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.state import AppState
from tools.tour.example_models import CURATED, FOUND, LOCAL, fit_of

SHOWN = AppState(library=LibraryState(shown=True))
WORDS = HubSearch("qwen3")

OPTIONS = EngineOptions()


def did(state, *actions):
    for action in actions:
        state, commands = act(action, state, 1.0)
        assert commands == ()
    return state


def listed(state=SHOWN):
    return did(state, TellModels(LOCAL, 5 << 30))


def searched(state=SHOWN):
    return did(state, SetSearch(WORDS), SearchHub(), TellFound(WORDS, FOUND))


def test_a_list_that_cannot_be_read_leaves_the_one_before():
    state = did(listed(), TellModels((), None, "a folder: cannot be read"))
    assert state.library.local == LOCAL
    assert state.library.list_problem == "a folder: cannot be read"
    assert did(state, TellModels(LOCAL[:1], None)).library.list_problem == ""


def test_what_is_gone_is_not_chosen_and_not_checked():
    name = LOCAL[1].name
    state = did(listed(), ChooseLocal(name), TellVerified(name, True, "sound"))
    assert state.library.checked[name] == Checked(True, "sound") and state.library.checking == ""
    state = did(state, TellModels(LOCAL[:1], None))
    assert state.library.chosen == "" and not state.library.checked


def test_an_answer_to_an_older_search_is_not_shown():
    later = HubSearch("gemma")
    state = did(SHOWN, SetSearch(WORDS), SearchHub(), SetSearch(later), SearchHub())
    state = did(state, TellFound(WORDS, FOUND))
    assert state.library.found is None and state.library.searching == later
    state = did(state, TellFound(later, FOUND[:1]))
    assert state.library.found == FOUND[:1] and state.library.searching is None


def test_a_search_that_fails_keeps_what_was_found():
    state = did(searched(), SearchHub(), TellFound(WORDS, (), "the hub cannot be reached"))
    assert state.library.found == FOUND
    assert state.library.find_problem == "the hub cannot be reached"


def test_the_short_list_comes_back():
    state = did(searched(), TellCurated(CURATED, "https://hub"), ChooseRepo(FOUND[0].repo))
    state = did(state, ForgetFound())
    assert state.library.found is None and state.library.repo == ""


def test_a_repository_that_is_read_is_known_best():
    better = replace(FOUND[1], description="More.")
    state = did(searched(), ChooseRepo(better.repo), ReadRepo(better.repo))
    assert state.library.opening == better.repo
    state = did(state, TellRepo(better.repo, better))
    assert state.library.hub_model(better.repo) == better and state.library.opening == ""


def test_what_keeps_a_repository_from_being_read_is_told_where_it_is_shown():
    state = did(searched(), ChooseRepo("a/b"), ReadRepo("a/b"), TellRepo("a/b", None, "is gone"))
    assert state.library.repo_problem == "is gone"
    state = did(state, ChooseRepo("c/d"), TellRepo("a/b", None, "is gone"))
    assert state.library.repo_problem == ""


def test_a_fit_is_asked_for_a_context_that_the_model_has():
    small = replace(LOCAL[1], context=256)
    shown = did(listed(), ChooseLocal(small.name))
    state = with_library(shown, local=(LOCAL[0], small))
    assert {q.context for q in wanted_fits(state.library, OPTIONS)} == {256}
    unknown = with_library(shown, local=(LOCAL[0], replace(small, context=0)))
    assert {q.context for q in wanted_fits(unknown.library, OPTIONS)} == {4096}


def test_fits_are_wanted_of_what_is_shown_and_only_once():
    state = did(listed(), ChooseLocal(LOCAL[1].name))
    questions = wanted_fits(state.library, OPTIONS)
    assert questions[0] == FitQuestion(
        LOCAL[1].name, "", "", replace(OPTIONS, mode="as-stored", context=4096)
    )
    assert [question.mode for question in questions] == list(MODES)
    state = did(state, TellFits(dict.fromkeys(questions, FitAnswer(None, "unknown"))))
    assert wanted_fits(state.library, OPTIONS) == ()
    other = replace(OPTIONS, backend="vulkan", keys="int8")
    assert wanted_fits(state.library, other), "they take other memory, elsewhere"
    assert wanted_fits(did(state, SetFitOptions("int4", 4096)).library, OPTIONS) == ()
    state = did(state, SetFitOptions("int4", 8192))
    assert {q.context for q in wanted_fits(state.library, OPTIONS)} == {8192}
    assert wanted_fits(state.library, OPTIONS)[0].mode == "int4"
    assert wanted_fits(did(state, ShowLibrary(False)).library, OPTIONS) == ()


def test_no_fit_is_wanted_of_what_cannot_run():
    for model in LOCAL:
        if model.problem or not model.runnable:
            assert wanted_fits(did(listed(), ChooseLocal(model.name)).library, OPTIONS) == ()
    state = did(searched(), ShowLibrary(True, "find"), ChooseRepo("Qwen/Qwen3-VL-4B-Instruct"))
    assert wanted_fits(state.library, OPTIONS) == ()


def test_the_largest_file_that_fits_is_recommended():
    model = FOUND[0]
    state = did(searched(), ShowLibrary(True, "find"), ChooseRepo(model.repo))
    assert recommended(state.library, OPTIONS, model) is None  # nobody knows yet
    sizes = {file.name: file.size for file in model.files}
    told = {
        q: FitAnswer(fit_of(sizes[q.file], model.parameters, q))
        for q in wanted_fits(state.library, OPTIONS)
    }
    assert len(told) == len(model.files)
    state = did(state, TellFits(told))
    best = recommended(state.library, OPTIONS, model)
    others = [file for file in model.files if file.size > best.size]
    assert best.format == "Q8_0" and others
    for file in others:
        assert not state.library.fits[
            fit_of_file(state.library, OPTIONS, model.repo, file)
        ].fit.fits


def test_the_mode_to_take_is_told_once_all_are_known():
    state = did(listed(), ChooseLocal(LOCAL[1].name))
    told = {
        q: FitAnswer(fit_of(LOCAL[1].size, LOCAL[1].parameters, q))
        for q in wanted_fits(state.library, OPTIONS)
    }
    some = dict(list(told.items())[:3])
    assert modes_of(did(state, TellFits(some)).library, OPTIONS, LOCAL[1].name)[1] is None
    fits, best = modes_of(did(state, TellFits(told)).library, OPTIONS, LOCAL[1].name)
    assert set(fits) == set(MODES) and best == "int8"  # fp16 and what is stored do not fit
    assert not fits["fp16"].fits and not fits["as-stored"].fits and fits["int4"].fits


def test_what_can_be_deleted_together():
    library = listed().library
    source, variant = library.model("qwen3-4b-instruct"), library.model("qwen3-4b-instruct-int4")
    both = ("qwen3-4b-instruct-int4", "qwen3-4b-instruct-int8")
    assert removal_choices(library, source) == ((source.name,), both, (source.name, *both))
    alone, of_it, all_of_it = removal_choices(library, variant)
    assert (alone, of_it) == ((variant.name,), (source.name,))
    assert all_of_it == (variant.name, source.name)
    assert removal_choices(library, LOCAL[0]) == ((LOCAL[0].name,),)


def test_going_to_a_conversation_or_a_layout_leaves_the_page():
    for action in (NewChat(), UseLayout("read")):
        state, _ = act(action, SHOWN, 1.0)
        assert not state.library.shown
    state, _ = act(KeepSizes("inspect", Sizes(list_width=12.0)), SHOWN, 1.0)
    assert state.library.shown


def test_what_is_kept_is_bounded():
    library = LibraryState()
    for number in range(2 * MOST_FITS):
        question = FitQuestion(str(number), "", "", replace(OPTIONS, mode="int4", context=4096))
        library = library.with_fits({question: FitAnswer(None, "")})
    assert len(library.fits) == MOST_FITS and question in library.fits
    for number in range(2 * MOST_CHECKED):
        library = library.with_checked(str(number), Checked(True, ""))
    assert len(library.checked) == MOST_CHECKED
