"""Large conversations: the event loop goes on, and slow readers hold no more than they may."""

import threading

import httpx2 as httpx
import msgspec
import pytest

from llm_lite.server import sending
from tests.server import sockets
from tests.server.sockets import wait_until

MESSAGES, SIZE = 6, 2_000_000


@pytest.fixture
def large(serve, tmp_path):
    """A server, and the path of a conversation of 12 MB."""
    served = serve({"history": tmp_path / "history.db", "sent_bytes": 40_000_000})
    with httpx.Client(base_url=served.url, timeout=60) as client:
        at = f"/page/conversations/{client.post('/page/conversations', json={}).json()['id']}"
        parent = None
        for number in range(MESSAGES):
            body = {"text": f"{number}" * SIZE, "parent": parent}
            parent = client.post(f"{at}/messages", json=body).json()["id"]
    return served, at


def test_it_is_written_a_message_at_a_time_and_not_in_the_loop(large, monkeypatch):
    served, at = large
    written, encode = [], msgspec.json.encode

    def noted(value):
        data = encode(value)
        written.append((threading.current_thread().name, len(data)))
        return data

    monkeypatch.setattr(sending.msgspec.json, "encode", noted)
    found = httpx.get(f"{served.url}{at}", timeout=60).json()
    assert [one["text"] for one in found["messages"]] == [
        f"{number}" * SIZE for number in range(MESSAGES)
    ]
    assert all(thread.startswith("page history") for thread, _ in written)
    assert max(size for _, size in written) < SIZE + 1000


def test_slow_readers_hold_no_more_than_they_may(large):
    served, at = large
    shared = served.server._shared
    slow = [sockets.connect(served, small_window=True) for _ in range(8)]
    for one in slow:
        one.sendall(sockets.request(at, method="GET"))
    wait_until(lambda: shared.unread >= 8 - 3)  # three of 12 MB have room
    assert shared.sent_bytes <= 40_000_000
    held = [
        one.transport.get_write_buffer_size()
        for one in served.server._uvicorn.server_state.connections
    ]
    assert max(held) < 1_000_000  # of 12 MB: the rest waits until it is read
    whole = httpx.get(f"{served.url}{at}", timeout=60)
    assert whole.status_code == 200 and len(whole.json()["messages"]) == MESSAGES
    for one in slow:
        one.close()
    wait_until(lambda: not shared.sent_bytes)


def test_one_that_reads_on_has_all_of_it(large):
    served, at = large
    made = sockets.connect(served, small_window=True)
    made.sendall(sockets.request(at, None, "GET", "Connection: close"))
    head, _, body = sockets.read_all(made).partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert len(msgspec.json.decode(body)["messages"]) == MESSAGES
