"""The history for the window: new messages are written to it, readings come back as actions.

Readings wait for a disk, so one thread makes them all, in turn. Changes of the list go through a
journal there, which can undo them. Messages are written by the recorder, on the thread that draws:
it waits for nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import get_args

from msgspec import Struct

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.files.leftovers import remove_whole
from llm_lite.core.files.places import expanded
from llm_lite.core.files.writing import make_folder
from llm_lite.core.handles import Report
from llm_lite.core.history import (
    ConversationSummary,
    ConversationTree,
    FoundMessage,
    History,
    HistoryChangedElsewhere,
    HistoryEvent,
    HistoryOpened,
    HistoryRefused,
    HistoryRepaired,
    HistorySaved,
    HistorySavedAgain,
    HistoryUnsaved,
    Journal,
    JournalEntry,
    PageCursor,
    SavedCache,
    fork,
    title_of_model,
)
from llm_lite.core.history.caches import CacheCatalogue
from llm_lite.core.messages import (
    CacheKept,
    CheckKept,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    Level,
    MakeTitle,
    ResumeKept,
    TitleMade,
)
from llm_lite.desktop.features.history import model as does
from llm_lite.desktop.features.history.host_recorder import Recorder, fit_extras, in_chat
from llm_lite.desktop.features.history.model import fit_title
from llm_lite.desktop.features.history.state import ROWS, ConversationRow, FoundRow, HistoryPart
from llm_lite.desktop.features.history.titles import AskTitle, TitleWanted
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.palette.model import PaletteAnswered, SearchPalette
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import ReportDefect, defect_of
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume import model as resuming
from llm_lite.desktop.features.resume.model import KeptFound, KeptListed
from llm_lite.desktop.features.resume.state import BUDGET, KeptCache
from llm_lite.desktop.features.undo.model import (
    LIST_LABELS,
    OF_THE_LIST,
    JournalKept,
    Journalled,
    UndoAction,
    is_for_history,
)
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import tr, trn

SNIPPET = 400  # characters


FOLDER = "caches"  # beside the history
STRAY = 3600.0  # seconds; a younger file may be another window's, whose row is not there yet


class KeptCaches:
    def __init__(self, history: History) -> None:
        self.folder = history.path.parent / FOLDER
        self._history = history
        self._catalogue = CacheCatalogue(history, self.folder, BUDGET)

    def listed(self) -> KeptListed:
        """Return all kept caches."""
        return KeptListed(tuple(self._there()), str(self.folder))

    def found(self, conversation: int) -> list[KeptFound]:
        """Return the action that offers a conversation's file, if it has one."""
        cache = self._of(conversation)
        if cache is None or not self._catalogue.path(cache).is_file():
            return []
        self._catalogue.use(cache)
        return [KeptFound(conversation, str(self._catalogue.path(cache)))]

    def add(self, asked: KeepConversation, event: CacheKept, budget: int) -> None:
        """Add a file that was written, or remove it if its conversation is gone."""
        path, summary = Path(asked.path), self._history.summary(asked.conversation)
        if path.parent != self.folder:
            return
        if summary is None or summary.deleted is not None:
            remove_whole(path)
            return
        self._catalogue.budget = budget
        self._catalogue.add(asked.conversation, None, path.name, event.bytes, event.model)

    def fit(self, budget: int) -> None:
        self._catalogue.budget = budget
        self._catalogue.enforce()

    def remove(self, conversations: Collection[int] | None = None) -> None:
        """Remove the caches of these conversations, or all of them for None."""
        for cache in self._catalogue.caches():
            if conversations is None or cache.conversation in conversations:
                self._catalogue.remove(cache)

    def tidy(self) -> None:
        """Remove files of conversations that are gone, and files that are not listed."""
        self._catalogue.budget = sum(cache.bytes for cache in self._catalogue.caches())
        self._catalogue.enforce()
        known = {cache.file for cache in self._catalogue.caches()}
        for path in self.folder.glob("*.kv"):
            with suppress(OSError):
                if path.name not in known and time.time() - path.stat().st_mtime > STRAY:
                    remove_whole(path)

    def _of(self, conversation: int) -> SavedCache | None:
        caches = (c for c in self._catalogue.caches() if c.conversation == conversation)
        return max(caches, key=lambda cache: cache.created, default=None)

    def _there(self) -> Iterator[KeptCache]:
        for cache in self._catalogue.caches():
            summary = None
            if cache.conversation is not None:
                summary = self._history.summary(cache.conversation)
            if summary is not None:
                title = fit_title(summary.title)
                yield KeptCache(summary.id, title, cache.bytes, cache.created)


