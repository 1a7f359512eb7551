"""Servers of OpenAI's protocol without a model: they answer in the documented form of vLLM,
llama-server, LM Studio or a plain one, and as badly as a test wants.

As a fixture: `with scripted("vllm") as server`; for a window: `python -m tests.core.remote.servers
vllm --port 8777`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from tests.children import PATIENCE
from tests.core.remote.habits import HABITS, Habit

Form = Literal["vllm", "llama-server", "llama-cpp-python", "lm-studio", "plain"]
Fault = Literal[
    "", "cut", "slow", "500 in the middle", "not JSON", "invalid UTF-8", "endless line", "silent"
]
MODEL = "Qwen/Qwen3-8B"
EMBEDDING = ("nomic-embed",)
VLLM_CONTEXT = 40960  # tokens
ANSWER = ["The", " sky", " is", " blue", " because", " of", " Rayleigh", " scattering", "."]
OTHERS = [" and", " or", " dark", " red", " since"]
KEY = "sk-test-1234"


@dataclass
class ScriptedServer:
    """`asked`: method, path, headers and body of every request so far."""

    form: Form = "vllm"
    words: Callable[[dict[str, Any]], list[str]] = lambda body: ANSWER
    thoughts: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    key: str = ""
    fault: Fault = ""
    status: int = 0  # with which every request for an answer is refused
    headers: dict[str, str] = field(default_factory=dict)  # of a refusal
    refuses: tuple[str, ...] = ()  # fields that are answered with 400
    delay: float = 0.0  # seconds between two words
    logprobs: bool = True
    embeds: bool = False  # LM Studio has an embedding model, too
    finish: str = "stop"
    habit: Habit | None = None  # what is sent instead of events
    slow_head: float = 0.0  # seconds between two bytes of an answer's head
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    port: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """Bodies of the requests for answers."""
        return [body for _, path, _, body in self.asked if path.endswith("/completions")]

    def get(self, path: str) -> Any:
        match self.form, path:
            case "vllm", "/v1/models":
                row = {
                    "id": MODEL,
                    "object": "model",
                    "created": 1,
                    "owned_by": "vllm",
                    "root": MODEL,
                    "parent": None,
                    "max_model_len": VLLM_CONTEXT,
                    "permission": [],
                }
                return {"object": "list", "data": [row]}
            case "vllm", "/version":
                return {"version": "0.11.2"}
            case "llama-server", "/v1/models":
                meta = {
                    "vocab_type": 2,
                    "n_vocab": 151936,
                    "n_ctx_train": 40960,
                    "n_embd": 4096,
                    "n_params": 8190735360,
                    "size": 5024000000,
                }
                row = {
                    "id": "qwen3-8b-q4_k_m.gguf",
                    "object": "model",
                    "created": 1,
                    "owned_by": "llamacpp",
                    "meta": meta,
                }
                return {"object": "list", "data": [row]}
            case "llama-server", "/props":
                return {
                    "default_generation_settings": {"n_ctx": 8192},
                    "total_slots": 4,
                    "model_path": "/models/qwen3-8b-q4_k_m.gguf",
                    "build_info": "b6999-abc",
                }
            case "lm-studio", "/v1/models":
                rows = [
                    {"id": name, "object": "model", "owned_by": "organization_owner"}
                    for name in (*EMBEDDING * self.embeds, "qwen3-8b", "gemma-3-4b-it")
                ]
                return {"object": "list", "data": rows}
            case "lm-studio", "/api/v0/models":
                row = {
                    "id": "qwen3-8b",
                    "object": "model",
                    "type": "llm",
                    "publisher": "qwen",
                    "arch": "qwen3",
                    "compatibility_type": "gguf",
                    "quantization": "Q4_K_M",
                    "state": "loaded",
                    "max_context_length": 40960,
                    "loaded_context_length": 4096,
                }
                other = {
                    "id": "gemma-3-4b-it",
                    "state": "not-loaded",
                    "arch": "gemma3",
                    "quantization": "Q4_0",
                    "max_context_length": 131072,
                }
                embedding = {"id": EMBEDDING[0], "type": "embeddings", "state": "not-loaded"}
                return {"object": "list", "data": [row, other, embedding]}
            case "llama-cpp-python", "/v1/models":
                row = {"id": "/models/qwen3-8b.gguf", "object": "model", "owned_by": "me"}
                return {"object": "list", "data": [row | {"permissions": []}]}
            case "plain", "/v1/models":
                return {"object": "list", "data": [{"id": "some-model", "object": "model"}]}
        return None

    def too_much(self, path: str, body: dict[str, Any]) -> str:
        """vLLM's refusal of a limit that the context has no room for. Its streams of completions
        fail where the limit is null."""
        if self.form != "vllm" or not path.endswith("/v1/completions"):
            return ""
        limit, count = body.get("max_tokens", 16), -(-len(body["prompt"]) // 4) + 1
        if limit is None or limit + count > VLLM_CONTEXT:
            return (
                f"This model's maximum context length is {VLLM_CONTEXT} tokens. However, you "
                f"requested {limit} output tokens and your prompt contains {count} input tokens."
            )
        return ""

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """What is no stream."""
        match self.form, path:
            case (("vllm" | "llama-server"), "/tokenize"):
                words = str(body.get("prompt", body.get("content", "")))
                pieces = [words[at : at + 4] for at in range(0, len(words), 4)]
                if body.get("with_pieces"):
                    return {"tokens": [{"id": n, "piece": p} for n, p in enumerate(pieces)]}
                count = len(pieces) + bool(body.get("add_special_tokens", True))
                return {
                    "count": count,
                    "max_model_len": VLLM_CONTEXT,
                    "tokens": list(range(count)),
                }
            case "llama-server", "/apply-template":
                said = "".join(
                    f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in body["messages"]
                )
                return {"prompt": f"{said}<|im_start|>assistant\n"}
        return None

    def events(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of an answer."""
        words, wants = self.words(body), self.logprobs and bool(body.get("logprobs"))
        usage = {
            "prompt_tokens": 21,
            "completion_tokens": len(words) + len(self.thoughts),
            "total_tokens": 21 + len(words),
            "prompt_tokens_details": {"cached_tokens": 16},
        }
        if self.form == "llama-server" and body.get("return_progress"):
            told = {"total": 21, "cache": 16, "processed": 21, "time_ms": 3}
            yield self._chunk({"role": "assistant", "content": None}, prompt_progress=told)
        yield self._chunk({"role": "assistant", "content": ""})
        for word in self.thoughts:
            yield self._chunk({"reasoning_content": word}, word if wants else None)
        for word in words[: body.get("max_tokens") or None]:
            yield self._chunk({"content": word}, word if wants else None)
        for place, (name, arguments) in enumerate(self.calls):
            head = {
                "index": place,
                "id": f"chatcmpl-tool-{place}",
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }
            yield self._chunk({"tool_calls": [head]})
            for at in range(0, len(arguments), 5):
                more = {"index": place, "function": {"arguments": arguments[at : at + 5]}}
                yield self._chunk({"tool_calls": [more]})
        ended = "tool_calls" if self.calls else self.finish
        extra: dict[str, Any] = {}
        if self.form == "llama-server":
            extra["timings"] = {
                "cache_n": 16,
                "prompt_n": 5,
                "prompt_ms": 10.0,
                "prompt_per_second": 500.0,
                "predicted_n": len(words),
                "predicted_ms": 90.0,
                "predicted_per_second": 100.0,
            }
        yield self._chunk({}, None, ended, **extra)
        if body.get("stream_options", {}).get("include_usage"):
            yield self._chunk(None, usage=usage)

    def _chunk(
        self, delta: Any, logged: str | None = None, finish: str | None = None, **more: Any
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {
            "index": 0,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish,
        }
        if logged is not None:
            choice["logprobs"] = {"content": [self._logged(logged)]}
        if self.form == "vllm":
            choice["stop_reason"] = None
        return {
            "id": "chatcmpl-abc123",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": MODEL,
            "choices": [] if delta is None else [choice],
            **more,
        }

    def _logged(self, word: str) -> dict[str, Any]:
        def row(text: str, chance: float) -> dict[str, Any]:
            found = {"token": text, "logprob": math.log(chance), "bytes": list(text.encode())}
            if self.form == "llama-server":
                found["id"] = sum(text.encode())
            return found

        others = [row(text, 0.01 * place) for place, text in enumerate(OTHERS[:4], 1)]
        return {**row(word, 0.8), "top_logprobs": [row(word, 0.8), *others]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedServer

    def log_message(self, *words: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._note(None)
        if self._is_welcome():
            found = self.scripted.get(self.path)
            self._send(404 if found is None else 200, found or {"error": {"message": "Not Found"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._note(body)
        if not self._is_welcome():
            return
        if not self.path.endswith("completions"):
            found = self.scripted.post(self.path, body)
            self._send(404 if found is None else 200, found or {"error": {"message": "Not Found"}})
            return
        refused = [name for name in self.scripted.refuses if name in body]
        if refused:
            said = f"Unrecognized request argument supplied: {refused[0]}"
            self._send(400, {"error": {"message": said, "type": "invalid_request_error"}})
        elif said := self.scripted.too_much(self.path, body):
            self._send(400, {"error": {"message": said, "type": "BadRequestError"}})
        elif self.scripted.status:
            message = {"error": {"message": "as the test wants", "type": "x", "code": None}}
            self._send(self.scripted.status, message)
        else:
            self._stream(body)

    def flush_headers(self) -> None:
        for byte in b"".join(self._headers_buffer) if self.scripted.slow_head else b"":
            self.wfile.write(bytes([byte]))
            if self.scripted.over.wait(self.scripted.slow_head):
                break
        if self.scripted.slow_head:
            self._headers_buffer: list[bytes] = []
        super().flush_headers()

    def _note(self, body: Any) -> None:
        self.scripted.asked.append((self.command, self.path, dict(self.headers), body))

    def _is_welcome(self) -> bool:
        key = self.scripted.key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self._send(401, {"error": {"message": "Invalid API key", "code": "invalid_api_key"}})
            return False
        return True

    def _send(self, status: int, value: Any) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, text in self.scripted.headers.items() if status >= 300 else ():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, body: dict[str, Any]) -> None:
        script = self.scripted
        if script.fault == "silent":
            script.over.wait(PATIENCE)
            self.close_connection = True
            return
        if script.habit is not None:
            self._send_as_is(script.habit)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            for number, event in enumerate(script.events(body)):
                if number == 5 and self._break(script.fault):
                    return
                self._data(json.dumps(event, ensure_ascii=False).encode())
                if script.over.wait(script.delay):
                    return
            self._data(b"[DONE]")

    def _send_as_is(self, habit: Habit) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", **habit.headers}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            for piece in habit.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
            if habit.stays:
                self.scripted.over.wait(PATIENCE)

    def _break(self, fault: Fault) -> bool:
        """Whether the answer ends here."""
        match fault:
            case "cut":
                return True
            case "500 in the middle":
                self._data(b'{"error": {"message": "CUDA out of memory", "code": 500}}')
                return True
            case "not JSON":
                self._data(b"<html>502 Bad Gateway</html>")
                return True
            case "invalid UTF-8":
                event = json.dumps(self.scripted._chunk({"content": " XX"})).encode()
                self._data(event.replace(b"XX", b"\xff\xfe"))
            case "endless line":
                self.wfile.write(b"data: ")
                while not self.scripted.over.is_set():
                    self.wfile.write(b"a" * 65536)
                return True
            case "slow":
                self.scripted.over.wait(PATIENCE)
                return True
        return False

    def _data(self, raw: bytes) -> None:
        self.wfile.write(b"data: " + raw + b"\n\n")
        self.wfile.flush()


@contextlib.contextmanager
def scripted(form: Form = "vllm", port: int = 0, **how: Any) -> Iterator[ScriptedServer]:
    script = ScriptedServer(form, **how)
    handler = type("Handler", (_Handler,), {"scripted": script})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads, server.block_on_close = True, False
    server.handle_error = lambda request, address: None  # type: ignore[method-assign]
    script.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield script
    finally:
        script.over.set()
        server.shutdown()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=("vllm", "llama-server", "lm-studio", "plain"))
    parser.add_argument("--port", type=int, default=8777)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--key", default="")
    parser.add_argument("--habit", choices=sorted(HABITS), help="send what a server was seen to")
    arguments = parser.parse_args()
    habit = HABITS.get(arguments.habit)
    how = {"delay": arguments.delay, "key": arguments.key, "habit": habit}
    with scripted(arguments.form, arguments.port, **how) as one:
        print(one.url, flush=True)
        time.sleep(1e6)


if __name__ == "__main__":
    main()
