"""Answers of servers in their documented forms, as the events of the local engine."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.handles import CLOSING, Report
from llm_lite.core.messages import (
    Cancel,
    ChatMessage,
    Command,
    Ended,
    Event,
    ExportMaps,
    Generate,
    GenerationFinished,
    GenerationStarted,
    PrefillProgress,
    Read,
    SamplingOptions,
    Shutdown,
    TokenDecoded,
    ToolCall,
    ToolSpec,
)
from llm_lite.core.messages.remote import ApiKey, RemoteModel
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import connect
from llm_lite.core.remote.counting import within_context
from llm_lite.core.remote.dialects import DIALECTS
from llm_lite.core.remote.engine import RemoteEngine
from llm_lite.core.text.thinking import Split
from llm_lite.core.tools.calls import read_calls
from tests.children import PATIENCE
from tests.core.remote.servers import ANSWER, KEY, VLLM_CONTEXT, ScriptedServer, scripted

ASKED = (ChatMessage("system", "Be brief."), ChatMessage("user", "Why is the sky blue?"))


def engine_of(server: ScriptedServer, key: str = "") -> RemoteEngine:
    client = Client(read_address(server.url), ApiKey(key))
    told = connect(client, Exchange())
    return RemoteEngine(client, told, told.models[0])


def events_of(engine: RemoteEngine, command: Command) -> list[Event]:
    """All events until a command has ended, its own and the engine's."""
    handle = engine.submit(command)
    reports: list[Report] = []
    while not any(isinstance(report.event, Ended) for report in reports):
        more = engine.wait(PATIENCE)
        assert more, reports
        reports += more
    assert handle.is_over and all(one.command in (None, command) for one in reports)
    return events_in(reports)


def events_in(reports: list[Report]) -> list[Event]:
    return [report.event for report in reports]


def answer_of(server: ScriptedServer, command: Generate | None = None) -> list[Event]:
    engine = engine_of(server)
    try:
        return events_of(engine, command or Generate(ASKED))
    finally:
        engine.close()


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenDecoded))


def finished(events: list[Event]) -> GenerationFinished:
    (found,) = [event for event in events if isinstance(event, GenerationFinished)]
    return found


def problem_in(events: list[Event]) -> str:
    """Why an answer could not be made, or went no further."""
    assert not any(isinstance(event, GenerationFinished) for event in events)
    (end,) = [event for event in events if isinstance(event, Ended)]
    assert end.problem and not end.unwanted
    return end.problem


def started(events: list[Event]) -> GenerationStarted:
    (found,) = [event for event in events if isinstance(event, GenerationStarted)]
    return found


@pytest.fixture(params=["vllm", "llama-server", "lm-studio", "plain"])
def server(request: Any) -> Iterator[ScriptedServer]:
    with scripted(request.param) as found:
        yield found


def test_all_forms_answer(server: ScriptedServer) -> None:
    events = answer_of(server)
    tokens = [event for event in events if isinstance(event, TokenDecoded)]
    assert [token.text for token in tokens] == ANSWER
    assert all(token.probability == pytest.approx(0.8) for token in tokens)
    assert [one.text for one in tokens[0].alternatives] == ["The", " red", " dark", " or", " and"]
    assert tokens[0].alternatives[0].token == tokens[0].token
    end = finished(events)
    assert (end.stop_reason, end.message) == ("end", "")
    assert (end.stats.prompt_tokens, end.stats.reused_tokens, end.stats.new_tokens) == (21, 16, 9)
    assert end.stats.ttft_ms > 0 and end.stats.context_used == 30


def test_a_server_that_loses_characters_with_likelihoods_is_not_asked_for_them() -> None:
    options = SamplingOptions(json_schema='{"type": "object"}', mirostat_tau=5.0)
    with scripted("llama-cpp-python") as server:
        engine = engine_of(server)
        assert engine.info.name == "qwen3-8b.gguf"
        assert said(events_of(engine, Generate(ASKED, options))) == "".join(ANSWER)
        (body,) = server.chats
        engine.close()
    assert body["model"] == "/models/qwen3-8b.gguf" and "logprobs" not in body
    assert body["response_format"] == {"type": "json_object", "schema": {"type": "object"}}
    assert body["mirostat_mode"] == 2 and body["mirostat_tau"] == 5.0


