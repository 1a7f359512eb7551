"""What can be wrong with a hub, told of one path or of all: a test makes one, the server obeys."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Fault:
    """Answers to paths that hold `path` are wrong, `times` times (-1: always).

    status: this one instead, with `headers` and `body`. cut: the connection ends after so many
    bytes of the content. rate: bytes/s. stall: after so many bytes nothing comes in `wait` s.
    length: Content-Length says this. content: is sent instead, of the same length or not.
    endless: a body of so many bytes, made up as it is sent. location: a redirect to there.
    slow_head: seconds between two bytes of an answer's head.
    """

    path: str
    times: int = -1
    method: str = ""  # "" is any
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int = -1
    rate: float = 0.0
    stall: int = -1
    wait: float = 5.0
    length: int = -1
    content: bytes | None = None
    endless: int = 0
    location: str = ""
    slow_head: float = 0.0
    no_ranges: bool = False

    def meets(self, method: str, path: str) -> bool:
        return self.times != 0 and self.path in path and self.method in ("", method)


def gated(repo: str, *, status: int = 401) -> Fault:
    """As the hub answers for a gated file: 401 without a token, 403 for one without access."""
    message = (
        f"Access to model {repo} is restricted. You must have access to it and be authenticated."
    )
    return Fault(
        f"/{repo}/resolve/",
        status=status,
        headers={"X-Error-Code": "GatedRepo", "X-Error-Message": message},
    )


def too_many(path: str, seconds: int, times: int = 1) -> Fault:
    return Fault(path, times, status=429, headers={"Retry-After": str(seconds)})
