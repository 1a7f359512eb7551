"""`llm-lite serve`: what it prints, how it ends, and its sentences."""

import os
import re
import signal
import subprocess

import httpx2 as httpx
import pytest

from llm_lite.cli.commands import serve
from llm_lite.cli.main import _parser, main
from llm_lite.cli.serving_words import server_config, serving_options
from llm_lite.core.errors import RequestError
from llm_lite.core.loading.encoder_starting import model_and_name
from llm_lite.core.messages import SPECULATES
from llm_lite.server.config import network_addresses, page_history
from llm_lite.server.serve import Server
from tests.children import PATIENCE
from tests.cli.terminal_runs import NUMPY, spawn
from tests.fixtures.seq2seq import t5
from tests.seq2seq_checks import write_case

KEY = "sk-not-to-be-seen"


def parsed(*words):
    return _parser().parse_args(["serve", *words])


def address_of(process):
    line = process.stdout.readline().decode()
    found = re.search(r"is served at (http://\S+)", line)
    assert found, process.stderr.read().decode()
    return found[1]


@pytest.fixture
def run(tiny_llama):
    running = []

    def start(*words, **options):
        process = spawn("serve", tiny_llama, "--port", 0, *NUMPY, *words, **options)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_an_encoder_decoder_serves_targets(tmp_path):
    model = write_case(t5.FAMILY, "gated", tmp_path)
    process = spawn("serve", model, "--port", 0, "--speculate", "other", *NUMPY)
    try:
        address = address_of(process)
        rest = b"".join(process.stdout.readline() for _ in range(2))
        assert b"one at a time" in rest and f"{address}/v1/completions".encode() in rest
        body = {"prompt": "Where is it?", "max_tokens": 2}
        made = httpx.post(f"{address}/v1/completions", json=body, timeout=PATIENCE)
        assert made.status_code == 200 and made.json()["usage"]["completion_tokens"] == 2
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and b"Traceback" not in said
        assert b"other is not used, as what an encoder-decoder writes is not drafted" in said
    finally:
        process.kill()
        process.communicate()


class SeenError(RequestError):
    """Ends the command once a test has seen enough."""


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_a_model_is_listed_before_it_is_loaded(kind, tiny_llama, tmp_path, monkeypatch, capsys):
    servers, listed = [], []

    class Watched(Server):
        def start(self):
            super().start()
            servers.append(self)

    def look(*_, **__):
        (server,) = servers
        (found,) = httpx.get(f"{server.address}/v1/models").json()["data"]
        answer = httpx.post(f"{server.address}/v1/completions", json={"prompt": "Hello"})
        listed.append((found, answer.status_code, answer.headers["retry-after"]))
        raise SeenError("seen")

    monkeypatch.setattr(serve, "Server", Watched)
    where, what = {"decoder": (serve, "load")}.get(kind, (serve.loader, "open_model"))
    monkeypatch.setattr(where, what, look)
    model = tiny_llama if kind == "decoder" else write_case(t5.FAMILY, "gated", tmp_path / "t5")
    assert main(["serve", str(model), *NUMPY, "--port", "0"]) == 1
    ((found, status, after),) = listed
    assert found["title"] == model_and_name(str(model))[1] != ""
    assert found["status"] == {"value": "loading"} and (status, after) == (503, "5")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(run, number):
    process = run("--parallel", 2, "--queue", 3)
    address = address_of(process)
    rest = b"".join(process.stdout.readline() for _ in range(3))
    assert f"{address}/v1 as base URL".encode() in rest and b"Other machines" not in rest
    assert b"2 answers at once" in rest and b"3 requests may wait" in rest and b"curl" in rest
    body = {"prompt": "Hello", "max_tokens": 2}
    made = httpx.post(f"{address}/v1/completions", json=body, timeout=PATIENCE)
    assert made.status_code == 200 and made.json()["usage"]["completion_tokens"] == 2
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == (0 if number == signal.SIGINT else 128 + number)
    assert b"Traceback" not in said


def test_the_key_of_the_environment_is_asked_for_and_not_printed(run):
    process = run(env={"LLM_LITE_API_KEY": KEY})
    address = address_of(process)
    assert httpx.get(f"{address}/v1/models").status_code == 401
    headers = {"authorization": f"Bearer {KEY}"}
    assert httpx.get(f"{address}/v1/models", headers=headers).status_code == 200
    out = b"".join(process.stdout.readline() for _ in range(3))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert b"$LLM_LITE_API_KEY" in out and KEY.encode() not in out + said


