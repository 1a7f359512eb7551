"""How much of their prompts conversations of a scripted day do not read again.

python -m tools.cross.prefix_day [--model MODEL] [--mode int4] [--pool MIB]

A chat with turns, edits, branches, another conversation between and an attached text; clients of
one system prompt, one of which edits a question; both at once. Prints prompt tokens and those that
were in the cache for each part, and the turns where fewer were reused than the conversation had
read before.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct, field

from llm_lite.core.assets import ASSETS
from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import (
    AnswerRequest,
    ChatMessage,
    Ended,
    EngineOptions,
    Event,
    Generate,
    GenerationStarted,
    LoadModel,
    SamplingOptions,
    Shutdown,
    StartServing,
    StopServing,
    TokenDecoded,
)

_PATIENCE = 600.0  # s
_SAMPLING = SamplingOptions(temperature=0.0, max_new_tokens=24)
_WORDS = (ASSETS / "sample.txt").read_text("utf-8").split()
Turns = tuple[ChatMessage, ...]


class Count(Struct):
    """The prompts of one part of the day."""

    name: str
    prompts: int = 0
    tokens: int = 0
    reused: int = 0
    least: list[str] = field(default_factory=list)

    def add(self, place: str, started: GenerationStarted, expected: int) -> None:
        self.prompts += 1
        self.tokens += started.prompt_tokens
        self.reused += started.reused_tokens
        if started.reused_tokens < expected:
            self.least.append(f"{place}: {started.reused_tokens} of {expected}")

    def told(self) -> str:
        share = self.reused / self.tokens
        missed = "".join(f"\n   {line}" for line in self.least)
        return (
            f"{self.name}: {self.prompts} prompts of {self.tokens} tokens, {self.reused} reused "
            f"({share:.1%}){missed}"
        )


class Day:
    """One engine, whose chat and clients ask."""

    def __init__(self, model: str, options: EngineOptions) -> None:
        self._engine, self._lock = Engine(None), threading.Lock()
        self._engine.submit(LoadModel(model, options)).result(_PATIENCE)
        self._read: dict[str, dict[int, int]] = {}  # by conversation: tokens read with n messages

    def chat(self, name: str, number: int, turns: Turns, count: Count) -> Turns:
        """Ask the last question of a conversation; return it with its answer."""
        command = Generate(turns, _SAMPLING, conversation=number)
        self._engine.poll()
        self._engine.submit(command).result(_PATIENCE)
        events = [one.event for one in self._engine.poll() if one.command is command]
        return self._answered(name, turns, events, count)

    def client(self, name: str, turns: Turns, count: Count) -> Turns:
        done, events = threading.Event(), list[Event]()

        def hear(event: Event) -> None:
            events.append(event)
            if isinstance(event, Ended):
                done.set()

        service = self._engine.service()
        assert service is not None
        service.submit(
            AnswerRequest(f"{name} {len(turns)} {id(done)}", turns, sampling=_SAMPLING), hear
        )
        done.wait(_PATIENCE)
        return self._answered(name, turns, events, count)

    def serve(self) -> None:
        self._engine.submit(StartServing(parallel=4)).result(_PATIENCE)

    def stop(self) -> None:
        self._engine.submit(StopServing()).result(_PATIENCE)

    def close(self) -> None:
        self._engine.submit(Shutdown()).result(_PATIENCE)

    def _answered(self, name: str, turns: Turns, events: Sequence[Event], count: Count) -> Turns:
        """Note what was reused; a prompt is expected to reuse those of the turns before."""
        started = next(one for one in events if isinstance(one, GenerationStarted))
        with self._lock:
            known = self._read.setdefault(name, {})
            expected = max((n for at, n in known.items() if at < len(turns)), default=0)
            count.add(f"{name}, message {len(turns)}", started, expected)
            known[len(turns)] = started.prompt_tokens
        text = "".join(one.text for one in events if isinstance(one, TokenDecoded))
        return (*turns, ChatMessage("assistant", text))


def words(first: int, count: int) -> str:
    at = first % (len(_WORDS) - count)
    return " ".join(_WORDS[at : at + count])


def asked(turns: Turns, first: int, count: int = 12) -> Turns:
    return (*turns, ChatMessage("user", words(first, count)))


def chat_day(day: Day, count: Count) -> None:
    """Two conversations with edits, a branch that is left and taken again, a long text."""

    def ask(name: str, number: int, turns: Turns, first: int, size: int = 12) -> Turns:
        return day.chat(name, number, asked(turns, first, size), count)

    a: Turns = ()
    for turn in range(6):
        a = ask("A", 1, a, 40 * turn)
    edited = ask("A edited", 1, a[:4], 900)
    for turn in range(2):
        edited = ask("A edited", 1, edited, 950 + 40 * turn)
    a = ask("A", 1, a, 300)
    b: Turns = ()
    for turn in range(4):
        b = ask("B", 2, b, 1200 + 40 * turn)
    a = ask("A", 1, a, 340)
    a = day.chat("A", 1, a[:-1], count)  # the last answer again
    b = ask("B", 2, b, 1400)
    c = ask("C", 3, (), 1600, 900)
    for turn in range(2):
        c = ask("C", 3, c, 1700 + 40 * turn)
    ask("A", 1, a, 380)
    ask("B", 2, b, 1440)


def clients_day(day: Day, count: Count, name: str) -> None:
    """Two clients with one system prompt, in turns; then one edits a question."""
    system = (ChatMessage("system", words(2200, 250)),)
    first, second = system, system
    for turn in range(5):
        first = day.client(f"{name} 1", asked(first, 2600 + 40 * turn), count)
        second = day.client(f"{name} 2", asked(second, 2900 + 40 * turn), count)
    day.client(f"{name} 1 edited", asked(first[:3], 3200), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--pool", type=int, default=256, help="MiB for prefixes of the chat")
    chosen = parser.parse_args()
    options = EngineOptions(mode=chosen.mode, context=4096, pool_budget=chosen.pool << 20)
    counts = []
    day = Day(chosen.model, options)
    counts.append(Count("the chat"))
    chat_day(day, counts[-1])
    day.serve()
    counts.append(Count("clients"))
    clients_day(day, counts[-1], "client")
    day.close()
    day = Day(chosen.model, options)
    day.serve()
    counts += [Count("the chat beside clients"), Count("clients beside the chat")]
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(clients_day, day, counts[-1], "client")
        chat_day(day, counts[-2])
        beside.result()
    day.close()
    for count in counts:
        print(count.told())


if __name__ == "__main__":
    main()
