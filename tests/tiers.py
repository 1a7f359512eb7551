"""The two tiers of the suite, as a plugin of pytest.

`make test` runs what a change is likely to break. Tests that THOROUGH names, and cases with the
mark `thorough`, are left to `make check` and to CI. Some of them come in groups of few inputs:
`--changed-groups` leaves out those whose sources are the same as when all of the group passed.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

# The beginning of a test's name -> why `make test` does without it.
THOROUGH: Mapping[str, str] = {
    "tests/sanitize": "compiles the kernels again, and runs tests of ops that `make test` runs too",
    "tests/tools/tour/test_tour.py": "draws all pictures; each view has tests of its own",
    "tests/tools/tour/test_other_models.py": "draws the pictures of other kinds of models",
    "tests/fuzz": "hostile files, each in a process; what they once broke has a test of its own",
    "tests/test_notebook.py": "runs a notebook on what tests of the Python interface use",
    # They start the program, or a copy of it, again and again.
    "tests/recipes": "makes copies of the repository and runs its tests there",
    "tests/test_wheel.py": "unpacks and installs the program as a person's pip does",
    "tests/test_checkout_folder.py::test_every": "configures the build in odd folders",
    "tests/test_tiers.py": "starts pytest many times",
    "tests/tools/cross": "tests of scripts that people run by hand",
    "tests/cli/test_streams.py": "starts the program with each stream closed, full or cut off",
    "tests/cli/test_endings.py": "starts the program and ends it by each signal",
    "tests/cli/test_interrupts.py": "interrupts the program wherever it is",
    "tests/cli/test_conversation.py": "types into the program on a terminal of its own",
    "tests/cli/commands/test_model_queue.py": "several programs share a queue of models",
    "tests/cli/commands/test_quantize.py::test_killed": "kills the program at many moments",
    "tests/cli/commands/test_quantize.py::test_ended": "ends the program at many moments",
    "tests/core/formats/test_variant_writer.py::test_killed": "kills the program at many moments",
    "tests/core/history/test_kills.py": "kills the program at many moments",
    # They measure, or watch those who do.
    "tests/tools/bench/test_instructions.py": "counts instructions one by one",
    "tests/tools/bench/test_prompt_frames.py": "draws frames while a prompt is read",
    "tests/cli/test_measures.py::test_bench": "measures speed",
    "tests/cli/test_measures.py::test_doctor_measures_modes": "measures speed",
    "tests/core/metrics/test_kernel_study.py::test_every_shader": "teaching forms of one product",
    "tests/desktop/person/test_person.py::test_a_planted_defect": "defects of the person's checks",
    "tests/desktop/person/test_person.py::test_a_field_that_stays": "defects of the same checks",
    # Each op runs on the software GPU first; these are combinations, and tunings of other GPUs.
    "tests/core/exec/vulkan/test_vulkan_shared_steps.py": "steps of several sequences",
    "tests/core/exec/vulkan/test_vulkan_fusion.py": "ops that share a dispatch",
    "tests/core/exec/vulkan/test_vulkan_seen.py": "what a token sees, in all tunings",
    "tests/core/exec/vulkan/test_vulkan_halves.py": "halves in all tunings",
    "tests/core/exec/vulkan/test_vulkan_attention.py::test_attention": "tunings of attention",
    "tests/core/exec/vulkan/test_vulkan_attention.py::test_workgroups": "the same",
    "tests/core/exec/cpu/test_cpu_attention_deep.py::test_rows": "long caches with holes",
    "tests/core/exec/vulkan/test_vulkan_model.py::test_tunings": "tunings of a whole model",
    "tests/core/exec/vulkan/test_vulkan_model.py::test_tiles": "weights as another GPU has them",
    # A smaller model, or a shorter text, shows the same.
    "tests/server/test_real_model.py::test_one_of_as_many": "reads a prompt of 128 functions",
    "tests/core/serving/test_smollm2_served.py::test_texts_are_the_same": "a tiny model does, too",
    "tests/core/inspect/test_smollm2_attention.py": "maps of tiny models are compared, too",
    "tests/desktop/lesson/test_lesson.py::test_every_number_on_smollm2": "tiny models are, too",
    "tests/core/hub/fit/test_guard.py::test_what_is_offered": "quantizes the bundled model",
    "tests/core/hub/fit/test_estimate.py::test_an_encoder_decoder_counts": "starts a translator",
    "tests/core/hub/remote/test_hostile_answers.py::test_of_one_model": "hundreds of answers",
    "tests/core/generation/speculation/test_verified.py::test_long": "thousands of tokens",
    "tests/core/generation/speculation/test_slice.py::test_bits_are_those": "a model of 35 layers",
    "tests/core/generation/speculation/test_distribution.py": "thousands of answers",
    "tests/desktop/attention/test_slots.py::test_no_frame_overflows": "random conversations",
}

# Where the executors are the subject, and a model and an engine that run on all of them. Elsewhere
# what runs on the C++ executor, too, runs on NumPy's and on Vulkan's in the second tier: the one is
# the slowest, and on a software GPU the other compiles the shaders of each model first.
ON_EACH = {
    "numpy": ("tests/core/exec", "tests/core/models"),
    "vulkan": (
        *("tests/core/exec", "tests/core/engine/test_engine.py"),
        "tests/core/models/test_huggingface_logits.py::test_llama",
    ),
}


def is_on_another_again(item: pytest.Item) -> bool:
    """Tell whether a test is a case on NumPy or Vulkan of one that runs on C++, too."""
    case = getattr(item, "callspec", None)
    backend = case.params.get("backend") if case is not None else None
    return backend in ON_EACH and not item.nodeid.startswith(ON_EACH[backend])


@dataclass(frozen=True)
class Group:
    """Tests of the second tier whose names begin so, and the files and folders that they test."""

    tests: tuple[str, ...]
    sources: tuple[str, ...]


_PROGRAM = ("core", "desktop", "llm_lite", "assets", "kernels_cpp", "kernels_glsl")
GROUPS: Mapping[str, Group] = {
    "sanitizers": Group(
        ("tests/sanitize",),
        (
            *("CMakeLists.txt", "kernels_cpp", "tests/sanitize", "tests/core/exec/cpu"),
            *("core/plan", "core/quant", "core/exec", "tools/kernel_schema.py"),
        ),
    ),
    "vulkan": Group(
        ("tests/core/exec/vulkan",),
        (
            *("CMakeLists.txt", "kernels_glsl", "core/exec", "core/gpu", "core/plan", "core/quant"),
            *("tools/kernel_schema.py", "tests/core/exec"),
        ),
    ),
    "fuzz": Group(("tests/fuzz",), (*_PROGRAM, "tests/fuzz")),
    "tour": Group(
        ("tests/tools/tour",), (*_PROGRAM, "tools/tour", "tests/desktop", "tests/tools/tour")
    ),
    "notebook": Group(
        ("tests/test_notebook.py",),
        ("docs/notebook.py", "llm_lite", "core", "kernels_cpp", "tests/test_notebook.py"),
    ),
    "tiers": Group(("tests/test_tiers.py",), ("tests/tiers.py", "tests/test_tiers.py")),
}

# What tests run on besides: Debian's list of packages (drivers, compilers), and these variables.
SYSTEM = Path("/var/lib/dpkg/status")
VARIABLES = ("LLM_LITE_PROCESSOR", "LLM_LITE_ISA", "VK_DRIVER_FILES")


def thorough(*values: object, id: str | None = None) -> Any:
    """Return a case of a parametrized test that only the second tier runs."""
    return pytest.param(*values, marks=pytest.mark.thorough, id=id)


def tiered(
    names: str, cases: Iterable[tuple[Any, ...]], *, first: Collection[tuple[Any, ...]]
) -> pytest.MarkDecorator:
    """Parametrize a test by cases; those that are not among the `first` are of the second tier."""
    return pytest.mark.parametrize(
        names, [case if case in first else thorough(*case) for case in cases]
    )


def digest(root: Path, group: Group) -> str:
    """Return a hash of all that decides whether a group passes."""
    found = hashlib.sha256()
    for line in (*_surroundings(), *_contents(root, group)):
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def _surroundings() -> Iterator[str]:
    yield f"{sys.version} {os.uname().machine if hasattr(os, 'uname') else sys.platform}"
    yield from sorted(f"{one.name} {one.version}" for one in distributions())
    yield from (f"{name}={os.environ.get(name)}" for name in VARIABLES)
    if SYSTEM.exists():
        yield hashlib.sha256(SYSTEM.read_bytes()).hexdigest()


def _contents(root: Path, group: Group) -> Iterator[str]:
    for source in group.sources:
        top = root / source
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                yield f"{path.relative_to(root).as_posix()} {content}"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed-groups",
        action="store_true",
        help="leave out groups of tests whose sources have not changed since they passed",
    )


class Tiers:
    """The plugin: marks tests, leaves out groups that need not run, and notes those that passed.

    With xdist the process that reports decides which groups run, and tells the workers; they tell
    it which tests there are in each.
    """

    def __init__(
        self,
        config: pytest.Config,
        root: Path,
        groups: Mapping[str, Group],
        thorough: Iterable[str] = (),
    ) -> None:
        self.root, self.groups, self.thorough = root, groups, tuple(thorough)
        self.stamps = root / "build" / "passed"
        self.output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self.digests: dict[str, str] = {}  # at the beginning
        self.unchanged: list[str] = []
        self.members: dict[str, list[str]] = {}  # of each group, whatever else chooses tests
        self.ended: set[str] = set()
        self.failed: set[str] = set()  # tests, and files that cannot be imported
        if self.output is not None:
            self.unchanged = config.workerinput["unchanged"]
        elif config.getoption("changed_groups"):
            if config.args_source is config.ArgsSource.ARGS:
                raise pytest.UsageError("--changed-groups is for a run of all tests")
            self.digests = {name: digest(root, group) for name, group in groups.items()}
            self.unchanged = [n for n, found in self.digests.items() if self._stamp(n) == found]

    def _stamp(self, name: str) -> str:
        path = self.stamps / name
        return path.read_text("ascii") if path.exists() else ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["unchanged"] = self.unchanged

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        for item in items:
            if item.nodeid.startswith(self.thorough) or is_on_another_again(item):
                item.add_marker("thorough")
        names = [item.nodeid for item in items if item.get_closest_marker("thorough")]
        for group, one in self.groups.items():
            self.members[group] = [name for name in names if name.startswith(one.tests)]
        spared = {name for group in self.unchanged for name in self.members[group]}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in spared])
        items[:] = [item for item in items if item.nodeid not in spared]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when == "teardown":
            self.ended.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.members = getattr(node, "workeroutput", {}).get("members", self.members)

    def pytest_sessionfinish(self) -> None:
        if self.output is not None:
            self.output["members"] = self.members
        for name in self.digests.keys() - set(self.unchanged):
            if self._passed(name):
                self.stamps.mkdir(parents=True, exist_ok=True)
                (self.stamps / name).write_text(self.digests[name], "ascii")

    def _passed(self, name: str) -> bool:
        members, group = set(self.members.get(name, ())), self.groups[name]
        return (
            bool(members)
            and members <= self.ended
            and not any(failed.startswith(group.tests) for failed in self.failed)
            # Sources that changed meanwhile have not been tested.
            and digest(self.root, group) == self.digests[name]
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name in self.unchanged:
            sources = ", ".join(self.groups[name].sources)
            terminalreporter.write_line(
                f"{name}: passed before with the same {sources}, not run (build/passed/{name})"
            )
