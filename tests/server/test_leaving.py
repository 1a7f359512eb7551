"""Clients that leave, that do not read, and that are many."""

import socket
import threading

import openai
import pytest

from llm_lite.server import call
from tests.children import PATIENCE
from tests.server import sockets
from tests.server.sockets import wait_until

USER = [{"role": "user", "content": "hello"}]


def endless(request):
    return "word " * 3000


def idle(served):
    return not served.service.status().requests


def test_a_client_that_leaves_a_stream_ends_its_answer(serve):
    served = serve(script=endless, delay=0.005)
    stream = served.client().chat.completions.create(
        model="scripted", messages=USER, stream=True, n=2
    )
    for _, _ in zip(range(5), stream, strict=False):
        pass
    assert not idle(served)
    stream.close()
    wait_until(lambda: idle(served))
    assert served.service.status().cancelled == 2


def test_a_client_that_leaves_before_its_answer_ends_it(serve):
    served = serve(script=endless, delay=0.005)
    made = sockets.connect(served)
    made.sendall(sockets.chat())
    wait_until(lambda: not idle(served))
    made.close()
    wait_until(lambda: idle(served))
    assert served.service.status().cancelled == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_closes_its_sending_half_reads_its_answer(serve, stream):
    served = serve(script=lambda request: "word " * 300, delay=0.001, parallel=1)
    waiting = sockets.connect(served)
    waiting.sendall(sockets.chat())
    wait_until(lambda: not idle(served))
    made = sockets.connect(served)
    made.sendall(sockets.chat(stream=stream))
    made.shutdown(socket.SHUT_WR)
    told = sockets.read_all(made)
    assert told.count(b" 200 OK") == 1 and told.count(b"word") == 300
    assert (b"[DONE]" in told) == stream
    assert served.service.status().cancelled == 0
    waiting.close()


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/"])
def test_so_does_one_that_asks_for_something_short(served, path):
    made = sockets.connect(served)
    made.sendall(sockets.request(path, method="GET"))
    made.shutdown(socket.SHUT_WR)
    assert b" 200 OK" in sockets.read_all(made)


def test_one_that_closes_its_sending_half_and_then_all_ends_its_answer(serve):
    served = serve({"quiet_seconds": 60.0}, script=endless)
    served.service.hold.clear()  # nothing is written but what finds that it has left
    for more in ({}, {"stream": True}):
        made = sockets.connect(served)
        made.sendall(sockets.chat(**more))
        wait_until(lambda: not idle(served))
        made.shutdown(socket.SHUT_WR)
        made.close()
    wait_until(lambda: all(s.stopped for s in (*served.service._running, *served.service._waiting)))
    served.service.hold.set()
    wait_until(lambda: idle(served))
    assert served.service.status().cancelled == 2


def test_half_a_body_is_no_request(served):
    made = sockets.connect(served)
    made.sendall(sockets.chat()[:-5])
    made.shutdown(socket.SHUT_WR)
    assert sockets.read_all(made) == b""


def test_a_client_that_leaves_while_it_waits_takes_nobodys_turn(serve):
    served = serve(script=endless, parallel=1, delay=0.005)
    first, second = sockets.connect(served), sockets.connect(served)
    first.sendall(sockets.chat(stream=True))
    wait_until(lambda: len(served.service.status().requests) == 1)
    second.sendall(sockets.chat(stream=True))
    wait_until(lambda: len(served.service.status().requests) == 2)
    second.close()
    wait_until(lambda: len(served.service.status().requests) == 1)
    first.close()
    wait_until(lambda: idle(served))


def test_a_slow_reader_delays_nobody_and_is_ended(serve):
    limits = {"unread_seconds": 0.3, "unread_events": 100_000}
    served = serve(limits, script=lambda request: "word " * 100_000, context=1 << 20, parallel=2)
    slow = sockets.connect(served, small_window=True)
    slow.sendall(sockets.chat(stream=True, logprobs=True, top_logprobs=20))
    wait_until(lambda: not idle(served))
    served.service.script = lambda request: "quick"
    for _ in range(3):
        made = served.client().chat.completions.create(model="scripted", messages=USER)
        assert made.choices[0].message.content == "quick"
    wait_until(lambda: idle(served))
    assert served.service.status().cancelled == 1
    slow.close()


def test_what_waits_for_a_slow_reader_is_bounded(serve):
    limits = {"unread_seconds": 60.0, "unread_events": 500}
    served = serve(limits, script=lambda request: "word " * 100_000, context=1 << 20)
    slow = sockets.connect(served, small_window=True)
    slow.sendall(sockets.chat(stream=True, logprobs=True, top_logprobs=20))
    wait_until(lambda: served.service.status().cancelled == 1)
    slow.close()


