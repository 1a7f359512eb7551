"""What is a person's own: nobody else may read it, whatever the umask says and whatever was there;
and what is no file in its place is a sentence, never a wait."""

import ast
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from llm_lite.cli.conversation.full_editor import LineHistory
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.private import private_folder, tighten
from llm_lite.core.files.writing import write_file
from llm_lite.core.generation.speculation import ngram_file
from llm_lite.core.generation.speculation.ngram_file import LearnedModel
from llm_lite.core.generation.speculation.ngram_learning import NgramTable
from llm_lite.core.history import History
from llm_lite.core.history.caches import CacheCatalogue
from llm_lite.core.history.database.connection import check_kind
from llm_lite.core.hub.queue.queue_file import QueueFile
from llm_lite.desktop.app.settings import Settings, load, save
from llm_lite.desktop.features.presets.host import PresetFiles
from llm_lite.desktop.features.presets.model import ChoosePreset, SavePreset
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.host import read_prompt
from llm_lite.desktop.features.serving import host as serving
from llm_lite.desktop.features.tools import host as tools
from tests.paths import ROOT

posix = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


def _history(path):
    history = History(path)
    history.begin(title="Mine", system_prompt="secret")
    assert history.flush()
    found = [mode(Path(f"{path}{end}")) for end in ("", "-wal", "-shm")]
    assert history.close()
    return found


def _settings(path):
    assert save(Settings(draft="secret"), path) == ""


def _learned(path):
    table = NgramTable([np.zeros(ngram_file.ENTRIES, dtype) for _, dtype in ngram_file.PLANES])
    ngram_file.write(path, LearnedModel("0" * 64, "m", 10, 0, 0), table)


def _preset(path):
    PresetFiles(path.parent).do(SavePreset(path.stem), AppState(system_prompt="secret"))


WRITERS = {
    "config/settings.json": _settings,
    "data/history.db": _history,
    "data/tools.json": lambda path: tools.write(path, "", ()),
    "data/server-key": serving.new_key,
    "data/presets/a.json": _preset,
    "cache/learned-drafts/x.ngrams": _learned,
    "state/chat-history": lambda path: LineHistory(path).store_string("secret"),
    "state/models/queue.json": lambda path: QueueFile(path.parent).edit(lambda jobs: jobs),
}
READERS = {
    "config/settings.json": load,
    "data/history.db": _history,
    "data/tools.json": tools.read,
    "data/server-key": serving.read_key,
    "data/presets/a.json": lambda path: PresetFiles(path.parent).do(
        ChoosePreset(path.stem), AppState()
    ),
    "cache/learned-drafts/x.ngrams": lambda path: read_bytes(path, 1 << 30, private=True),
    "state/chat-history": lambda path: list(LineHistory(path).load_history_strings()),
}


@posix
@pytest.mark.parametrize("name", WRITERS)
def test_it_is_written_for_its_owner_alone(tmp_path, name):
    path = tmp_path / name
    found = WRITERS[name](path)
    if path.is_file():
        assert mode(path) == 0o600
    assert mode(path.parent) == mode(tmp_path / name.partition("/")[0]) == 0o700
    assert not isinstance(found, list) or set(found) == {0o600}


