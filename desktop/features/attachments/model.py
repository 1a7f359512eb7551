"""A person attaches files and pasted texts to a draft, which take a part of the context. The files
are read by the feature's `host`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from llm_lite.core.attached_text import Attachment, attachment_text, message_text
from llm_lite.core.messages import CountTokens, Ended, Event, TokensCounted
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.state import MOST_FILES, TRIES, DraftFile, Part
from llm_lite.desktop.features.chat.reading import tokens_in_front
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, with_message
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.incoming import NAME, TYPED, fit_line, typed
from llm_lite.desktop.language.translate import tr

LONG = 4000  # characters of a pasted text, some thousand tokens: a page and a half
TEMPLATE = 32  # tokens that a turn takes beside its text, or less
COUNTED = 2000  # characters of a draft without files, from which on its tokens are counted
LEAST_ANSWER = 64  # tokens; a prompt that leaves less does not fit
ANSWER_SHARE, MOST_ANSWER = 8, 1024  # what is left for the answer where files are cut to fit


class Pasted(Struct, frozen=True):
    before: str  # of the draft, up to what was pasted
    text: str
    after: str


def pasted(was: str, now: str) -> Pasted | None:
    """Return a long text that came into the field at once; None where nothing so long did. It is
    found by what the field holds before and after a frame."""
    if len(now) - len(was) < LONG:
        return None
    first = _common(was, now)
    end = len(now) - _common(was[first:][::-1], now[first:][::-1])
    return Pasted(now[:first], now[first:end], now[end:])


def _common(one: str, other: str) -> int:
    """Count the first characters that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class AttachFiles(Action, frozen=True):
    paths: tuple[str, ...]


class ChooseAttachments(HostAction, frozen=True):
    """Choose files in the system's file dialog."""


class FileRead(Action, frozen=True):
    """The reader found a text, or there is none: `problem` says why."""

    key: int
    attached: Attachment | None
    problem: str = ""


class RemoveFile(Action, frozen=True):
    key: int


class RemoveFiles(Action, frozen=True):
    """Remove all files of the draft."""


class FitFiles(Action, frozen=True):
    """Keep only the first part of the longest files, so that the draft fits the context."""


class AttachWhole(Action, frozen=True):
    """Attach all of a file that was cut."""

    key: int


class PasteText(Action, frozen=True):
    """A long text was pasted into the draft: it goes with it as a file does, where it can."""

    pasted: Pasted


class TellNoText(Action, frozen=True):
    """What was to be pasted is no text."""


class IntoText(Action, frozen=True):
    """Put the text of a file behind the draft's words, in the place of the file."""

    key: int


class UnfoldAttachment(Action, frozen=True):
    """Show the text of a message's attachment, or fold it; one of a message at a time."""

    index: int
    place: int  # -1: none


class DraftBudget(Struct, frozen=True):
    """Tokens."""

    before: int  # the conversation up to the draft
    draft: int  # its words and files
    context: int
    counted: bool  # all of it

    @property
    def used(self) -> int:
        return self.before + self.draft

    @property
    def fits(self) -> bool:
        return self.used + LEAST_ANSWER <= self.context


def is_counted(state: AppState) -> bool:
    """Tell whether the window shows how much of the context the draft takes, while it is
    written."""
    return bool(state.files.files) or len(state.draft) >= COUNTED


def budget(state: AppState) -> DraftBudget | None:
    """Return the budget of a draft with files, or of a long one; None for another, and where there
    is no model or none that tells how long its context is."""
    files = state.files
    if not is_counted(state) or state.model is None or not state.model.context:
        return None
    key = _before(state)
    known = tokens_in_front(state)
    before = (known or 0) if key is None else files.before[1]
    counted = [max(0, file.tokens) for file in files.files]
    is_whole = all(file.tokens >= 0 for file in files.files) and files.counting is None
    is_whole = is_whole and files.model == state.model.path and files.draft[0] == state.draft
    is_whole = is_whole and (known is not None if key is None else files.before[0] == key)
    draft = sum(counted) + files.draft[1] + TEMPLATE
    return DraftBudget(before, draft, state.model.context, is_whole)


def files_obstacle(state: AppState) -> str:
    """Tell why the draft cannot be sent with its files now, as a sentence; "" when it can."""
    if not state.files.are_read:
        return tr("A file is still being read.")
    known = budget(state)
    if known is not None and not known.fits and state.overflow == "stop":
        words = tr("The draft does not fit: {used:,} of {context:,} tokens. Shorten it.")
        if state.files.files:
            words = tr(
                "The draft with its files does not fit: {used:,} of {context:,} tokens. "
                "Attach only what fits, or remove a file."
            )
        return words.format(used=known.used, context=known.context)
    return ""


