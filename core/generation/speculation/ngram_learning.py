"""Drafts from answers of other conversations: which token followed the same last tokens before.

A table of fixed size, which each model has on disk, is read when the engine is idle and written now
and then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from llm_lite.core.errors import FileError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.speculation import ngram_file as file
from llm_lite.core.generation.speculation.draft import NO_DRAFT, Draft
from llm_lite.core.generation.speculation.ngram_file import LearnedModel, Stamp
from llm_lite.core.generation.speculation.ngram_table import LONGEST, SHORTEST, NgramTable
from llm_lite.core.records import replace

NGRAMS = "ngrams"  # the name of this source

# Of every token of a draft behind the first: less is right less often than every second time.
LEAST_EVIDENCE = 4

# Tokens of answers between two writings: a killed program loses no more than these, and a token
# costs the disk 0.7 kB.
SAVED_EVERY = 2048
_MOST_KEPT = 1 << 16  # tokens of answers that wait for an idle engine, or for a disk with room


class NgramSource:
    """Proposes the tokens that followed, one after the other, as long as enough speaks for them.

    Its evidence is that of the first token, see `Follower`. It changes nothing in the table.
    """

    name = NGRAMS
    seconds_per_token = 0.0

    def __init__(self, table: Callable[[], NgramTable | None]) -> None:
        """Make the source. `table` returns the table for each draft; None while there is none."""
        self._table = table
        self._last: deque[int] = deque(maxlen=LONGEST)  # tokens of the text

    def begin(self, tokens: Sequence[int]) -> None:
        self._last.clear()
        self._last.extend(tokens[-LONGEST:])

    def add(self, token: int) -> None:
        self._last.append(token)

    def draft(self, most: int, should_stop: StopCheck | None = None) -> Draft:
        table = self._table()
        if table is None:
            return NO_DRAFT
        tokens: list[int] = []
        text, evidence, least = [*self._last], 0, 1
        while len(tokens) < most:
            found = table.follower(text)
            if found is None or found.evidence < least:
                break
            tokens.append(found.token)
            text.append(found.token)
            evidence, least = evidence or found.evidence, LEAST_EVIDENCE
        return Draft(tuple(tokens), evidence)


class LearnedDrafts:
    """The learned drafts of one model, for the engine's thread. Answers are learned when the engine
    is idle.

    The file is what counts: another program of the same person may write or delete it meanwhile.
    What was learned here since the last writing is learned again on top of what the other wrote; of
    two programs that write in the same instant, the last one wins. Once the file was deleted, all
    that was learned here until then is gone too.
    """

    def __init__(
        self, name: str, vocabulary: int, identity: Callable[[], str], *, learns: bool
    ) -> None:
        """Make the learned drafts. `identity` returns a hash of the model, which takes a moment
        (FileError). Without `learns` drafts are only made of what was learned before."""
        self.learns = learns
        self.source = NgramSource(lambda: self._table)
        self._name, self._vocabulary, self._identity = name, vocabulary, identity
        self._model: LearnedModel | None = None  # of the table; None before it was read
        self._table: NgramTable | None = None
        self._stamp: Stamp | None = None  # of the file, as it was read or written
        self._pending: list[tuple[int, ...]] = []  # answers that are not in the table yet
        self._unsaved: list[tuple[int, ...]] = []  # answers that are not in the file yet
        self._since_saving = 0  # tokens
        self._has_failed = False  # to write the file
        self._log: Callable[[str], None] = lambda sentence: None

    def report_to(self, log: Callable[[str], None]) -> None:
        """Set the log, which is called with what was wrong with the file."""
        self._log = log

    @property
    def model(self) -> LearnedModel | None:
        """Return how much was learned; None before the file was read."""
        return self._model

    def learn(self, answer: Sequence[int]) -> None:
        """Queue the tokens of an answer, as the model wrote them, to be learned."""
        if self.learns and len(answer) > SHORTEST:
            self._pending.append(tuple(answer))
            _bound(self._pending)

    def work(self) -> bool:
        """Do a piece of the work, milliseconds of it, and return whether there was anything."""
        if self._table is None:
            self._open()
        elif self._pending:
            self._learn_from(self._pending.pop(0))
        elif self._since_saving >= SAVED_EVERY:
            self._save()
        else:
            return False
        return True

    def close(self) -> None:
        """Write what is not written yet."""
        if self._pending and self._table is None:
            self._open()
        while self._pending:
            self._learn_from(self._pending.pop(0))
        if self._unsaved:
            self._save()

    def forget(self) -> None:
        """Forget all that was learned, in memory; the file is deleted by `file.remove`."""
        self._pending = []
        if self._model is not None:
            self._empty()

    def _empty(self) -> None:
        """Empty the table, in memory."""
        assert self._model is not None
        self._model = replace(self._model, answers=0, tokens=0)
        self._table, self._unsaved, self._since_saving = NgramTable(), [], 0

    def _notice_deletion(self) -> None:
        """Empty the table if another program has deleted the file. It is checked before each answer
        that is learned, so that those which came before are gone too and those behind stay."""
        assert self._model is not None
        if self._stamp and file.stamp_of(file.file_of(self._model.identity)) is None:
            self._stamp = None
            self._empty()

    def _open(self) -> None:
        """Open the table once; if the model's file cannot be read, nothing is learned from it."""
        try:
            identity = self._identity()
        except FileError as error:
            self._log(f"learned drafts: {error}; nothing is learned")
            self.learns, identity = False, ""
            self._pending = []
        self._model = LearnedModel(identity, self._name, self._vocabulary)
        self._table = NgramTable()
        if identity:
            self._read()

    def _read(self) -> None:
        """Read what the file holds now; the table is empty without a file that can be used."""
        assert self._model is not None
        path = file.file_of(self._model.identity)
        self._stamp = file.stamp_of(path)
        self._model = replace(self._model, answers=0, tokens=0)
        self._table = NgramTable()
        if self._stamp is None or not self._stamp.size:  # none, or one that is just being made
            return
        try:
            self._model, self._table = file.read(path, self._model.identity, self._vocabulary)
        except FileError as error:
            self._log(f"learned drafts: {error}; they begin with nothing learned")

    def _learn_from(self, answer: tuple[int, ...]) -> None:
        self._notice_deletion()
        self._unsaved.append(answer)
        self._since_saving += len(answer)
        self._add(answer)

    def _add(self, answer: tuple[int, ...]) -> None:
        assert self._model is not None and self._table is not None
        self._table.learn(answer)
        counted = self._model.answers + 1, self._model.tokens + len(answer)
        self._model = replace(self._model, answers=counted[0], tokens=counted[1])

    def _save(self) -> None:
        """A failure to write is logged once, and tried again later."""
        assert self._model is not None and self._table is not None
        self._notice_deletion()
        if not self._unsaved:
            return
        self._since_saving = 0
        path = file.file_of(self._model.identity)
        if file.stamp_of(path) != self._stamp:
            self._read()
            for answer in self._unsaved:
                self._add(answer)
        try:
            file.write(path, self._model, self._table)
        except FileError as error:
            if not self._has_failed:
                self._log(f"learned drafts: {error}; they are tried again later")
            self._has_failed = True
            _bound(self._unsaved)
            return
        self._stamp, self._unsaved, self._has_failed = file.stamp_of(path), [], False


def _bound(answers: list[tuple[int, ...]]) -> None:
    """Drop the oldest answers above the limit."""
    while sum(map(len, answers)) > _MOST_KEPT:
        del answers[0]