FIRST_SEARCH, WHOLE_SEARCH = 0.04, 2.0  # seconds: at once, and where typing has ended
FOUND = 60  # results
PALETTE = 30  # results in the command palette
Needs = does.NeedsHistory | resuming.NeedsCaches | AskTitle | SearchPalette
Act = (
    does.HistoryAction
    | UndoAction
    | resuming.ResumeAction
    | TitleWanted
    | ReportDefect
    | PaletteAnswered
)
Job = Callable[[], Iterable[Act]]


class Reading(Struct, frozen=True):
    """The actions of a conversation that was read. They are done if no other was to be read after
    it: an earlier reading may lack what was written since."""

    number: int
    actions: tuple[Act, ...]


ReadingJob = Callable[[], Iterable[Act | Reading]]


class HistoryHost(Host):
    """The file of conversations. `wake` is called on another thread when `poll` has something."""

    actions = get_args(Needs)

    def __init__(self, path: Path, wake: Callable[[], None]) -> None:
        self.history = History(path, wake)
        self.recorder = Recorder(self.history)
        self._caches = KeptCaches(self.history)
        self._journal = Journal(self.history)
        self._wake = wake
        self._jobs: SimpleQueue[ReadingJob | None] = SimpleQueue()
        self._done: deque[Act | Reading] = deque()
        self._readings = 0  # of conversations, that were asked for
        self._part: HistoryPart = "all"
        self._cursor: PageCursor | None = None  # where the rows end that were read
        self._last: int | None = None  # and their last one
        self._paging = False
        self._shared: set[int] = set()  # conversations that another window was found to write to
        self._query = ""
        self._palette_query = ""
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)
        self._thread.start()
        self._submit(self._first_rows)
        self._submit(lambda: self._change_caches(self._caches.tidy))

    # On the thread that draws

    def note(self, state: AppState, now: float) -> int | None:
        """Write what is new in `state`, and return the conversation that it is kept as."""
        self.recorder.note(state, now)
        return self.recorder.conversation

    def poll(self, state: AppState) -> list[Act]:
        """Return the actions that follow from readings and from changes of the file."""
        for event in self.history.poll():
            self._handle(event)
        found = list[Act]()
        while self._done:
            one = self._done.popleft()
            if not isinstance(one, Reading):
                found.append(one)
            elif one.number == self._readings:
                found += one.actions
        return found

    def take(self, report: Report, state: AppState) -> None:
        """Handle an event of the engine on caches and titles."""
        budget, caches = state.resume.budget, self._caches  # the budget: bytes of all kept caches
        match report.command, report.event:
            case KeepConversation() as asked, CacheKept() as kept:
                self._submit(lambda: self._change_caches(lambda: caches.add(asked, kept, budget)))
            case (CheckKept(number), KeptChecked(unfit="damaged")) | (
                ResumeKept(number),
                KeptResumed(unfit="damaged"),
            ):
                self._submit(lambda: self._change_caches(lambda: caches.remove([number])))
            case MakeTitle(number), TitleMade(text):
                self._submit(lambda: self._entitle(number, text))

    def do(self, action: Needs, state: AppState) -> Sequence[Action]:
        if is_for_history(action, state):
            self._begin(action)
        return ()

    def _begin(self, action: Needs) -> None:
        match action:
            case resuming.SetResume(mode, budget):
                del mode
                self._submit(lambda: self._change_caches(lambda: self._caches.fit(budget)))
            case resuming.ClearKept(one):
                which = None if one is None else [one]
                self._submit(lambda: self._change_caches(lambda: self._caches.remove(which)))
            case AskTitle(number):
                self._submit(lambda: self._ask_title(number))
            case does.OpenConversation(number, message):
                self._open(number, message)
            case does.ForkConversation(message):
                self._fork(message)
            case does.SearchHistory(query):
                self._query = query
                self._submit(lambda: self._search(query, FIRST_SEARCH))
            case SearchPalette(query):
                self._palette_query = query
                self._submit(lambda: self._search_palette(query))
            case does.ShowHistoryPart(part):
                self._part = part
                self._submit(self._first_rows)
            case does.WantMoreRows():
                if not self._paging:
                    self._paging = True
                    self._submit(self._next_rows)
            case _:
                if type(action) in LIST_LABELS:
                    self._submit(lambda: self._journalled(lambda: self._change(action)))
                else:
                    self._submit(lambda: self._change(action))

    def end(self) -> None:
        """Write the rest of the chat, which is then saved while other things end."""
        self.recorder.end()

    def finish(self, seconds: float) -> bool:
        """Save the rest within `seconds`; return whether all is saved."""
        self._jobs.put(None)
        self._thread.join(seconds / 2)  # a cache that was written at the end is listed then
        return self.history.close(seconds)

    def _open(self, number: int, message: int | None) -> None:
        here = number == self.recorder.conversation
        self._readings += 1
        reading = self._readings
        if here and message is not None and self.recorder.shows(message):
            self._tell(does.Reveal(message))
        else:
            self._submit(lambda: [Reading(reading, tuple(self._read(number, message)))])

    def _fork(self, message: int) -> None:
        self.recorder.keep_extras()
        number = self.recorder.conversation if self.recorder.has(message) else None
        self._submit(lambda: self._journalled(lambda: self._make_fork(number, message)))

    def _handle(self, event: HistoryEvent) -> None:
        match event:
            case HistorySaved(numbers):
                self._submit(lambda: self._rows_of(numbers))
            case HistoryChangedElsewhere():
                self._submit(self._first_rows)
                self._submit(self._written_elsewhere)
            case HistoryOpened(message):
                self._submit(self._first_rows)
                if message:
                    self._tell(does.TellHistory("warning", message))
            case HistoryUnsaved(message) | HistoryRefused(message):
                self._tell(does.TellHistory("error", message))
            case HistoryRepaired(message):
                self._submit(self._first_rows)
                self._tell(does.TellHistory("warning", message))
            case HistorySavedAgain(message):
                self._tell(does.TellHistory("info", message))

    def _submit(self, job: ReadingJob) -> None:
        self._jobs.put(job)

    def _tell(self, *actions: Act | Reading) -> None:
        self._done.extend(actions)
        self._wake()

    # On the thread that reads

    def _work(self) -> None:
        self.history.wait_until_open()
        while (job := self._jobs.get()) is not None:
            try:
                self._tell(*job())
            except LlmLiteError as error:
                self._tell(does.TellHistory("warning", str(error)))
            except Exception as error:
                self._tell(defect_of("conversations could not be read", error))

    def _first_rows(self) -> Iterable[Act]:
        return self._page(None, ROWS)

    def _next_rows(self) -> Iterable[Act]:
        self._paging = False
        return self._page(self._cursor, ROWS) if self._cursor is not None else ()

    def _page(self, after: PageCursor | None, limit: int) -> Iterable[Act]:
        part = self._part
        if part == "deleted":
            gone = self.history.deleted()
            return [does.RowsRead(part, tuple(map(row_of, gone)), more=False)]
        page = self.history.page(after, limit=limit, archived=part == "archived")
        last = after.id if after is not None else None
        self._cursor = page.next
        rows = tuple(map(row_of, page.conversations))
        return [does.RowsRead(part, rows, page.next is not None, last)]

    def _written_elsewhere(self) -> Iterable[Act]:
        """Tell, once, that another window wrote to the conversation in the chat."""
        number = self.recorder.conversation
        if number is None or number in self._shared:
            return ()
        stored = self.history.conversation(number)
        if stored is None or all(self.recorder.has(one.id) for one in stored.messages):
            return ()
        if number != self.recorder.conversation:
            return ()
        self._shared.add(number)
        words = tr(
            "Another window wrote to this conversation too. What it wrote is kept beside yours: "
            "open another conversation and then this one to see it."
        )
        return [does.TellHistory("info", words)]

    def _rows_of(self, numbers: Collection[int]) -> Iterable[Act]:
        known = {number: self.history.summary(number) for number in numbers}
        rows = tuple(row_of(summary) for summary in known.values() if summary is not None)
        gone = tuple(number for number, summary in known.items() if summary is None)
        return [does.RowsChanged(rows, gone)]

    def _read(self, number: int, message: int | None) -> Iterable[Act]:
        try:
            stored = self.history.conversation(number)
            if stored is not None and message is not None:
                self.history.show(ConversationTree.of(stored).path_to(message))
                stored = self.history.conversation(number)
        except LlmLiteError as error:
            return [does.ConversationMissing(number, str(error))]
        if stored is None:
            return [does.ConversationMissing(number, "")]
        tree, prompt = in_chat(stored), typed(stored.summary.system_prompt)
        reveal = message if message is not None and tree.find(message) is not None else None
        read = does.ConversationRead(number, tree, prompt, reveal, fit_extras(stored.extras))
        return [read, *self._caches.found(number)]

    def _change_caches(self, change: Callable[[], None]) -> Iterable[Act]:
        change()
        return [self._caches.listed()]

    def _ask_title(self, number: int) -> Iterable[Act]:
        summary = self.history.summary(number)
        wanted = summary is not None and summary.title_source in ("none", "message")
        return [TitleWanted(number)] if wanted else []

    def _entitle(self, number: int, text: str) -> Iterable[Act]:
        """Set the title that the model made; nonsense leaves the title that is there."""
        stored = self.history.conversation(number)
        content = " ".join(message.text for message in stored.messages) if stored else ""
        title = title_of_model(text, content)
        if title:
            self.history.set_title(number, title, "model")
        return self._rows_of([number])

    def _search(self, query: str, seconds: float) -> Iterable[Act]:
        if query != self._query or not query.strip():
            return ()
        results = self.history.search(query, limit=FOUND, seconds=seconds)
        if not results.complete and len(results.found) < FOUND and seconds < WHOLE_SEARCH:
            self._submit(lambda: self._search(query, WHOLE_SEARCH))
        return [does.SearchAnswered(query, tuple(map(found_row, results.found)), results.complete)]

    def _search_palette(self, query: str) -> Iterable[Act]:
        """Return one place for each conversation, or nothing for a query that was replaced."""
        if query != self._palette_query or not query.strip():
            return ()
        results = self.history.search(query, limit=PALETTE, seconds=FIRST_SEARCH)
        first: dict[int, FoundMessage] = {}
        for found in results.found:
            first.setdefault(found.conversation, found)
        return [PaletteAnswered(query, tuple(map(found_row, first.values())))]

    def _change(self, action: does.NeedsHistory) -> Iterable[Act]:
        journal = self._journal
        match action:
            case does.RenameConversation(number, title):
                if title := does.fit_title(title):
                    journal.rename(number, title)
                return self._rows_of([number])
            case does.PinConversation(number, pinned):
                journal.pin(number, pinned)
                return self._rows_of([number])
            case does.ArchiveConversation(number, archived):
                journal.archive(number, archived)
                words = tr("Archived the conversation.")
                words = words if archived else tr("Restored.")
                return [*self._rows_of([number]), does.TellHistory("info", words, undo=True)]
            case does.DeleteConversation(number):
                journal.delete([number])
                self._caches.remove([number])
                words = tr("Deleted the conversation.")
                notice = does.TellHistory("info", words, undo=True)
                return [*self._rows_of([number]), self._caches.listed(), notice]
            case does.RestoreConversation(number):
                journal.restore([number])
                return self._rows_of([number])
            case does.DeleteAll():
                count = journal.delete_all()
                self._caches.remove()
                words = trn("Deleted {n:,} conversation.", "Deleted {n:,} conversations.", count)
                words = words.format(n=count)
                notice = does.TellHistory("info", words, undo=True)
                return [*self._first_rows(), self._caches.listed(), notice]
            case does.EmptyTrash():
                gone = [summary.id for summary in self.history.deleted()]
                self.history.purge()
                journal.forget(gone)
                return [*self._first_rows(), JournalKept(journal.numbers)]
            case does.UndoHistory():
                return self._moved(journal.undo(), back=True)
            case does.RedoHistory():
                return self._moved(journal.redo(), back=False)
            case does.ExportConversation(number, kind, path):
                return self._export(number, kind, path)
            case does.ImportConversations(path):
                return self._import(path)
        return ()

    def _journalled(self, work: Job) -> Iterable[Act]:
        """Change the list, with a step that is undone in its turn among those of the chat."""
        before, found = self._journal.last, list[Act]()
        try:
            found += work()
        except LlmLiteError as error:
            found.append(does.TellHistory("warning", str(error)))
        except Exception as error:  # each request needs one answer, in order
            found.append(defect_of("the conversations could not be changed", error))
        newest = self._journal.newest
        if newest is None or self._journal.last == before:
            return [Journalled(0), *found]
        return [Journalled(newest.number, newest.label), *found]

    def _moved(self, entry: JournalEntry | None, *, back: bool) -> Iterable[Act]:
        if entry is None:
            return ()
        numbers = {number for change in entry.done for number in change.conversations}
        rows = self._rows_of(numbers) if len(numbers) < ROWS else self._first_rows()
        words = tr("Undone: {what}.") if back else tr("Redone: {what}.")
        words = words.format(what=tr(OF_THE_LIST.get(entry.label, entry.label)))
        left = does.LeaveConversations(entry.gone(back=back))
        source = [does.OpenConversation(entry.source)] if back and entry.source else []
        return [*rows, left, *source, does.TellHistory("info", words)]

    def _make_fork(self, number: int | None, message: int) -> Iterable[Act]:
        stored = self.history.conversation(number) if number is not None else None
        if stored is None:
            return [does.TellHistory("warning", tr("There is nothing to make a fork of."))]
        bare = does.fit_title(stored.summary.title)[: does.TITLE - 20]
        title = tr("{title} (fork)").format(title=bare) if bare else ""
        made = self._journal.fork(fork(stored, message, title))
        notice = does.TellHistory("info", tr("This is a fork: the other one is in the list."))
        return [*self._rows_of([made]), does.OpenConversation(made), notice]

    def _export(self, number: int, kind: does.FileKind, path: str) -> Iterable[Act]:
        from llm_lite.core.history.exchange.exporting import export_file

        stored = self.history.conversation(number)
        if stored is None:
            return [does.ConversationMissing(number, "")]
        wanted = expanded(path)
        make_folder(wanted.parent)
        export_file([stored], kind, wanted)
        return [does.TellHistory("info", tr("Saved {path}").format(path=wanted))]

    def _import(self, path: str) -> Iterable[Act]:
        from llm_lite.core.history.exchange.importing import read_conversations

        imported = read_conversations(expanded(path))
        self._journal.add(imported.conversations)
        level: Level = "warning" if imported.notes else "info"
        count = len(imported.conversations)
        words = trn("Imported {n:,} conversation.", "Imported {n:,} conversations.", count)
        words = words.format(n=count)
        if imported.notes:
            words += f" {imported.notes[0]}"
        return [*self._first_rows(), does.TellHistory(level, words, undo=True)]


def row_of(summary: ConversationSummary) -> ConversationRow:
    part: HistoryPart = "archived" if summary.archived else "all"
    if summary.deleted is not None:
        part = "deleted"
    title = does.fit_title(summary.title)
    return ConversationRow(summary.id, title, summary.updated, summary.pinned, part)


def found_row(found: FoundMessage) -> FoundRow:
    """Return a result on one line: whitespace becomes spaces, one each, so that marks stay."""
    snippet = "".join(char if char.isprintable() else " " for char in found.snippet[:SNIPPET])
    marks = tuple((a, min(b, len(snippet))) for a, b in found.marks if a < len(snippet))
    title = does.fit_title(found.title)
    return FoundRow(found.conversation, title, found.message, found.created, snippet, marks)