def count_due(state: AppState) -> Result:
    """Ask for the tokens of what is new in a draft that is counted; one request at a time."""
    files = state.files
    if not is_counted(state) or state.model is None:
        return state, ()
    if files.model != state.model.path:
        files = files.uncounted(state.model.path)
    elif files.counting or files.failures >= TRIES:
        return state, ()
    wanted: list[tuple[Part, str]] = [
        (("file", file.key), attachment_text(file.attached))
        for file in files.files
        if file.attached is not None and file.tokens < 0
    ]
    if files.draft[0] != state.draft:
        wanted.append((("draft", state.draft), state.draft))
    key = _before(state)
    if key is not None and files.before[0] != key:
        before = state.messages[: state.editing]
        texts = (message_text(message.whole, message.attachments) for message in before)
        wanted.append((("before", key), "\n\n".join((state.system_prompt, *texts))))
    if not wanted:
        return (state if files is state.files else replace(state, files=files)), ()
    return _count(replace(state, files=files), wanted)


def _count(state: AppState, wanted: list[tuple[Part, str]], most: tuple[int, ...] = ()) -> Result:
    command = CountTokens(tuple(text for _, text in wanted), most)
    asked = tuple(part for part, _ in wanted)
    files = replace(state.files, counting=command, asked=asked, fitting=bool(most))
    return replace(state, files=files), (command,)


def _before(state: AppState) -> object:
    """Identify the conversation up to a message that is edited; None where the draft follows all
    of it."""
    if state.editing is None:
        return None
    before = state.messages[: state.editing]
    return (state.chat, len(before), before[-1].id if before else 0, state.system_prompt)


def _attach(action: AttachFiles, state: AppState, now: float) -> Result:
    if state.encodes:
        words = tr("An encoder takes no files: they are attached to messages of a chat.")
        return notify(state, "info", words, now), ()
    if state.writes_targets:
        words = tr("An encoder-decoder takes no files: paste the text as the source.")
        return notify(state, "info", words, now), ()
    edited = state.messages[state.editing] if state.editing is not None else None
    if edited is not None and edited.role == "assistant":
        words = tr("Files go with a question, not with an answer that is edited.")
        return notify(state, "warning", words, now), ()
    known = {file.path for file in state.files.files if file.path}
    fresh: dict[str, str] = {}
    for path in action.paths:
        name = fit_line(PurePath(path).name or path, NAME)
        if path in known or path in fresh:
            words = tr("“{name}” is attached already.").format(name=name)
            state = notify(state, "info", words, now)
        else:
            fresh[path] = name
    room = MOST_FILES - len(state.files.files)
    if len(fresh) > room:
        words = tr("A message takes at most {most} files; the others were left out.")
        state = notify(state, "warning", words.format(most=MOST_FILES), now)
    return replace(state, files=state.files.with_paths(tuple(fresh.items())[:room])), ()


def _read(action: FileRead, state: AppState, now: float) -> Result:
    file = _file(state, action.key)
    if file is None or file.attached is not None:  # gone, or read twice
        return state, ()
    if action.attached is None:
        state = replace(state, files=state.files.without(action.key))
        words = _about(file.name, action.problem)
        return (notify(state, "warning", words, now) if action.problem else state), ()
    attached = replace(action.attached, name=file.name)
    same = next((f for f in state.files.files if _is_same(f.attached, attached)), None)
    if same is not None:
        words = tr("“{name}” holds the same text as “{other}”, which is attached already.")
        words = words.format(name=file.name, other=same.name)
        state = notify(state, "info", words, now)
        return replace(state, files=state.files.without(action.key)), ()
    if attached.kind == "picture":
        words = tr("The model sees no pictures: it is told only the name “{name}”.")
        state = notify(state, "info", words.format(name=file.name), now)
    return replace(state, files=state.files.changed(action.key, attached)), ()


def _about(name: str, problem: str) -> str:
    """Put a name before its problem; in quotation marks it stays as it is written."""
    verb = problem.partition(" ")[0] in ("has", "is", "holds", "cannot")
    return f"“{name}”{'' if verb else ':'} {problem}"


def _is_same(one: Attachment | None, other: Attachment) -> bool:
    if one is None or one.kind == "picture":
        return False
    return one.text == other.text and one.name == other.name


def _file(state: AppState, key: int) -> DraftFile | None:
    return next((file for file in state.files.files if file.key == key), None)


def _remove(action: RemoveFile, state: AppState, now: float) -> Result:
    return replace(state, files=state.files.without(action.key)), ()


def _remove_all(action: RemoveFiles, state: AppState, now: float) -> Result:
    return replace(state, files=replace(state.files, files=())), ()


