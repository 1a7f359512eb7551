"""The page as a part of a server: all its routes, and what they share."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from llm_lite.server.call import client_of
from llm_lite.server.page import bodies
from llm_lite.server.page.files import file_routes
from llm_lite.server.page.history.conversations import Conversations
from llm_lite.server.page.history.shelf import Shelf
from llm_lite.server.page.maps import Maps
from llm_lite.server.page.markdown import Renderer
from llm_lite.server.page.modes import Modes
from llm_lite.server.page.row import Row
from llm_lite.server.page.status import status_of
from llm_lite.server.shared import Shared


class Page:
    """`routes` are for the server's application. `open_paths`, the files, are for all; what is
    below `/page/` is for holders of the server's key."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._shelf = Shelf(shared.config.history)
        self._renderer = Renderer()
        self._files = file_routes()
        self.open_paths = [route.path for route in self._files]

    def routes(self) -> list[Route]:
        rows = [
            Row("/page/status", "GET", self._status),
            Row("/page/markdown", "POST", self._markdown),
            *Conversations(self._shared, self._shelf).rows(),
            *Maps(self._shared).rows(),
            *Modes(self._shared).rows(),
        ]
        return [*self._files, *(row.route(self._shared) for row in rows)]

    def close(self) -> None:
        """Save what is left of conversations, and end the process of Markdown."""
        self._shelf.close()
        self._renderer.close()

    async def _status(self, request: Request) -> Response:
        await self._shelf.ask(lambda history: None)  # it is open from now on, or tells why not
        self._shelf.poll()
        history = {"changes": self._shelf.changes, "problem": self._shelf.problem}
        return JSONResponse({**status_of(self._shared.service_of()), "history": history})

    async def _markdown(self, request: Request) -> Response:
        """`html` of a text."""
        said = bodies.text(await bodies.fields(self._shared, request), "text")
        html = await self._shared.apart(client_of(request), lambda: self._renderer.html(said))
        return JSONResponse({"html": html})
