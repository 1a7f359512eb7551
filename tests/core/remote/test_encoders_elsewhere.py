"""An encoder of another llm-lite: its real server on tiny encoders, and what an engine elsewhere
tells of their texts beside what is told here."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest
from msgspec import ValidationError, to_builtins

from llm_lite.core.checked import CheckError
from llm_lite.core.encoding.masked import encode_for_display
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.errors import RequestError
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.messages import (
    CompareTexts,
    EncodeText,
    Ended,
    FollowToken,
    Generate,
    Inspect,
    ReadAttentionRows,
    TextEncoded,
)
from llm_lite.core.messages.answers import ChatMessage
from llm_lite.core.messages.encoding import Candidate, EncodedToken, EncoderInfo, Mask
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.attention import ReadAttention
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.table import BY_REQUEST, QUESTIONS
from llm_lite.core.records import replace
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import chosen, connect
from llm_lite.core.remote.encoding import encoded_of, vectors_of
from llm_lite.core.remote.engine import RemoteEngine
from llm_lite.core.remote.failures import RemoteError
from llm_lite.core.remote.inspection import trace_of
from llm_lite.core.serving.direct_services import EncoderService
from llm_lite.core.serving.kept_texts import KeptTexts
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.asking import asked
from tests.children import PATIENCE
from tests.core.questions.test_every_sequence import check_same
from tests.core.remote.servers import scripted
from tests.encoder_checks import started, write_case
from tests.encoder_families import family_of
from tests.pooled_cases import written

# Encoders with a dense layer behind their pooling, with a masked-token head, and with neither; and
# a decoder that makes vectors.
CASES = (("bert", "several"), ("bert", "masked"), ("distilbert", "plain"), ("pooled", "qwen3 last"))
TEXT, PAIR = EncodeText("the cat sat"), EncodeText("the cat", "sat on")
SEVERAL = ("the cat sat", "sat on the cat", "a dog")


class Elsewhere:
    """An encoder here, and the engine of a window that is connected to a server of it."""

    def __init__(self, runner: EncoderRunner, service: EncoderService, engine: RemoteEngine):
        self.runner, self.service, self.engine = runner, service, engine

    def here(self, request: EncodeText) -> TextEncoded:
        runner = self.runner
        tokenizer = runner.model_file.tokenizer
        return encode_for_display(runner.session, tokenizer, request, runner.most_tokens)

    def ask(self, command: Any) -> Any:
        self.engine.poll()
        return self.engine.submit(command).result(PATIENCE)


@contextmanager
def elsewhere(runner: EncoderRunner) -> Iterator[Elsewhere]:
    service = EncoderService(runner)
    server = Server(lambda: service, ServerConfig(port=0))
    server.start()
    try:
        client = Client(read_address(server.address), ApiKey())
        told = connect(client, Exchange())
        engine = RemoteEngine(client, told, told.models[0])
        try:
            yield Elsewhere(runner, service, engine)
        finally:
            engine.close()
    finally:
        server.stop()


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def there(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    family, case = request.param
    path = tmp_path_factory.mktemp("encoders") / "m"
    if family == "pooled":
        written(case, path)
    else:
        write_case(family_of(family), case, path)
    runner = started(path, "cpu")
    try:
        with elsewhere(runner) as one:
            yield one
    finally:
        runner.close()
        runner.model_file.close()


def test_what_the_model_is(there: Elsewhere) -> None:
    info, own = there.engine.info, there.runner.model_info
    assert info.embeds and info.encoder == own.encoder
    for name in ("name", "layers", "heads", "vocabulary", "parameters", "architecture"):
        expected = getattr(own, name)
        assert getattr(info, name) in (expected, str(expected).lower()), name
    assert info.context == there.runner.most_tokens and not info.has_chat_template
    assert there.engine.loaded().model == info
    assert info.encoder.sees_ahead == (info.architecture != "qwen3")


@pytest.mark.parametrize("request_", [TEXT, PAIR, EncodeText("the cat " * 40), EncodeText("")])
def test_texts_are_read_as_here(there: Elsewhere, request_: EncodeText) -> None:
    found = there.ask(request_)
    assert replace(found, seconds=0.0) == replace(there.here(request_), seconds=0.0)
    assert found.seconds > 0
    assert there.engine.held.tokens == tuple(one.token for one in found.tokens)


def test_masked_tokens_are_filled_as_here(there: Elsewhere) -> None:
    asked_for = EncodeText("the [MASK] sat on [MASK]", fills=True)
    if there.runner.model_file.tokenizer.mask_id is None:
        with pytest.raises(RequestError, match="the model's tokenizer has no mask token"):
            there.ask(asked_for)
        return
    found, expected = there.ask(asked_for), there.here(asked_for)
    assert found.tokens == expected.tokens
    assert len(found.masks) == 2 * there.engine.info.fills
    for mine, other in zip(found.masks, expected.masks, strict=True):
        assert mine.position == other.position
        assert [one.token for one in mine.candidates] == [one.token for one in other.candidates]
        shares = [[one.probability for one in mask.candidates] for mask in (mine, other)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-6)


def test_sentences_are_compared_as_here(there: Elsewhere) -> None:
    found = there.ask(CompareTexts(SEVERAL))
    expected = cosines(there.runner.embed(SEVERAL))
    assert np.abs(np.array(found.similarities) - expected).max() < 1e-5
    with pytest.raises(RequestError, match="expected two texts or more, found 1"):
        there.ask(CompareTexts(("one",)))


OF_LONGER_TEXTS = ("activations", "patch")  # whose examples are
WANTED = (
    ReadActivations(("layers.1.attention.heads", "embedding"), 1),
    ReadActivations(("layers.0.feed_forward.residual",), 1, 3),
    ReadAttention(1, (2, 0), 1, 4),
    ReadAttention(0),
    ReadAttentionRows(2, "from", "rollout"),
    ReadAttentionRows(2, "to", "rollout", without_first=True),
    ReadAttentionRows(1, "from", "heads", ((0, 1), (1, 2))),
    ReadAttentionRows(1, "to", "layer-mean", (), 1),
    *(one.example for one in QUESTIONS if one.of_encoders and one.name not in OF_LONGER_TEXTS),
    ReadPatch(("layers.0.feed_forward.residual",), (2, 7, 8, 9, 3), (2, 3)),
    ReadPatch(("layers.1.attention.heads",), (2, 7, 8, 9, 3), (1,), each=True, count=4),
    FollowToken(2, 1, 1),
    FollowToken(1, 0, -1, 0, "sat on the cat"),
)  # fmt: skip


def test_every_question_about_encoders_is_asked() -> None:
    assert {type(one) for one in WANTED} == {one.request for one in QUESTIONS if one.of_encoders}


@pytest.mark.parametrize("wanted", WANTED, ids=lambda one: BY_REQUEST[type(one)].name)
def test_questions_are_answered_as_here(there: Elsewhere, wanted: Any) -> None:
    question = BY_REQUEST[type(wanted)]
    text = there.ask(PAIR)
    try:
        expected: Any = _asked_here(there, PAIR, wanted)
    except RequestError as error:  # patches are read behind a masked-token head
        assert isinstance(wanted, ReadPatch) and not there.engine.info.fills
        with pytest.raises(RequestError, match=re.escape(str(error))):
            there.ask(wanted)
        return
    found = there.ask(wanted)
    ended = there.engine.poll()[-1].event
    assert isinstance(ended, Ended) and ended.of_tokens == tuple(t.token for t in text.tokens)
    check_same(question.present(found), question.present(expected))


def _asked_here(there: Elsewhere, text: EncodeText, wanted: Any) -> Any:
    there.here(text)
    return asked(wanted, there.runner)


def test_a_text_that_the_server_has_forgotten_is_read_again(there: Elsewhere) -> None:
    there.ask(TEXT)
    first = there.engine.held
    there.service._kept = KeptTexts()
    wanted = ReadAttention(1, (2,), 0, 3)
    found = there.ask(wanted)
    assert there.engine.held.response != first.response and there.engine.held.tokens == first.tokens
    expected = _asked_here(there, TEXT, wanted)
    assert np.abs(found.attention - expected.attention).max() < 1e-6


def test_what_an_encoder_there_cannot(there: Elsewhere) -> None:
    there.ask(TEXT)
    with pytest.raises(RequestError, match="an encoder, which writes no text"):
        there.ask(Inspect(1))
    with pytest.raises(RequestError, match="writes no text"):
        there.ask(Generate((ChatMessage("user", "Hello"),)))
    with pytest.raises(RequestError, match="layer 7: the model has"):
        there.ask(FollowToken(1, 7, 0))
    fresh = RemoteEngine(there.engine.client, there.engine.server, there.engine.model)
    try:
        with pytest.raises(RequestError, match="has read no text: encode one first"):
            fresh.submit(ReadAttention(0)).result(PATIENCE)
    finally:
        fresh.close()


def test_only_the_newest_text_that_waits_is_read(
    there: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    encode, texts = EncoderService.encode, list[str]()

    def slow(service: EncoderService, request: EncodeText, *more: Any) -> Any:
        texts.append(request.text)
        begun.set()
        assert go_on.wait(PATIENCE)
        return encode(service, request, *more)

    monkeypatch.setattr(EncoderService, "encode", slow)
    there.engine.poll()
    handles = [there.engine.submit(EncodeText("the"))]
    assert begun.wait(PATIENCE)
    handles += [there.engine.submit(EncodeText(word)) for word in ("cat", "sat", "on")]
    go_on.set()
    found = handles[-1].result(PATIENCE)
    assert texts == ["the", "on"] and found.tokens == there.here(EncodeText("on")).tokens
    ended = [one for one in there.engine.poll() if isinstance(one.event, Ended)]
    assert [one.event.unwanted for one in ended] == [False, True, True, False]


ENCODER = EncoderInfo(8, 4, "[MASK]")
GOOD = TextEncoded(
    (EncodedToken(2, "[CLS]", True), EncodedToken(4, "[MASK]", True), EncodedToken(9, "x")),
    0,
    (Mask(1, (Candidate(7, "cat", 0.5),)),),
    0.1,
)


def _reply(**changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = to_builtins(GOOD)
    return {"id": "text-1", "encoded": told | changes}


def test_a_text_of_a_server_that_tells_the_truth() -> None:
    assert encoded_of(_reply(), ENCODER) == ("text-1", GOOD)


_ROW = {"token": 2, "text": "x"}
_CAT = {"token": 7, "text": "cat", "probability": 0.5}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (None, "expected an object"),
        ({"id": "text-1"}, "encoded: "),
        ({**_reply(), "id": ""}, "id: expected the name of a response"),
        ({**_reply(), "id": "x" * 200}, "id: expected the name of a response"),
        (_reply(tokens=[]), "encoded.tokens: expected 1 to 8 tokens, found 0"),
        (_reply(tokens=[_ROW] * 9), "encoded.tokens: expected 1 to 8 tokens, found 9"),
        (_reply(tokens=[{**_ROW, "token": -1}]), "encoded.tokens[0].token: expected"),
        (_reply(tokens=[{**_ROW, "text": "x" * 2000}]), "encoded.tokens[0].text: expected"),
        (_reply(tokens=[{**_ROW, "segment": 2}]), "encoded.tokens[0].segment: expected"),
        (_reply(tokens=[{**_ROW, "special": "yes"}]), "encoded.tokens[0].special: expected"),
        (_reply(tokens=[{**_ROW, "text": "\ud800"}]), "encoded.tokens[0].text: is not valid"),
        (_reply(left_out=-1), "encoded.left_out: expected"),
        (_reply(seconds=float("inf")), "encoded.seconds: expected a finite number"),
        (_reply(masks=[{"position": 3, "candidates": []}]), "encoded.masks[0].position: expected"),
        (_reply(masks=[{"position": 1, "candidates": [_CAT] * 9}]), "encoded.masks[0].candidates"),
        (
            _reply(masks=[{"position": 1, "candidates": [{**_CAT, "probability": 2}]}]),
            "encoded.masks[0].candidates[0].probability: expected",
        ),
        (
            _reply(masks=[{"position": 1, "candidates": [{**_CAT, "probability": float("nan")}]}]),
            "encoded.masks[0].candidates[0].probability: expected",
        ),
    ],
)
def test_texts_that_lie(found: Any, sentence: str) -> None:
    with pytest.raises(CheckError) as told:
        encoded_of(found, ENCODER)
    assert sentence in str(told.value)


def _vectors(*rows: Any) -> dict[str, Any]:
    listed = [{"index": number, "embedding": row} for number, row in enumerate(rows)]
    return {"data": listed}


def _packed(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


def test_vectors_that_lie() -> None:
    good = _packed(1, 2)
    assert vectors_of(_vectors(good, good), 2, 2).tolist() == [[1, 2], [1, 2]]
    for found, sentence in (
        (None, "data: expected 2 vectors, found 0"),
        (_vectors(good), "data: expected 2 vectors, found 1"),
        (_vectors(good, [1, 2]), r"data\[1\].embedding: expected 2 numbers, found 0 bytes"),
        (_vectors(good, "!"), r"data\[1\].embedding: expected base64"),
        (_vectors(good, _packed(1)), r"data\[1\].embedding: expected 2 numbers, found 4 bytes"),
        (_vectors(good, _packed(1, np.nan)), r"data\[1\].embedding: expected finite numbers"),
        ({"data": [{"index": 1}] * 2}, r"data\[0\].index: expected 0, found 1"),
    ):
        with pytest.raises(CheckError, match=sentence):
            vectors_of(found, 2, 2)


class _Saying:
    """A client of a server that says the same to every question, or by what is asked."""

    address = read_address("http://liar")

    def __init__(self, **replies: Any) -> None:
        self._replies = replies

    def get_json(self, path: str, *more: Any) -> Any:
        return self._replies[path.partition("?")[0].rpartition("/")[2]]

    def post_json(self, path: str, *more: Any) -> Any:
        return self.get_json(path)


_MODEL: dict[str, Any] = {
    "id": "m", "owned_by": "llm-lite", "layers": 2, "heads": 3, "context_length": 8,
    "encoder": {"most_tokens": 8, "vector_width": 4},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"encoder": []}, "encoder: expected an object"),
        ({"encoder": {"most_tokens": 8}}, "encoder.vector_width: "),
        ({"encoder": {"most_tokens": 0, "vector_width": 4}}, "encoder.most_tokens: expected"),
        (
            {"encoder": {"most_tokens": 8, "vector_width": 4, "mask_token": "a\nb"}},
            "encoder.mask_token: expected a text in one line",
        ),
        ({"heads": 0}, "layers: expected those of an encoder, found 2 layers, 0 heads"),
    ],
)
def test_models_that_lie(changes: dict[str, Any], sentence: str) -> None:
    client = cast(Any, _Saying(models={"data": [_MODEL | changes]}))
    with pytest.raises(RemoteError) as told:
        connect(client, Exchange())
    assert f"liar tells nothing usable of its model: {sentence}" in str(told.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"tokens": [2, 4, 8]}, "tokens"), ({"layers": 3}, "layers"), ({"heads": 1}, "heads")],
)
def test_a_cache_of_another_text(changes: dict[str, Any], field: str) -> None:
    cache = {"tokens": [2, 4, 9], "texts": ["", "", ""], "layers": 2, "heads": 3} | changes
    client = cast(Any, _Saying(models={"data": [_MODEL]}, encode=_reply(), cache=cache))
    server = connect(client, Exchange())
    engine = RemoteEngine(client, server, server.models[0])
    try:
        with pytest.raises(RequestError, match=f"its {field} are others in /inspect/cache"):
            engine.submit(TEXT).result(PATIENCE)
        assert engine.held is None
    finally:
        engine.close()


def test_a_trace_of_another_kind_of_model(there: Elsewhere) -> None:
    asked_for = FollowToken(1, 1, 1)
    trace = to_builtins(_asked_here(there, TEXT, asked_for).trace)
    assert trace_of(trace, asked_for, "encoder").position == 1
    lies: list[tuple[dict[str, Any], Any]] = [(trace, "decoder")]
    if trace["pooled"] is None:
        lies.append(({**trace, "distribution": {**trace["distribution"], "top": []}}, "encoder"))
    else:
        lies.append(({**trace, "pooled": None}, "encoder"))
        states = trace["pooled"]["states"] * 30
        lies.append(({**trace, "pooled": {**trace["pooled"], "states": states}}, "encoder"))
    for lie, path in lies:
        with pytest.raises(ValidationError):
            trace_of(lie, asked_for, path)


def test_an_embedding_model_of_another_server() -> None:
    """One sentence, before anything is sent to it; another model is chosen where nobody names
    one."""
    with scripted("lm-studio", embeds=True) as server:
        found = connect(Client(read_address(server.url), ApiKey()), Exchange())
    names = [model.name for model in found.models]
    assert names[0] == "nomic-embed" and found.models[0].makes_vectors_only
    assert chosen(found).name == "qwen3-8b"
    with pytest.raises(RequestError, match="nomic-embed makes vectors of texts, and LM Studio"):
        chosen(found, "nomic-embed")
    with scripted("vllm") as server:
        client = Client(read_address(server.url), ApiKey())
        engine = RemoteEngine(client, told := connect(client, Exchange()), told.models[0])
        try:
            for command in (TEXT, CompareTexts(SEVERAL)):
                with pytest.raises(RequestError, match="shows of no text what an encoder makes"):
                    engine.submit(command).result(PATIENCE)
        finally:
            engine.close()
