"""Set-up is repeatable: every package has one version and the hashes of its files."""

import re
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from msgspec import Struct
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from llm_lite.core.hub import bundled
from tests.paths import ROOT
from tools.lock import LOCKED, MODELS, requirements

SETUP, TEST = LOCKED / "setup.txt", LOCKED / "test.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
ENTRY = re.compile(r"^([\w.-]+)==([\w.+!]+)(?: ; (.+?))? \\\n((?:    --hash=.+\n?)+)", re.MULTILINE)


class Locked(Struct, frozen=True):
    name: str
    version: Version
    marker: Marker | None


def locked(path):
    """The entries of a lock, which has nothing else in it."""
    text = path.read_text("utf-8")
    assert not ENTRY.sub("", text).replace("# Written by `make lock`.\n", "").strip()
    for _, _, _, hashes in ENTRY.findall(text):
        assert all(
            re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for h in hashes.split() if h != "\\"
        )
    return [
        Locked(canonicalize_name(name), Version(version), Marker(marker) if marker else None)
        for name, version, marker, _ in ENTRY.findall(text)
    ]


def versions(entries, environment):
    """{name: version} there; each name once."""
    held = [one for one in entries if one.marker is None or one.marker.evaluate(environment)]
    found = {one.name: one.version for one in held}
    assert len(found) == len(held)
    return found


def environments():
    for python in PYTHONS:
        for system, machine in SYSTEMS:
            yield default_environment() | {
                "python_version": python,
                "python_full_version": f"{python}.2",
                "sys_platform": system,
                "platform_system": system.capitalize(),
                "platform_machine": machine,
                "extra": "",
            }


@pytest.mark.parametrize(("name", "path"), [("setup", SETUP), ("test", TEST)])
def test_a_lock_has_what_pyproject_asks_for_on_every_python_and_system(name, path):
    """Else: `make lock`."""
    entries = locked(path)
    for environment in environments():
        held = versions(entries, environment)
        for line in requirements(name):
            asked = Requirement(line)
            if asked.marker is None or asked.marker.evaluate(environment):
                assert held[canonicalize_name(asked.name)] in asked.specifier, line


def test_both_locks_have_the_same_versions():
    setup, test = locked(SETUP), locked(TEST)
    for environment in environments():
        before = versions(setup, environment)
        for name, version in versions(test, environment).items():
            assert before.get(name, version) == version, name


def test_a_lock_has_what_its_packages_ask_for():
    """By the packages of this environment: nothing comes without a hash."""
    environment = default_environment() | {"extra": ""}
    held = versions(locked(SETUP), environment) | versions(locked(TEST), environment)
    asked = 0
    for name, version in held.items():
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        if Version(installed.version) != version:
            continue
        for line in installed.requires or ():
            needs = Requirement(line)
            if needs.marker is None or needs.marker.evaluate(environment):
                asked += 1
                assert held[canonicalize_name(needs.name)] in needs.specifier, (name, line)
    assert asked > 50


def test_packages_of_models_are_locked_without_what_they_ask_for():
    assert {path.stem for path in MODELS.glob("*.txt")} == {m.distribution for m in bundled._KNOWN}
    for path in MODELS.glob("*.txt"):
        assert [one.name for one in locked(path)] == [path.stem]


def test_make_installs_nothing_without_hashes_but_what_lies_here():
    """Every call of pip in set-up names a lock, or folders of the checkout, built with what is
    installed already."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    calls = re.findall(r"^\t@?\$\(INSTALL\) (.*)$", makefile, re.MULTILINE)
    assert len(calls) == 6
    for words in calls:
        local = words.startswith("--no-build-isolation --no-deps -e ")
        assert words.startswith("--require-hashes ") != local, words
    assert not re.findall(r"^\t.*bin/pip install", makefile, re.MULTILINE)


def test_no_address_of_a_registry_is_in_a_lock():
    for path in (SETUP, TEST, *MODELS.glob("*.txt")):
        assert "://" not in path.read_text("utf-8")
        assert "index-url" not in path.read_text("utf-8")
