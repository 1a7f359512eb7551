"""`Page` is the page as a part of a server: all its routes, and what they share."""

from __future__ import annotations

import hashlib
from functools import partial
from html import escape
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from llm_lite.core.assets import ASSETS
from llm_lite.core.errors import GoneError, RequestError
from llm_lite.core.messages import ACTIVATIONS, MODES, Activations, Mode, ModeSwitch
from llm_lite.core.questions.attention import ReadAttention
from llm_lite.core.serving.service import Service
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import Sandbox, SandboxError
from llm_lite.server.call import client_of
from llm_lite.server.failures import ApiError
from llm_lite.server.page.conversations import Conversations
from llm_lite.server.page.history_store import HistoryStore
from llm_lite.server.page.requests import LongText, PageRoute, body_of, count
from llm_lite.server.shared import Shared

WORKER = "llm_lite.server.page.markdown_worker"
LIMITS = Limits(cpu_seconds=3.0, wall_seconds=10.0, memory_bytes=512 << 20)
LONG = 10_000  # characters: they wait for each other, and shorter ones for none of them
LONGEST = 200_000  # characters that are read as Markdown


class Renderer:
    """A renderer of one short text and one long one at a time; any thread may call it."""

    def __init__(self) -> None:
        self._process = Sandbox(WORKER, large=LONG)

    def warm(self) -> None:
        self._process.warm()

    def html(self, text: str) -> str:
        """Return the HTML of a text; one that is too long or takes too long stays plain text."""
        if len(text) <= LONGEST:
            try:
                request = {"text": text}
                answer = self._process.call("html", request, limits=LIMITS, size=len(text))
            except SandboxError:
                answer = {}
            if "html" in answer:
                return str(answer["html"])
        return f'<p class="plain">{escape(text)}</p>'

    def close(self) -> None:
        self._process.close()


_MOST_LISTED = 32  # requests
_RUN = ("mode", "activations", "keys", "values", "backend", "device", "threads")


def status_of(service: Service | None) -> dict[str, Any]:
    """Return what the page shows of a service; `model` is None while there is none."""
    if service is None:
        return {"model": None}
    model, executor, status = service.model, service.executor, service.status()
    asked = service.options
    usual = model.sampling()
    return {
        "model": {
            "name": model.name,
            "architecture": model.architecture,
            "parameters": model.parameters,
            "weight_bytes": model.weight_bytes,
            "layers": model.layers,
            "heads": model.heads,
            "kv_heads": model.kv_heads,
        },
        "run": {name: getattr(executor, name) for name in _RUN},
        "modes": {  # that may be chosen: bytes of all weights in each, 0 where that is not known
            "weights": {mode: model.mode_bytes.get(mode, 0) for mode in MODES},
            "rounded_again": dict(model.rounded_again),  # shares of the weights, as of the model
            "again_error": dict(model.again_error),
            "activations": ACTIVATIONS,
            "asked": {"mode": asked.mode, "activations": asked.activations},
            "switch": switch_of(service),
        },
        "serving": {
            "parallel": status.parallel,
            "context": status.context,
            "pages": status.pages,
            "pages_used": status.pages_used,
            "pages_kept": status.pages_kept,
            "page_tokens": status.page_tokens,
            "waiting": sum(request.waiting for request in status.requests),
            "running": sum(not request.waiting for request in status.requests),
            "prompt_tokens": status.prompt_tokens,
            "cached_tokens": status.cached_tokens,
            "new_tokens": status.new_tokens,
            "requests": [
                {
                    "response": request.response,
                    "waiting": request.waiting,
                    "prompt_tokens": request.prompt_tokens,
                    "prefilled": request.prefilled,
                    "new_tokens": request.new_tokens,
                }
                for request in status.requests[:_MOST_LISTED]
            ],
        },
        "sampling": {
            "temperature": usual.temperature,
            "top_p": usual.top_p,
            "max_tokens": usual.max_new_tokens,
        },
    }


class AskedMode(Struct):
    mode: Mode
    activations: Activations = "auto"


