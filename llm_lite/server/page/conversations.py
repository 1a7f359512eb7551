"""The page lists, reads and changes conversations of the history."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from llm_lite.core.checked import CheckError, expected
from llm_lite.core.errors import LlmLiteError
from llm_lite.core.history import (
    AnswerEnd,
    AnswerRun,
    ConversationTree,
    History,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.messages import GenerationStats, SamplingOptions, StopReason
from llm_lite.core.messages.sampling_options import NUMBERS, names_in
from llm_lite.core.records import replace
from llm_lite.server.failures import ApiError
from llm_lite.server.openai.sampling import Seed, converted, type_of
from llm_lite.server.page import history_store as stored
from llm_lite.server.page.history_store import HistoryStore, Json
from llm_lite.server.page.requests import Id, LongText, PageRoute, body_of, count, id_in_path
from llm_lite.server.sending import LargeResponse
from llm_lite.server.shared import Shared

NO_CONVERSATION = "conversation: there is none of this number"
_NO_ANSWER = "message: there is no answer of this number"
_MOST_KNOWN = 256  # answers that are being written
_NOT_SCORED = -1.0  # the likelihood of a token that was not scored

Amount = Annotated[float, Meta(ge=0, lt=1e12)]


class PageSeed(Seed):
    least = 0


_OPTIONS = {name: NUMBERS[n] for n, name in names_in("openai").items() if n in NUMBERS}
PageSampling = msgspec.defstruct(
    "PageSampling",
    [(name, type_of(row, PageSeed) | None, None) for name, row in _OPTIONS.items()],
    module=__name__,
)


class EmptyBody(Struct):
    """This body has no fields."""


class NewConversation(Struct):
    system_prompt: LongText = ""


class ChangedConversation(Struct):
    title: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    system_prompt: LongText | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET


class SelectedMessage(Struct):
    message: Id


class NewMessage(Struct):
    text: LongText
    parent: Id | None = None
    based_on: Id | None = None


class NewAnswer(Struct):
    parent: Id | None = None
    sampling: PageSampling | None = None  # type: ignore[valid-type]


class AnswerStats(Struct):
    prompt_tokens: Amount = 0
    reused_tokens: Amount = 0
    new_tokens: Amount = 0
    decode_tok_s: Amount = 0
    ttft_ms: Amount = 0


class WrittenAnswer(Struct, kw_only=True):
    """All of an answer so far; with `finished`, also how it ended."""

    text: LongText
    thought: LongText = ""
    likelihoods: Annotated[
        list[Annotated[float, Meta(ge=-1e6, le=1e6)]], Meta(max_length=1 << 20)
    ] = []
    response: Annotated[str, Meta(max_length=200)] = ""
    finished: bool = False
    reason: StopReason | UnsetType = UNSET
    stats: AnswerStats = msgspec.field(default_factory=AnswerStats)
    problem: Annotated[str, Meta(max_length=2000)] = ""
    seconds: Amount = 0


class AnswerWriter:
    def __init__(self, shared: Shared, store: HistoryStore) -> None:
        self._shared, self._store = shared, store
        self._known: dict[tuple[int, int], None] = {}  # conversations and answers that are there

    async def begin(self, request: Request) -> Response:
        """Begin an answer behind `parent`; beside others there it is another version."""
        at = id_in_path(request, "conversation")
        body = await body_of(self._shared, request, NewAnswer)
        parent, run = _plain(body.parent), self._run(body)

        def begin(history: History) -> Json:
            found = history.conversation(at)
            known = {message.id for message in found.messages} if found else set()
            if found is None or found.summary.deleted is not None or parent not in known:
                raise ApiError(404, "parent: there is no message of this number")
            return stored.added_to(found, history.begin_answer(at, parent, run))

        return await self._store.answer(begin, 201)

    async def write(self, request: Request) -> Response:
        """Save all of an answer so far; with `finished`, also how it ended."""
        at = id_in_path(request, "conversation")
        one = id_in_path(request, "message")
        body = await body_of(self._shared, request, WrittenAnswer)
        end = _end(body) if body.finished else None

        def write(history: History) -> None:
            self._check_there(history, at, one)
            stub = StoredMessage(one, at, None, "assistant", finished=False)
            if end is None:
                history.write_answer(stub, body.text, body.thought)
                return
            tokens = self._tokens(body.response, body.text)
            scored = (*body.likelihoods, *[_NOT_SCORED] * len(tokens))[: len(tokens)]
            history.finish_answer(stub, body.text, body.thought, tokens, end, scored)

        await self._store.run(write)
        return Response(status_code=204)

    async def tokens(self, request: Request) -> Response:
        """Return the text and likelihood of each token of a kept answer; none where another
        model gave it."""
        at = id_in_path(request, "conversation")
        one = id_in_path(request, "message")

        def find(history: History) -> StoredMessage:
            found = history.conversation(at)
            for message in found.messages if found else ():
                if message.id == one:
                    return message
            raise ApiError(404, "message: there is none of this number")

        message = await self._store.run(find)
        service, run = self._shared.service_of(), message.run
        texts: list[str] = []
        if service is not None and run is not None and run.model.name == service.model.name:
            texts = service.token_texts(message.tokens)
        return LargeResponse({"texts": texts, "likelihoods": list(message.likelihoods)})

    def _check_there(self, history: History, conversation: int, answer: int) -> None:
        """Raise ApiError where the answer is gone: what is submitted to the history is saved
        later, when it is too late to refuse. An answer is looked up once, its conversation each
        time."""
        if history.summary(conversation) is None:
            raise ApiError(404, NO_CONVERSATION)
        if (conversation, answer) in self._known:
            return
        found = history.conversation(conversation)
        messages = found.messages if found else ()
        if not any(one.id == answer and one.role == "assistant" for one in messages):
            raise ApiError(404, _NO_ANSWER)
        while len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)
        self._known[conversation, answer] = None

    def _run(self, body: NewAnswer) -> AnswerRun:
        service = self._shared.service_of()
        made = AnswerRun.by(service.model, service.executor) if service else None
        return replace(made or AnswerRun(), sampling=_sampling(body.sampling))

    def _tokens(self, response: str, text: str) -> tuple[int, ...]:
        """Return the ids of an answer's tokens, as the cache still has them; () where they are
        another text's."""
        service = self._shared.service_of()
        if not response or service is None:
            return ()
        try:
            held = service.answer_tokens(response)
            tokens = held.tokens[held.prompt_tokens :]
            return tokens if text.strip() in service.detokenize(tokens) else ()
        except LlmLiteError:
            return ()


