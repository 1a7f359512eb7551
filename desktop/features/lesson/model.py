"""What a person does in the lesson, and which token of which sentence it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import Command, FollowToken, Generate
from llm_lite.core.messages.inspecting.lesson import ANY_HEAD
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat, turn_to
from llm_lite.desktop.features.encoder.model import encoder_of
from llm_lite.desktop.features.history.model import OpenConversation, ShowHistory
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.lesson.state import (
    LONGEST_SENTENCE,
    TraceKey,
    nearest_temperature,
    sentence_of,
)
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, ask, hindrance, obstacle
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.features.translator.model import WriteTarget, write_target
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import tr

_MANY = 1 << 32  # more than there are requests
PIECE = "\ufffd"  # what a part of a letter is written as


CONTINUED = 6  # tokens that the model adds to a person's sentence


class ShowLesson(Action, frozen=True):
    """The lesson instead of the docked views, or these again; it stays where it was. `away`: a
    number of it led elsewhere, or a key closed it, and a way back is offered. `note` says what is
    to be seen there."""

    shown: bool
    away: bool = False
    note: str = ""


class GoToStep(Action, frozen=True):
    step: int  # the first is 0; one that is not there: the nearest


class FollowPosition(Action, frozen=True):
    """Another token of the cache."""

    position: int


class OpenLayer(Action, frozen=True):
    """Another layer, and a head of it."""

    layer: int
    head: int | None  # None: the lesson chooses


class ShowWhy(Action, frozen=True):
    shown: bool


class ShowScaled(Action, frozen=True):
    """Softmax with the scale, or without it."""

    scaled: bool


class SetLessonSampling(Action, frozen=True):
    """Of the lesson alone; answers keep their own settings."""

    temperature: float
    top_p: float


class DrawAgain(Action, frozen=True):
    """Another number is drawn, which may choose another token."""


class TypeSentence(Action, frozen=True):
    """Show or hide the field for a sentence of a person's own."""

    typing: bool


class RunSentence(Action, frozen=True):
    """A new conversation that is this sentence, without a chat template; the model goes on with a
    few tokens. Of an encoder its text, of an encoder-decoder its source."""

    text: str


class CompareWith(Action, frozen=True):
    """Compare the vector of an encoder's text with that of another text."""

    text: str


class AskTrace(Action, frozen=True):
    """Ask for the numbers of a token; `key` says of what."""

    key: TraceKey


def followed(state: AppState) -> int | None:
    """The position that is followed; None while the cache is empty or another engine answers."""
    length = length_of(state)
    if length == 0 or state.model is None or state.elsewhere:
        return None
    chosen = state.lesson.position
    return _default(state, length) if chosen is None else min(chosen, length - 1)


def is_sentence_only(state: AppState) -> bool:
    """Whether the chat holds the lesson's sentence and how the model went on, and nothing that a
    person said beside it: the history does not keep that."""
    return state.lesson.made == state.chat and len(state.messages) <= 2


def length_of(state: AppState) -> int:
    """How many tokens can be followed: of the conversation, of an encoder's text, or of a target,
    once it is whole."""
    if state.encodes:
        encoded = state.encoding.encoded
        is_there = encoded is not None and not encoded.problem and not state.encoding.request
        return len(state.positions) if is_there else 0
    if state.writes_targets and (state.busy or state.translating.result is None):
        return 0
    return min(state.context_used, len(state.positions), len(state.owners))


def _default(state: AppState, length: int) -> int:
    """The last word that a person said, or the last token where there is none. A question mark or
    a mark of the template says little. Of an encoder's text the masked token, where there is one,
    and of a target its last word.
    """
    if state.encodes:
        return _of_text(state, length)
    if state.writes_targets:
        words = [place for place in range(1, length) if _is_word(state.positions[place])]
        return words[-1] if words else length - 1
    said = [
        position
        for position in range(length)
        if 0 <= state.owners[position] < len(state.messages)
        and state.messages[state.owners[position]].role in ("user", "text")
        and _is_word(state.positions[position])
    ]
    return said[-1] if said else length - 1


def _is_word(text: str) -> bool:
    """Or a part of one."""
    return any(letter.isalnum() or letter == PIECE for letter in text)


def _of_text(state: AppState, length: int) -> int:
    encoded = state.encoding.encoded
    assert encoded is not None
    if encoded.masks:
        return encoded.masks[0].position
    words = [
        place
        for place, token in enumerate(encoded.tokens)
        if not token.special and any(letter.isalnum() for letter in token.text)
    ]
    return words[-1] if words else length - 1


