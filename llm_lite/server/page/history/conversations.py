"""Conversations of the history for the page: lists, one whole, and what changes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llm_lite.core.errors import LlmLiteError, RequestError
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
from llm_lite.server.page.bodies import (
    count,
    fields,
    flag,
    number,
    optional_number,
    reals,
    text,
)
from llm_lite.server.page.history import record
from llm_lite.server.page.history.shelf import Shelf
from llm_lite.server.page.row import Row
from llm_lite.server.shared import Shared

NO_CONVERSATION = "conversation: there is none of this number"
_NO_ANSWER = "message: there is no answer of this number"
_MOST_TOKENS = 1 << 20
_MOST_KNOWN = 256  # answers that are being written
_LONGEST_NAME = 200  # characters of a response's name
_JUDGED = -1.0  # what stands where a token was not judged


class AnswerWriter:
    def __init__(self, shared: Shared, shelf: Shelf) -> None:
        self._shared, self._shelf = shared, shelf
        self._known: dict[tuple[int, int], None] = {}  # conversations and answers that are there

    async def begin(self, request: Request) -> Response:
        """An answer behind `parent`; beside others there it is another version."""
        at = number(request.path_params["conversation"], "conversation")
        body = await fields(self._shared, request)
        parent, run = optional_number(body, "parent"), self._run(body)

        def begin(history: History) -> StoredMessage:
            found = history.conversation(at)
            known = {message.id for message in found.messages} if found else set()
            if found is None or found.summary.deleted is not None or parent not in known:
                raise ApiError(404, "parent: there is no message of this number")
            return history.begin_answer(at, parent, run)

        return JSONResponse(record.message_of(await self._shelf.ask(begin)), 201)

    async def write(self, request: Request) -> Response:
        """All that it says so far; with `finished`, how it ended."""
        at = number(request.path_params["conversation"], "conversation")
        one = number(request.path_params["message"], "message")
        body = await fields(self._shared, request)
        said, thought = text(body, "text"), text(body, "thought", "")
        likelihoods = reals(body, "likelihoods", _MOST_TOKENS)
        response = text(body, "response", "", _LONGEST_NAME)
        finished = flag(body, "finished", False)
        end = _end(body) if finished else None

        def write(history: History) -> None:
            self._check_there(history, at, one)
            stub = StoredMessage(one, at, None, "assistant", finished=False)
            if end is None:
                history.write_answer(stub, said, thought)
                return
            tokens = self._tokens(response, said)
            judged = (*likelihoods, *[_JUDGED] * len(tokens))[: len(tokens)]
            history.finish_answer(stub, said, thought, tokens, end, judged)

        await self._shelf.ask(write)
        return Response(status_code=204)

    async def tokens(self, request: Request) -> Response:
        """What each token of a kept answer stands for, and how likely it was; none where another
        model gave it."""
        at = number(request.path_params["conversation"], "conversation")
        one = number(request.path_params["message"], "message")

        def find(history: History) -> StoredMessage:
            found = history.conversation(at)
            for message in found.messages if found else ():
                if message.id == one:
                    return message
            raise ApiError(404, "message: there is none of this number")

        message = await self._shelf.ask(find)
        service, run = self._shared.service_of(), message.run
        texts: list[str] = []
        if service is not None and run is not None and run.model.name == service.model.name:
            texts = service.token_texts(message.tokens)
        return JSONResponse({"texts": texts, "likelihoods": list(message.likelihoods)})

    def _check_there(self, history: History, conversation: int, answer: int) -> None:
        """ApiError; what is submitted to the history is saved later, when nobody can refuse it. An
        answer is looked up once, and its conversation, which may be gone, each time."""
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

    def _run(self, body: Mapping[str, Any]) -> AnswerRun:
        service = self._shared.service_of()
        made = AnswerRun.by(service.model, service.executor) if service else None
        return replace(made or AnswerRun(), sampling=_sampling(body.get("sampling")))

    def _tokens(self, response: str, said: str) -> tuple[int, ...]:
        """The ids of an answer, as the cache still has them; () where they say something else."""
        service = self._shared.service_of()
        if not response or service is None:
            return ()
        try:
            held = service.answer_tokens(response)
            tokens = held.tokens[held.prompt_tokens :]
            return tokens if said.strip() in service.detokenize(tokens) else ()
        except LlmLiteError:
            return ()


def _sampling(said: object) -> SamplingOptions | None:
    """What the page has set; the rest is the program's."""
    if not isinstance(said, dict):
        return None
    values: dict[str, Any] = {}
    for field, name in names_in("openai").items():
        found, row = said.get(name), NUMBERS.get(field)
        if found is None or row is None:
            continue
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise RequestError(f"sampling.{name}: expected a number")
        if not row.low <= found <= row.high:
            raise RequestError(f"sampling.{name}: expected a number from {row.low} to {row.high}")
        values[field] = int(found) if row.kind == "whole" else float(found)
    return SamplingOptions(**values)


def _end(body: Mapping[str, Any]) -> AnswerEnd:
    reason = body.get("reason")
    if reason not in get_args(StopReason):
        raise RequestError(f"reason: expected one of {', '.join(get_args(StopReason))}")
    said = body.get("stats", {})
    if not isinstance(said, dict):
        raise RequestError("stats: expected an object")
    stats = GenerationStats(
        prompt_tokens=int(_amount(said, "prompt_tokens")),
        reused_tokens=int(_amount(said, "reused_tokens")),
        new_tokens=int(_amount(said, "new_tokens")),
        decode_tok_s=_amount(said, "decode_tok_s"),
        ttft_ms=_amount(said, "ttft_ms"),
    )
    return AnswerEnd(reason, stats, text(body, "problem", "", 2000), _amount(body, "seconds"))


