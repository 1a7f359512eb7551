"""The folder of prompts, a file each. A thread reads and writes it: a disk may be slow."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import get_args

from llm_lite.core.attachments import decode
from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.json_text import read_bytes
from llm_lite.core.files.places import expanded, plain_name, user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.writing import make_folder, reason, write_file
from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import ReportDefect, defect_of
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts import model as does
from llm_lite.desktop.features.prompts.state import LONGEST_NAME, LONGEST_PROMPT, SavedPrompt
from llm_lite.desktop.language.translate import mark, tr, trn

ENDINGS = (".md", ".markdown", ".txt")
_LARGEST = 4 * LONGEST_PROMPT  # bytes
_FRONT = re.compile(r"---[ \t]*\n(.{0,4000}?)\n---[ \t]*(?:\n|$)", re.DOTALL)
_NAME = re.compile(r"^(?:name|title)[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)


_EXAMPLES = (
    (
        mark("Summarize"),
        mark("Summarize the attached text in {{number}} sentences. Keep names and numbers exact."),
    ),
    (
        mark("Translate"),
        mark("Translate this into {{language}}, and keep its tone:\n\n{{text}}"),
    ),
    (
        mark("Review code"),
        mark(
            "Read the attached code. Name the three most likely mistakes: for each the line, what "
            "goes wrong, and a correction."
        ),
    ),
    (
        mark("Explain to a beginner"),
        mark("Explain {{subject}} to somebody who is new to it. Use one example."),
    ),
)
MOST_PROMPTS = 500
MOST_WARNINGS = 3  # problems of one import; of the others, their number
Act = does.PromptAction | ReportDefect


def prompts_folder() -> Path:
    return user_folder("data") / "prompts"


class PromptFiles(Host):
    """The folder of saved prompts."""

    actions = get_args(does.PromptFileAction)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._jobs: SimpleQueue[does.PromptFileAction] = SimpleQueue()
        self._done: deque[Act] = deque()
        self._deleted: SavedPrompt | None = None
        self._thread: threading.Thread | None = None

    def do(self, action: does.PromptFileAction, state: AppState) -> Sequence[Action]:
        self._jobs.put(action)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="prompts", daemon=True)
            self._thread.start()
        return ()

    def poll(self, state: AppState) -> list[Act]:
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    # On the thread of its own

    def _work(self) -> None:
        while True:
            action = self._jobs.get()
            try:
                self._done.extend(self._carried_out(action))
            except Exception as error:
                self._done.append(defect_of("the prompts could not be changed", error))
            self.wake()

    def _carried_out(self, action: does.PromptFileAction) -> list[Act]:
        follows: list[Act] = []
        try:
            follows += self._change(action)
        except LlmLiteError as error:
            follows.append(does.TellPrompts("warning", str(error)))
        prompts, problems = self._all()
        return [does.PromptsRead(prompts, self._deleted), *follows, *_warnings(problems)]

    def _change(self, action: does.PromptFileAction) -> Iterable[Act]:
        match action:
            case does.SavePrompt(name, text, before):
                return self._save(SavedPrompt(prompt_name(name), text), before)
            case does.DeletePrompt(name):
                return self._delete(name)
            case does.RestorePrompt():
                if self._deleted is not None:
                    known = [prompt.name for prompt in self._all()[0]]
                    name = _free_name(self._deleted.name, known)
                    self._write(SavedPrompt(name, self._deleted.text))
                    self._deleted = None
            case does.ImportPrompts(paths):
                return self._import(paths)
            case does.ExportPrompts(path, name):
                return self._export(expanded(path), name)
            case does.AddExamples():
                for prompt in examples():
                    if not self._path(prompt.name).exists():
                        self._write(prompt)
        return ()

    def _all(self) -> tuple[tuple[SavedPrompt, ...], list[str]]:
        """Return the prompts of the folder, and a sentence for each file that cannot be used."""
        prompts, problems = dict[str, SavedPrompt](), list[str]()
        try:
            paths = self._paths(self.folder)
        except FileError as error:
            return (), [str(error)]
        for path in paths:
            if path != self._path(path.stem):  # the same name with another ending
                continue
            try:
                prompt = read_prompt(path, private=True)
            except FileError as error:
                problems.append(f"{path.name}: {error.problem}")
                continue
            if path.stem != prompt_name(path.stem):
                words = tr("{name}: no prompt can have this name; rename the file.")
                problems.append(words.format(name=one_line(path.name)))
                continue
            # A file is found again by its name, whatever stands in it.
            prompts[path.stem] = SavedPrompt(path.stem, prompt.text)
        return tuple(prompts[name] for name in sorted(prompts, key=str.casefold)), problems

    def _paths(self, folder: Path) -> list[Path]:
        try:
            there = [path for path in folder.iterdir() if path.suffix.lower() in ENDINGS]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(folder, f"cannot be read: {reason(error)}") from None
        return sorted(there)[:MOST_PROMPTS]

    def _path(self, name: str) -> Path:
        """Return the path of the file of a prompt, whether or not it exists."""
        known = (self.folder / f"{name}{ending}" for ending in ENDINGS)
        return next((path for path in known if path.is_file()), self.folder / f"{name}{ENDINGS[0]}")

    def _write(self, prompt: SavedPrompt) -> None:
        private_folder(self.folder)
        write_file(self._path(prompt.name), written(prompt), private=True)

    def _save(self, prompt: SavedPrompt, before: str) -> Iterable[Act]:
        if not prompt.text.strip():
            words = tr("{name} has no text: a prompt has some.").format(name=prompt.name)
            return [does.TellPrompts("warning", words)]
        if prompt.name != before and self._path(prompt.name).exists():
            words = tr("There is a prompt {name} already: choose another name.")
            return [does.TellPrompts("warning", words.format(name=prompt.name))]
        self._write(prompt)
        if before and before != prompt.name:
            self._remove(before)
        words = tr("Saved the prompt {name}.").format(name=prompt.name)
        return [does.TellPrompts("info", words)]

    def _delete(self, name: str) -> Iterable[Act]:
        if name == prompt_name(name) and self._path(name).is_file():
            gone = read_prompt(self._path(name), private=True)
            self._remove(name)
            self._deleted = SavedPrompt(name, gone.text)
        return ()

    def _remove(self, name: str) -> None:
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FileError(path, f"cannot be deleted: {reason(error)}") from None

    def _import(self, names: tuple[str, ...]) -> Iterable[Act]:
        paths: list[Path] = []
        for name in names:
            path = expanded(name)
            paths += self._paths(path) if path.is_dir() else [path]
        known = {prompt.name: prompt.text for prompt in self._all()[0]}
        problems, count = list[str](), 0
        for path in paths:
            try:
                prompt = read_prompt(path)
            except FileError as error:
                problems.append(str(error))
                continue
            if known.get(prompt.name) == prompt.text:
                problems.append(tr("{name} is in the library already.").format(name=prompt.name))
                continue
            if len(known) >= MOST_PROMPTS:
                words = tr("The library is full: it holds {most} prompts.")
                problems.append(words.format(most=MOST_PROMPTS))
                break
            prompt = SavedPrompt(_free_name(prompt.name, known), prompt.text)
            known[prompt.name] = prompt.text
            self._write(prompt)
            count += 1
        if not paths:
            problems.append(tr("There is no prompt in {path}.").format(path=", ".join(names)))
        words = trn("Imported {n} prompt.", "Imported {n} prompts.", count).format(n=count)
        done = [does.TellPrompts("info", words)] if count else []
        return [*done, *_warnings(problems)]

    def _export(self, path: Path, name: str) -> Iterable[Act]:
        prompts = [prompt for prompt in self._all()[0] if name in ("", prompt.name)]
        if path.is_dir() or not name:
            make_folder(path)
            for prompt in prompts:
                write_file(path / f"{prompt.name}{ENDINGS[0]}", written(prompt), new=True)
        elif prompts:
            write_file(path, written(prompts[0]), new=True)
        words = tr("Wrote {count} to {path}.")
        count = trn("{n} prompt", "{n} prompts", len(prompts)).format(n=len(prompts))
        return [does.TellPrompts("info", words.format(count=count, path=path))]


def _free_name(name: str, known: Iterable[str]) -> str:
    taken, number, free = {one.casefold() for one in known}, 2, name
    while free.casefold() in taken:
        end = f" {number}"
        free, number = f"{name[: LONGEST_NAME - len(end)].rstrip(' .-')}{end}", number + 1
    return free


def _warnings(problems: list[str]) -> list[Act]:
    shown = problems[:MOST_WARNINGS]
    follows: list[Act] = [does.TellPrompts("warning", problem) for problem in shown]
    if len(problems) > MOST_WARNINGS:
        more = len(problems) - MOST_WARNINGS
        words = trn("{n} more file could not be used.", "{n} more files could not be used.", more)
        follows.append(does.TellPrompts("warning", words.format(n=more)))
    return follows


def examples() -> tuple[SavedPrompt, ...]:
    """Return the examples in the language in use."""
    return tuple(SavedPrompt(tr(name), tr(text)) for name, text in _EXAMPLES)


def prompt_name(name: str) -> str:
    """Return the name of the file, without its suffix, of a prompt of this name."""
    return plain_name(name, LONGEST_NAME, "prompt")


def read_prompt(path: Path, *, private: bool = False) -> SavedPrompt:
    """Read a prompt. Raise FileError where the file holds none."""
    if path.suffix.lower() not in ENDINGS:
        raise FileError(path, f"expected a text file that ends with one of {', '.join(ENDINGS)}")
    text = decode(read_bytes(path, _LARGEST, private=private))
    if text is None:
        raise FileError(path, "expected a text, found binary data")
    name, front = path.stem, _FRONT.match(text)
    if front is not None:
        text = text[front.end() :]
        named = _NAME.search(front[1])
        name = named[1].strip(" \"'") if named else name
    text = text.strip("\n")
    if not text.strip():
        raise FileError(path, "holds no text: a prompt has some")
    if len(text) > LONGEST_PROMPT:
        expected = f"expected at most {LONGEST_PROMPT:,} characters, found {len(text):,}"
        raise FileError(path, expected)
    return SavedPrompt(prompt_name(name), text)


def written(prompt: SavedPrompt) -> bytes:
    """Return the bytes of a prompt's file. A text that begins like front matter is given some, so
    that `read_prompt` returns it whole."""
    text = prompt.text.strip("\n")
    if text.startswith("---"):
        text = f"---\nname: {prompt.name}\n---\n{text}"
    return f"{text}\n".encode(errors="backslashreplace")