def first_of(state: AppState, position: int) -> int:
    """Where the message begins that the token at `position` stands in; an answer is shown behind
    the sentence that it goes on with where no template stands between them."""
    owners = () if state.encodes else state.owners
    if position >= len(owners):
        return 0
    first = position
    while first > 0 and owners[first - 1] == owners[position]:
        first -= 1
    if first > 0 and 0 <= owners[first - 1] < owners[position]:
        return first_of(state, first - 1)
    return first


def sentence(state: AppState, position: int) -> range:
    """The positions of the line that shows the sentence."""
    return sentence_of(position, first_of(state, position), length_of(state))


def text_up_to(state: AppState, position: int) -> str:
    """The text of the sentence, from where its message begins to the token at `position`; "" where
    it is not known, as tokens are parts of letters."""
    places = range(first_of(state, position), position + 1)
    words = "".join(state.positions[place] for place in places if state.owners[place] >= 0)
    return "" if PIECE in words else words


def by_model(state: AppState, position: int) -> bool:
    """Whether the model wrote the token there; of a target all but the one that it starts with."""
    if state.writes_targets:
        return 0 < position < len(state.positions)
    owner = state.owners[position] if position < len(state.owners) else -1
    return 0 <= owner < len(state.messages) and state.messages[owner].role == "assistant"


def layer_of(state: AppState) -> int:
    """The layer that is opened: the one that a person chose, or one in the middle."""
    layers = state.model.layers if state.model else 1
    chosen = state.lesson.layer
    return layers // 2 if chosen is None else min(chosen, layers - 1)


def _version(state: AppState) -> int:
    """Of the text: another number, another trace."""
    encoded = state.encoding.encoded
    if state.encodes:
        return encoded.request if encoded is not None else 0
    if state.writes_targets:
        result, chosen = state.translating.result, state.translating.choices
        return result.request + chosen * _MANY if result is not None else 0
    return length_of(state) if not state.busy else 0


def wanted_key(state: AppState) -> TraceKey | None:
    """What the trace that is wanted now belongs to; None: there is nothing to follow."""
    position = followed(state)
    if position is None or state.model is None:
        return None
    head = state.lesson.head
    return TraceKey(
        state.chat,
        _version(state),
        state.model.path,
        position,
        layer_of(state),
        ANY_HEAD if head is None else min(head, state.model.heads - 1),
        state.steering.gains,
        state.lesson.beside,
    )


def _with(state: AppState, **changes: Any) -> AppState:
    return replace(state, lesson=replace(state.lesson, **changes))


def _show(action: ShowLesson, state: AppState, now: float) -> Result:
    library = replace(state.library, shown=state.library.shown and not action.shown)
    away = action.away and not action.shown
    if action.shown:
        state = _asking(_of_pairs(state, now))
    state = replace(_with(state, shown=action.shown, away=away), library=library)
    return (notify(state, "info", action.note, now) if action.note else state), ()


def _asking(state: AppState) -> AppState:
    """In a conversation that no lesson was about yet, a person first says what to follow."""
    lesson, key = state.lesson, state.lesson.key
    begun = lesson.position is not None or (key is not None and key.chat == state.chat)
    if begun or lesson.made == state.chat or not state.holds_conversations:
        return state
    return _with(state, typing=followed(state) is not None)


def _of_pairs(state: AppState, now: float) -> AppState:
    """Where an encoder's page shows two sentences together, the first of them alone: its vector is
    compared with the second's, as the page does."""
    choice, encoder = state.encoding.choice, encoder_of(state)
    one, other = choice.pair
    sentences = choice.shown_sentences
    alone = one == other or max(one, other) >= len(sentences)
    if encoder is None or choice.mode != "pairs" or alone:
        return state
    encoding = replace(state.encoding, choice=replace(choice, pair=(one, one)))
    state = _with(
        _from_the_first(replace(state, encoding=encoding)),
        beside=sentences[other][:LONGEST_SENTENCE],
    )
    told = tr("The lesson follows sentence {n} by itself.").format(n=one + 1)
    if not encoder.mask_token:
        last = tr("Its last step compares it with sentence {n}.").format(n=other + 1)
        told = f"{told} {last}"
    return notify(state, "info", told, now)


def _go(action: GoToStep, state: AppState, now: float) -> Result:
    return replace(state, lesson=state.lesson.at_step(action.step)), ()


def _follow(action: FollowPosition, state: AppState, now: float) -> Result:
    position = max(0, min(action.position, length_of(state) - 1))
    return _with(state, position=position, draws=0, typing=False), ()


