"""What the page of models shows. Nothing here reads a disk or a network."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, field

from llm_lite.core.hub.fit.recommend import recommend, recommend_mode
from llm_lite.core.messages import MODES, Mode
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
    """What a person looks for. Empty and 0: whatever there is."""

    words: str = ""
    task: str = "text-generation"  # the hub's word
    licence: str = ""
    largest: int = 0  # bytes of a file
    runnable: bool = True  # only what this build can run


class FitQuestion(Struct, frozen=True):
    """Of a model here by its name, or of a file of the hub: whether it would fit."""

    name: str  # of a local model; "" for the hub's
    repo: str
    file: str
    mode: Mode
    context: int  # tokens


class FitAnswer(Struct, frozen=True):
    """`fit` is None where it cannot be said; then there is a sentence. `rough`: by the size of a
    file alone."""

    fit: Fit | None
    problem: str = ""
    rough: bool = False


class Weighed(Struct, frozen=True):
    """What deleting some models together would free, in bytes; what others share stays. Where it
    cannot be done there is a problem. `notes` are sentences on what may not be expected."""

    freed: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""


Removal = Mapping[tuple[str, ...], Weighed]  # by the names that would go together


class Checked(Struct, frozen=True):
    """How a verification ended."""

    good: bool
    words: str


class LibraryState(Struct, frozen=True):
    shown: bool = False  # instead of the conversation
    tab: LibraryTab = "local"

    local: tuple[LocalModel, ...] | None = None  # None: nobody has looked yet
    listing: bool = False
    list_problem: str = ""
    disk_free: int | None = None  # bytes, where our models are kept
    chosen: str = ""  # the local model whose details are shown
    removal: Removal | None = None  # of what a person thinks of deleting
    checking: str = ""  # the model that is being verified
    checked: Mapping[str, Checked] = field(default_factory=lambda: MappingProxyType({}))

    curated: tuple[CuratedModel, ...] = ()
    hub: str = "https://huggingface.co"  # that is asked, and whose pages are shown
    search: HubSearch = field(default_factory=HubSearch)  # as it stands in the fields
    searching: HubSearch | None = None  # what the hub is asked now
    found: tuple[HubModel, ...] | None = None  # None: nothing was searched
    found_for: HubSearch = field(default_factory=HubSearch)
    find_problem: str = ""
    repo: str = ""  # the one whose details are shown
    file: str = ""  # of it; "": the recommended one
    opening: str = ""  # the repository that the hub is asked about
    repos: Mapping[str, HubModel] = field(
        default_factory=lambda: MappingProxyType({})
    )  # read whole
    repo_problem: str = ""

    mode: Mode = "as-stored"  # that fits are told for
    context: int = FIT_CONTEXT
    fits: Mapping[FitQuestion, FitAnswer] = field(default_factory=lambda: MappingProxyType({}))

    jobs: tuple[ModelJob, ...] = ()
    queue_works: bool = False  # whether this program carries it out
    queue_problem: str = ""

    def model(self, name: str) -> LocalModel | None:
        """On this machine, by its name."""
        return next((model for model in self.local or () if model.name == name), None)

    def hub_model(self, repo: str) -> HubModel | None:
        """As it is known best: read whole, else as the search found it."""
        if repo in self.repos:
            return self.repos[repo]
        return next((model for model in self.found or () if model.repo == repo), None)

    def curated_model(self, repo: str) -> CuratedModel | None:
        return next((model for model in self.curated if model.repo == repo), None)

    def with_fits(self, told: Mapping[FitQuestion, FitAnswer]) -> LibraryState:
        """The oldest are forgotten."""
        fits = {**self.fits, **told}
        for question in list(fits)[: max(0, len(fits) - MOST_FITS)]:
            del fits[question]
        return replace(self, fits=MappingProxyType(fits))

    def with_checked(self, name: str, checked: Checked) -> LibraryState:
        known = {**self.checked, name: checked}
        for old in list(known)[: max(0, len(known) - MOST_CHECKED)]:
            del known[old]
        return replace(self, checking="", checked=MappingProxyType(known))


def fit_of_local(state: LibraryState, name: str) -> FitQuestion:
    return FitQuestion(name, "", "", state.mode, state.context)


def fit_of_file(state: LibraryState, repo: str, file: HubFile) -> FitQuestion:
    return FitQuestion("", repo, file.name, state.mode, state.context)


def wanted_fits(state: LibraryState) -> tuple[FitQuestion, ...]:
    """What the page would show and nobody has told yet."""
    if not state.shown:
        return ()
    wanted: list[FitQuestion] = []
    if state.tab == "local":
        model = state.model(state.chosen)
        if model is not None and not model.problem and model.runnable:
            first = fit_of_local(state, model.name)
            wanted += dict.fromkeys([first, *(replace(first, mode=mode) for mode in MODES)])
    elif state.tab == "find":
        found = state.hub_model(state.repo)
        for file in found.files if found is not None and found.runnable else ():
            if not file.problem:
                wanted.append(fit_of_file(state, state.repo, file))
    return tuple(question for question in wanted if question not in state.fits)


def recommended(state: LibraryState, model: HubModel) -> HubFile | None:
    """The file to take here, as far as the fits are known."""
    known: list[tuple[HubFile, Fit]] = []
    for file in model.files:
        told = state.fits.get(fit_of_file(state, model.repo, file))
        if not file.problem and told is not None and told.fit is not None:
            known.append((file, told.fit))
    best = recommend([fit for _, fit in known], [float(file.size) for file, _ in known])
    return None if best is None else known[best][0]


def modes_of(state: LibraryState, name: str) -> tuple[dict[Mode, Fit], Mode | None]:
    """Of a model here: its fits in the modes that are known, and the mode to take here, once all
    of them are."""
    question = fit_of_local(state, name)
    told = {mode: state.fits.get(replace(question, mode=mode)) for mode in MODES}
    fits = {mode: one.fit for mode, one in told.items() if one is not None and one.fit is not None}
    if None in told.values():
        return fits, None
    best = recommend_mode(list(fits.values()))
    return fits, None if best is None else list(fits)[best]


def variants_of(state: LibraryState, name: str) -> tuple[LocalModel, ...]:
    """What was made of a model that lies here."""
    return tuple(model for model in state.local or () if model.made_of == name)


def removal_choices(state: LibraryState, model: LocalModel) -> tuple[tuple[str, ...], ...]:
    """What can be deleted together: it alone, its source or its variants, and all of them."""
    source = state.model(model.made_of)
    if source is not None:
        return (model.name,), (source.name,), (model.name, source.name)
    variants = tuple(variant.name for variant in variants_of(state, model.name))
    if variants:
        return (model.name,), variants, (model.name, *variants)
    return ((model.name,),)


def here(state: LibraryState, repo: str, file: str) -> LocalModel | None:
    """The model on this machine that a file of the hub is."""
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
    """Whether a file of the hub is on its way."""
    sources = (f"hf:{repo}:{file}", f"hf:{repo}")
    return any(
        job.source in sources and job.current is not None and job.current.state != "failed"
        for job in state.jobs
    )
