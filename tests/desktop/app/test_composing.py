"""The draft's files are read and the prompts kept by threads; hostile files are a sentence."""

import os
import threading
import time
from functools import partial

import pytest

from llm_lite.core import attachments
from llm_lite.core.attached_text import Attachment
from llm_lite.core.errors import FileError
from llm_lite.desktop.features.attachments.host import FileReader
from llm_lite.desktop.features.attachments.model import AttachFiles, FileRead
from llm_lite.desktop.features.attachments.state import DraftFiles
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts import model as does
from llm_lite.desktop.features.prompts.host import (
    MOST_WARNINGS,
    PromptFiles,
    prompt_name,
    read_prompt,
    written,
)
from llm_lite.desktop.features.prompts.state import (
    LONGEST_PROMPT,
    PromptLibrary,
    SavedPrompt,
    filled,
)
from tests.children import PATIENCE


def until(poll, holds):
    """What is told until something holds of all of it."""
    found, end = [], time.monotonic() + PATIENCE
    while not holds(found):
        assert time.monotonic() < end, found
        found += poll()
        time.sleep(0.005)
    return found


def named(*paths):
    return DraftFiles().with_paths(tuple((str(path), path.name) for path in paths))


def test_files_are_read_apart_and_told_by_their_keys(tmp_path):
    (tmp_path / "a.md").write_text("# Words")
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "empty").write_bytes(b"")
    reader, woken = FileReader(), []
    reader.wake = lambda: woken.append(1)
    files = named(tmp_path / "a.md", tmp_path / "m.gguf", tmp_path / "empty")
    found = until(lambda: poll(reader, files), lambda told: len(told) == 4)
    texts = {one.key: one for one in found if isinstance(one, FileRead)}
    assert texts[1].attached.text == "# Words" and texts[1].attached.kind == "markdown"
    assert OpenModel(str(tmp_path / "m.gguf")) in found and texts[2] == FileRead(2, None)
    assert texts[3].attached is None and "is empty" in texts[3].problem
    assert len(woken) == 3


def poll(reader, files):
    return reader.poll(AppState(files=files))


class Gate:
    """Holds up whoever reads a file called "slow"."""

    def __init__(self, monkeypatch):
        self.entered, self.open, self.names = threading.Event(), threading.Event(), []
        monkeypatch.setattr(attachments, "read_attachment", self.read)

    def read(self, path):
        self.names.append(path.name)
        if path.name == "slow":
            self.entered.set()
            assert self.open.wait(PATIENCE)
        return Attachment(path.name, "text of " + path.name)


def test_a_file_that_is_removed_meanwhile_is_not_read(tmp_path, monkeypatch):
    gate, reader = Gate(monkeypatch), FileReader()
    files = named(tmp_path / "slow", tmp_path / "a", tmp_path / "b")
    poll(reader, files)
    assert gate.entered.wait(PATIENCE)
    poll(reader, files.without(2))
    gate.open.set()
    told = until(
        lambda: poll(reader, files.without(2)), lambda told: any(one.key == 3 for one in told)
    )
    assert [one.key for one in told] == [1, 3] and gate.names == ["slow", "b"]


def test_a_file_that_is_put_aside_and_comes_back_meanwhile_stays(tmp_path, monkeypatch):
    """It may be read twice then."""
    gate, reader = Gate(monkeypatch), FileReader()
    state, _ = act(AttachFiles((str(tmp_path / "slow"), str(tmp_path / "a"))), AppState(), 0.0)
    poll(reader, state.files)
    assert gate.entered.wait(PATIENCE)
    poll(reader, DraftFiles())
    poll(reader, state.files)
    gate.open.set()
    drafted = state.files
    read_twice = until(
        lambda: poll(reader, drafted), lambda told: sum(one.key == 2 for one in told) == 2
    )
    for read in read_twice:
        state, _ = act(read, state, 0.0)
    assert [f.attached.text for f in state.files.files] == ["text of slow", "text of a"]
    assert state.notices == ()