def _fit(action: FitFiles, state: AppState, now: float) -> Result:
    known = budget(state)
    if known is None or known.fits or not known.counted:
        return state, ()
    left = min(MOST_ANSWER, max(LEAST_ANSWER, known.context // ANSWER_SHARE))
    texts = [file for file in state.files.files if file.attached is not None and file.attached.text]
    others = known.used - sum(file.tokens for file in texts)
    room = known.context - left - others
    most = level([file.tokens for file in texts], room)
    if most <= 2 * TEMPLATE:
        words = tr("There is no room for the files: begin a new chat, or load a larger context.")
        return notify(state, "warning", words, now), ()
    long = [file for file in texts if file.tokens > most]
    wanted: list[tuple[Part, str]] = [
        (("file", f.key), f.attached.text) for f in long if f.attached is not None
    ]
    # The model gets the text of a file and some tokens about it.
    return _count(state, wanted, (most - TEMPLATE,) * len(wanted))


def level(tokens: list[int], room: int) -> int:
    """Return the most that each may have so that together they have `room`: what is shorter
    stays."""
    left = sorted(tokens)
    while left:
        share = room // len(left)
        if left[0] > share:
            return max(share, 0)
        room -= left.pop(0)
    return room


def _whole(action: AttachWhole, state: AppState, now: float) -> Result:
    file = _file(state, action.key)
    if file is None or file.attached is None or not file.text:
        return state, ()
    whole = file.attached.whole if file.attached.whole > len(file.text) else 0
    attached = replace(file.attached, text=file.text, whole=whole)
    return replace(state, files=state.files.changed(action.key, attached)), ()


def takes_pastes(state: AppState) -> bool:
    """Tell whether a long text that is pasted becomes a file of the draft: not in a text that goes
    on as it is, nor in a model's answer that is edited."""
    edited = state.messages[state.editing] if state.editing is not None else None
    is_answer = edited is not None and edited.role == "assistant"
    return not (state.completes or is_answer or len(state.files.files) >= MOST_FILES)


def _paste(action: PasteText, state: AppState, now: float) -> Result:
    one = action.pasted
    if not takes_pastes(state):
        return replace(state, draft=typed(one.before + one.text + one.after)), ()
    names = {file.name for file in state.files.files}
    first = tr("Pasted text")
    more = (tr("Pasted text {n}").format(n=n) for n in count(2))
    name = first if first not in names else next(n for n in more if n not in names)
    files = state.files.with_text(name, one.text)
    return replace(state, draft=one.before + one.after, files=files), ()


def _no_text(action: TellNoText, state: AppState, now: float) -> Result:
    words = tr("The clipboard holds no text, and no model here reads pictures.")
    if state.model is not None:
        words = tr("The clipboard holds no text, and {name} reads no pictures.")
        words = words.format(name=state.model.name)
    if any(notice.text == words for notice in state.notices):  # a key that is held down
        return state, ()
    return notify(state, "info", words, now), ()


def _into_text(action: IntoText, state: AppState, now: float) -> Result:
    file = _file(state, action.key)
    if file is None or file.attached is None or not file.attached.text:
        return state, ()
    text = "\n\n".join(filter(None, (state.draft, file.text or file.attached.text)))
    if len(text) > TYPED:
        words = tr("The input holds at most {most:,} characters: “{name}” stays a file.")
        return notify(state, "warning", words.format(most=TYPED, name=file.name), now), ()
    return replace(state, draft=text, files=state.files.without(action.key)), ()


def _unfold(action: UnfoldAttachment, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    changed = replace(state.messages[action.index], unfolded=action.place)
    return with_message(state, action.index, changed), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    AttachFiles: _attach,
    FileRead: _read,
    RemoveFile: _remove,
    RemoveFiles: _remove_all,
    FitFiles: _fit,
    AttachWhole: _whole,
    PasteText: _paste,
    TellNoText: _no_text,
    IntoText: _into_text,
    UnfoldAttachment: _unfold,
}


def _count_replied(event: Event, asked: CountTokens, state: AppState, now: float) -> AppState:
    """Keep what was counted of the draft, or of the conversation in front."""
    if asked is state.count.asked:
        if isinstance(event, TokensCounted):
            tokens, about, ids = event.conversation, event.about, event.ids
            count = replace(state.count, tokens=tokens, about=about, ids=ids)
        else:
            count = replace(state.count, asked=None)
        return replace(state, count=count)
    if asked is not state.files.counting:
        return state
    if isinstance(event, TokensCounted):
        return replace(state, files=state.files.counted(event))
    problem = event.failure if isinstance(event, Ended) else ""
    state = replace(state, files=state.files.uncountable())
    return notify(state, "warning", problem, now) if problem else state


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    CountTokens: _count_replied,
}
