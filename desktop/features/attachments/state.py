"""The files that will go with the draft, and how many tokens all of it has."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.attached_text import LONGEST_TEXT, Attachment
from llm_lite.core.messages import CountTokens, TokensCounted
from llm_lite.core.records import replace

MOST_FILES = 50
TRIES = 3  # to count; then it is left until something else is to be counted
UNKNOWN = -1

Part = tuple[str, object]  # what is counted: ("file", key), ("draft", its text), ("before", a key)


class DraftFile(Struct, frozen=True):
    key: int
    path: str  # "" of one that came with a message
    name: str
    attached: Attachment | None = None  # None: it is being read
    text: str = ""  # all of the file, where `attached` is cut so that it fits
    tokens: int = UNKNOWN  # that the model gets of it


class NewDraft(Struct, frozen=True):
    """The draft of a chat that has not begun, while another is in front."""

    text: str = ""
    files: tuple[DraftFile, ...] = ()


class DraftFiles(Struct, frozen=True):
    files: tuple[DraftFile, ...] = ()
    next_key: int = 1
    model: str = ""  # the path of the one whose tokens are counted
    draft: tuple[str, int] = ("", 0)  # what was counted, and its tokens
    before: tuple[object, int] = (None, 0)  # the conversation up to the draft, where it is counted
    counting: CountTokens | None = None  # asked, and not answered yet
    asked: tuple[Part, ...] = ()
    fitting: bool = False  # the request asks how much fits
    failures: int = 0  # to count, one after the other
    aside: tuple[DraftFile, ...] = ()  # of the draft before a message was edited

    @property
    def are_read(self) -> bool:
        return all(file.attached is not None for file in self.files)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Return the attachments as they go with the message."""
        return tuple(
            replace(file.attached, tokens=max(0, file.tokens))
            for file in self.files
            if file.attached is not None
        )

    def of_next_conversation(self) -> DraftFiles:
        """A key is never used twice: a file that is still being read would be taken for another."""
        return DraftFiles(next_key=self.next_key)

    def of_next_model(self) -> DraftFiles:
        return self

    def holding(self, files: tuple[DraftFile, ...]) -> DraftFiles:
        """Return the files of a draft that was put aside, under new keys."""
        first = self.next_key
        files = tuple(replace(file, key=first + n) for n, file in enumerate(files))
        return DraftFiles(files, first + len(files))

    def emptied(self) -> DraftFiles:
        """Return what is left after sending or giving up: the files of a draft that an edit has put
        aside come back."""
        return DraftFiles(self.aside, self.next_key)

    def with_paths(self, named: tuple[tuple[str, str], ...]) -> DraftFiles:
        """Add files that are to be read: their paths and names."""
        first = self.next_key
        more = tuple(DraftFile(first + n, path, name) for n, (path, name) in enumerate(named))
        return replace(self, files=(*self.files, *more), next_key=first + len(more), failures=0)

    def with_text(self, name: str, text: str) -> DraftFiles:
        """Add a text that no file holds."""
        kept = text[:LONGEST_TEXT]
        attached = Attachment(name, kept, whole=len(text) if len(text) > len(kept) else 0)
        one = DraftFile(self.next_key, "", name, attached)
        return replace(self, files=(*self.files, one), next_key=self.next_key + 1, failures=0)

    def with_attachments(
        self, attachments: tuple[Attachment, ...], *, aside: bool = True
    ) -> DraftFiles:
        """Take the attachments of a message that is edited; with `aside` the draft's own wait
        for its end."""
        first = self.next_key
        files = tuple(DraftFile(first + n, "", one.name, one) for n, one in enumerate(attachments))
        kept = self.files if aside else self.aside
        return DraftFiles(files, first + len(files), aside=kept)

    def without(self, key: int) -> DraftFiles:
        return replace(self, files=tuple(file for file in self.files if file.key != key))

    def changed(self, key: int, attached: Attachment, text: str = "") -> DraftFiles:
        """Give a file another text, which is to be counted."""
        files = tuple(
            replace(f, attached=attached, text=text, tokens=UNKNOWN) if f.key == key else f
            for f in self.files
        )
        return replace(self, files=files)

    def uncounted(self, model: str) -> DraftFiles:
        """Forget all counts: another model counts otherwise."""
        files = tuple(replace(file, tokens=UNKNOWN) for file in self.files)
        return DraftFiles(files, self.next_key, model, aside=self.aside)

    def uncountable(self) -> DraftFiles:
        """Note that what was asked could not be counted."""
        failures = self.failures + 1
        return replace(self, counting=None, asked=(), fitting=False, failures=failures)

    def counted(self, event: TokensCounted) -> DraftFiles:
        known = dict(zip(self.asked, event.tokens, strict=False))
        kept = dict(zip(self.asked, event.kept, strict=False))
        done = replace(self, counting=None, asked=(), fitting=False, failures=0)
        if self.fitting:
            return done.cut(kept)
        files = tuple(
            replace(file, tokens=known.get(("file", file.key), file.tokens)) for file in self.files
        )
        draft, before = self.draft, self.before
        for (what, which), count in known.items():
            if what == "draft":
                draft = (str(which), count)
            elif what == "before":
                before = (which, count)
        return replace(done, files=files, draft=draft, before=before)

    def cut(self, kept: dict[Part, int]) -> DraftFiles:
        """Cut the files to so many characters; one that keeps none is left out."""
        files = []
        for file in self.files:
            length = kept.get(("file", file.key))
            if file.attached is None or length is None:
                files.append(file)
                continue
            text = file.text or file.attached.text
            if length >= len(text):
                files.append(file)
            elif length:
                whole = max(file.attached.whole, len(text))
                part = replace(file.attached, text=text[:length], whole=whole)
                files.append(replace(file, attached=part, text=text, tokens=UNKNOWN))
        return replace(self, files=tuple(files))
