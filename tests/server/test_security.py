"""Who may ask, and what a hostile client can do: little."""

import socket
from contextlib import ExitStack
from types import SimpleNamespace

import httpx2 as httpx
import openai
import pytest

from llm_lite.server.shared import PassingBodies, PassingBody
from tests.server import sockets
from tests.server.sockets import wait_until

KEY = "sk-a-long-secret"
USER = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def locked():
    from llm_lite.server.config import ServerConfig
    from tests.server.conftest import Served
    from tests.server.scripted_service import ScriptedService

    one = Served(ScriptedService(), ServerConfig(port=0, api_key=KEY))
    yield one
    one.close()


def get(served, path="/v1/models", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(f"{served.url}{path}", headers=named)


def test_a_key_is_asked_for(locked):
    assert locked.client().models.list().data
    with pytest.raises(openai.AuthenticationError) as refused:
        locked.client(api_key="wrong").models.list()
    assert refused.value.code == "invalid_api_key"
    bare = get(locked)
    assert bare.status_code == 401 and bare.headers["www-authenticate"] == "Bearer"
    assert get(locked, x_api_key=KEY).status_code == 200
    assert get(locked, authorization=f"bearer {KEY}").status_code == 200
    assert get(locked, authorization=f"Basic {KEY}").status_code == 401
    assert get(locked, path="/openapi.json").status_code == 401
    assert get(locked, path="/health").status_code == 200


def test_the_key_is_in_no_answer_and_no_text_of_the_configuration(locked):
    for path in ("/health", "/v1/nothing", "/metrics", "/openapi.json"):
        assert KEY not in get(locked, path=path, authorization=f"Bearer {KEY}").text
    assert KEY not in repr(locked.config)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:1", 200),
        ("LOCALHOST.", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("192.168.7.7", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_names_of_others_that_lead_here_are_refused(served, host, status):
    made = sockets.connect(served)
    made.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert sockets.read_all(made).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_name_can_be_allowed(serve):
    served = serve({"host_names": ("nas.example",)})
    assert get(served, host="NAS.example:80").status_code == 200


def test_a_proxy_may_send_its_own_name_or_the_name_behind_it(serve):
    """Most proxies send the name behind them as Host, and the browser's Origin as it is."""
    served = serve({"host_names": ("nas.example", "192.168.7.7", "localhost")})
    for origin in ("https://nas.example", "http://NAS.example"):
        assert get(served, origin=origin).status_code == 200
        assert get(served, origin=origin, host="nas.example").status_code == 200
    for origin in (
        "https://nas.example:5000",
        "https://www.nas.example",
        "http://192.168.7.7",
        "http://localhost",
        f"http://{socket.gethostname().lower()}",
    ):
        assert get(served, origin=origin).status_code == 403, origin


def test_pages_of_other_servers_may_not_ask(served):
    own = served.url
    assert get(served, origin=own).status_code == 200
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", f"{own}.evil.example"):
        made = get(served, origin=origin)
        assert made.status_code == 403
        assert "access-control-allow-origin" not in made.headers
    foreign = {"sec_fetch_site": "cross-site"}
    assert get(served, **foreign).status_code == 403
    assert (
        get(served, **foreign, sec_fetch_mode="no-cors", sec_fetch_dest="image").status_code == 403
    )
    link = {**foreign, "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert get(served, **link).status_code == 200
    preflight = httpx.request(
        "OPTIONS",
        f"{own}/v1/chat/completions",
        headers={"origin": "https://evil.example", "access-control-request-method": "POST"},
    )
    assert preflight.status_code == 403


def test_a_page_that_was_named_may(serve):
    served = serve({"cors_origins": ("https://good.example",)})
    headers = {"origin": "https://good.example", "access-control-request-method": "POST"}
    headers["access-control-request-headers"] = "authorization, x-stainless-lang"
    headers["access-control-request-private-network"] = "true"
    preflight = httpx.request("OPTIONS", f"{served.url}/v1/chat/completions", headers=headers)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://good.example"
    assert preflight.headers["access-control-allow-headers"] == "authorization, x-stainless-lang"
    assert preflight.headers["access-control-allow-private-network"] == "true"
    made = get(served, origin="https://good.example")
    assert made.headers["access-control-allow-origin"] == "https://good.example"
    assert get(served, origin="https://evil.example").status_code == 403
    everybody = serve({"cors_origins": ("*",)})
    assert get(everybody, origin="https://any.example").status_code == 200


def test_a_form_of_another_page_is_no_request(served):
    """A browser sends such bodies without asking first."""
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        made = httpx.post(
            f"{served.url}/v1/chat/completions",
            content=b'{"messages": [{"role": "user", "content": "x"}]}',
            headers={"content-type": media},
        )
        assert made.status_code == 415


def test_every_answer_has_the_headers_of_security(served):
    for path in ("/health", "/nothing", "/openapi.json"):
        headers = get(served, path=path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_large_bodies_are_refused_with_a_reason(serve):
    served = serve({"body_bytes": 10_000})
    url, headers = f"{served.url}/tokenize", {"content-type": "application/json"}
    made = httpx.post(url, content=b" " * 10_001, headers=headers)
    assert made.status_code == 413 and "10,000 bytes" in made.json()["error"]["message"]

    def pieces():
        for _ in range(30):
            yield b" " * 1000

    assert httpx.post(url, content=pieces(), headers=headers).status_code == 413
    assert httpx.post(url, json={"content": "x"}).status_code == 200


def test_large_heads_are_refused(served):
    for sent in (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 70_000,
    ):
        made = sockets.connect(served)
        made.sendall(sent)
        found = sockets.read_all(made)
        assert found == b"" or found.startswith(b"HTTP/1.1 431 ")


def test_what_is_no_http_is_told_so(served):
    made = sockets.connect(served)
    made.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    found = sockets.read_all(made)
    assert found.startswith(b"HTTP/1.1 400 ") and b'"error"' in found


def test_slow_heads_and_bodies_have_an_end(serve):
    served = serve({"header_seconds": 0.3, "body_seconds": 0.3})
    silent, head, body = (sockets.connect(served) for _ in range(3))
    head.sendall(b"GET /health HTTP/1.1\r\nHo")
    body.sendall(sockets.chat()[:-5])
    assert sockets.read_all(silent) == b"" and sockets.read_all(head) == b""
    found = sockets.read_all(body)
    assert found.startswith(b"HTTP/1.1 408 ") and b"0.3 seconds" in found
    second = sockets.connect(served)  # the second request of a connection, too
    second.sendall(sockets.request("/health", method="GET"))
    assert second.recv(4096).startswith(b"HTTP/1.1 200 ")
    second.sendall(b"GET /health HTTP/1.1\r\nHo")
    sockets.read_all(second)
    assert served.client().models.list().data


def test_idle_connections_stop_no_answer(serve):
    served = serve({"connections": 20})
    many = [sockets.connect(served) for _ in range(60)]
    made = served.client().chat.completions.create(model="scripted", messages=USER)
    assert made.choices[0].message.content == "You said: hello"
    oldest = many[0]
    assert sockets.read_all(oldest) == b""  # it made room
    for one in many:
        one.close()


def test_connections_that_are_answered_are_not_closed_for_idle_ones(serve):
    served = serve({"connections": 5}, delay=0.05)
    stream = served.client().chat.completions.create(model="scripted", messages=USER, stream=True)
    many = [sockets.connect(served) for _ in range(20)]
    said = "".join(c.choices[0].delta.content or "" for c in stream)
    assert said == "You said: hello"
    for one in many:
        one.close()


def test_requests_at_once_are_bounded(serve):
    served = serve({"requests": 2}, script=lambda r: "word " * 500, delay=0.01)
    running = [sockets.connect(served) for _ in range(2)]
    for one in running:
        one.sendall(sockets.chat(stream=True))
    wait_until(lambda: len(served.service.status().requests) == 2)
    with pytest.raises(openai.RateLimitError):
        served.client().models.list()
    assert get(served, path="/health").status_code == 200
    for one in running:
        one.close()
    wait_until(lambda: not served.service.status().requests)
    assert served.client().models.list().data


def test_no_answer_has_a_path_of_the_file_system(served):
    client = served.client()
    texts = [
        client.models.list().model_dump_json(),
        get(served, path="/metrics").text,
        get(served, path="/openapi.json").text,
        get(served, path="/%2e%2e/%2e%2e/etc/passwd").text,
    ]
    assert not any("somewhere" in text or ".gguf" in text or "root:" in text for text in texts)


def test_what_http_allows_is_answered(served):
    """A request in pieces, several behind each other, an older version, HEAD, 100-continue."""
    body = b'{"content": "hello"}'
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunked = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    made = sockets.connect(served)
    made.sendall(head + chunked + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
    assert b'"count":1' in sockets.read_all(made)
    whole = head + b"Content-Length: %d\r\n" % len(body)
    last = b"Connection: close\r\n"
    made = sockets.connect(served)
    made.sendall((whole + b"\r\n" + body) * 3 + whole + last + b"\r\n" + body)
    assert sockets.read_all(made).count(b'"count":1') == 4
    made = sockets.connect(served)
    made.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert sockets.read_all(made).endswith(b'{"status":"ok"}')
    made = sockets.connect(served)
    made.sendall(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    found = sockets.read_all(made)
    assert found.startswith(b"HTTP/1.1 200 ") and found.endswith(b"\r\n\r\n")
    made = sockets.connect(served)
    made.sendall(whole + last + b"Expect: 100-continue\r\n\r\n")
    assert made.recv(100).startswith(b"HTTP/1.1 100 ")
    made.sendall(body)
    assert b'"count":1' in sockets.read_all(made)


def test_half_bodies_stop_no_request(serve):
    """Also not where they are as many as requests may be: the oldest of them make room."""
    served = serve({"requests": 4, "connections": 100})
    many = [sockets.connect(served) for _ in range(40)]
    for one in many:
        one.sendall(sockets.chat()[:-5])
    wait_until(lambda: len(served.server._shared.bodies) == 4)
    found = sockets.read_all(many[0])
    assert found.startswith(b"HTTP/1.1 429 ") and b"ask again soon" in found
    for _ in range(8):
        made = served.client().chat.completions.create(model="scripted", messages=USER)
        assert made.choices[0].message.content == "You said: hello"
    wait_until(lambda: served.server._shared.active.count == 0)
    for one in many:
        one.close()
    wait_until(lambda: len(served.server._shared.bodies) == 0)


def test_large_half_bodies_stop_no_large_body(serve):
    served = serve({"bodies_bytes": 2 << 20})
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
    )
    many = [sockets.connect(served) for _ in range(4)]
    for one in many:
        one.sendall(head + b" " * 500_000)
    wait_until(lambda: served.server._shared.body_bytes == 2_000_000)
    large = sockets.connect(served)
    large.sendall(sockets.chat(user="x" * 300_000))
    assert b" 400 " in large.recv(100)  # it was read: a user's name is shorter
    assert sockets.read_all(many[0]).startswith(b"HTTP/1.1 429 ")
    for one in (*many, large):
        one.close()
    wait_until(lambda: served.server._shared.body_bytes == 0)


def test_of_half_bodies_those_of_the_client_with_the_most_are_dropped():
    bodies, timeout = PassingBodies(3), SimpleNamespace(reschedule=lambda when: None)
    made = [PassingBody(address, timeout) for address in "abbbc"]
    with ExitStack() as stack:
        for one in made:
            stack.enter_context(bodies.place(one))
        assert [one.refusal is not None for one in made] == [False, True, True, False, False]
    assert len(bodies) == 0


def test_large_bodies_that_come_slowly_are_not_too_many(serve):
    served = serve({"bodies_bytes": 1 << 20, "body_seconds": 5.0})
    slow = [sockets.connect(served) for _ in range(4)]
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
    )
    for one in slow:
        one.sendall(head + b" " * 400_000)
    found = [one.recv(200) for one in slow]
    assert sum(b" 429 " in one for one in found) >= 1
    assert served.client().chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "hello"}]
    )
    for one in slow:
        one.close()
    sockets.wait_until(lambda: served.server._shared.body_bytes == 0)
