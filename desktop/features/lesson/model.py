"""The actions of the lesson, their handlers, and the choice of the token that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import FollowToken, ModelInfo, TokenFollowed
from llm_lite.core.messages.inspecting.lesson import ANY_HEAD
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import NewChat, turn_to
from llm_lite.desktop.features.chat.reading import is_unsettled
from llm_lite.desktop.features.encoder.model import ENCODED, encoder_of, with_choice
from llm_lite.desktop.features.history.model import OpenConversation, ShowHistory
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.lesson.state import (
    LONGEST_SENTENCE,
    LessonPage,
    LessonState,
    nearest_temperature,
    shown_positions,
)
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asked import Asked
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, hindrance, obstacle, request_answer
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.quantization.model import ShowRuns
from llm_lite.desktop.features.translator.model import WriteTarget, write_target
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import tr

REPLACEMENT = "\ufffd"  # what a part of a letter is written as
CONTINUATION = 6  # tokens that the model adds to a person's sentence


class ShowLesson(Action, frozen=True):
    """Show the lesson instead of the docked views, or these again; its step and token stay.
    `can_return`: the status bar offers to return. `note` says what the other view shows."""

    shown: bool
    can_return: bool = False
    note: str = ""


class GoToStep(Action, frozen=True):
    step: int  # the first is 0; one that is not there: the nearest


class FollowPosition(Action, frozen=True):
    """Follow another token of the cache."""

    position: int


class OpenLayer(Action, frozen=True):
    """Open another layer, and a head of it."""

    layer: int
    head: int | None  # None: the lesson chooses


class ShowWhy(Action, frozen=True):
    shown: bool


class ShowScaled(Action, frozen=True):
    """Show softmax with the scale, or without it."""

    scaled: bool


class SetLessonSampling(Action, frozen=True):
    """Set the lesson's temperature and top-p; answers keep their own settings."""

    temperature: float
    top_p: float


class DrawAgain(Action, frozen=True):
    """Draw another random number, which may choose another token."""


class TypeSentence(Action, frozen=True):
    """Show or hide the field for a sentence of a person's own."""

    typing: bool


class RunSentence(Action, frozen=True):
    """Begin a conversation that is this sentence, without a chat template; the model continues it
    with a few tokens. An encoder gets it as its text, an encoder-decoder as its source."""

    text: str


class CompareWith(Action, frozen=True):
    """Compare the vector of an encoder's text with that of another text."""

    text: str


def followed_position(state: AppState) -> int | None:
    """Return the position that is followed; None while the cache is empty or cannot be read."""
    length = traceable_tokens(state)
    if length == 0 or state.model is None or not state.is_inspected:
        return None
    chosen = state.lesson.position
    return _default_position(state, length) if chosen is None else min(chosen, length - 1)


def traceable_tokens(state: AppState) -> int:
    """Return how many tokens can be followed: those of the conversation, of an encoder's text, or
    of a target once it is whole."""
    if state.encodes:
        return len(state.positions) if ENCODED.waiting(state) is None else 0
    if state.writes_targets and (state.busy or state.translating.result is None):
        return 0
    return min(state.context_used, len(state.positions), len(state.owners))


def _default_position(state: AppState, length: int) -> int:
    """Return the last word of a person's message, or the last token where there is none: a question
    mark or a mark of the template says little. An encoder's text is followed from its masked token,
    where it has one, and a target from its last word."""
    if state.encodes:
        return _default_encoder_position(state, length)
    if state.writes_targets:
        words = [place for place in range(1, length) if _has_letters(state.positions[place])]
        return words[-1] if words else length - 1
    written = [
        position
        for position in range(length)
        if 0 <= state.owners[position] < len(state.messages)
        and state.messages[state.owners[position]].role in ("user", "text")
        and _has_letters(state.positions[position])
    ]
    return written[-1] if written else length - 1


def _has_letters(text: str) -> bool:
    """Return whether the token is a word or a part of one."""
    return any(letter.isalnum() or letter == REPLACEMENT for letter in text)


def _default_encoder_position(state: AppState, length: int) -> int:
    encoded = ENCODED.answer(state)
    if encoded is not None and encoded.masks:
        return encoded.masks[0].position
    special = [token.special for token in encoded.tokens] if encoded is not None else []
    words = [
        place
        for place, text in enumerate(state.positions)
        if _has_letters(text) and not (place < len(special) and special[place])
    ]
    return words[-1] if words else length - 1


