"""By which address a request counts: its connection's, or what a proxy of this machine says; and
how many of all requests one address may have."""

import socket
from collections import Counter

import httpx2 as httpx
import pytest

from llm_lite.core.turns import Client
from llm_lite.server.active import ActiveRequests
from llm_lite.server.failures import ApiError
from tests.server import sockets
from tests.server.sockets import wait_until

NAMED = {"host_names": ("nas.example",)}  # a proxy with this name may stand before the server


def heard_from(served, *forwarded, local="127.0.0.1"):
    """The address under which the server takes a request."""
    try:
        with socket.socket() as tried:
            tried.bind((local, 0))
    except OSError:
        pytest.skip(f"this system has no address {local}")
    headers = [("x-forwarded-for", one) for one in forwarded] + [("user-agent", "x")]
    body = {"messages": [{"role": "user", "content": "hello"}]}
    with httpx.Client(transport=httpx.HTTPTransport(local_address=local)) as client:
        made = client.post(f"{served.url}/v1/chat/completions", json=body, headers=headers)
    assert made.status_code == 200
    client = Client.of(served.service.requests[-1].client)
    assert client.name == "x"
    return client.address


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ((), "127.0.0.1"),
        (("203.0.113.7",), "203.0.113.7"),
        (("203.0.113.7:4711",), "203.0.113.7"),
        (("[2001:db8:1:2::77]:4711",), "2001:db8:1:2::/64"),
        (("198.51.100.1, 203.0.113.7",), "203.0.113.7"),  # the first is the client's own word
        (("198.51.100.1", "203.0.113.7"), "203.0.113.7"),
        (("203.0.113.7, 127.0.0.1",), "203.0.113.7"),  # two proxies of this machine
        (("",), "127.0.0.1"),
        (("no address, it says",), "it?says"),
        (("x" * 5000,), "x" * 48),
    ],
)
def test_a_proxy_of_this_machine_says_who_asks(serve, forwarded, address):
    assert heard_from(serve(NAMED), *forwarded) == address


def test_without_a_proxy_s_name_nobody_chooses_an_address(serve):
    served = serve()
    assert heard_from(served, "203.0.113.7") == "127.0.0.1"
    assert heard_from(served, "203.0.113.7", local="127.0.0.2") == "127.0.0.2"


def test_another_machine_chooses_no_address(serve):
    served = serve(NAMED)
    for forwarded in ("203.0.113.7", "127.0.0.1", "203.0.113.7, 127.0.0.1"):
        assert heard_from(served, forwarded, local="127.0.0.2") == "127.0.0.2"


def admitted(active, address):
    try:
        active.check(address)
    except ApiError as refused:
        assert refused.status == 429 and refused.retry_after == 1
        return False
    active.begin(address)
    return True


def test_one_address_leaves_a_quarter_to_others():
    active = ActiveRequests(256)
    taken = Counter()
    for address in "abcdefgh":
        while admitted(active, address):
            taken[address] += 1
    assert [taken[one] for one in "abcd"] == [192, 48, 12, 3]
    assert active.count == sum(taken.values()) == 256
    for _ in range(3):
        active.end("a")
    assert not admitted(active, "a"), "it still has the most"
    assert admitted(active, "z"), "there is room for others"
    for address, count in taken.items():
        for _ in range(count - 3 * (address == "a")):
            active.end(address)
    active.end("z")
    assert active.count == 0 and not active._of_address


def test_a_counted_request_is_checked_as_it_was_before():
    """Its body may have come while others began."""
    active = ActiveRequests(8)
    for _ in range(6):
        active.check("a")
        active.begin("a")
        active.check("a", counted=True)
    active.begin("a")
    with pytest.raises(ApiError, match="6 requests of a are worked on"):
        active.check("a", counted=True)
    active.begin("b")
    active.check("b", counted=True)
    active.begin("c")
    with pytest.raises(ApiError, match="as many requests"):
        active.check("c", counted=True)


def ask(served, address, **more):
    made = sockets.connect(served)
    body = {"messages": [{"role": "user", "content": "hello"}], **more}
    headers = (f"X-Forwarded-For: {address}", "Connection: close")
    made.sendall(sockets.request("/v1/chat/completions", body, "POST", *headers))
    return made


def test_one_address_never_has_all_requests(serve):
    served = serve(
        {**NAMED, "requests": 8}, script=lambda r: "word " * 500, delay=0.01, most_waiting=99
    )
    many = [ask(served, "203.0.113.7", stream=True) for _ in range(6)]
    wait_until(lambda: len(served.service.status().requests) == 6)
    refused = sockets.read_all(ask(served, "203.0.113.7"))
    assert refused.startswith(b"HTTP/1.1 429 ") and b"retry-after: 1" in refused.lower()
    assert b"6 requests of 203.0.113.7 are worked on" in refused
    other = ask(served, "203.0.113.8", stream=True)
    wait_until(lambda: len(served.service.status().requests) == 7)
    for one in (*many, other):
        one.close()
    wait_until(lambda: served.server._shared.active.count == 0)
