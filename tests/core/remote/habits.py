"""Streams as servers were seen to send them, beside the protocol: a row for each habit, with the
report that shows it and what a reader must make of it."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

HELLO = "안녕 **world**"


@dataclass
class Habit:
    """`pieces` are the bytes of an answer as they come; the rest is what must be read."""

    seen: str  # where: repository#number
    pieces: list[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    said: str = HELLO
    thought: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    problem: str = ""  # in the sentence; "" where the answer ends well
    stop_reason: str = "end"
    note: str = ""
    tokens: tuple[int, int] = (0, 0)  # of the prompt and the answer; 0: not told
    stays: bool = False  # the connection stays open


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return compact({"id": "1", "object": "chat.completion.chunk", "choices": [choice], **more})


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def data(*events: bytes, end: bytes = b"\n\n", lead: bytes = b"data: ") -> list[bytes]:
    return [lead + event + end for event in events]


def words(text: str = HELLO) -> list[bytes]:
    return [chunk({"content": text[:4]}), chunk({"content": text[4:]})]


STOP, DONE = chunk({}, "stop"), b"[DONE]"
PLAIN = [*words(), STOP, DONE]


def calls(*rows: dict[str, Any], finish: str = "tool_calls") -> list[bytes]:
    return data(*(chunk({"tool_calls": [row]}) for row in rows), chunk({}, finish), DONE)


def call(name: Any, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


BOTH = (("weather", {"city": "Seoul"}), ("weather", {"city": "Busan"}))
SEOUL, BUSAN = ('{"city": "Seoul"}', '{"city": "Busan"}')
USAGE = {"prompt_tokens": 7, "completion_tokens": 5}


def _tools(seen: str, *rows: dict[str, Any], **more: Any) -> Habit:
    finish = more.pop("finish", "tool_calls")
    return Habit(seen, calls(*rows, finish=finish), **{"said": "", "calls": BOTH, **more})


def _gzipped(raw: bytes) -> list[bytes]:
    packed = gzip.compress(raw)
    return [packed[at : at + 7] for at in range(0, len(packed), 7)]


def _cut(raw: bytes) -> list[bytes]:
    return [raw[at : at + 1] for at in range(len(raw))]


def _bare_deflate(raw: bytes) -> list[bytes]:
    packer = zlib.compressobj(wbits=-15)
    return [packer.compress(raw) + packer.flush()]


WHOLE = {"choices": [{"index": 0, "message": {"content": HELLO}, "finish_reason": "stop"}]}

HABITS: dict[str, Habit] = {
    # Calls
    "index 0 for every call": _tools(
        "ollama/ollama#15457",
        call("weather", SEOUL, index=0, id="call_a"),
        call("weather", BUSAN, index=0, id="call_b"),
    ),
    "index 0 for every call, in fragments": _tools(
        "InternLM/lmdeploy#3412 (vLLM)",
        call("weather", "", index=0, id="chatcmpl-tool-a"),
        call(None, SEOUL[:9], index=0, id=""),
        call(None, SEOUL[9:], index=0, id=""),
        call("weather", "", index=0, id="chatcmpl-tool-b"),
        call(None, BUSAN, index=0, id=""),
    ),
    "index 0, id in every fragment": _tools(
        "InternLM/lmdeploy#3412 (SGLang)",
        call("weather", "", index=0, id="0"),
        call("weather", "", index=0, id="1"),
        call(None, SEOUL, index=0, id="0"),
        call(None, BUSAN, index=0, id="1"),
    ),
    "no index": _tools(
        "openai/openai-python#2806 (Gemini)",
        call("weather", SEOUL, id="function-call-1"),
        call("weather", BUSAN, id="function-call-2"),
        finish="stop",
    ),
    "no index, in fragments": _tools(
        "open-webui/computer#224 (Gemini)",
        call("weather", SEOUL[:5], id="function-call-1"),
        {"function": {"arguments": SEOUL[5:]}},
        call("weather", BUSAN[:5], id="function-call-2"),
        {"function": {"arguments": BUSAN[5:]}},
        finish="stop",
    ),
    "neither index nor id": _tools(
        "su-kaka/gcli2api#406", call("weather", SEOUL), call("weather", BUSAN)
    ),
    "null for an index": _tools(
        "chatanywhere/GPT_API_free#254",
        call("weather", SEOUL, index=None, id="a"),
        call("weather", BUSAN, index=None, id="b"),
    ),
    "a fresh id in each fragment": _tools(
        "poolsideai/pool#9",
        call("weather", "", index=0, id="a1"),
        call(None, SEOUL, index=0, id="a2"),
        call("weather", "", index=1, id="b1"),
        call(None, BUSAN, index=1, id="b2"),
    ),
    "name and a fresh id in each fragment": _tools(
        "vllm-project/vllm#23522",
        call("weather", SEOUL[:9], index=0, id="a1"),
        call("weather", SEOUL[9:], index=0, id="a2"),
        call("weather", BUSAN[:9], index=1, id="b1"),
        call("weather", BUSAN[9:], index=1, id="b2"),
    ),
    "the same id in each fragment": _tools(
        "spring-projects/spring-ai#5973",
        call("weather", SEOUL[:9], index=0, id="a"),
        call("", SEOUL[9:], index=0, id="a"),
        call("weather", BUSAN[:9], index=1, id="b"),
        call("", BUSAN[9:], index=1, id="b"),
    ),
    "fragments of two calls in turn": _tools(
        "QwenLM/Qwen-Agent#943",
        call("weather", SEOUL[:9], index=0, id="a"),
        call("weather", BUSAN[:9], index=1, id="b"),
        call(None, SEOUL[9:], index=0),
        call(None, BUSAN[9:], index=1),
    ),
    "arguments as an object": _tools(
        "ggml-org/llama.cpp#20198",
        call("weather", {"city": "Seoul"}, index=0, id="a"),
        call("weather", {"city": "Busan"}, index=1, id="b"),
    ),
    "arguments as JSON in JSON": _tools(
        "openclaw/openclaw#40425",
        call("weather", json.dumps(SEOUL), index=0, id="a"),
        call("weather", json.dumps(BUSAN), index=1, id="b"),
    ),
    "an empty object that is filled": _tools(
        "oracle/langchain-oracle#254",
        call("weather", "{}", index=0, id="a"),
        call(None, SEOUL, index=0),
        call("weather", "{}", index=1, id="b"),
        call(None, BUSAN, index=1),
    ),
    "no arguments": _tools(
        "vercel/ai#6687", call("now", "", index=0, id="a"), calls=(("now", {}),)
    ),
    "arguments once more at the end": _tools(
        "vllm-project/vllm#10395",
        call("weather", '{"city": "', index=0, id="a"),
        call(None, 'eoul"', index=0),
        call(None, SEOUL, index=0),
        calls=(BOTH[0],),
    ),
    "all calls in the last chunk": Habit(
        "qualcomm/GenieX#1246",
        data(
            chunk({"role": "assistant"}),
            chunk({"tool_calls": [call("weather", SEOUL), call("weather", BUSAN)]}, "tool_calls"),
            DONE,
        ),
        said="",
        calls=BOTH,
    ),
    "calls once more in a last message": Habit(
        "microsoft/foundry-local#144",
        data(
            chunk({"tool_calls": [call("weather", SEOUL, index=0, id="a")]}),
            chunk({"tool_calls": [call("weather", BUSAN, index=1, id="b")]}),
            compact({"choices": [{"message": {
                "tool_calls": [call("weather", SEOUL, id="a"), call("weather", BUSAN, id="b")]
            }, "finish_reason": "tool_calls"}]}),
            DONE,
        ),
        said="",
        calls=BOTH,
    ),
    "a call in the form before tools": Habit(
        "simonw/llm#294",
        data(
            chunk({"function_call": {"name": "weather", "arguments": ""}}),
            chunk({"function_call": {"arguments": SEOUL}}),
            chunk({}, "function_call"),
            DONE,
        ),
        said="",
        calls=(BOTH[0],),
    ),
    "an end of calls, and then words": Habit(
        "ggml-org/llama.cpp#14268",
        data(
            chunk({"tool_calls": [call("weather", SEOUL, index=0, id="a")]}, "tool_calls"),
            *words(),
            STOP,
            DONE,
        ),
        calls=(BOTH[0],),
    ),
    # Words and thoughts
    "role in every chunk, null for content": Habit(
        "ollama/ollama#4357",
        data(
            *(chunk({"role": "assistant", "content": text}) for text in (None, HELLO)),
            chunk({"role": "assistant", "content": None}, "stop"),
            DONE,
        ),
    ),
    "content as parts, with thoughts": Habit(
        "symfony/ai#2422 (Mistral)",
        data(
            *(
                chunk({"content": [{"type": "thinking", "thinking": [{"text": text}]}]})
                for text in ("Hm", "m.")
            ),
            chunk({"content": [{"type": "text", "text": HELLO[:3]}]}),
            chunk({"content": HELLO[3:]}),
            STOP,
            DONE,
        ),
        thought="Hmm.",
    ),
    "reasoning": Habit(
        "vercel/ai, AnswerDotAI/fastllm#61 (OpenRouter)",
        data(
            chunk({"content": "", "reasoning": "Hm", "reasoning_details": [{"text": "Hm"}]}),
            chunk({"content": "", "reasoning": "m.", "reasoning_details": [{"text": "m."}]}),
            *PLAIN,
        ),
        thought="Hmm.",
    ),
    "reasoning under two names": Habit(
        "ogx-ai/ogx#4244 (vLLM)",
        data(chunk({"reasoning_content": "Hmm.", "reasoning": "Hmm."}), *PLAIN),
        thought="Hmm.",
    ),
    "thinking": Habit(
        "aula-id/koma#45", data(chunk({"thinking": "Hmm."}), *PLAIN), thought="Hmm."
    ),
    "details of reasoning alone": Habit(
        "aixplain/aiXplain#1012",
        data(
            chunk({"reasoning_details": [
                {"type": "reasoning.encrypted", "data": "x"},
                {"type": "reasoning.text", "text": "Hmm."},
            ]}),
            *PLAIN,
        ),
        thought="Hmm.",
    ),
    "a refusal": Habit(
        "openai/openai-python (refusal)", data(chunk({"refusal": HELLO}), STOP, DONE)
    ),
    "another index of the choice in each chunk": Habit(
        "microsoft/foundry-local#144",
        data(*(
            compact({"choices": [{"index": 197 + place, "delta": {"content": text},
                                  "message": {"content": text}, "finish_reason": None}]})
            for place, text in enumerate((HELLO[:4], HELLO[4:]))
        ), STOP, DONE),
    ),
    "a message that grows beside each delta": Habit(
        "perplexityai/api-discussion#209",
        data(
            *(
                compact({"choices": [{"index": 0, "delta": {"content": HELLO[at : at + 4]},
                                      "message": {"content": HELLO[: at + 4]}}]})
                for at in range(0, len(HELLO), 4)
            ),
            compact({"choices": [{"index": 0, "delta": {}, "message": {"content": HELLO},
                                  "finish_reason": "stop"}]}),
        ),
    ),
    # How it ends
    "no [DONE]": Habit("perplexityai/api-discussion#209", data(*words(), STOP)),
    "\"\" for a reason, to the end": Habit(
        "qualcomm/GenieX#1243", data(chunk({"content": HELLO}, ""), chunk({}, ""), DONE)
    ),
    "no reason, and then the usage": Habit(
        "earendil-works/pi#7441",
        data(*words(), compact({"choices": [], "usage": USAGE})),
        tokens=(7, 5),
    ),
    "the text null for a reason": Habit(
        "sgl-project/sglang#3912", data(chunk({"content": HELLO}, "null"), STOP, DONE)
    ),
    "a last chunk twice": Habit("vllm-project/vllm#36944", data(*words(), STOP, STOP, DONE)),
    "a reason in the chunk of the last words": Habit(
        "vllm-project/vllm#36944",
        data(chunk({"content": HELLO}, "length"), DONE),
        stop_reason="length",
    ),
    "a reason of another protocol": Habit(
        "BerriAI/litellm (Gemini)",
        data(*words(), chunk({}, "MAX_TOKENS"), DONE),
        stop_reason="length",
    ),
    "a connection that stays open behind the end": Habit(
        "qualcomm/GenieX#1243", data(*words(), STOP), stays=True
    ),
    "a connection that breaks behind the end": Habit(
        "chatchat-space/Langchain-Chatchat#4383",
        [b"400\r\n" + b"".join(data(*words(), STOP))],
        {"Transfer-Encoding": "chunked"},
    ),
    # Errors with status 200
    "an error as an event": Habit(
        "fox1245/NeoGraph#124",
        data(*words(), compact({"error": "STREAM_EXPLODED"}), DONE),
        problem="broke off: STREAM_EXPLODED",
    ),
    "an error of an older form": Habit(
        "vllm-project/vllm (before 0.10)",
        data(*words(), compact({"object": "error", "message": "out of memory", "code": 500})),
        problem="broke off: out of memory",
    ),
    "an error under other names": Habit(
        "NousResearch/hermes-agent#68451 (Venice)",
        data(*words(), compact({"error_type": "x", "error_message": "too long"}), DONE),
        problem="broke off: too long",
    ),
    "an event named error": Habit(
        "tinyhumansai/openhuman#3588",
        [*data(*words()), b'event: error\ndata: {"message": "too long"}\n\n'],
        problem="broke off: too long",
    ),
    "an event named error, of words": Habit(
        "SamSaffron/term-llm#454",
        [*data(*words()), b"event: error\ndata: too long\n\n"],
        problem="broke off: 'too long'",
    ),
    "a field named error": Habit(
        "ggml-org/llama.cpp#16109",
        [*data(*words()), b'error: {"code": 400, "message": "too long"}\n\n', *data(DONE)],
        problem="broke off: too long",
    ),
    "an error without a field": Habit(
        "lemonade-sdk/lemonade#2826",
        [*data(*words()), b'{"error": {"code": 400, "message": "too long"}}\n'],
        problem="broke off: too long",
    ),
    "an error without a field, in lines": Habit(
        "lemonade-sdk/lemonade#2975",
        [b'{\n  "error": {\n    "message": "data: too long"\n  }\n}\n'],
        said="",
        problem="broke off: data: too long",
    ),
    # Framing
    "CR LF": Habit("farion1231/cc-switch#1787", data(*PLAIN, end=b"\r\n\r\n")),
    "CR": Habit("btubbs/sseclient#27", data(*PLAIN, end=b"\r\r")),
    "no space": Habit("openai/openai-python#498", data(*PLAIN, lead=b"data:")),
    "one line break between events": Habit(
        "rexxars/eventsource-parser#31", data(*PLAIN, end=b"\n")
    ),
    "data twice": Habit("openclaw/openclaw#96497", data(*PLAIN, lead=b"data: data: ")),
    "comments": Habit(
        "ollama/ollama#16443", [b": OPENROUTER PROCESSING\n\n", b":\n\n", *data(*PLAIN)]
    ),
    "comments as data": Habit(
        "mnfst/llm-gateway#2053", data(b": OPENROUTER PROCESSING", b"", b"null", *PLAIN)
    ),
    "pings": Habit(
        "coddy-project/coddy-agent#106",
        [b"event: ping\ndata: alive\n\ndata: {}\n\nretry: 3000\nid: 1\n\n", *data(*PLAIN)],
    ),
    "a name and its data apart": Habit(
        "earendil-works/pi#8430", [b"event: message\n\n" + one for one in data(*PLAIN)]
    ),
    "an event in several lines of data": Habit(
        "SamSaffron/term-llm#456",
        [
            b"data: " + json.dumps(json.loads(chunk({"content": HELLO})), indent=1).encode()
            .replace(b"\n", b"\ndata: ") + b"\n\n",
            *data(STOP, DONE),
        ],
    ),
    "a mark of byte order": Habit(
        "the specification of event streams, 9.2.5", [b"\xef\xbb", b"\xbf" + data(*words())[0],
                                                   *data(*PLAIN[1:])]
    ),
    "a character over several pieces": Habit(
        "AmanCode22/deeperseeker#34", _cut(b"".join(data(*PLAIN)))
    ),
    "gzip that nobody asked for": Habit(
        "Wei-Shaw/claude-relay-service#1056",
        _gzipped(b"".join(data(*PLAIN))),
        {"Content-Encoding": "gzip"},
    ),
    "deflate without a head": Habit(
        "launchdarkly/okhttp-eventsource#65",
        _bare_deflate(b"".join(data(*PLAIN))),
        {"Content-Encoding": "deflate"},
    ),
    "a stream that says it is JSON": Habit(
        "openclaw/openclaw#97755", data(*PLAIN), {"Content-Type": "application/json"}
    ),
    "a whole answer that says it is a stream": Habit(
        "SillyTavern/SillyTavern#1482", [compact(WHOLE)]
    ),
    "a whole answer": Habit(
        "SillyTavern/SillyTavern#1482", [compact(WHOLE)], {"Content-Type": "application/json"}
    ),
    "a JSON a line": Habit(
        "langgenius/dify#4120",
        [event + b"\n" for event in PLAIN[:-1]],
        {"Content-Type": "application/x-ndjson"},
    ),
    # Numbers
    "no choices at first": Habit(
        "AbanteAI/archive-old-cli-mentat#429 (Azure)",
        data(compact({"id": "", "choices": [], "prompt_filter_results": []}), *PLAIN),
    ),
    "usage alone, behind the end": Habit(
        "XSpoonAi/spoon-core#179",
        data(*words(), STOP, compact({"usage": USAGE}), DONE),
        tokens=(7, 5),
    ),
    "usage within the choice": Habit(
        "earendil-works/pi#2017 (Kimi)",
        data(*words(), compact({"choices": [
            {"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}
        ]}), DONE),
        tokens=(7, 5),
    ),
    "usage under another name": Habit(
        "Groq's documentation (x_groq)",
        data(*words(), chunk({}, "stop", x_groq={"usage": USAGE}), DONE),
        tokens=(7, 5),
    ),
}  # fmt: skip
