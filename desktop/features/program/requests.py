"""Requests for answers: which messages the model reads, and what stays of the conversation
before."""

from __future__ import annotations

import zlib

from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import (
    NO_CHANGES,
    AnswerRun,
    Cancel,
    ChatMessage,
    Command,
    Generate,
    Interventions,
    Read,
    SamplingOptions,
)
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import CallSplit
from llm_lite.desktop.features.program.state import AppState, Message, Reading, Running, Token
from llm_lite.desktop.features.sampling.model import sampler
from llm_lite.desktop.language.translate import tr

Result = tuple[AppState, tuple[Command, ...]]


def hindrance(state: AppState) -> str:
    """Return why the model can be asked for nothing now, as a sentence; "" when it can."""
    if state.busy:
        return tr("An answer is being written. Stop it first, or wait until it ends.")
    if state.quantization.work:
        return tr("Something is being measured. Stop it first, or wait until it ends.")
    if state.load:
        return tr("The model is still loading.")
    if state.model is None:
        return tr("No model is loaded. Choose one first; the message stays in the input.")
    return ""


def is_idle(state: AppState) -> bool:
    """Return whether the engine is idle and the cache holds the conversation in the chat."""
    busy = state.running or state.reading or state.load or state.quantization.work
    here = state.model is not None and not state.elsewhere and state.holds_conversations
    return not busy and here and bool(state.owners)


def waits_for_model(state: AppState) -> bool:
    """Return whether a message can be asked as soon as the model is loaded, and not before."""
    return state.load is not None and not state.busy and not state.quantization.work


def under_way(state: AppState) -> tuple[Command, ...]:
    """Return the commands of the answer, the target, the tasks and the questions that the engine
    works on."""
    running, writing, work = state.running, state.translating.writing, state.quantization.work
    waiting = [exchange.waiting for exchange in state.asks.values()]
    return (
        *(one.question for one in waiting if one is not None),
        *([running.asked] if running else ()),
        *([writing] if writing else ()),
        *([work.asked] if work else ()),
    )


def obstacle(state: AppState) -> str:
    """Return why no message can be sent now, as a sentence; "" when one can."""
    problem = hindrance(state)
    if problem or state.model is None:
        return problem
    if state.encodes:
        return tr("{name} is an encoder: it writes no text.").format(name=state.model.name)
    if state.writes_targets:
        words = tr("{name} is an encoder-decoder: it writes a target about a source, and no chat.")
        return words.format(name=state.model.name)
    return ""


def conversation(state: AppState, messages: tuple[Message, ...]) -> tuple[ChatMessage, ...]:
    """Return what the engine is given: the system prompt, where there is one, and the messages."""
    raw = state.lesson.sentence_chat == state.chat and len(messages) <= 2
    prompt = "" if raw else state.system_prompt.strip()
    system = (ChatMessage("system", prompt),) if prompt else ()
    return (*system, *(message.as_chat(own_tokens(state, message)) for message in messages))


def own_tokens(state: AppState, message: Message) -> bool:
    """Return whether the tokens of an answer are the loaded model's. Another model's are given to
    it as text."""
    return wrote(state, message) and not message.untokenized and not state.elsewhere


def wrote(state: AppState, message: Message) -> bool:
    """Return whether the model in use wrote the tokens that are known of an answer."""
    written, model = message.written, state.model
    if not message.tokens:
        return False
    return written is None or model is None or written.model.path in ("", model.path)


def request_answer(
    state: AppState,
    messages: tuple[Message, ...],
    now: float,
    *,
    continue_last: bool = False,
    again: int | None = None,
    longest: int | None = None,
) -> Result:
    """Start an answer to `messages`; a fresh, empty one is shown at once, in the place of the one
    with the id `again`. `longest`: the tokens that it may have, whatever a person has set."""
    sampling = seeded(sampler(state), state, now)
    if longest is not None:
        sampling = replace(sampling, max_new_tokens=longest)
    if continue_last:
        shown = messages
    else:
        fresh = _answer(state, sampling)
        shown = (*messages, fresh if again is None else replace(fresh, id=again))
        state = replace(state, cached=state.cached.with_messages(len(messages)))
    prompt = conversation(state, messages)
    return _send(state, shown, now, Generate(prompt, sampling, continue_last))


def ask_again(
    state: AppState,
    index: int,
    now: float,
    *,
    sampling: SamplingOptions | None = None,
    interventions: Interventions | None = None,
    forced: tuple[Token, ...] = (),
    begin: ChatMessage | None = None,
) -> Result:
    """Another version of the answer at `index`; those that are there are kept beside it.
    `interventions` are its own; None: those in force."""
    sampling = sampling or seeded(sampler(state), state, now)
    before, fresh = state.messages[:index], _answer(state, sampling, interventions)
    ids = tuple(token.id for token in forced)
    command = Generate(
        conversation(state, before),
        sampling,
        interventions=interventions,
        forced=ids,
        begin=begin,
    )
    return _send(state, (*before, fresh), now, command, forced)