def test_speed_is_what_llama_server_says() -> None:
    with scripted("llama-server") as server:
        events = answer_of(server)
    stats = finished(events).stats
    assert stats.prefill_tok_s == pytest.approx(500)
    assert stats.decode_tok_s == pytest.approx(100)
    assert [(e.done, e.total) for e in events if isinstance(e, PrefillProgress)] == [(21, 21)]
    prompt = started(events).prompt
    whole = "".join(token.text for token in prompt)
    assert whole.startswith("<|im_start|>system\nBe brief.") and whole.endswith("assistant\n")
    owners = "".join("-" if token.message < 0 else str(token.message) for token in prompt)
    assert owners.count("0") == 3 and owners.count("1") in (5, 6)


def test_thoughts_are_told_as_the_window_reads_them() -> None:
    with scripted("vllm", thoughts=("Light", " scatters", ".")) as server:
        events = answer_of(server)
    thinking = started(events).thinking
    assert thinking is not None and thinking.inside
    split = Split.of(thinking).fed(said(events)).ended()
    assert split.thought == "Light scatters." and split.visible_text == "".join(ANSWER)


def test_calls_are_told_as_the_window_reads_them() -> None:
    tool = ToolSpec("weather", "of a place")
    arguments = '{"place": "Seoul </tool_call>"}'
    with scripted("vllm", words=lambda body: ["Wait."], calls=(("weather", arguments),)) as server:
        events = answer_of(server, Generate(ASKED, tools=(tool,)))
        assert server.chats[0]["tools"][0]["function"]["name"] == "weather"
    split = read_calls("tags", said(events))
    (call,) = split.calls
    assert split.visible_text == "Wait." and (call.name, call.problem) == ("weather", "")
    assert call.arguments == arguments


def test_results_name_the_calls_that_they_answer() -> None:
    told = (
        ASKED[1],
        ChatMessage("assistant", "", calls=(ToolCall("a"), ToolCall("b", "broken"))),
        ChatMessage("tool", "one", name="a"),
        ChatMessage("tool", "two", name="b"),
    )
    with scripted("vllm") as server:
        answer_of(server, Generate(told))
        rows = server.chats[0]["messages"]
    ids = [call["id"] for call in rows[1]["tool_calls"]]
    assert [row["tool_call_id"] for row in rows[2:]] == ids and len(set(ids)) == 2
    assert rows[1]["tool_calls"][1]["function"]["arguments"] == '{"invalid": "broken"}'


def test_sampling_goes_in_each_dialect() -> None:
    options = SamplingOptions(0.7, 20, 0.8, 0.1, repetition_penalty=1.1, seed=5, stop=("\n\n",))
    bodies = {}
    for form in ("vllm", "llama-server", "lm-studio", "plain"):
        with scripted(form) as server:
            answer_of(server, Generate(ASKED, options))
            bodies[form] = server.chats[0]
    for body in bodies.values():
        assert (body["temperature"], body["top_p"], body["seed"]) == (0.7, 0.8, 5)
        assert body["stop"] == ["\n\n"] and body["max_tokens"] == 1024
    assert bodies["vllm"]["repetition_penalty"] == 1.1 and bodies["vllm"]["top_k"] == 20
    assert bodies["llama-server"]["repeat_penalty"] == 1.1
    assert bodies["llama-server"]["repeat_last_n"] == 64
    assert bodies["lm-studio"]["repeat_penalty"] == 1.1 and "min_p" not in bodies["lm-studio"]
    assert "top_k" not in bodies["plain"] and "repetition_penalty" not in bodies["plain"]


def test_no_limit_goes_as_each_dialect_has_it() -> None:
    options = SamplingOptions(max_new_tokens=1 << 30, penalty_window=1 << 30)
    bodies = {}
    for form in ("vllm", "llama-server", "lm-studio", "plain"):
        with scripted(form) as server:
            answer_of(server, Generate(ASKED, options))
            bodies[form] = server.chats[0]
    assert bodies["llama-server"]["repeat_last_n"] == -1  # which would reserve as many tokens
    assert bodies["llama-server"]["max_tokens"] == bodies["lm-studio"]["max_tokens"] == -1
    assert "max_tokens" not in bodies["vllm"] and "max_tokens" not in bodies["plain"]