def test_the_process_for_pdfs_ends_while_nobody_reads(tmp_path, monkeypatch):
    """It is one for all: ended later, it would be that of the next file."""
    reader, running = FileReader(), []
    monkeypatch.setattr(attachments, "end_process", lambda: running.append(reader._is_running))
    (tmp_path / "a").write_text("a")
    files = named(tmp_path / "a")
    until(lambda: poll(reader, files), lambda told: told)
    until(list, lambda _: not reader._is_running)
    assert running == [True]


def test_what_is_attached_in_the_window_comes_with_its_text(headless, tmp_path):
    (tmp_path / "a.txt").write_text("some words")
    one = headless()
    one.program.do(AttachFiles((str(tmp_path / "a.txt"), str(tmp_path / "gone.txt"))))
    one.driver.wait("the files", lambda s: s.files.are_read)
    assert [f.attached.text for f in one.state.files.files] == ["some words"]
    assert one.state.notices[-1].text == "“gone.txt”: no such file."


class Library:
    def __init__(self, folder):
        self.files = PromptFiles(folder)

    def do(self, action):
        """The prompts that there are then, and what is told."""
        self.files.do(action, AppState())
        told = until(
            partial(self.files.poll, AppState()),
            lambda told: any(isinstance(t, does.PromptsRead) for t in told),
        )
        told += self.files.poll(AppState())
        self.read = next(one for one in told if isinstance(one, does.PromptsRead))
        self.told = [one.text for one in told if isinstance(one, does.TellPrompts)]
        return {prompt.name: prompt.text for prompt in self.read.prompts}


@pytest.fixture
def library(tmp_path):
    return Library(tmp_path / "prompts")


def test_prompts_are_kept_edited_renamed_and_brought_back(library, tmp_path):
    assert library.do(does.WantPrompts()) == {} and not (tmp_path / "prompts").exists()
    assert library.do(does.SavePrompt("Sum up", "Say it short.")) == {"Sum up": "Say it short."}
    assert (tmp_path / "prompts" / "Sum up.md").read_text() == "Say it short.\n"
    assert library.do(does.SavePrompt("Sum up", "Shorter.", "Sum up")) == {"Sum up": "Shorter."}
    assert library.do(does.SavePrompt("Short", "Shorter.", "Sum up")) == {"Short": "Shorter."}
    assert library.do(does.SavePrompt("a/../b", "x")) == {"Short": "Shorter.", "a-..-b": "x"}
    assert "Short" in library.do(does.SavePrompt("Short", "another"))
    assert "already" in library.told[0] and library.read.prompts[1].text == "Shorter."
    assert library.do(does.DeletePrompt("Short")) == {"a-..-b": "x"}
    assert library.read.deleted == SavedPrompt("Short", "Shorter.")
    assert library.do(does.RestorePrompt()) == {"Short": "Shorter.", "a-..-b": "x"}
    assert library.read.deleted is None
    assert library.do(does.DeletePrompt("../../etc/passwd")) == {"Short": "Shorter.", "a-..-b": "x"}


def test_a_folder_that_cannot_be_read_is_told_and_the_next_thing_is_done(library, tmp_path):
    (tmp_path / "prompts").write_text("no folder")
    assert library.do(does.WantPrompts()) == {} and "prompts" in library.told[0]
    (tmp_path / "prompts").unlink()
    assert library.do(does.SavePrompt("a", "b")) == {"a": "b"}


def test_a_long_name_that_is_taken_gets_a_number_and_is_found_again(library, tmp_path):
    name = "a" * 70
    for number in range(3):
        (tmp_path / f"{number}.md").write_text(f"---\nname: {name}\n---\ntext {number}")
    paths = tuple(str(tmp_path / f"{number}.md") for number in range(3))
    there = library.do(does.ImportPrompts(paths))
    assert there == {"a" * 60: "text 0", f"{'a' * 58} 2": "text 1", f"{'a' * 58} 3": "text 2"}


