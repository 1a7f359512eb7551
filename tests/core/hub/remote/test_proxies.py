"""The proxies of the environment: what a request goes through, and which need not be usable."""

import socket
import threading
from contextlib import closing, contextmanager, suppress

import httpx2
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.remote import proxies
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.client import Client, Exchange
from tests.children import PATIENCE

SOCKS = "socks://127.0.0.1:1/"  # as desktops set it; the HTTP library takes no such scheme


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def proxy():
    """A proxy that takes one connection, notes its first line and answers with an empty list."""
    heard = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(PATIENCE)

        def serve():
            with suppress(OSError), closing(listening.accept()[0]) as line:
                heard.append(line.recv(1 << 16).split(b"\r\n")[0].decode())
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
        with suppress(OSError):  # where nobody came
            listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy"])
def test_a_usable_proxy_is_used_beside_one_of_socks(monkeypatch, name):
    with proxy() as (address, heard):
        monkeypatch.setenv("ALL_PROXY", SOCKS)
        monkeypatch.setenv(name, address)
        with httpx2.Client(**proxies.routes()) as client, suppress(httpx2.TransportError):
            client.get("https://models.example/v1/models")
    assert heard == ["CONNECT models.example:443 HTTP/1.1"]


def test_a_server_elsewhere_is_asked_through_it(monkeypatch):
    with proxy() as (address, heard):
        monkeypatch.setenv("ALL_PROXY", SOCKS)
        monkeypatch.setenv("HTTP_PROXY", address.removeprefix("http://"))
        client = Client(read_address("http://models.example:8000"), ApiKey())
        assert client.get_json("/v1/models", Exchange()) == {}
    assert heard == ["GET http://models.example:8000/v1/models HTTP/1.1"]


def test_a_request_whose_proxy_is_not_usable_says_so(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", SOCKS)
    client = Client(read_address("https://models.example"), ApiKey())
    with pytest.raises(RequestError, match="ALL_PROXY is not usable"):
        client.get_json("/v1/models", Exchange())


@pytest.mark.parametrize("named", ["127.0.0.1", "*", "example.com,127.0.0.1"])
def test_what_needs_no_proxy_goes_past_one_that_is_not_usable(monkeypatch, named):
    monkeypatch.setenv("ALL_PROXY", SOCKS)
    monkeypatch.setenv("NO_PROXY", named)
    with proxy() as (address, heard), httpx2.Client(**proxies.routes()) as client:
        assert client.get(address).json() == {}
    assert heard == ["GET / HTTP/1.1"]