def test_what_listens_everywhere_tells_where_others_reach_it(run):
    process = run("--host", "0.0.0.0", "--no-key", "--parallel", 1, "--queue", 1)
    port = address_of(process).rpartition(":")[2]
    out = b"".join(process.stdout.readline() for _ in range(4)).decode()
    for address in network_addresses():
        assert f"http://{address}:{port}" in out.splitlines()[0]
    assert "1 answer at once" in out and "1 request may wait" in out


def test_a_port_in_use_is_one_sentence_before_a_model_is_loaded(run):
    port = address_of(run()).rpartition(":")[2]
    process = spawn("serve", "no-such-model", "--port", port)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert said.decode().count("\n") == 1 and (
        f"another program listens on port {port} of 127.0.0.1" in said.decode()
    )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--host", "0.0.0.0"], "give a key with --api-key or LLM_LITE_API_KEY, or say --no-key"),
        (["--host", "127.lan.example"], "others can reach 127.lan.example: give a key"),
        (["--port", "70000"], "--port: expected 0 to 65535, found 70000"),
        (["--api-key", KEY, "--no-key"], "expected one of them"),
        (["--api-key", ""], "--api-key is empty"),
        (["--api-key", "with space"], "--api-key: expected up to 512 characters of ASCII"),
        (["--cors-origin", "example.org/x"], "--cors-origin: expected one as https://example.org"),
        (["--host-name", "a b"], "--host-name"),
        (["--parallel", "0"], "--parallel: expected 1 to 64, found 0"),
        (["--queue", "-1"], "--queue: expected 0 to 4096, found -1"),
    ],
)
def test_what_cannot_be_is_a_sentence(words, named, monkeypatch):
    monkeypatch.delenv("LLM_LITE_API_KEY", raising=False)
    arguments = parsed(*words)
    with pytest.raises(RequestError) as refused:
        server_config(arguments)
        serving_options(arguments)
    assert named in str(refused.value) and KEY not in str(refused.value)


def test_words_come_to_a_configuration(monkeypatch):
    monkeypatch.delenv("LLM_LITE_API_KEY", raising=False)
    assert server_config(parsed()).is_loopback and not server_config(parsed()).api_key
    others = server_config(parsed("--host", "0.0.0.0", "--no-key"))
    assert not others.is_loopback and others.api_key == ""
    assert others.history == page_history()  # a person's conversations are not for everybody
    keyed = ("--host", "0.0.0.0", "--api-key", KEY)
    assert server_config(parsed(*keyed)).history == page_history()
    assert server_config(parsed(*keyed, "--share-history")).history is None
    assert server_config(parsed()).history is None
    arguments = parsed(
        *("--host", "::", "--api-key", KEY, "--cors-origin", "https://a.example"),
        *("--cors-origin", "http://b.example:81", "--host-name", "nas.local", "--context", "999"),
    )
    config = server_config(arguments)
    assert config.api_key == KEY and config.host_names == ("nas.local",)
    assert config.cors_origins == ("https://a.example", "http://b.example:81")
    assert arguments.ctx == 999


def test_nothing_of_a_server_is_imported_before_one_runs():
    code = "import sys, llm_lite.cli.main as m; m._parser(); print([n for n in sys.modules if n in "
    code += "('uvicorn', 'starlette', 'h11', 'llm_lite.server.routes', 'llm_lite.core.serving')])"
    found = subprocess.run(
        [os.sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert found.stdout.strip() == "[]"


def test_answers_of_a_server_are_drafted_by_their_own_texts(capsys, tiny_llama):
    """By a slice, where the model has one."""
    assert main(["serve", str(tiny_llama), *NUMPY, "--port", "0", "--speculate", "slice"]) == 1
    assert "--speculate slice: this model was not trained" in capsys.readouterr().err
    for speculate in SPECULATES:
        assert serving_options(parsed("--speculate", speculate)).speculate == speculate
        assert not serving_options(parsed("--speculate", speculate)).by_draft_model
    assert serving_options(parsed()).speculate == "auto"
    by_model = serving_options(parsed("--speculate", "smaller.gguf"))
    assert (by_model.speculate, by_model.by_draft_model) == ("auto", True)
