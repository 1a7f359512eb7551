"""The state of the page of models."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, field

from llm_lite.core.hub.fit.recommend import recommend, recommend_mode
from llm_lite.core.messages import MODES, EngineOptions, Mode
from llm_lite.core.messages.library import (
    CuratedModel,
    Fit,
    HubFile,
    HubModel,
    LocalModel,
    ModelJob,
)
from llm_lite.core.records import replace

LibraryTab = Literal["local", "find", "queue"]
LIBRARY_TABS: tuple[LibraryTab, ...] = ("local", "find", "queue")
FIT_CONTEXT = 4096  # tokens, until a person chooses another number
MOST_FITS = 400  # estimates that are kept; of one model there are a few dozen
MOST_CHECKED = 200  # results of verifications that are kept


class HubSearch(Struct, frozen=True):
    """The fields of a search. Empty and 0: any."""

    words: str = ""
    task: str = "text-generation"  # the hub's word
    licence: str = ""
    largest: int = 0  # bytes of a file
    runnable: bool = True  # only what this build can run


class FitQuestion(Struct, frozen=True):
    """A local model or a file of the hub, and the options to estimate its memory for: an answer is
    true of no others."""

    name: str  # of a local model; "" for the hub's
    repo: str
    file: str
    options: EngineOptions

    @property
    def mode(self) -> Mode:
        return self.options.mode

    @property
    def context(self) -> int:
        return self.options.context  # tokens

    def in_mode(self, mode: Mode) -> FitQuestion:
        return replace(self, options=replace(self.options, mode=mode))


class FitAnswer(Struct, frozen=True):
    """An estimate. `fit` is None where there is none; then there is a sentence. `rough`: by the
    size of a file alone."""

    fit: Fit | None
    problem: str = ""
    rough: bool = False


class Weighed(Struct, frozen=True):
    """The bytes that deleting some models together would free; what others share stays. `problem`
    is why it is not possible, `notes` are sentences on side effects."""

    freed: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""


Removal = Mapping[tuple[str, ...], Weighed]  # by the names that would go together


class Checked(Struct, frozen=True):
    """The result of a verification."""

    good: bool
    words: str


class LibraryState(Struct, frozen=True):
    shown: bool = False  # instead of the conversation
    tab: LibraryTab = "local"

    local: tuple[LocalModel, ...] | None = None  # None: not listed yet
    listing: bool = False
    list_problem: str = ""
    disk_free: int | None = None  # bytes, where our models are kept
    accelerators: tuple[str, ...] = ()  # executors that installed packages add, by name
    chosen: str = ""  # the local model whose details are shown
    removal: Removal | None = None  # of the models that a person may delete
    checking: str = ""  # the model that is being verified
    checked: Mapping[str, Checked] = field(default_factory=lambda: MappingProxyType({}))

    curated: tuple[CuratedModel, ...] = ()
    hub: str = "https://huggingface.co"  # that is searched, and whose pages are shown
    search: HubSearch = field(default_factory=HubSearch)  # as it stands in the fields
    searching: HubSearch | None = None  # the search that is running
    found: tuple[HubModel, ...] | None = None  # None: nothing was searched
    found_for: HubSearch = field(default_factory=HubSearch)
    find_problem: str = ""
    repo: str = ""  # the one whose details are shown
    file: str = ""  # of it; "": the recommended one
    opening: str = ""  # the repository that is being read
    repos: Mapping[str, HubModel] = field(
        default_factory=lambda: MappingProxyType({})
    )  # read whole
    repo_problem: str = ""

    mode: Mode = "as-stored"  # that fits are estimated for
    context: int = FIT_CONTEXT
    fits: Mapping[FitQuestion, FitAnswer] = field(default_factory=lambda: MappingProxyType({}))

    jobs: tuple[ModelJob, ...] = ()
    queue_works: bool = False  # this program carries it out
    queue_problem: str = ""

    def model(self, name: str) -> LocalModel | None:
        """Return a model on this machine by its name."""
        return next((model for model in self.local or () if model.name == name), None)

    def hub_model(self, repo: str) -> HubModel | None:
        """Return a repository that was read whole, else as the search found it."""
        if repo in self.repos:
            return self.repos[repo]
        return next((model for model in self.found or () if model.repo == repo), None)

    def curated_model(self, repo: str) -> CuratedModel | None:
        return next((model for model in self.curated if model.repo == repo), None)

    def with_fits(self, answers: Mapping[FitQuestion, FitAnswer]) -> LibraryState:
        """Add estimates and drop the oldest."""
        fits = {**self.fits, **answers}
        for question in list(fits)[: max(0, len(fits) - MOST_FITS)]:
            del fits[question]
        return replace(self, fits=MappingProxyType(fits))

    def with_checked(self, name: str, checked: Checked) -> LibraryState:
        known = {**self.checked, name: checked}
        for old in list(known)[: max(0, len(known) - MOST_CHECKED)]:
            del known[old]
        return replace(self, checking="", checked=MappingProxyType(known))


def fitting(context: int, trained: int) -> int:
    """Return a context that a model takes which was trained for so many tokens; 0: unknown."""
    return min(context, trained) if trained else context


def fit_of_local(state: LibraryState, options: EngineOptions, name: str) -> FitQuestion:
    """Return the question about a local model, with the page's mode and context and what else a
    person has set."""
    model = state.model(name)
    context = fitting(state.context, model.context if model else 0)
    return FitQuestion(name, "", "", replace(options, mode=state.mode, context=context))


def fit_of_file(
    state: LibraryState, options: EngineOptions, repo: str, file: HubFile
) -> FitQuestion:
    model = state.hub_model(repo)
    context = fitting(state.context, model.context if model else 0)
    return FitQuestion("", repo, file.name, replace(options, mode=state.mode, context=context))


def wanted_fits(state: LibraryState, options: EngineOptions) -> tuple[FitQuestion, ...]:
    """Return the estimates that the page would show and that are not known yet."""
    if not state.shown:
        return ()
    wanted: list[FitQuestion] = []
    if state.tab == "local":
        model = state.model(state.chosen)
        if model is not None and not model.problem and model.runnable:
            first = fit_of_local(state, options, model.name)
            wanted += dict.fromkeys([first, *map(first.in_mode, MODES)])
    elif state.tab == "find":
        found = state.hub_model(state.repo)
        for file in found.files if found is not None and found.runnable else ():
            if not file.problem:
                wanted.append(fit_of_file(state, options, state.repo, file))
    return tuple(question for question in wanted if question not in state.fits)


def recommended(state: LibraryState, options: EngineOptions, model: HubModel) -> HubFile | None:
    """Return the recommended file, as far as the fits are known."""
    known: list[tuple[HubFile, Fit]] = []
    for file in model.files:
        answer = state.fits.get(fit_of_file(state, options, model.repo, file))
        if not file.problem and answer is not None and answer.fit is not None:
            known.append((file, answer.fit))
    best = recommend([fit for _, fit in known], [float(file.size) for file, _ in known])
    return None if best is None else known[best][0]


def modes_of(
    state: LibraryState, options: EngineOptions, name: str
) -> tuple[dict[Mode, Fit], Mode | None]:
    """Return the known fits of a local model by mode, and the recommended mode once all of them are
    known."""
    question = fit_of_local(state, options, name)
    answers = {mode: state.fits.get(question.in_mode(mode)) for mode in MODES}
    fits = {
        mode: one.fit for mode, one in answers.items() if one is not None and one.fit is not None
    }
    if None in answers.values():
        return fits, None
    best = recommend_mode(list(fits.values()))
    return fits, None if best is None else list(fits)[best]


def variants_of(state: LibraryState, name: str) -> tuple[LocalModel, ...]:
    """Return the local variants of a model."""
    return tuple(model for model in state.local or () if model.made_of == name)


def removal_choices(state: LibraryState, model: LocalModel) -> tuple[tuple[str, ...], ...]:
    """Return the groups that can be deleted together: the model alone, its source or its variants,
    and all of them."""
    source = state.model(model.made_of)
    if source is not None:
        return (model.name,), (source.name,), (model.name, source.name)
    variants = tuple(variant.name for variant in variants_of(state, model.name))
    if variants:
        return (model.name,), variants, (model.name, *variants)
    return ((model.name,),)


def here(state: LibraryState, repo: str, file: str) -> LocalModel | None:
    """Return the model on this machine that a file of the hub is."""
    name = file.rpartition("/")[2]
    for model in state.local or ():
        if model.repo != repo or model.problem:
            continue
        if model.path.name == name or (
            model.form == "huggingface" and name.endswith("safetensors")
        ):
            return model
    return None


def is_queued(state: LibraryState, repo: str, file: str) -> bool:
    """Return whether a file of the hub is in the queue."""
    sources = (f"hf:{repo}:{file}", f"hf:{repo}")
    return any(
        job.source in sources and job.current is not None and job.current.state != "failed"
        for job in state.jobs
    )