def _sampling(given: Any) -> SamplingOptions | None:
    """Return what the page has set; the rest is the program's."""
    if given is None:
        return None
    values = ((row, getattr(given, name)) for name, row in _OPTIONS.items())
    return SamplingOptions(
        **{row.name: converted(row, value) for row, value in values if value is not None}
    )


def _plain(number: Id | None) -> int | None:
    return None if number is None else int(number)


def _end(body: WrittenAnswer) -> AnswerEnd:
    if body.reason is UNSET:
        raise CheckError("reason", f"is missing: expected {expected(StopReason)}")
    stats = GenerationStats(
        prompt_tokens=int(body.stats.prompt_tokens),
        reused_tokens=int(body.stats.reused_tokens),
        new_tokens=int(body.stats.new_tokens),
        decode_tok_s=body.stats.decode_tok_s,
        ttft_ms=body.stats.ttft_ms,
    )
    return AnswerEnd(body.reason, stats, body.problem, body.seconds)


_MOST_LISTED = 200
_LONGEST_QUERY = 400
_SEARCHING = 0.5  # seconds


class Conversations:
    def __init__(self, shared: Shared, store: HistoryStore) -> None:
        self._shared, self._store = shared, store
        self._answers = AnswerWriter(shared, store)

    def rows(self) -> list[PageRoute]:
        whole, one = "/page/conversations", "/page/conversations/{conversation}"
        answer = f"{one}/answers/{{message}}"
        return [
            PageRoute(whole, "GET", self._list),
            PageRoute(whole, "POST", self._begin),
            PageRoute("/page/search", "GET", self._search),
            PageRoute(one, "GET", self._open),
            PageRoute(one, "PATCH", self._change),
            PageRoute(one, "DELETE", self._delete),
            PageRoute(f"{one}/restore", "POST", self._restore),
            PageRoute(f"{one}/select", "POST", self._select),
            PageRoute(f"{one}/messages", "POST", self._write),
            PageRoute(f"{one}/messages/{{message}}/tokens", "GET", self._answers.tokens),
            PageRoute(f"{one}/answers", "POST", self._answers.begin),
            PageRoute(answer, "PUT", self._answers.write),
        ]

    async def _list(self, request: Request) -> Response:
        given = request.query_params.get("after")
        after = stored.cursor_from(given) if given else None
        limit = count(request, "limit", 50, 1, _MOST_LISTED)
        return await self._store.answer(
            lambda history: stored.page_of(history.page(after, limit=limit))
        )

    async def _search(self, request: Request) -> Response:
        query = request.query_params.get("q", "")[:_LONGEST_QUERY]

        def search(history: History) -> Json:
            found = history.search(query, limit=50, seconds=_SEARCHING)
            return {"found": [stored.found_of(one) for one in found.found]}

        return await self._store.answer(search)

    async def _begin(self, request: Request) -> Response:
        prompt = (await body_of(self._shared, request, NewConversation)).system_prompt

        def begin(history: History) -> Json:
            return {**stored.summary_of(history.begin(system_prompt=prompt)), "messages": []}

        return await self._store.answer(begin, 201)

    async def _open(self, request: Request) -> Response:
        at = id_in_path(request, "conversation")
        return await self._store.answer(lambda history: stored.conversation_of(whole(history, at)))

    async def _change(self, request: Request) -> Response:
        at = id_in_path(request, "conversation")
        body = await body_of(self._shared, request, ChangedConversation)

        def change(history: History) -> None:
            exists(history, at)
            if body.title is not UNSET and (title := body.title.strip()):
                history.set_title(at, title)
            if body.system_prompt is not UNSET:
                history.set_system_prompt(at, body.system_prompt)
            if body.pinned is not UNSET:
                history.set_pinned(at, body.pinned)

        await self._store.run(change)
        return Response(status_code=204)

    async def _delete(self, request: Request) -> Response:
        at = id_in_path(request, "conversation")

        def delete(history: History) -> None:
            exists(history, at)
            history.delete([at])

        await self._store.run(delete)
        return Response(status_code=204)

    async def _restore(self, request: Request) -> Response:
        at = id_in_path(request, "conversation")
        await body_of(self._shared, request, EmptyBody)

        def restore(history: History) -> None:
            if history.summary(at) is None:
                raise ApiError(404, NO_CONVERSATION)
            history.restore([at])

        await self._store.run(restore)
        return Response(status_code=204)

    async def _select(self, request: Request) -> Response:
        """Show another version, and what follows it."""
        at = id_in_path(request, "conversation")
        wanted = int((await body_of(self._shared, request, SelectedMessage)).message)

        def select(history: History) -> Json:
            path = ConversationTree.of(whole(history, at)).path_to(wanted)
            if not path:
                raise ApiError(404, "message: there is none of this number")
            history.show(path)
            return stored.conversation_of(whole(history, at))

        return await self._store.answer(select)

    async def _write(self, request: Request) -> Response:
        """Add what a person writes behind `parent`; it is another version of what was written
        there, if anything was."""
        at = id_in_path(request, "conversation")
        body = await body_of(self._shared, request, NewMessage)
        parent, base = _plain(body.parent), _plain(body.based_on)

        def write(history: History) -> Json:
            found = whole(history, at)
            known = {message.id: message for message in found.messages}
            if parent is not None and parent not in known:
                raise ApiError(404, "parent: there is no message of this number")
            before = known.get(base) if base is not None else None
            files = before.attachments if before is not None else ()
            added = history.add_message(at, parent, body.text, attachments=files, based_on=before)
            return stored.added_to(found, added)

        return await self._store.answer(write, 201)


def whole(history: History, number: int) -> StoredConversation:
    found = history.conversation(number)
    if found is None or found.summary.deleted is not None:
        raise ApiError(404, NO_CONVERSATION)
    return found


def exists(history: History, number: int) -> None:
    found = history.summary(number)
    if found is None or found.deleted is not None:
        raise ApiError(404, NO_CONVERSATION)
