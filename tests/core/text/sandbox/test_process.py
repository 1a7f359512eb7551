"""The sandbox ends what oversteps, tells why, and is there again for the next."""

import os
import signal
import threading
import time
from contextlib import suppress

import psutil
import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import (
    Sandbox,
    SandboxError,
    SandboxProcess,
    cancelled_by,
)
from llm_lite.core.turns import Client, acting_for
from tests.children import PATIENCE

ROOM = Limits(cpu_seconds=120.0, wall_seconds=PATIENCE, memory_bytes=256 << 20)
ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
LARGE = "{{ ('a' * 10**9) | length }}"


@pytest.fixture
def sandbox():
    process = SandboxProcess()
    yield process
    process.close()


def render(sandbox, source, limits=ROOM, **more):
    request = {
        "source": source,
        "messages": [{"role": "user", "content": "hi \ud800"}],
        "add_generation_prompt": True,
        "variables": {},
        "most_chars": 1000,
    }
    return sandbox.call("render template", request, limits=limits, **more)


def child(sandbox):
    assert sandbox._child is not None
    return sandbox._child.pid


def test_it_answers_again_and_again_from_one_process(sandbox):
    assert render(sandbox, "{{ messages[0].content }}") == {"text": "hi \ud800"}
    first = child(sandbox)
    assert render(sandbox, "{{ 1 + 1 }}") == {"text": "2"}
    assert child(sandbox) == first


def test_processor_time_is_limited_and_the_next_request_served(sandbox):
    with pytest.raises(SandboxError, match=r"more than 0\.2 s of processor time"):
        render(sandbox, ENDLESS, Limits(0.2, 120.0, 256 << 20))
    assert render(sandbox, "fine") == {"text": "fine"}


def test_a_process_that_does_not_answer_is_killed(sandbox):
    with pytest.raises(SandboxError, match=r"more than 0\.3 s"):
        render(sandbox, ENDLESS, Limits(120.0, 0.3, 256 << 20))
    assert render(sandbox, "fine") == {"text": "fine"}


def test_memory_is_limited(sandbox):
    assert "memory" in render(sandbox, LARGE)["failed"]
    assert render(sandbox, "fine") == {"text": "fine"}


def test_the_next_template_has_all_the_memory_again(sandbox):
    for _ in range(20):
        assert render(sandbox, "{{ ('a' * 10**8) | length }}") == {"text": "100000000"}


def test_whoever_waits_can_give_up(sandbox):
    render(sandbox, "warm")
    rendering = child(sandbox)
    asked = []

    def check():
        asked.append(True)
        return len(asked) > 2

    with cancelled_by(check), pytest.raises(CancelledError):
        render(sandbox, ENDLESS, Limits(300.0, 300.0, 256 << 20))
    assert render(sandbox, "fine") == {"text": "fine"}
    assert child(sandbox) != rendering


def test_whoever_waits_for_another_request_can_give_up(sandbox):
    render(sandbox, "warm")
    ended = threading.Event()
    waiting = threading.Thread(target=lambda: _render_until(sandbox, ended))
    waiting.start()
    while not sandbox._lock.locked():
        time.sleep(0.001)
    with cancelled_by(lambda: True), pytest.raises(CancelledError):
        render(sandbox, "fine")
    ended.set()
    waiting.join()


def _render_until(sandbox, ended):
    with cancelled_by(ended.is_set), suppress(CancelledError):
        render(sandbox, ENDLESS, Limits(300.0, 300.0, 256 << 20))


def test_a_process_that_was_killed_at_rest_is_started_again(sandbox):
    render(sandbox, "warm")
    os.kill(child(sandbox), signal.SIGKILL)
    sandbox._child.wait()
    assert render(sandbox, "fine") == {"text": "fine"}


def test_it_ends_with_the_program(sandbox):
    render(sandbox, "warm")
    process = sandbox._child
    process.stdin.close()
    assert process.wait(PATIENCE) == 0


def test_at_rest_it_takes_no_processor_time(sandbox):
    render(sandbox, "warm")
    process = psutil.Process(child(sandbox))
    for _ in range(60):  # until what it still does after its answer is done
        before = process.cpu_times()[:2]
        time.sleep(0.5)
        if process.cpu_times()[:2] == before:
            return
    pytest.fail("it never rests")


def test_it_cannot_write_a_file_and_knows_nothing_of_the_person(sandbox, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    render(sandbox, "warm")
    process = psutil.Process(child(sandbox))
    assert "secret" not in str(process.environ())
    if not hasattr(process, "rlimit"):
        pytest.skip("the system does not tell the limits of another process")
    assert process.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)


def test_what_a_library_throws_is_an_answer(sandbox):
    answer = sandbox.call("load tokenizer", {"most_tokens": 9, "key": "k"}, b"{", limits=ROOM)
    assert "failed" in answer
    assert sandbox.call("encode", {"key": "k", "texts": ["a"]}, limits=ROOM) == {"unknown": True}


def test_what_is_quick_waits_for_nothing_that_is_large():
    both, ended = Sandbox(), threading.Event()

    def large():
        with cancelled_by(ended.is_set), suppress(CancelledError):
            render(both, ENDLESS, Limits(300.0, 300.0, 256 << 20), size=10**6)

    waiting = threading.Thread(target=large)
    waiting.start()
    while both.large._child is None:
        time.sleep(0.001)
    assert render(both, "fine", size=10) == {"text": "fine"}
    if hasattr(os, "getpriority"):
        nice = [os.getpriority(os.PRIO_PROCESS, child(one)) for one in (both.quick, both.large)]
        assert nice[1] == min(19, nice[0] + 10) or nice[0] >= 10
    ended.set()
    waiting.join()
    both.close()


def test_a_process_that_is_not_used_ends_and_is_started_again():
    process = SandboxProcess(unused_seconds=0.2)
    for _ in range(2):
        assert render(process, "fine") == {"text": "fine"}
        first = process._child
        assert first.wait(PATIENCE) is not None
        while process._child is not None:
            time.sleep(0.001)
    process.close()


def test_requests_take_turns_by_address_and_the_window_s_come_first(sandbox):
    render(sandbox, "warm")
    done, threads, ended = [], [], threading.Event()

    def ask(client, number):
        with acting_for(client):
            render(sandbox, "fine")
            done.append((client.address, number))

    holding = threading.Thread(target=lambda: _render_until(sandbox, ended))
    holding.start()
    while not sandbox._lock.locked():
        time.sleep(0.001)
    asked = [("worst", n) for n in range(4)] + [("small", 4), ("", 5)]
    for address, number in asked:
        client = Client(address, f"name {number}" if address else "")
        threads.append(threading.Thread(target=ask, args=(client, number)))
        threads[-1].start()
        while sandbox.places.waiting < len(threads):
            time.sleep(0.001)
    ended.set()
    for thread in (holding, *threads):
        thread.join()
    assert done == [("", 5), ("worst", 0), ("small", 4), ("worst", 1), ("worst", 2), ("worst", 3)]
