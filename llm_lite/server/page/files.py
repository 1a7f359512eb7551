"""The page's files, each under a fixed address. No path is ever made of what a request says."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_lite.core.assets import ASSETS

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


def file_routes() -> list[Route]:
    """`/`, and a route for each file below `/web/`."""
    folder = ASSETS / "web"
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix in TYPES)
    found = {name.as_posix(): folder / name for name in names}
    found |= {name: ASSETS / place for name, place in SHARED.items()}
    served = {f"/web/{name}": path for name, path in found.items() if name != "index.html"}
    served["/"] = folder / "index.html"
    return [Route(at, partial(_serve, path), methods=["GET"]) for at, path in served.items()]


def _serve(path: Path, request: Request) -> Response:
    """The file, unless the browser has it as it is."""
    data = path.read_bytes()
    tag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'
    lasting = path.suffix in (".otf", ".ttf", ".png")
    caching = {"ETag": tag, "Cache-Control": "max-age=604800" if lasting else "no-cache"}
    headers = {**HEADERS, **caching}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=TYPES[path.suffix], headers=headers)