class Modes:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def rows(self) -> list[PageRoute]:
        return [
            PageRoute("/page/mode", "POST", self._switch),
            PageRoute("/page/mode", "DELETE", self._cancel),
        ]

    async def _switch(self, request: Request) -> Response:
        """Begin a switch: 202, and `/page/status` says how it goes. The answer is 200 where the
        model runs so already, 409 while another switch is under way."""
        body = await body_of(self._shared, request, AskedMode)
        service = self._shared.service()
        if (service.options.mode, service.options.activations) == (body.mode, body.activations):
            return JSONResponse({"switch": switch_of(service)})
        try:
            service.modes.request(body.mode, body.activations)
        except RequestError as error:
            raise ApiError(409, str(error)) from None
        return JSONResponse({"switch": switch_of(service)}, 202)

    async def _cancel(self, request: Request) -> Response:
        """End the switch under way, if there is one."""
        self._shared.service().modes.cancel()
        return Response(status_code=204)


def switch_of(service: Service) -> dict[str, Any] | None:
    """Return the last switch; None where none was asked for."""
    switch: ModeSwitch | None = service.modes.last
    if switch is None:
        return None
    return {
        "number": switch.number,
        "mode": switch.mode,
        "activations": switch.activations,
        "phase": switch.phase,
        "stage": switch.stage,
        "fraction": switch.fraction,
        "problem": switch.problem,
    }


U8 = NDArray[np.uint8]
FLOOR = 1e-4  # the least probability that is told from none
_MOST_NUMBERS = 4_000_000  # that are held at once
_MOST_MADE = 8_000_000  # pixels of all heads
_MOST_PIXELS = 1024  # a side
_LONGEST_NAME = 200  # characters of a response's name
_MOST_ROWS_A_PIXEL = 4  # of a longer map, some rows stand for those around them


class Maps:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def rows(self) -> list[PageRoute]:
        return [PageRoute("/page/maps", "GET", self._maps)]

    async def _maps(self, request: Request) -> Response:
        """Answer with `heads` pictures one after the other, bytes [side, side] row by row, of
        one layer, the first that attends unless `layer` names another: of all heads, or of `head`.
        X-Length says of how many tokens."""
        service, name = self._shared.service(), _response(request)
        model = service.model
        attends = (n for n in range(model.layers) if n not in model.recurrent_layers)
        layer = count(request, "layer", next(attends, 0), 0, model.layers - 1)
        side = count(request, "side", 32, 4, _MOST_PIXELS)
        chosen = count(request, "head", model.heads, 0, model.heads)
        heads = list(range(model.heads)) if chosen == model.heads else [chosen]
        made, length = await run_in_threadpool(pictures, service, name, layer, heads, side)
        headers = {
            "X-Length": str(length),
            "X-Side": str(made.shape[1]),
            "Cache-Control": "no-store",
        }
        return Response(made.tobytes(), media_type="application/octet-stream", headers=headers)


def _response(request: Request) -> str:
    return request.query_params.get("response", "")[:_LONGEST_NAME]