def _answer(
    state: AppState, sampling: SamplingOptions, interventions: Interventions | None = None
) -> Message:
    """Return an empty answer of the model that is loaded, under its own interventions or those in
    force."""
    in_force = NO_CHANGES if state.elsewhere else state.steering.interventions
    changes = in_force if interventions is None else interventions
    written = AnswerRun.by(state.model, state.executor, state.thinking, changes)
    calls = CallSplit(state.model.tool_style) if state.model and state.offered_tools else None
    return Message("assistant", "", sampling=sampling, written=written, calls=calls)


def show(state: AppState, messages: tuple[Message, ...]) -> AppState:
    """Return the state with this path through the conversation. What it leaves out is kept beside
    it as other versions."""
    return show_tree(state, state.tree.with_path(messages))


def show_tree(state: AppState, tree: ConversationTree[Message]) -> AppState:
    """Return the state with the conversation as it is in `tree`."""
    kept = _same(state.messages, tree.path)
    if state.editing is not None and state.editing >= kept:
        state = end_edit(state)  # another message stands in the place of the one that is edited
    return replace(state, tree=tree)


def with_message(state: AppState, index: int, message: Message) -> AppState:
    """Return the state with another content of a message that is shown."""
    path = (*state.messages[:index], message, *state.messages[index + 1 :])
    return replace(state, tree=state.tree.with_path(path))


def end_edit(state: AppState) -> AppState:
    """No message is edited any more: what the draft was before comes back, with its files."""
    if state.editing is None:
        return state
    files = state.files.emptied()
    return replace(state, draft=state.aside, aside="", editing=None, files=files)


def reading_key(state: AppState) -> tuple[object, ...]:
    """Return what a reading of the conversation in front depends on."""
    return tuple(message.id for message in state.messages), state.prompt_settings, state.executor


def read_again(state: AppState) -> Result:
    """Bring the conversation as it is shown back into the cache, computed anew: what is reused has
    no queries, and maps of it would be empty."""
    if state.reading or not state.messages:
        return state, ()
    prompt = conversation(state, state.messages)
    settings = state.prompt_settings
    asked = Read(prompt, afresh=True, **settings.options)
    reading = Reading(asked, settings, lead=len(prompt) - len(state.messages))
    return replace(state, reading=reading, read_for=reading_key(state)), (asked,)


def end_reading(state: AppState) -> Result:
    """The state without the reading that is going on: something else is wanted now."""
    if state.reading is None:
        return state, ()
    return replace(state, reading=None), (Cancel(state.reading.asked),)


def leave_answer(state: AppState) -> Result:
    """The state without an answer that is being written: what it has said stays."""
    running = state.running
    if running is None:
        return end_reading(state)
    last = replace(state.messages[-1].ended(), stop_reason="stopped")
    state = with_message(state, len(state.messages) - 1, last)
    ends = running.phase == "waiting" or state.elsewhere  # or else the engine tells what it holds
    cached = state.cached if ends else replace(state.cached, is_known=False)
    return replace(state, running=None, cached=cached), (Cancel(running.asked),)


def _send(
    state: AppState,
    shown: tuple[Message, ...],
    now: float,
    command: Generate,
    forced: tuple[Token, ...] = (),
) -> Result:
    state, commands = end_reading(state)
    answered = shown if command.continue_last else shown[:-1]  # without the empty answer
    lead = len(command.messages) - len(answered)  # the prompt has a system message before them
    style = state.model.tool_style if state.offered_tools and state.model else ""
    state = show(state, shown)
    settings = state.next_prompt_settings
    command = replace(command, overflow=state.overflow, **settings.options)
    running = Running(
        command, now, lead=lead, forced=forced, tool_style=style, prompt_settings=settings
    )
    return replace(state, running=running), (*commands, command)


def numbered(state: AppState, commands: tuple[Command, ...]) -> Result:
    """Give the answer and the reading that are asked for the number of the conversation in front: a
    new one has it once its first message is kept."""
    number = state.history.open
    if number is None or not commands:
        return state, commands
    changed, running, reading = list(commands), state.running, state.reading
    for at, command in enumerate(commands):
        if running is not None and command is running.asked:
            running = replace(running, asked=replace(running.asked, conversation=number))
            changed[at] = running.asked
        elif reading is not None and command is reading.asked:
            reading = replace(reading, asked=replace(reading.asked, conversation=number))
            changed[at] = reading.asked
    if running is state.running and reading is state.reading:
        return state, commands
    return replace(state, running=running, reading=reading), tuple(changed)


def _same(messages: tuple[Message, ...], others: tuple[Message, ...]) -> int:
    """Return how many of the first messages are the same in both."""
    pairs = enumerate(zip(messages, others, strict=False))
    shorter = min(len(messages), len(others))
    return next((index for index, (a, b) in pairs if a is not b), shorter)


def seeded(sampling: SamplingOptions, state: AppState, now: float) -> SamplingOptions:
    """Return the options with a known seed, so that the same answer can be given again."""
    if sampling.seed is not None:
        return sampling
    asked = f"{state.chat} {state.tree.count} {now!r}"
    return replace(sampling, seed=zlib.crc32(asked.encode()))