NO_LIMIT = SamplingOptions(max_new_tokens=1 << 30)


def raw(text: str, limit: SamplingOptions = NO_LIMIT) -> Generate:
    return Generate((ChatMessage("user", text),), limit, raw=True)


@pytest.mark.parametrize("asked", [1 << 30, VLLM_CONTEXT, 40_000])
def test_a_completion_without_a_limit_asks_vllm_for_what_its_context_leaves(asked: int) -> None:
    """Its default is 16 tokens, and more than the context has is refused."""
    with scripted("vllm") as server:
        events = answer_of(server, raw("word" * 999, SamplingOptions(max_new_tokens=asked)))
        assert said(events) == "".join(ANSWER)
        assert [body["max_tokens"] for body in server.chats] == [VLLM_CONTEXT - 1000]


def test_a_limit_that_fits_costs_no_count() -> None:
    with scripted("vllm") as server:
        answer_of(server, raw("word" * 999, SamplingOptions(max_new_tokens=2000)))
        assert [path for method, path, _, _ in server.asked if method == "POST"] == [
            "/v1/completions"
        ]
        assert server.chats[0]["max_tokens"] == 2000


def test_a_prompt_without_room_is_refused_by_the_server_in_its_words() -> None:
    with scripted("vllm") as server:
        events = answer_of(server, raw("word" * VLLM_CONTEXT))
    assert "maximum context length is 40960" in problem_in(events)


@pytest.mark.parametrize(("characters", "limit"), [(400, 3688), (2000, 2088), (4000, 1024)])
def test_a_server_that_cannot_count_gets_a_limit_that_fits(characters: int, limit: int) -> None:
    """No token is shorter than a byte; of a long prompt a quarter of the context is left over."""
    openai, model = DIALECTS["openai"], RemoteModel("m", 4096)
    client = Client(read_address("http://127.0.0.1:9"), ApiKey(""))
    asked = within_context(raw("x" * characters), client, openai, model, Exchange())
    assert asked.sampling.max_new_tokens == limit
    unknown = within_context(raw("x"), client, openai, RemoteModel("m"), Exchange())
    assert unknown.sampling == NO_LIMIT


def test_a_chat_with_a_limit_of_the_whole_context_has_none() -> None:
    with scripted("vllm") as server:
        answer_of(server, Generate(ASKED, SamplingOptions(max_new_tokens=VLLM_CONTEXT)))
        assert "max_tokens" not in server.chats[0]


def test_an_answer_is_continued_where_the_server_can() -> None:
    begun = (*ASKED, ChatMessage("assistant", "The sky"))
    with scripted("vllm") as server:
        events = answer_of(server, Generate(begun, continue_last=True))
        body = server.chats[0]
    assert body["messages"][-1] == {"role": "assistant", "content": "The sky"}
    assert body["continue_final_message"] and not body["add_generation_prompt"]
    assert said(events) == "".join(ANSWER) and started(events).thinking is None
    with scripted("lm-studio") as server:
        events = answer_of(server, Generate(begun, continue_last=True))
        assert not server.chats
    assert "LM Studio has no way to continue an answer" in problem_in(events)


def test_a_begun_answer_comes_back_with_its_beginning() -> None:
    with scripted("llama-server") as server:
        command = Generate(ASKED, begin=ChatMessage("assistant", "Well, "))
        events = answer_of(server, command)
        assert server.chats[0]["messages"][-1]["content"] == "Well, "
    assert said(events) == "Well, " + "".join(ANSWER)


def test_a_field_that_a_server_refuses_is_left_out() -> None:
    with scripted("plain", refuses=("logprobs", "stream_options")) as server:
        engine = engine_of(server)
        for _ in range(2):
            events = events_of(engine, Generate(ASKED))
            assert said(events) == "".join(ANSWER)
        engine.close()
        assert len(server.chats) == 4  # two refusals, and then none
    tokens = [event for event in events if isinstance(event, TokenDecoded)]
    assert all(math.isnan(token.probability) for token in tokens)