def test_examples_come_where_they_are_asked_for(library):
    found = library.do(does.AddExamples())
    assert 3 <= len(found) <= 5 and any("{{" in text for text in found.values())
    assert library.do(does.AddExamples()) == found


def test_they_go_out_and_come_in_as_files(library, tmp_path):
    library.do(does.SavePrompt("One", "first"))
    library.do(does.SavePrompt("Two", "---\nsecond"))
    library.do(does.ExportPrompts(str(tmp_path / "out")))
    library.do(does.ExportPrompts(str(tmp_path / "one.md"), "One"))
    assert (tmp_path / "one.md").read_text() == "first\n"
    library.do(does.ExportPrompts(str(tmp_path / "one.md"), "Two"))
    assert "choose another name" in library.told[0], "nothing is written over"
    other = Library(tmp_path / "others")
    assert other.do(does.ImportPrompts((str(tmp_path / "out"),))) == {
        "One": "first", "Two": "---\nsecond",
    }  # fmt: skip
    (tmp_path / "out" / "One.md").write_text("---\ntitle: 'One'\nauthor: me\n---\nchanged")
    found = other.do(does.ImportPrompts((str(tmp_path / "out" / "One.md"),)))
    assert found["One"] == "first" and found["One 2"] == "changed"


HOSTILE = {
    "prompt.exe": (b"words", "expected a text file that ends with"),
    "binary.md": (bytes(range(256)) * 9, "found binary data"),
    "empty.md": (b"\n \n", "holds no text"),
    "front.md": (b"---\nname: x\n---\n", "holds no text"),
    "long.txt": (b"a" * (LONGEST_PROMPT + 1), "expected at most 65,536 characters"),
    "large.md": (b"a" * (5 * LONGEST_PROMPT), "too much for this file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_a_sentence(tmp_path, name):
    raw, words = HOSTILE[name]
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(FileError) as error:
        read_prompt(tmp_path / name)
    assert words in str(error.value) and name in str(error.value) and "\n" not in str(error.value)


def test_of_many_hostile_files_a_few_are_told_and_the_good_one_comes(library, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        (folder / f"bad{number}.md").write_bytes(b"\0\1\2")
    (folder / "good.md").write_text("words")
    assert library.do(does.ImportPrompts((str(folder),))) == {"good": "words"}
    assert len(library.told) == 1 + MOST_WARNINGS + 1 and "3 more files" in library.told[-1]
    library.do(does.ImportPrompts((str(tmp_path / "nowhere.md"),)))
    assert "no such file" in library.told[0]
    os.mkfifo(tmp_path / "pipe.md")
    library.do(does.ImportPrompts((str(tmp_path / "pipe.md"),)))
    assert "not a regular file" in library.told[0]


@pytest.mark.parametrize("text", ["plain", "---\nname: no\n---\nyes", "--- no", "{{a}}\n\n\n{{b}}"])
def test_what_is_written_is_read_again(tmp_path, text):
    prompt = SavedPrompt("A name", text)
    (tmp_path / "A name.md").write_bytes(written(prompt))
    assert read_prompt(tmp_path / "A name.md") == prompt


def test_names_are_those_of_files():
    assert "/" not in prompt_name("../../x\n")
    assert prompt_name("...") == "prompt" and prompt_name("요약 (short)") == "요약 (short)"


def test_places_are_found_once_and_filled():
    prompt = SavedPrompt("x", "{{ a }} and {{b c}} and {{a}}, {{}} {{ {x} }} { {y} }")
    assert prompt.places == ("a", "b c")
    said = filled(prompt.text, {"a": "{{b c}}"})
    assert said == "{{b c}} and {{b c}} and {{b c}}, {{}} {{ {x} }} { {y} }"


def test_names_are_found_before_texts():
    library = PromptLibrary(
        (SavedPrompt("Zebra", "x"), SavedPrompt("a", "about a zebra"), SavedPrompt("b", "y"))
    )
    assert [p.name for p in library.found("zeb")] == ["Zebra", "a"]
    assert len(library.found("")) == 3 and library.found("nothing") == ()
