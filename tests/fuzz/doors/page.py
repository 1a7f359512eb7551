"""Requests of the page in a browser: conversations by odd numbers, bodies changed, Markdown.

No answer is a 500, what is accepted can be saved, and Markdown has links of the web only.
"""

from __future__ import annotations

import copy
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from llm_lite.core.errors import RequestError
from llm_lite.server.config import ServerConfig
from llm_lite.server.page import Page, markdown_worker
from llm_lite.server.routes import make_app
from llm_lite.server.shared import Shared
from tests.fuzz.door import Case, Door, problem_of_sentence
from tests.fuzz.doors.markdown import MARKDOWN, MARKS, mutated
from tests.fuzz.mutations import change_json, mutate_bytes, odd_text, to_json
from tests.server.scripted_service import ScriptedService

WRITTEN = {
    "text": "One, two",
    "thought": "Hm.",
    "likelihoods": [0.5, 1],
    "response": "chatcmpl-1",
    "finished": True,
    "reason": "end",
    "seconds": 1.5,
    "stats": {"prompt_tokens": 5, "new_tokens": 3, "decode_tok_s": 9.5, "ttft_ms": 40},
}
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9, "seed": 3}
LINKS = ("intent://x", "blob:http://x", "filesystem:http://x", "JaVaScRiPt:x", "http://x", "//x")


class Asked:
    """A page with a conversation, an answer of which is being written."""

    def __init__(self) -> None:
        self.defects: list[str] = []
        history = Path.cwd() / "tmp" / "page.db"
        history.parent.mkdir(exist_ok=True)
        service = ScriptedService(lambda request: "You said so.", context=256)
        self._shared = Shared(lambda: service, ServerConfig(history=history), self.defects.append)
        self._page = Page(self._shared)
        self.client = TestClient(make_app(self._shared, self._page), base_url="http://127.0.0.1")
        self.talk = self._post("/page/conversations", system_prompt="Be brief.")["id"]
        at = f"/page/conversations/{self.talk}"
        self.said = self._post(f"{at}/messages", text="Count", parent=None)["id"]
        self.answer = self._post(f"{at}/answers", parent=self.said)["id"]

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.client.post(path, json=body).json()
        return made

    @property
    def problem(self) -> str:
        return str(self.client.get("/page/status").json()["history"]["problem"])


@cache
def asked() -> Asked:
    return Asked()


def use(case: Case) -> None:
    rng, page = case.rng, asked()
    if rng.random() < 0.25:
        _links(rng)
        return
    method, path, body = _request(rng, page)
    headers = {"Content-Type": "application/json"}
    heard = page.client.request(method, path, content=body, headers=headers)
    assert not page.defects, page.defects.pop()
    assert heard.status_code < 500, heard.status_code
    assert page.problem == "", f"{method} {path}: {page.problem}"
    if heard.status_code >= 400:
        message = heard.json()["error"]["message"]
        assert not (wrong := problem_of_sentence(message)), f"{wrong}: {message!r}"
        raise RequestError(message)


def _request(rng: random.Random, page: Asked) -> tuple[str, str, bytes | None]:
    talk, said, answer = (_number(rng, known) for known in (page.talk, page.said, page.answer))
    at = f"/page/conversations/{talk}"
    method, path, body = rng.choice(
        (
            ("PUT", f"{at}/answers/{answer}", WRITTEN),
            ("PUT", f"{at}/answers/{answer}", {"text": "One"}),
            ("POST", f"{at}/answers", {"parent": said, "sampling": SAMPLING}),
            ("POST", f"{at}/messages", {"text": "Two", "parent": answer, "based_on": said}),
            ("POST", f"{at}/select", {"message": answer}),
            ("POST", f"{at}/restore", {}),
            ("PATCH", at, {"title": "A talk", "system_prompt": "Be.", "pinned": True}),
            ("POST", "/page/conversations", {"system_prompt": "x"}),
            ("GET", at, None),
            ("GET", f"{at}/messages/{answer}/tokens", None),
            ("GET", f"/page/conversations?limit={talk}&after={odd_text(rng)!r}", None),
            ("GET", f"/page/search?q={odd_text(rng)!r}", None),
        )
    )
    if body is None:
        return method, _safe(path), None
    if rng.random() < 0.15:
        return method, _safe(path), mutate_bytes(json.dumps(body).encode(), rng)
    body = copy.deepcopy(body)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        change_json(body, rng)
    return method, _safe(path), to_json(body)


def _number(rng: random.Random, known: str) -> str:
    if rng.random() < 0.6:
        return known
    return rng.choice(("5", "0", "-1", str(2**63), "9" * 30, "x", "%00", "²", known + "0"))


def _safe(path: str) -> str:
    """As a client can send it."""
    return "".join(c if c.isprintable() and not c.isspace() else "%20" for c in path)


def _links(rng: random.Random) -> None:
    text = MARKDOWN.replace("https://x.y", rng.choice(LINKS)) + f"\n[r]: {rng.choice(LINKS)}\n[r]"
    text = mutated(text, rng, (*MARKS, *(f"](<{link}>)" for link in LINKS)))
    html = markdown_worker._html({"text": text}, b"")["html"]
    assert not re.search(r'href="(?!https?:|mailto:)', html), html
    assert set(re.findall(r"<([a-z0-9]+)", html)) <= _TAGS, html


_TAGS = {
    *("p", "a", "h1", "h2", "h3", "h4", "h5", "h6", "div", "span", "pre", "code", "table", "thead"),
    *("tbody", "tr", "th", "td", "em", "strong", "s", "ul", "ol", "li", "blockquote", "hr", "br"),
    *("math", "mrow", "mi", "mn", "mo", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot"),
    *("mtext", "mspace", "mstyle", "mover", "munder", "munderover", "mtable", "mtr", "mtd"),
    *("menclose", "mpadded", "mphantom", "semantics"),
}
DOOR = Door("page", use, asked)
