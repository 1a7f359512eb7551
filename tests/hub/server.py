"""The hub itself. As a fixture: `with running_hub() as hub`; for a window:

python -m tests.hub.server FOLDER --port 8765 [--rate BYTES] [--gated OWNER/NAME]

FOLDER holds a folder an owner, in it a folder a repository. Then HF_ENDPOINT=http://127.0.0.1:8765.
It offers no xet, so files come over HTTP, by way of a redirect, as from the hub's own CDN.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from tests.hub.faults import Fault, gated
from tests.hub.repositories import HubBlob, HubRepository, repository_of

PIECE = 16 << 10  # bytes that are sent at once
TOKEN = "hf_test"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, hub: TestHub, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.hub = hub

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is what tests are about."""


class TestHub:
    """`asked`: method, path and headers of every request so far. Files come from another origin, as
    the hub's own do."""

    __test__ = False

    def __init__(self, port: int = 0) -> None:
        self.servers = [_Server(self, port), _Server(self)]
        self.repositories: dict[str, HubRepository] = {}
        self.faults: list[Fault] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.sent = 0  # bytes of files
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self.servers[0].url

    @property
    def cdn(self) -> str:
        return self.servers[1].url

    def add(self, name: str, files: dict[str, bytes | Path], **details: Any) -> HubRepository:
        repository = HubRepository(name, details=details)
        repository.commit(files)
        self.repositories[name] = repository
        return repository

    def add_folder(self, folder: Path) -> None:
        """Folders OWNER/NAME."""
        for owner in sorted(path for path in folder.iterdir() if path.is_dir()):
            for path in sorted(path for path in owner.iterdir() if path.is_dir()):
                name = f"{owner.name}/{path.name}"
                self.repositories[name] = repository_of(name, path)

    def fault(self, method: str, path: str) -> Fault:
        """The first that meets the request; one that asks for nothing, else."""
        with self._lock:
            for fault in self.faults:
                if fault.meets(method, path):
                    fault.times -= fault.times > 0
                    return fault
        return Fault("")

    def counted(self, count: int) -> None:
        with self._lock:
            self.sent += count

    def paths(self, method: str, part: str) -> list[str]:
        return [path for how, path, _ in self.asked if how == method and part in path]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.hub.asked.append((self.command, self.path, dict(self.headers.items())))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault = self.server.hub.fault(self.command, self.path)
        if self.fault.location:
            self._head(302, {"Location": self.fault.location})
        elif self.fault.endless:
            self._send_endless()
        elif self.fault.status:
            self._send(self.fault.status, self.fault.body, self.fault.headers)
        else:
            self._route(body)

    def _route(self, body: bytes) -> None:
        split = urlsplit(self.path)
        parts = [unquote(part) for part in split.path.strip("/").split("/")]
        query = parse_qs(split.query)
        match parts:
            case ["api", "whoami-v2"]:
                self._whoami()
            case ["api", "models"]:
                self._list(query)
            case ["api", "models", _]:
                self._error(401, "RepoNotFound", "Repository not found")
            case ["api", "models", owner, name, *rest]:
                self._api(f"{owner}/{name}", rest, query, body)
            case ["cdn", owner, name, commit, *file]:
                self._content(f"{owner}/{name}", commit, "/".join(file))
            case [owner, name, "resolve" | "raw", revision, *file]:
                self._resolve(f"{owner}/{name}", revision, "/".join(file), parts[2] == "raw")
            case _:
                self._error(404, "EntryNotFound", "Entry not found")

    def _whoami(self) -> None:
        if self.headers.get("authorization") == f"Bearer {TOKEN}":
            self._json({"type": "user", "name": "tester", "auth": {"type": "access_token"}})
        else:
            self._error(401, "", "Invalid credentials in Authorization header")

    def _list(self, query: dict[str, list[str]]) -> None:
        def says(key: str) -> str:
            return query.get(key, [""])[0]

        found = []
        for repository in self.server.hub.repositories.values():
            model = repository.model(repository.head, blobs=False)
            words = says("search").lower().split()
            if not all(word in repository.name.lower() for word in words):
                continue
            if says("pipeline_tag") not in ("", model["pipeline_tag"]):
                continue
            if not set(query.get("filter", [])) <= {*model["tags"], model["pipeline_tag"]}:
                continue
            if says("author") not in ("", model["author"]):
                continue
            found.append(model)
        if says("sort"):
            found.sort(key=lambda model: model.get(says("sort")) or 0, reverse=True)
        start, limit = int(says("cursor") or 0), min(int(says("limit") or 1000), 1000)
        page = found[start : start + limit]
        expand = query.get("expand", [])
        if expand:
            page = [_only(model, expand) for model in page]
        elif not says("full"):
            page = [{k: v for k, v in model.items() if k != "siblings"} for model in page]
        headers = {}
        if start + limit < len(found):
            rest = [(k, v) for k, v in parse_qsl(urlsplit(self.path).query) if k != "cursor"]
            words = "&".join(f"{k}={quote(v)}" for k, v in [*rest, ("cursor", str(start + limit))])
            headers["Link"] = f'<{self.server.hub.url}/api/models?{words}>; rel="next"'
        self._json(page, headers)

    def _api(self, name: str, rest: list[str], query: dict[str, list[str]], body: bytes) -> None:
        repository = self.server.hub.repositories.get(name)
        if repository is None:
            # As the hub: who is not signed in is not told whether a repository is private.
            signed = "authorization" in self.headers
            self._error(404 if signed else 401, "RepoNotFound", "Repository not found")
            return
        revision = rest[1] if len(rest) > 1 else "main"
        commit = repository.resolve(revision)
        if commit is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        files = repository.commits[commit]
        match rest[:1]:
            case [] | ["revision"]:
                model = repository.model(commit, blobs="blobs" in query)
                self._json(_only(model, query["expand"]) if "expand" in query else model)
            case ["tree"]:
                self._json([blob.entry(path) for path, blob in files.items()])
            case ["paths-info"]:
                wanted = [value for key, value in parse_qsl(body.decode()) if key == "paths"]
                self._json([files[path].entry(path) for path in wanted if path in files])
            case _:
                self._error(404, "EntryNotFound", "Entry not found")

    def _resolve(self, name: str, revision: str, path: str, raw: bool) -> None:
        """LFS files by a redirect, others at once."""
        repository = self.server.hub.repositories.get(name)
        if repository is None:
            self._error(401, "RepoNotFound", "Repository not found")
            return
        commit = repository.resolve(revision)
        if commit is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        blob = repository.commits[commit].get(path)
        if blob is None:
            self._error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
            return
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if blob.sha256 and not raw:
            headers |= {
                "X-Linked-Etag": f'"{blob.etag}"',
                "X-Linked-Size": str(blob.size),
                "ETag": f'"{blob.oid}"',
                "Location": f"{self.server.hub.cdn}/cdn/{name}/{commit}/{quote(path)}",
            }
            self._head(302, headers | self.fault.headers)
        else:
            self._file(blob, headers | self.fault.headers)

    def _content(self, name: str, commit: str, path: str) -> None:
        blob = self.server.hub.repositories[name].commits[commit][path]
        self._file(blob, {"Accept-Ranges": "bytes"})

    def _file(self, blob: HubBlob, headers: dict[str, str]) -> None:
        headers = {"ETag": f'"{blob.etag}"', **headers}
        size = blob.size if self.fault.content is None else len(self.fault.content)
        start, status = 0, 200
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and not self.fault.no_ranges:
            start = int(asked[6:].partition("-")[0])
            if start >= size:
                self._head(416, {"Content-Range": f"bytes */{size}"})
                return
            status = 206
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
        length = self.fault.length if self.fault.length >= 0 else size - start
        self._head(status, headers, length)
        if self.command != "HEAD":
            self._pieces(blob, start, size)

    def _pieces(self, blob: HubBlob, start: int, size: int) -> None:
        fault, begun, place = self.fault, time.monotonic(), start
        while place < size:
            count = min(PIECE, size - place)
            if 0 <= fault.cut < place + count:
                count = max(0, fault.cut - place)
            piece = (
                blob.read(place, count)
                if fault.content is None
                else fault.content[place : place + count]
            )
            self.wfile.write(piece)
            self.server.hub.counted(len(piece))
            place += count
            if 0 <= fault.cut <= place:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(2)
                return
            if 0 <= fault.stall <= place:
                time.sleep(fault.wait)
                self.close_connection = True
                return
            if fault.rate:
                due = begun + (place - start) / fault.rate
                time.sleep(max(0.0, due - time.monotonic()))
        if self.fault.length >= 0:
            self.close_connection = True

    def _send_endless(self) -> None:
        """Made up as it goes: JSON of one string that never ends."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        if self.fault.length >= 0:
            self.send_header("Content-Length", str(self.fault.length))
        self.end_headers()
        left, piece = self.fault.endless, b"a" * (1 << 20)
        self.wfile.write(b'[{"id": "')
        while left > 0:
            self.wfile.write(piece)
            self.server.hub.counted(len(piece))
            left -= len(piece)

    def _json(self, value: Any, headers: dict[str, str] | None = None) -> None:
        content = {"Content-Type": "application/json"}
        self._send(200, json.dumps(value).encode(), content | (headers or {}))

    def _error(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        said = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        body = json.dumps({"error": message}).encode()
        self._send(status, body, said | (headers or {}))

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, headers, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str], length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def flush_headers(self) -> None:
        if not self.fault.slow_head:
            super().flush_headers()
            return
        for byte in b"".join(self._headers_buffer):  # type: ignore[attr-defined]
            self.wfile.write(bytes([byte]))
            time.sleep(self.fault.slow_head)
        self._headers_buffer: list[bytes] = []


def _only(model: dict[str, Any], expand: list[str]) -> dict[str, Any]:
    """What was asked for, and what a row always has."""
    return {key: value for key, value in model.items() if key in ("_id", "id", *expand)}


@contextlib.contextmanager
def running_hub(port: int = 0) -> Iterator[TestHub]:
    hub = TestHub(port)
    for server in hub.servers:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield hub
    finally:
        for server in hub.servers:
            server.shutdown()
            server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description="A hub on 127.0.0.1")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--rate", type=float, default=0.0, help="bytes a second of a file")
    parser.add_argument("--gated", action="append", default=[], metavar="OWNER/NAME")
    options = parser.parse_args()
    with running_hub(options.port) as hub:
        hub.add_folder(options.folder)
        for name in options.gated:
            hub.repositories[name].details["gated"] = "manual"
            hub.faults.append(gated(name))
        if options.rate:
            hub.faults.append(Fault("/cdn/", rate=options.rate))
        print(f"HF_ENDPOINT={hub.url}", *hub.repositories, sep="\n  ", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