def _open_layer(action: OpenLayer, state: AppState, now: float) -> Result:
    model = state.model
    if model is None:
        return state, ()
    layer = max(0, min(action.layer, model.layers - 1))
    head = None if action.head is None else max(0, min(action.head, model.heads - 1))
    return _with(state, layer=layer, head=head), ()


def _show_why(action: ShowWhy, state: AppState, now: float) -> Result:
    return _with(state, why=action.shown), ()


def _show_scaled(action: ShowScaled, state: AppState, now: float) -> Result:
    return _with(state, scaled=action.scaled), ()


def _set_sampling(action: SetLessonSampling, state: AppState, now: float) -> Result:
    temperature = nearest_temperature(action.temperature)
    return _with(state, temperature=temperature, top_p=min(1.0, max(0.05, action.top_p))), ()


def _draw_again(action: DrawAgain, state: AppState, now: float) -> Result:
    return _with(state, draws=state.lesson.draws + 1), ()


def _type(action: TypeSentence, state: AppState, now: float) -> Result:
    return _with(state, typing=action.typing), ()


def _run_sentence(action: RunSentence, state: AppState, now: float) -> Result:
    """By the way that messages take, so that every view can look into it. The history does not get
    it, unless a person goes on with it in the chat."""
    text = typed(action.text.strip())[:LONGEST_SENTENCE]
    if not text:
        return state, ()
    if state.encodes and not state.elsewhere:
        return _encode_sentence(state, text), ()
    problem = hindrance(state) if state.writes_targets else obstacle(state)
    if state.elsewhere:
        problem = tr("The lesson follows tokens through a model on this machine.")
    if problem:
        return notify(state, "warning", problem, now), ()
    if state.writes_targets:
        return write_target(WriteTarget(text), _from_the_first(state), now)
    state, stop = turn_to(state, ()) if state.messages else (state, ())
    sampling, prompt = state.sampling, state.system_prompt
    alone = replace(state.sampling, max_new_tokens=CONTINUED)
    state = replace(state, sampling=alone, system_prompt="")
    state, asked = ask(state, (Message("user", text),), now)
    state = replace(state, sampling=sampling, system_prompt=prompt)
    state = _with(_from_the_first(state), made=state.chat)
    return state, (*stop, *(_raw(command) for command in asked))


def _from_the_first(state: AppState) -> AppState:
    """The lesson of another sentence, from its first step on; layer, head and what a vector is
    compared with stay."""
    known = state.lesson
    lesson = replace(known.forgotten(), step=0, typing=False, draws=0, beside=known.beside)
    return replace(state, lesson=replace(lesson, layer=known.layer, head=known.head))


def _encode_sentence(state: AppState, text: str) -> AppState:
    """On the encoder's page, which reads it: with masked tokens where the model can fill them."""
    encoder, choice = encoder_of(state), state.encoding.choice
    if encoder is not None and encoder.mask_token and encoder.mask_token in text:
        choice = replace(choice, mode="fill", filled=text, typing=False)
    else:
        choice = replace(choice, mode="text", text=text, typing=False)
    return _from_the_first(replace(state, encoding=replace(state.encoding, choice=choice)))


def _raw(command: Command) -> Command:
    return replace(command, raw=True) if isinstance(command, Generate) else command


def _compare(action: CompareWith, state: AppState, now: float) -> Result:
    return _with(state, beside=typed(action.text.strip())[:LONGEST_SENTENCE]), ()


def _ask(action: AskTrace, state: AppState, now: float) -> Result:
    request, key = state.next_step_request, action.key
    state = replace(_with(state, key=key, request=request), next_step_request=request + 1)
    first = first_of(state, key.position)
    asked = FollowToken(request, key.position, key.layer, key.head, first, key.beside)
    return state, (asked,)


def leave_page(action: object, before: AppState, result: Result, now: float) -> Result:
    """Show a conversation, layout or page that a person goes to instead of the lesson."""
    state, commands = result
    away = isinstance(action, _ELSEWHERE) or (isinstance(action, ShowLibrary) and action.shown)
    return (_with(state, shown=False), commands) if state.lesson.shown and away else result


_ELSEWHERE = (NewChat, OpenConversation, ShowHistory, UseLayout, ShowInspector, ShowRuns)
HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ShowLesson: _show,
    GoToStep: _go,
    FollowPosition: _follow,
    OpenLayer: _open_layer,
    ShowWhy: _show_why,
    ShowScaled: _show_scaled,
    SetLessonSampling: _set_sampling,
    DrawAgain: _draw_again,
    TypeSentence: _type,
    RunSentence: _run_sentence,
    CompareWith: _compare,
    AskTrace: _ask,
}
