"""Kills servers while pages talk to them, and checks what the history has of it.

    python -m tools.cross.server_kills [--times 200] [--jobs 2]

Each server is `llm-lite serve` with a tiny model. Two pages begin conversations, ask, stream
answers and have them saved as they grow, over HTTP, as the browser's page does. The server is
killed at a random moment; several in a row share one history. SQLite's integrity check must find
nothing, of each message all that the server had acknowledged a second before the kill must be
kept, and the next server must list the conversations. Ends with 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from llm_lite.core.history import History
from tests.core.history.killing import lives
from tests.make_gguf import write_tiny_llama
from tools.cross.served import ServedProcess, served
from tools.cross.window_kills import CONTEXT, GRACE, ON_ONE_FILE, Left

PAGES = 2
SAVED_EVERY = 0.05  # seconds, of a growing answer


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A text that the server said it has of a message, and when."""

    message: int
    text: str
    at: float
    done: bool


@dataclass
class Page:
    """A browser's page, as the server sees it. It ends when the server is gone."""

    address: str
    random: random.Random
    known: list[Acknowledged] = field(default_factory=list)

    def talk(self) -> None:
        try:
            with httpx2.Client(base_url=self.address, timeout=60.0, trust_env=False) as client:
                while True:
                    self._conversation(client)
        except httpx2.TransportError:  # killed
            return

    def _conversation(self, client: httpx2.Client) -> None:
        begun = _reply(client.post("/page/conversations", json={}))
        at, parent, asked = f"/page/conversations/{begun['id']}", None, list[dict[str, str]]()
        for _ in range(self.random.randrange(1, 4)):
            text = f"Question {self.random.randrange(10**9)}"
            asked.append({"role": "user", "content": text})
            body = {"text": text, **({"parent": parent} if parent else {})}
            question = _reply(client.post(f"{at}/messages", json=body))
            self._note(question["id"], text, done=True)
            answer = _reply(client.post(f"{at}/answers", json={"parent": question["id"]}))
            said = self._answer(client, asked, f"{at}/answers/{answer['id']}", answer["id"])
            asked.append({"role": "assistant", "content": said})
            parent = answer["id"]

    def _answer(
        self, client: httpx2.Client, asked: list[dict[str, str]], at: str, message: str
    ) -> str:
        body = {"messages": asked, "stream": True, "max_tokens": 500, "seed": 1}
        said, saved = "", time.monotonic()
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            for line in stream.iter_lines():
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line[6:]).get("choices", ()):
                    said += choice["delta"].get("content") or ""
                if said and time.monotonic() - saved > SAVED_EVERY:
                    client.put(at, json={"text": said}).raise_for_status()
                    saved = time.monotonic()
                    self._note(message, said)
        end = {"text": said, "finished": True, "reason": "end"}
        client.put(at, json=end).raise_for_status()
        self._note(message, said, done=True)
        return said

    def _note(self, message: str, text: str, *, done: bool = False) -> None:
        self.known.append(Acknowledged(int(message), text, time.monotonic(), done))


def _reply(answer: httpx2.Response) -> Any:
    answer.raise_for_status()
    return answer.json()


def check(history_file: Path, known: list[Acknowledged], killed: float) -> Left:
    """What was acknowledged GRACE seconds before the kill must be kept. AssertionError."""
    history = History(history_file)
    assert history.wait_until_open(60)
    assert history.check() == ""
    kept: dict[int, str] = {}
    for number in history.all_ids():
        conversation = history.conversation(number)
        assert conversation is not None
        kept |= {message.id: message.text for message in conversation.messages}
    history.close()
    looked = streamed = 0
    lost = 0.0
    by_message: dict[int, list[Acknowledged]] = {}
    for one in known:
        by_message.setdefault(one.message, []).append(one)
    for message, texts in by_message.items():
        old = [one for one in texts if one.at < killed - GRACE]
        if old:
            looked, streamed = looked + 1, streamed + (not old[-1].done)
            assert kept.get(message, "").startswith(old[-1].text), f"lost: {old[-1]}"
        for one in texts[len(old) :]:
            if message not in kept or not kept[message].startswith(one.text):
                lost = max(lost, killed - one.at)
                break
    return Left(looked, streamed, lost)


def kill_in_a_row(home: Path, first: int, times: list[float]) -> list[Left | str]:
    home.mkdir(parents=True)
    model = str(write_tiny_llama(home / "tiny.gguf", context=CONTEXT, seed=2))
    history_file, listed = home / "llm-lite" / "history.db", 0
    found: list[Left | str] = []
    for number, life in enumerate(times, first):
        try:
            with served(model, data=home) as server:
                listed = _list_all(server, listed)
                pages = [Page(server.address, random.Random(f"{number} {i}")) for i in range(PAGES)]
                threads = [threading.Thread(target=page.talk) for page in pages]
                for thread in threads:
                    thread.start()
                time.sleep(life)
                killed = time.monotonic()
                server.kill()
                for thread in threads:
                    thread.join(60)
            found.append(check(history_file, [o for page in pages for o in page.known], killed))
        except (AssertionError, httpx2.HTTPStatusError) as error:
            found.append(f"kill {number}: {error}")
    shutil.rmtree(home, ignore_errors=True)
    return found


def _list_all(server: ServedProcess, at_least: int) -> int:
    """How many conversations a new server lists. AssertionError: fewer than before."""
    with httpx2.Client(base_url=server.address, trust_env=False) as client:
        listed = len(_reply(client.get("/page/conversations?limit=200"))["conversations"])
    assert listed >= at_least, f"{listed} conversations are listed, {at_least} were before"
    return listed


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(words)
    times = lives(random.Random(options.times).randrange(10**6), options.times, 0.3, 4.0)
    begins = range(0, options.times, ON_ONE_FILE)
    groups = [times[first : first + ON_ONE_FILE] for first in begins]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        homes = [Path(folder) / str(first) for first in begins]
        found = [left for group in pool.map(kill_in_a_row, homes, begins, groups) for left in group]
    left = [result for result in found if isinstance(result, Left)]
    wrong = [result for result in found if isinstance(result, str)]
    print(
        f"{len(found)} kills, {len(wrong)} wrong; {sum(k.messages for k in left)} messages were "
        f"looked for and found, {sum(k.streamed for k in left)} of them as far as they were written"
    )
    oldest = max((k.lost for k in left), default=0.0)
    print(f"the oldest lost word was acknowledged {oldest:.2f} s before the kill")
    for sentence in wrong:
        print(sentence)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