def _amount(said: Mapping[str, Any], name: str) -> float:
    found = said.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        raise RequestError(f"{name}: expected a number from 0")
    return float(found)


_MOST_LISTED = 200
_LONGEST_TITLE = 200  # characters
_LONGEST_QUERY = 400
_SEARCHING = 0.5  # seconds


class Conversations:
    def __init__(self, shared: Shared, shelf: Shelf) -> None:
        self._shared, self._shelf = shared, shelf
        self._answers = AnswerWriter(shared, shelf)

    def rows(self) -> list[Row]:
        whole, one = "/page/conversations", "/page/conversations/{conversation}"
        answer = f"{one}/answers/{{message}}"
        return [
            Row(whole, "GET", self._list),
            Row(whole, "POST", self._begin),
            Row("/page/search", "GET", self._search),
            Row(one, "GET", self._open),
            Row(one, "PATCH", self._change),
            Row(one, "DELETE", self._delete),
            Row(f"{one}/restore", "POST", self._restore),
            Row(f"{one}/select", "POST", self._select),
            Row(f"{one}/messages", "POST", self._say),
            Row(f"{one}/messages/{{message}}/tokens", "GET", self._answers.tokens),
            Row(f"{one}/answers", "POST", self._answers.begin),
            Row(answer, "PUT", self._answers.write),
        ]

    async def _list(self, request: Request) -> Response:
        said = request.query_params.get("after")
        after = record.cursor_from(said) if said else None
        limit = count(request, "limit", 50, 1, _MOST_LISTED)
        found = await self._shelf.ask(lambda history: history.page(after, limit=limit))
        return JSONResponse(record.page_of(found))

    async def _search(self, request: Request) -> Response:
        query = request.query_params.get("q", "")[:_LONGEST_QUERY]
        found = await self._shelf.ask(
            lambda history: history.search(query, limit=50, seconds=_SEARCHING)
        )
        return JSONResponse({"found": [record.found_of(one) for one in found.found]})

    async def _begin(self, request: Request) -> Response:
        prompt = text(await fields(self._shared, request), "system_prompt", "")
        begun = await self._shelf.ask(lambda history: history.begin(system_prompt=prompt))
        return JSONResponse({**record.summary_of(begun), "messages": []}, 201)

    async def _open(self, request: Request) -> Response:
        at = number(request.path_params["conversation"], "conversation")
        found = await self._shelf.ask(lambda history: whole(history, at))
        return JSONResponse(record.conversation_of(found))

    async def _change(self, request: Request) -> Response:
        at = number(request.path_params["conversation"], "conversation")
        body = await fields(self._shared, request)
        title = text(body, "title", most=_LONGEST_TITLE).strip() if "title" in body else None
        prompt = text(body, "system_prompt") if "system_prompt" in body else None
        pinned = flag(body, "pinned", False) if "pinned" in body else None

        def change(history: History) -> None:
            exists(history, at)
            if title:
                history.set_title(at, title)
            if prompt is not None:
                history.set_system_prompt(at, prompt)
            if pinned is not None:
                history.set_pinned(at, pinned)

        await self._shelf.ask(change)
        return Response(status_code=204)

    async def _delete(self, request: Request) -> Response:
        at = number(request.path_params["conversation"], "conversation")

        def delete(history: History) -> None:
            exists(history, at)
            history.delete([at])

        await self._shelf.ask(delete)
        return Response(status_code=204)

    async def _restore(self, request: Request) -> Response:
        at = number(request.path_params["conversation"], "conversation")
        await fields(self._shared, request)

        def restore(history: History) -> None:
            if history.summary(at) is None:
                raise ApiError(404, NO_CONVERSATION)
            history.restore([at])

        await self._shelf.ask(restore)
        return Response(status_code=204)

    async def _select(self, request: Request) -> Response:
        """Show another version, and what was said behind it."""
        at = number(request.path_params["conversation"], "conversation")
        wanted = number((await fields(self._shared, request)).get("message"), "message")

        def select(history: History) -> StoredConversation:
            path = ConversationTree.of(whole(history, at)).path_to(wanted)
            if not path:
                raise ApiError(404, "message: there is none of this number")
            history.show(path)
            return whole(history, at)

        return JSONResponse(record.conversation_of(await self._shelf.ask(select)))

    async def _say(self, request: Request) -> Response:
        """What a person says behind `parent`; another version of what was said there, if any."""
        at = number(request.path_params["conversation"], "conversation")
        body = await fields(self._shared, request)
        said, parent = text(body, "text"), optional_number(body, "parent")
        base = optional_number(body, "based_on")

        def say(history: History) -> StoredMessage:
            known = {message.id: message for message in whole(history, at).messages}
            if parent is not None and parent not in known:
                raise ApiError(404, "parent: there is no message of this number")
            before = known.get(base) if base is not None else None
            files = before.attachments if before is not None else ()
            return history.add_message(at, parent, said, attachments=files, based_on=before)

        return JSONResponse(record.message_of(await self._shelf.ask(say)), 201)


def whole(history: History, number: int) -> StoredConversation:
    found = history.conversation(number)
    if found is None or found.summary.deleted is not None:
        raise ApiError(404, NO_CONVERSATION)
    return found


def exists(history: History, number: int) -> None:
    found = history.summary(number)
    if found is None or found.deleted is not None:
        raise ApiError(404, NO_CONVERSATION)
