"""The page as a part of a server: all its routes, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from llm_lite.core.serving.service import Service
from llm_lite.server.page import bodies
from llm_lite.server.page.conversations import Conversations
from llm_lite.server.page.files import file_routes
from llm_lite.server.page.maps import Maps
from llm_lite.server.page.markdown import Renderer
from llm_lite.server.page.shelf import Shelf
from llm_lite.server.page.status import status_of


class Page:
    """`routes` are for the server's app; those below `/page/` are for holders of its key, the files
    for all. `history` is the file of conversations; None: the one of the window."""

    def __init__(
        self, service_of: Callable[[], Service | None], history: Path | None = None
    ) -> None:
        self._service_of = service_of
        self._shelf = Shelf(history)
        self._renderer = Renderer()

    def routes(self) -> list[Route]:
        own = {
            "/page/status": ("GET", self._status),
            "/page/markdown": ("POST", self._markdown),
        }
        return [
            *file_routes(),
            *(
                Route(at, bodies.answering(handler), methods=[method])
                for at, (method, handler) in own.items()
            ),
            *Conversations(self._shelf, self._service_of).routes(),
            *Maps(self._service_of).routes(),
        ]

    def close(self) -> None:
        """Save what is left of conversations, and end the process of Markdown."""
        self._shelf.close()
        self._renderer.close()

    async def _status(self, request: Request) -> Response:
        await self._shelf.ask(lambda history: None)  # it is open from now on, or tells why not
        self._shelf.poll()
        history = {"changes": self._shelf.changes, "problem": self._shelf.problem}
        return JSONResponse({**status_of(self._service_of()), "history": history})

    async def _markdown(self, request: Request) -> Response:
        """`html` of a text."""
        body = await bodies.fields(request)
        said = bodies.text(body, "text")
        return JSONResponse({"html": await run_in_threadpool(self._renderer.html, said)})