def pictures(
    service: Service, response: str, layer: int, heads: list[int], side: int
) -> tuple[U8, int]:
    """Return bytes [heads, side, side], side at most the length, and the length: queries run
    downwards, keys to the right. Rows whose queries are not kept are 0."""
    held = service.answer_tokens(response)
    length = len(held.tokens)
    if not length:
        raise GoneError(f"{response}: the cache holds nothing of it any more")
    side = min(side, length, isqrt(_MOST_MADE // len(heads)))
    edges = np.linspace(0, length, side + 1).astype(np.intp)  # of pixels, in tokens
    made = np.zeros((len(heads), side, side), np.float32)
    for start, stop in _spans(
        edges, held.first_query, max(1, _MOST_NUMBERS // (len(heads) * length))
    ):
        wanted = ReadAttention(layer, tuple(heads), start, stop)
        rows = service.ask(response, wanted).attention
        columns = np.maximum.reduceat(rows, edges[:-1], axis=2)
        pixels = np.searchsorted(edges, np.arange(start, stop), side="right") - 1
        for row, pixel in enumerate(pixels):
            np.maximum(made[:, pixel], columns[:, row], out=made[:, pixel])
    return scaled(made), length


def _spans(edges: NDArray[np.intp], kept: int, at_once: int) -> list[tuple[int, int]]:
    """Return rows from `kept` on, in parts of at most `at_once`: all of them, or where a part a
    pixel makes fewer parts, the last of each pixel's rows."""
    length, side = int(edges[-1]), len(edges) - 1
    if (length - kept) <= side * at_once:
        return [(at, min(at + at_once, length)) for at in range(kept, length, at_once)]
    few = min(at_once, _MOST_ROWS_A_PIXEL)
    spans = ((max(kept, int(last) - few), int(last)) for last in edges[1:])
    return [(first, last) for first, last in spans if first < last]


def scaled(probabilities: NDArray[np.float32]) -> U8:
    """Return bytes 0..255 on a logarithmic scale from FLOOR to 1."""
    with np.errstate(divide="ignore"):
        share = 1 - np.log(np.maximum(probabilities, FLOOR)) / np.log(FLOOR)
    bytes_: U8 = np.rint(np.clip(share, 0, 1) * 255).astype(np.uint8)
    return bytes_


TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ttf": "font/ttf",
    ".otf": "font/otf",
}
# What the page may load and whom it may call: this server. No script and no style stands in HTML.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Those of the window that the page has too, by the names under which it asks for them.
SHARED = {
    "latin.otf": "fonts/Latin-Regular-Subset.otf",
    "hangul.otf": "fonts/Hangul-Medium-Subset.otf",
    "bold.otf": "fonts/Pretendard-SemiBold.otf",
    "mono.ttf": "fonts/JetBrainsMono-Regular.ttf",
    "icons.ttf": "fonts/Lucide-Subset.ttf",
    "icon.png": "icon/llm-lite.png",
}


class MarkdownText(Struct):
    text: LongText


class Page:
    """`routes` are for the server's application. All may ask for `open_paths`, the files; what
    is below `/page/` is for holders of the server's key."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._store = HistoryStore(shared.config.history)
        self._renderer = Renderer()
        self._files = file_routes()
        self.open_paths = [route.path for route in self._files]

    def routes(self) -> list[Route]:
        rows = [
            PageRoute("/page/status", "GET", self._status),
            PageRoute("/page/markdown", "POST", self._markdown),
            *Conversations(self._shared, self._store).rows(),
            *Maps(self._shared).rows(),
            *Modes(self._shared).rows(),
        ]
        return [*self._files, *(row.route(self._shared) for row in rows)]

    def close(self) -> None:
        """Save what is left of conversations, and end the process of Markdown."""
        self._store.close()
        self._renderer.close()

    async def _status(self, request: Request) -> Response:
        await self._store.run(lambda history: None)  # it is open from now on, or tells why not
        self._store.poll()
        history = {"changes": self._store.changes, "problem": self._store.problem}
        return JSONResponse({**status_of(self._shared.service_of()), "history": history})

    async def _markdown(self, request: Request) -> Response:
        """Answer with the `html` of a text."""
        body = await body_of(self._shared, request, MarkdownText)
        html = await self._shared.in_thread(
            client_of(request), lambda: self._renderer.html(body.text)
        )
        return JSONResponse({"html": html})


def file_routes() -> list[Route]:
    """Return routes for `/`, and for each file below `/web/`."""
    folder = ASSETS / "web"
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix in TYPES)
    found = {name.as_posix(): folder / name for name in names}
    found |= {name: ASSETS / place for name, place in SHARED.items()}
    served = {f"/web/{name}": path for name, path in found.items() if name != "index.html"}
    served["/"] = folder / "index.html"
    return [Route(at, partial(_serve, path), methods=["GET"]) for at, path in served.items()]


def _serve(path: Path, request: Request) -> Response:
    """Answer with the file, unless the browser has it as it is."""
    data = path.read_bytes()
    tag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
    lasting = path.suffix in (".otf", ".ttf", ".png")
    caching = {"ETag": tag, "Cache-Control": "max-age=604800" if lasting else "no-cache"}
    headers = {**HEADERS, **caching}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=TYPES[path.suffix], headers=headers)