def message_begin(state: AppState, position: int) -> int:
    """Return where the message of the token at `position` begins. An answer belongs to the sentence
    that it continues where no template stands between them."""
    owners = () if state.encodes else state.owners
    if position >= len(owners):
        return 0
    first = position
    while first > 0 and owners[first - 1] == owners[position]:
        first -= 1
    if first > 0 and 0 <= owners[first - 1] < owners[position]:
        return message_begin(state, first - 1)
    return first


def sentence_positions(state: AppState, position: int) -> range:
    """Return the positions that the line of tokens shows."""
    return shown_positions(position, message_begin(state, position), traceable_tokens(state))


def text_up_to(state: AppState, position: int) -> str:
    """Return the text from the begin of the message to the token at `position`; "" where it is not
    known, as tokens are parts of letters."""
    places = range(message_begin(state, position), position + 1)
    words = "".join(state.positions[place] for place in places if state.owners[place] >= 0)
    return "" if REPLACEMENT in words else words


def is_written_by_model(state: AppState, position: int) -> bool:
    """Return whether the model wrote the token there; it wrote a target but for its first token."""
    if state.writes_targets:
        return 0 < position < len(state.positions)
    owner = state.owners[position] if position < len(state.owners) else -1
    return 0 <= owner < len(state.messages) and state.messages[owner].role == "assistant"


