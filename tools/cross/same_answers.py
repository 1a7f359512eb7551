"""The same greedy answers whoever asks: the chat, the chat beside clients, these, HTTP and Python.

python -m tools.cross.same_answers [--prompts 500] [--new 24] [--model MODEL] [--backend cpu]
    [--mode int4]

Prompts of 4 to 100 words, some of which begin alike. Clients and the chat ask at the same time, in
different orders, so that steps, pages and prefixes are shared in all ways. Prints how many answers
differ from the chat's alone; ends with 1 where one does.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2 as httpx

import llm_lite
from llm_lite.core.assets import ASSETS
from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import (
    AnswerRequest,
    ChatMessage,
    Ended,
    EngineOptions,
    Event,
    Generate,
    LoadModel,
    SamplingOptions,
    Shutdown,
    StartServing,
    TokenDecoded,
)
from tools.cross.served import served

CLIENTS = 4
_PATIENCE = 600.0  # s
_GREEDY = {"temperature": 0.0, "repetition_penalty": 1.0}
Ask = Callable[[str], str]


def prompts_of(count: int) -> list[str]:
    words, draw = (ASSETS / "sample.txt").read_text("utf-8").split(), random.Random(5)
    found = []
    for number in range(count):
        first = draw.randrange(0, len(words) - 200, 40 if number % 3 else 1)
        found.append(" ".join(words[first : first + draw.randrange(4, 100)]))
    return found


class Here:
    """An engine of this process: its chat, and clients that it serves."""

    def __init__(self, model: str, options: EngineOptions, new: int) -> None:
        self._engine = Engine(None)
        self._sampling = SamplingOptions(**_GREEDY, max_new_tokens=new)
        self._engine.submit(LoadModel(model, options)).result(_PATIENCE)

    def chat(self, prompt: str) -> str:
        command = Generate((ChatMessage("user", prompt),), self._sampling)
        self._engine.poll()
        self._engine.submit(command).result(_PATIENCE)
        reports = (report for report in self._engine.poll() if report.command is command)
        return "".join(r.event.text for r in reports if isinstance(r.event, TokenDecoded))

    def client(self, prompt: str) -> str:
        done, texts = threading.Event(), list[str]()

        def hear(event: Event) -> None:
            if isinstance(event, TokenDecoded):
                texts.append(event.text)
            elif isinstance(event, Ended):
                texts.append(event.problem)
                done.set()

        service = self._engine.service()
        assert service is not None
        asked = (ChatMessage("user", prompt),)
        service.submit(AnswerRequest(f"{id(done)}", asked, sampling=self._sampling), hear)
        done.wait(_PATIENCE)
        return "".join(texts)

    def serve(self) -> None:
        self._engine.submit(StartServing(parallel=CLIENTS)).result(_PATIENCE)

    def close(self) -> None:
        self._engine.submit(Shutdown()).result(_PATIENCE)


def by_clients(ask: Ask, prompts: list[str]) -> list[str]:
    """Answers in the order of the prompts, which CLIENTS ask in another one."""
    order = random.Random(9).sample(range(len(prompts)), len(prompts))
    with ThreadPoolExecutor(CLIENTS) as pool:
        texts = dict(zip(order, pool.map(ask, [prompts[at] for at in order]), strict=True))
    return [texts[at] for at in range(len(prompts))]


def over_http(address: str, new: int) -> Ask:
    def ask(prompt: str) -> str:
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": new, **_GREEDY}
        url = f"{address}/v1/chat/completions"
        made = httpx.post(url, json=body, timeout=_PATIENCE).json()
        return str(made["choices"][0]["message"]["content"])

    return ask


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--new", type=int, default=24)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--mode", default="int4")
    asked = parser.parse_args()
    prompts, new = prompts_of(asked.prompts), asked.new
    used = {"backend": asked.backend, "mode": asked.mode, "context": 1024}
    here = Here(asked.model, EngineOptions(**used), new)
    found = {"chat": [here.chat(prompt) for prompt in prompts]}
    here.serve()
    with ThreadPoolExecutor(1) as clients:
        beside = clients.submit(by_clients, here.client, prompts)
        found["chat beside clients"] = [here.chat(prompt) for prompt in prompts]
        found["clients"] = beside.result()
    here.close()
    words = [f"--{name}={value}" for name, value in used.items()]
    with served(asked.model, "--parallel", str(CLIENTS), *words) as server:
        found["HTTP"] = by_clients(over_http(server.address, new), prompts)
    with llm_lite.load(asked.model, **used) as model:
        found["Python"] = [str(model.generate(p, max_new_tokens=new, **_GREEDY)) for p in prompts]
    known, differing = found["chat"], 0
    for name, texts in found.items():
        differ = [at for at, text in enumerate(texts) if _whole(text) != _whole(known[at])]
        differing += len(differ)
        print(f"{name}: {len(texts)} answers, {len(differ)} differ from the chat's {differ[:5]}")
        for at in differ[:2]:
            print(f"   {known[at]!r}\n   {texts[at]!r}")
    return 1 if differing else 0


def _whole(text: str) -> str:
    """Return a text without the spaces at its ends, and half of a character, which Python tells."""
    return text.strip(" \n\ufffd")


if __name__ == "__main__":
    sys.exit(main())
