"""Room for the clients of a server in the executor that the chat has: the pages of their cache lie
behind the chat's own, and its steps have places for their tokens.

An executor is made with its room. Who begins to serve, or ends it, gets another one over the same
weights; the conversation and the queries that are kept for maps move along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from llm_lite.core.errors import OutOfMemoryError, RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.speculation import Speculation, speculation_of
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends
from llm_lite.core.loading.runner import Runner
from llm_lite.core.memory import available_bytes
from llm_lite.core.messages import SPECULATES, EngineOptions, Speculate, StartServing
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.cache_layers import stored_layers
from llm_lite.core.plan.plan import Kind, tensor_row_bytes
from llm_lite.core.plan.step import PAGE, pages_for, window_pages
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.gpu.info import DeviceInfo

MOST_ANSWERS = 64


class ClientRoom(Struct, frozen=True):
    """Room for so many answers at once, in so many pages of the cache; of these, caches whose
    layers see no more than `window` positions have `windowed`, 0 for all."""

    answers: int
    pages: int
    windowed: int = 0
    window: int = 0
    states: int = 0  # slots of recurrent states, if the model has any
    speculate: Speculate = "off"  # how answers that run alone are drafted


def room_for(runner: Runner, options: StartServing) -> ClientRoom:
    """Return the room that these options ask for. RequestError where the model cannot be served so,
    or there is no memory for it."""
    if not runner.model_info.continues:
        raise RequestError(
            f"{runner.model_info.name} is an encoder-decoder, which writes a target about a "
            "source: a server answers chats and goes on with texts; `llm-lite translate` "
            "writes targets"
        )
    if not 1 <= options.parallel <= MOST_ANSWERS:
        raise RequestError(
            f"answers at once: expected 1 to {MOST_ANSWERS}, found {options.parallel}"
        )
    pages, windowed = _page_counts(runner, options, context_of(runner, options))
    speculate = speculate_of(runner, options)
    window, states = _window(runner), _state_slots(runner, options)
    return ClientRoom(options.parallel, pages, windowed, window, states, speculate)


def context_of(runner: Runner, options: StartServing) -> int:
    """Return how many tokens an answer of a client may have. RequestError for more than the model
    is loaded with."""
    loaded = runner.executor.program.context
    if not 0 <= options.context <= loaded:
        raise RequestError(
            f"context of an answer: expected at most {loaded} tokens, as the model is loaded with, "
            f"found {options.context}"
        )
    return options.context or loaded


def speculate_of(runner: Runner, options: StartServing) -> Speculate:
    """Return how clients' answers are drafted, as a person chose for the server or else for the
    chat; "off" where nothing is to be drafted, as on software devices."""
    chosen = options.speculate or runner.options.speculate
    drafts = backends.drafts(runner.choice, replace(runner.options, speculate=chosen))
    return chosen if drafts and not _state_bytes(runner) else "off"


def with_room(runner: Runner, room: ClientRoom | None) -> Runner:
    """Return the same model on another executor with this room, None for none, over the same
    weights. It holds no conversation yet; what else the runner has belongs to both.

    RequestError where a slice is to draft and the model has none, OutOfMemoryError and DeviceError
    as of executors; the runner that was there stays in use then.
    """
    model, options = runner.model, runner.options
    build = backends.build_options(
        runner.choice,
        _drafting(options, room),
        model.shape,
        context=runner.build.context,
        draft_slice=model.draft_slice,
        answers=room.answers if room else 0,
        pages=room.pages if room else 0,
        windowed=room.windowed if room else 0,
        window=room.window if room else 0,
        states=room.states if room else 0,
    )
    executor = backends.make_executor(
        replace(runner.choice, beside=runner.executor),
        model.build(build),
        runner.weights,
        options.threads,
        lambda _: None,
    )
    old = runner.session
    session = Session(
        executor,
        runner.weights,
        made_by=old.made_by,
        model=str(runner.model_file.path),
        pool=old.pool,
        files=old.files,
    )
    session.speculation = _speculation(runner, session)
    note = backends.query_note(build, model.shape, options)
    attention = AttentionSource(executor, session, note, runner.weights)
    return replace(runner, executor=executor, session=session, attention=attention, build=build)


def _drafting(options: EngineOptions, room: ClientRoom | None) -> EngineOptions:
    """Return the options with the more of what the chat and what clients need for drafts."""
    asked = (options.speculate, room.speculate if room else "off")
    return replace(options, speculate=max(asked, key=SPECULATES.index))


def _speculation(runner: Runner, session: Session) -> Speculation | None:
    """Return drafts for the chat in another session, with what was learned: passes take other times
    there."""
    before = runner.session.speculation
    if before is None or not session.executor.program.most_drafted:
        return None
    by_block = runner.model.shape.draft_block
    speculation = speculation_of(runner.options.speculate, session, by_block=by_block)
    assert speculation is not None
    if before.learned is not None:
        speculation.draft_what_was_learned(before.learned)
    if runner.draft is not None:
        speculation.sources = (*speculation.sources, runner.draft.source)
    return speculation


class RowBytes(Struct, frozen=True):
    """The bytes of one position in each cache, and in each ring of queries."""

    whole: tuple[int, ...]  # where answers have all positions
    windowed: tuple[int, ...]  # where they need only those of a window

    def page_bytes(self, pages: int, windowed: int) -> int:
        """Return what so many pages take, where caches with a window have `windowed` of them."""
        return PAGE * (pages * sum(self.whole) + min(pages, windowed) * sum(self.windowed))


def _page_counts(runner: Runner, options: StartServing, context: int) -> tuple[int, int]:
    """Return as many pages as the budget has room for, and how many of them caches with a window
    have, 0 for all. Without a budget: what all answers take at once, within half of the free memory
    and what a device can use, but enough for one answer.

    Windows have twice the pages that answers see at once, so that as many ended ones can go on.
    """
    rows, info, least = row_bytes(runner), runner.choice.info, pages_for(context)
    windowed = 2 * options.parallel * window_pages(_window(runner))
    budget = options.cache_budget or _half_of_free(info, runner.executor)
    states = _state_slots(runner, options) * _state_bytes(runner)
    budget = None if budget is None else budget - states
    wanted = options.parallel * least
    count = wanted if budget is None else _affordable(rows, budget, windowed)
    count = count if options.cache_budget else min(count, wanted)
    most = most_pages(info, (*rows.whole, *rows.windowed))
    if most is not None:
        count = min(count, most - pages_for(runner.executor.program.context))
    if count < least:
        needed = (rows.page_bytes(least, windowed) + states) / 2**20
        there = max(0, rows.page_bytes(count, windowed) + states) / 2**20
        raise OutOfMemoryError(
            f"the cache of one answer of {context} tokens takes {needed:.0f} MiB, "
            f"there are {there:.0f} MiB for it: serve with a smaller context"
        )
    return count, windowed if rows.windowed and windowed < count else 0


def _affordable(rows: RowBytes, budget: int, windowed: int) -> int:
    """Return how many pages fit into so many bytes, where caches with a window need no more than
    `windowed`."""
    count = budget // rows.page_bytes(1, 1)
    if count <= windowed or not rows.whole:
        return count
    left = budget - PAGE * windowed * sum(rows.windowed)
    return left // (PAGE * sum(rows.whole))


def _state_bytes(runner: Runner) -> int:
    return runner.model.shape.state_bytes


def _state_slots(runner: Runner, options: StartServing) -> int:
    """Return the slots of recurrent states: two for each answer, as one step leaves another than it
    goes on from, and as many for what is to be gone on from."""
    return 4 * options.parallel if _state_bytes(runner) else 0


def _window(runner: Runner) -> int:
    """Return the widest window of the layers that keep no more than it needs; 0: none."""
    layers = attention_layers(runner.executor.program.plans[0])
    return max((one.window for one in layers if runner.build.slides(one.window)), default=0)


def row_bytes(runner: Runner) -> RowBytes:
    """Return the bytes of a position of this model."""
    plan, whole, windowed = runner.executor.program.plans[0], list[int](), list[int]()
    states = {tensor.name: tensor for tensor in plan.tensors if tensor.kind is Kind.STATE}
    queries = [
        (layer.window, (states[layer.queries],))
        for layer in attention_layers(plan)
        if layer.queries
    ]
    for window, tensors in (*((one.window, one.tensors) for one in stored_layers(plan)), *queries):
        kind = windowed if runner.build.slides(window) else whole
        kind += map(tensor_row_bytes, tensors)
    return RowBytes(tuple(whole), tuple(windowed))


def _half_of_free(info: DeviceInfo | None, executor: Executor) -> int | None:
    free = free_bytes(info, executor)
    return None if free is None else free // 2


def free_bytes(info: DeviceInfo | None, executor: Executor) -> int | None:
    """Return the bytes free beside `executor` and the one that the conversation moves to, which has
    as much state: of a device with its own memory, or else of this machine, where state takes
    memory once it is written; None where the system does not say."""
    if info is None or info.kind != "discrete":
        return available_bytes()
    states = {t.name: t for t in executor.program.plans[0].tensors if t.kind is Kind.STATE}
    used = sum(t.shape[0] * tensor_row_bytes(t) for t in states.values())
    return max(0, info.memory_bytes - executor.weight_bytes - 2 * used)


def most_pages(info: DeviceInfo | None, row_bytes: Iterable[int]) -> int | None:
    """Return the most pages of caches with rows of these sizes: a device binds each cache whole.
    None if any number will do."""
    if info is None:
        return None
    return info.max_storage_buffer_range // (PAGE * max(row_bytes))