def opened_layer(state: AppState) -> int:
    """Return the layer that is opened: the one that a person chose, or one in the middle; of those
    that attend."""
    if state.model is None:
        return 0
    layers, chosen = openable_layers(state.model), state.lesson.layer
    if chosen is None:
        return layers[len(layers) // 2]
    return min(layers, key=lambda layer: abs(layer - chosen))


def openable_layers(model: ModelInfo) -> tuple[int, ...]:
    """Return the layers that the lesson can open: others have a recurrent state."""
    recurrent = {*model.recurrent_layers}
    return tuple(layer for layer in range(model.layers) if layer not in recurrent)


def question(state: AppState) -> FollowToken | None:
    """Return what is asked for the page; None where there is nothing to follow."""
    position = followed_position(state)
    if position is None or state.model is None:
        return None
    head = state.lesson.head
    head = ANY_HEAD if head is None else min(head, state.model.heads - 1)
    first, compared = message_begin(state, position), state.lesson.compared_text
    return FollowToken(position, opened_layer(state), head, first, compared)


TRACE: Slot[TokenFollowed] = Slot(
    "trace", FollowToken, TokenFollowed, lambda asked: asked.position + 1
)


def lesson_page(state: AppState) -> LessonPage:
    """Return the lesson with the last trace of what is in front."""
    global _last_page
    last, key, page = _last_page
    if last is not state:
        known = TRACE.answered(state) if question(state) is not None else None
        if key[0] is not known or key[1] is not state.lesson:
            page = _page(state, known)
        _last_page = state, (known, state.lesson), page
    return page


def _page(state: AppState, known: Asked | None) -> LessonPage:
    page = state.lesson.page()
    if known is None:
        return page
    if known.answer is None:
        return replace(page, problem=known.problem)
    trace, texts = known.answer.trace, state.positions
    if trace.shape.path == "encoder_decoder":
        return page.with_trace(trace, trace.texts)
    # Positions know characters that several tokens make.
    words = tuple(texts[p] if p < len(texts) else "" for p, _ in trace.tokens)
    return page.with_trace(trace, words)


# The last page, and what it was made of: numbers and pictures are kept for the same one.
_last_page: tuple[AppState | None, tuple[Asked | None, LessonState | None], LessonPage] = (
    None,
    (None, None),
    LessonPage(),
)


def _with(state: AppState, **changes: Any) -> AppState:
    return replace(state, lesson=replace(state.lesson, **changes))


def _show(action: ShowLesson, state: AppState, now: float) -> Result:
    can_return = action.can_return and not action.shown
    if action.shown:
        state = _ask_for_sentence(_follow_first_of_pair(state, now))
    state = _with(state, shown=action.shown, can_return=can_return)
    return (notify(state, "info", action.note, now) if action.note else state), ()


def _ask_for_sentence(state: AppState) -> AppState:
    """Show the field for a sentence in a conversation that no lesson was about yet."""
    lesson = state.lesson
    begun = lesson.position is not None or TRACE.answered(state) is not None
    if begun or lesson.sentence_chat == state.chat or not state.holds_conversations:
        return state
    return _with(state, typing=followed_position(state) is not None)


def _follow_first_of_pair(state: AppState, now: float) -> AppState:
    """Follow the first sentence alone where an encoder's page shows two together; its vector is
    compared with the second's, as on that page."""
    choice, encoder = state.encoding, encoder_of(state)
    one, other = choice.pair
    sentences = choice.shown_sentences
    alone = one == other or max(one, other) >= len(sentences)
    if encoder is None or choice.mode != "pairs" or alone:
        return state
    paired = with_choice(state, replace(choice, pair=(one, one)))
    state = _with(
        _from_first_step(paired),
        compared_text=sentences[other][:LONGEST_SENTENCE],
    )
    note = tr("The lesson follows sentence {n} by itself.").format(n=one + 1)
    if not encoder.mask_token:
        last = tr("Its last step compares it with sentence {n}.").format(n=other + 1)
        note = f"{note} {last}"
    return notify(state, "info", note, now)


def _go(action: GoToStep, state: AppState, now: float) -> Result:
    shown = lesson_page(state).at_step(action.step)
    return _with(state, step=shown.step, assumed_steps=shown.steps), ()


def _follow_position(action: FollowPosition, state: AppState, now: float) -> Result:
    position = max(0, min(action.position, traceable_tokens(state) - 1))
    of = state.positions[: position + 1]
    return _with(state, position=position, position_of=of, draws=0, typing=False), ()


def _open_layer(action: OpenLayer, state: AppState, now: float) -> Result:
    model = state.model
    if model is None:
        return state, ()
    layer = max(0, min(action.layer, model.layers - 1))
    head = None if action.head is None else max(0, min(action.head, model.heads - 1))
    return _with(state, layer=layer, head=head), ()


def _show_why(action: ShowWhy, state: AppState, now: float) -> Result:
    return _with(state, shows_why=action.shown), ()


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
    """Submit the sentence as a message, so that every view can inspect it. The history does not get
    it unless a person continues it in the chat."""
    text = typed(action.text.strip())[:LONGEST_SENTENCE]
    if not text:
        return state, ()
    if state.encodes:
        return _encode_sentence(state, text), ()
    problem = hindrance(state) if state.writes_targets else obstacle(state)
    if not state.can_inspect:
        problem = tr("This server does not report what happens inside its model.")
    if problem:
        return notify(state, "warning", problem, now), ()
    if state.writes_targets:
        return write_target(WriteTarget(text), _from_first_step(state), now)
    state, stop = turn_to(state) if state.messages else (state, ())
    state = _with(_from_first_step(state), sentence_chat=state.chat)
    state, asked = request_answer(state, (Message("user", text),), now, longest=CONTINUATION)
    return state, (*stop, *asked)


def _from_first_step(state: AppState) -> AppState:
    """Return the state with the lesson of another sentence at its first step; layer, head and the
    compared text stay."""
    lesson = state.lesson.of_next_conversation()
    return replace(state, lesson=replace(lesson, step=0, typing=False, draws=0, can_return=False))


def _encode_sentence(state: AppState, text: str) -> AppState:
    """Return the state with the sentence on the encoder's page, with masked tokens where the model
    can fill them."""
    encoder, choice = encoder_of(state), state.encoding
    if encoder is not None and encoder.mask_token and encoder.mask_token in text:
        choice = replace(choice, mode="fill", filled=text, typing=False)
    else:
        choice = replace(choice, mode="text", text=text, typing=False)
    return _from_first_step(with_choice(state, choice))


def _compare(action: CompareWith, state: AppState, now: float) -> Result:
    return _with(state, compared_text=typed(action.text.strip())[:LONGEST_SENTENCE]), ()


def drop_position(state: AppState) -> Result:
    """Choose anew which token is followed, once the one that a person chose is not in front."""
    of = state.lesson.position_of
    chosen = state.lesson.position
    if chosen is None or state.positions[: len(of)] == of or is_unsettled(state, len(of)):
        return state, ()
    return _with(state, position=None), ()


def leave_page(action: object, before: AppState, result: Result, now: float) -> Result:
    """Show a conversation, layout or page that a person goes to instead of the lesson."""
    state, commands = result
    leaves = isinstance(action, _ELSEWHERE) or (isinstance(action, ShowLibrary) and action.shown)
    return (_with(state, shown=False), commands) if state.lesson.shown and leaves else result


_ELSEWHERE = (NewChat, OpenConversation, ShowHistory, UseLayout, ShowInspector, ShowRuns)
HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ShowLesson: _show,
    GoToStep: _go,
    FollowPosition: _follow_position,
    OpenLayer: _open_layer,
    ShowWhy: _show_why,
    ShowScaled: _show_scaled,
    SetLessonSampling: _set_sampling,
    DrawAgain: _draw_again,
    TypeSentence: _type,
    RunSentence: _run_sentence,
    CompareWith: _compare,
}
