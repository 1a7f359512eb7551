"""Conversations of the history for the page: lists, one whole, and what changes them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llm_lite.core.history import (
    ConversationTree,
    History,
    StoredConversation,
    StoredMessage,
)
from llm_lite.server.failures import ApiError
from llm_lite.server.page.bodies import (
    count,
    fields,
    flag,
    number,
    optional_number,
    text,
)
from llm_lite.server.page.history import record
from llm_lite.server.page.history.answers import NO_CONVERSATION, AnswerWriter
from llm_lite.server.page.history.shelf import Shelf
from llm_lite.server.page.row import Row
from llm_lite.server.shared import Shared

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