def test_a_stream_that_says_nothing_gets_a_comment(serve):
    served = serve({"quiet_seconds": 0.05})
    served.service.hold.clear()
    made = sockets.connect(served)
    made.sendall(sockets.chat(stream=True))
    found = b""
    while b": still at work" not in found:
        found += made.recv(4096)
    served.service.hold.set()
    while b"[DONE]" not in found:
        found += made.recv(4096)
    assert b"hello" in found
    made.close()


def test_the_server_ends_while_answers_run(serve):
    served = serve({"stop_seconds": 1.0}, script=endless, delay=0.01)
    stream = served.client().chat.completions.create(model="scripted", messages=USER, stream=True)
    next(iter(stream))
    assert served.server.stop(10)
    wait_until(lambda: idle(served))
    with pytest.raises(openai.APIError, match="the server ends"):
        for _ in stream:
            pass


def test_a_port_in_use_is_one_sentence(serve):
    from llm_lite.core.errors import RequestError
    from llm_lite.server.config import ServerConfig
    from llm_lite.server.serve import Server

    served = serve()
    with pytest.raises(RequestError, match=rf"another program .* port {served.server.port} of"):
        Server(lambda: None, ServerConfig(port=served.server.port)).start()
    with pytest.raises(RequestError, match="no address of this machine"):
        Server(lambda: None, ServerConfig(host="no.such.host.invalid", port=0)).start()


def test_it_starts_again_on_the_same_port(serve):
    from llm_lite.server.config import ServerConfig
    from llm_lite.server.serve import Server

    served = serve()
    port = served.server.port
    served.client().models.list()
    assert served.server.stop()
    again = Server(lambda: served.service, ServerConfig(port=port))
    again.start()
    assert again.port == port and again.is_running
    assert again.stop() and not again.is_running


def test_answers_that_are_queued_while_the_server_ends_are_cancelled(serve):
    served = serve({"stop_seconds": 1.0}, script=endless, delay=0.005, parallel=1)
    submit, begun, go_on = served.service.submit, threading.Event(), threading.Event()

    def slow(request, emit):
        handle = submit(request, emit)
        begun.set()
        go_on.wait(PATIENCE)
        return handle

    served.service.submit = slow
    made = sockets.connect(served)
    made.sendall(sockets.chat(stream=True, n=3))
    assert begun.wait(PATIENCE)
    assert served.server.stop(10)
    go_on.set()
    wait_until(lambda: idle(served))
    assert len(served.service.requests) == served.service.status().cancelled == 1
    made.close()


def embed_endlessly(served):
    made = sockets.connect(served)
    made.sendall(sockets.request("/v1/embeddings", {"input": ["a", "b"]}))
    return made


def test_embeddings_hold_up_nobody_who_chats(serve):
    served = serve()
    embed = served.service.embed
    held = threading.Event()

    def slow(texts, is_unwanted):
        held.wait(PATIENCE)
        return embed(texts, is_unwanted)

    served.service.embed = slow
    many = [embed_endlessly(served) for _ in range(8)]
    made = served.client(timeout=PATIENCE).chat.completions.create(model="scripted", messages=USER)
    assert made.choices[0].message.content
    held.set()
    for one in many:
        assert b"200 OK" in one.recv(100)
        one.close()


def test_a_client_that_leaves_its_embeddings_ends_them(serve):
    served = serve()
    served.service.hold.clear()
    embed, begun, ended = served.service.embed, threading.Semaphore(0), threading.Semaphore(0)

    def counted(texts, is_unwanted):
        begun.release()
        try:
            return embed(texts, is_unwanted)
        finally:
            ended.release()

    served.service.embed = counted
    many = [embed_endlessly(served) for _ in range(2)]
    assert all(begun.acquire(timeout=PATIENCE) for _ in many)
    for one in many:
        one.close()
    assert all(ended.acquire(timeout=PATIENCE) for _ in many)
    wait_until(lambda: served.server._shared.active.count == 0)


def test_a_body_that_takes_long_to_read_delays_nobody(serve, monkeypatch):
    served = serve()
    held, begun, parsed = threading.Event(), threading.Event(), call._parsed

    def slow(raw, most):
        if len(raw) > 200_000:
            begun.set()
            assert held.wait(PATIENCE)
        return parsed(raw, most)

    monkeypatch.setattr(call, "_parsed", slow)
    large = sockets.connect(served)
    large.sendall(sockets.chat(user="x" * 300_000))
    assert begun.wait(PATIENCE)
    made = served.client(timeout=PATIENCE).chat.completions.create(model="scripted", messages=USER)
    assert made.choices[0].message.content
    held.set()
    assert b" 400 " in large.recv(100)
    large.close()