def test_what_a_token_spells_may_be_a_part_of_a_character() -> None:
    with scripted("vllm") as server:

        def chunk(text: str, parts: list[bytes]) -> dict[str, Any]:
            event = server._chunk({"content": text})
            rows = [
                {"token": "\ufffd", "logprob": -0.5, "bytes": list(part), "top_logprobs": []}
                for part in parts
            ]
            event["choices"][0]["logprobs"] = {"content": rows}
            return event

        whole = "하".encode()
        server.events = (
            lambda body: iter(  # type: ignore[method-assign]
                [
                    chunk("", [whole[:1]]),
                    chunk("하", [whole[1:]]),
                    chunk("늘!", ["늘".encode()[:2], "늘".encode()[2:], b"!"]),
                    server._chunk({}, None, "stop"),
                ]
            )
        )
        events = answer_of(server)
    tokens = [event.text for event in events if isinstance(event, TokenDecoded)]
    assert tokens == ["", "하", "", "늘", "!"]


def test_a_key_is_sent_and_never_shown() -> None:
    with scripted("vllm", key=KEY) as server:
        engine = engine_of(server, KEY)
        assert said(events_of(engine, Generate(ASKED))) == "".join(ANSWER)
        engine.close()
    assert KEY not in repr(ApiKey(KEY))


def test_cancel_ends_an_answer_at_once() -> None:
    with scripted("vllm", delay=0.1) as server:
        engine = engine_of(server)
        answer = engine.submit(Generate(ASKED))
        found: list[Event] = []
        while not any(isinstance(event, TokenDecoded) for event in found):
            found += events_in(engine.wait(PATIENCE))
        engine.submit(Cancel(answer.command))
        while not any(isinstance(event, GenerationFinished) for event in found):
            found += events_in(engine.wait(PATIENCE))
        engine.close()
    assert finished(found).stop_reason == "stopped" and len(said(found)) < len("".join(ANSWER))


def test_cancel_ends_the_wait_for_a_silent_server() -> None:
    with scripted("vllm", fault="silent") as server:
        engine = engine_of(server)
        answer = engine.submit(Generate(ASKED))
        while not server.chats:
            assert not engine.wait(0.01)
        engine.submit(Cancel(answer.command))
        end = answer.result(PATIENCE)
        assert isinstance(end, GenerationFinished) and end.stop_reason == "stopped"
        engine.close()


def test_closing_ends_all_that_was_asked() -> None:
    with scripted("vllm", fault="silent") as server:
        engine = engine_of(server)
        answer, read = engine.submit(Generate(ASKED)), engine.submit(Read(ASKED))
        while not server.chats:
            time.sleep(0.01)
        second = engine.submit(Generate(ASKED))
        assert not second.is_over, "it waits for the first"
        assert engine.close(PATIENCE)
        end = answer.result(0)
        assert isinstance(end, GenerationFinished) and end.stop_reason == "stopped"
        for handle in (read, second, engine.submit(Read(ASKED))):
            with pytest.raises(RequestError, match=CLOSING):
                handle.result(0)
        told = [(one.command, type(one.event)) for one in engine.poll()]
        for handle in (answer, second, read):
            kinds = [kind for command, kind in told if command is handle.command]
            assert kinds.count(Ended) == 1 and kinds[-1] is Ended
        assert engine.submit(Shutdown()).result(0) is None, "once more, to no effect"


def test_a_command_for_a_model_here_is_refused() -> None:
    with scripted("vllm") as server:
        engine = engine_of(server)
        with pytest.raises(RequestError, match="computes elsewhere"):
            engine.submit(ExportMaps("x.npz", ((0, 0),))).result(PATIENCE)
        engine.close()


def test_raw_text_goes_without_a_template() -> None:
    with scripted("vllm") as server:
        choice = {
            "index": 0,
            "text": " blue",
            "finish_reason": "stop",
            "logprobs": {
                "tokens": [" blue"],
                "token_logprobs": [-0.1],
                "top_logprobs": [{" blue": -0.1}],
            },
        }
        server.events = lambda body: iter([{"choices": [choice]}])  # type: ignore[method-assign]
        events = answer_of(server, Generate((ChatMessage("user", "The sky is"),), raw=True))
        path = server.asked[-1][1]
    assert path == "/v1/completions" and server.chats[0]["prompt"] == "The sky is"
    (token,) = [event for event in events if isinstance(event, TokenDecoded)]
    assert token.text == " blue" and token.probability == pytest.approx(math.exp(-0.1))