@posix
@pytest.mark.parametrize("name", READERS)
def test_what_was_open_to_others_is_tightened_when_it_is_opened(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    path.chmod(0o644)
    READERS[name](path)
    assert mode(path) == 0o600


@posix
@pytest.mark.parametrize("name", WRITERS)
def test_what_was_open_to_others_is_tightened_when_it_is_written(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    if path.is_file():
        path.chmod(0o666)
        WRITERS[name](path)
        assert mode(path) == 0o600


@posix
def test_what_is_set_aside_is_tightened(tmp_path):
    for name, read in (("history.db", _history), ("settings.json", load)):
        (tmp_path / name).write_bytes(b"{ damaged " * 1000)
        (tmp_path / name).chmod(0o644)
        read(tmp_path / name)
    (history,) = tmp_path.glob("history-damaged-*.db")
    assert mode(history) == mode(tmp_path / "settings.json.broken") == 0o600


@posix
def test_folders_of_private_files_become_private_and_others_stay(tmp_path):
    for folder in ("caches", "data"):
        (tmp_path / folder).mkdir(0o755)
    history = History(tmp_path / "data" / "history.db")
    CacheCatalogue(history, tmp_path / "caches", 0)
    assert history.wait_until_open() and history.close()
    assert mode(tmp_path / "caches") == 0o700
    assert mode(tmp_path / "data") == 0o755  # models lie there, too, which are nobody's secret


@posix
def test_a_link_keeps_what_it_leads_to(tmp_path):
    target = tmp_path / "elsewhere.md"
    target.write_text("Sing.")
    target.chmod(0o644)
    (tmp_path / "prompt.md").symlink_to(target)
    assert read_prompt(tmp_path / "prompt.md", private=True).text == "Sing."
    tighten(tmp_path / "prompt.md")
    assert mode(target) == 0o644


@posix
def test_a_private_file_is_never_open_and_no_pipe(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o664)
    write_file(path, b"new", private=True)
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)
    with pytest.raises(FileError, match="is no regular file"):
        write_file(Path(os.devnull), b"secret", private=True)
    with pytest.raises(FileError, match="there is a file where a directory is to be"):
        private_folder(path / "folder")


SENTENCES = {
    "data/tools.json": tools.read,
    "data/server-key": serving.read_key,
    "data/presets/a.json": READERS["data/presets/a.json"],
    "data/prompts/a.md": read_prompt,
    "tools": lambda path: tools.write(path, "", ()),
    "key": serving.new_key,
    "learned": _learned,
}


@posix
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", SENTENCES)
def test_what_is_no_file_is_a_sentence(tmp_path, name, kind):
    path = _in_place(tmp_path / name, kind)
    with pytest.raises(FileError, match=r"no.* regular file"):
        SENTENCES[name](path)


def _in_place(path, kind):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@posix
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_settings_that_are_no_file_are_the_defaults(tmp_path, kind):
    path = _in_place(tmp_path / "settings.json", kind)
    settings, problems = load(path)
    assert settings.draft == "" and "it is not a regular file" in problems[0]
    assert "is no regular file" in save(settings, path)


@posix
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_history_that_is_no_file_is_a_sentence(tmp_path, kind, end):
    path = tmp_path / "history.db"
    _in_place(Path(f"{path}{end}"), kind)
    history = History(path)
    history.begin(title="Kept in memory")
    told = ""
    while not told:
        told = "".join(getattr(event, "message", "") for event in history.poll())
    assert f"history.db{end} is no regular file" in told
    assert len(history.page().conversations) == 1
    history.close(0.1)


@posix
def test_a_history_in_a_folder_that_may_not_be_entered_is_a_sentence(tmp_path, monkeypatch):
    """Path.exists raises there, on Python before 3.14."""
    path = tmp_path / "history.db"
    monkeypatch.setattr(Path, "exists", _no_entry)
    monkeypatch.setattr(Path, "is_file", _no_entry)
    check_kind(path)  # what opens it finds the reason


def _no_entry(path):
    raise PermissionError(13, "Permission denied", str(path))


CHOSEN = {  # files that a person names, and what is nobody's: models, measurements, pictures
    "core/convert/synthetic.py", "core/exec/cpu/self_test.py", "core/gpu/pipelines.py",
    "core/history/exchange/exporting.py", "core/hub/fit/bandwidth.py",
    "core/hub/remote/pulling.py", "core/inspect/attention_export.py", "desktop/app/program.py",
    "desktop/features/prompts/host.py", "desktop/features/presets/host.py",
    "desktop/features/steer/host.py", "desktop/render/png.py",
    "llm_lite/cli/conversation/saved.py", "llm_lite/cli/commands/ask.py",
    "llm_lite/cli/commands/attention.py",
    "llm_lite/cli/commands/logits.py",
}  # fmt: skip


def test_every_other_file_is_written_as_private():
    wrong = []
    for room in ("core", "desktop", "llm_lite/cli", "llm_lite/server", "llm_lite/api"):
        for path in (ROOT / room).rglob("*.py"):
            place = path.relative_to(ROOT).as_posix()
            text = path.read_text("utf-8")
            if place in CHOSEN or place.startswith("core/files/") or "core.files" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                name = getattr(getattr(node, "func", None), "id", "")
                if name in ("write_file", "replaced"):
                    private = any(word.arg == "private" for word in node.keywords)
                    wrong += [] if private else [f"{place}:{node.lineno}"]
    assert not wrong
