"""The engine with an encoder: texts, pairs, masks and vectors, in every weight mode."""

import numpy as np
import pytest

from llm_lite.core.encoding.masked import fill
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.errors import DeviceLostError, RequestError
from llm_lite.core.handles import Handle
from llm_lite.core.inspect.text_maps import text_maps
from llm_lite.core.messages import (
    CompareTexts,
    EncodeText,
    Ended,
    ExecutorChanged,
    ExportMaps,
    Inspect,
    MapsExported,
    MeasureModes,
    ReadAttentionRows,
    ReadEffect,
    Reconfigure,
    ServingChanged,
    SetInterventions,
    StartServing,
)
from tests.changes import scales
from tests.core.engine_client import PATIENCE
from tests.encoder_checks import started, write_case
from tests.encoder_families import family_of
from tests.pooled_cases import TEXTS, pooled, written
from tests.runners import exact

TEXT, OTHER = "the cat sat on the cat", "a cat"
FILLED = "the [MASK] sat on [MASK]"
FOR_CHATS = "is an encoder, which writes no text"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_case(family_of("bert"), "masked", tmp_path_factory.mktemp("encoders") / "bert")


@pytest.fixture(scope="module")
def reference(bert):
    runner = started(bert, "numpy")
    yield runner
    runner.close()
    runner.model_file.close()


@pytest.fixture(params=["cpu", "vulkan"])
def loaded(request, client, bert):
    """The engine with the model on an executor."""
    if request.param == "vulkan":
        client.engine.device_lost(request.getfixturevalue("device"))
    client.load(bert, exact(request.param))
    return client


def encode(client, text=TEXT, **changes):
    return client.result(EncodeText(text, **changes))


def map_of(source):
    """All maps of the text that the source holds, float32 [layers, heads, n, n]."""
    shape = source.layers[0]
    return text_maps(source, Held(), source.tokens(), range(len(source.layers)), range(shape.heads))


class Held:
    """A session that has read the text already."""

    def prefill(self, tokens):
        pass


def reference_maps(runner, tokens):
    shape = runner.attention.layers[0]
    layers, heads = range(len(runner.attention.layers)), range(shape.heads)
    return text_maps(runner.attention, runner.session, tokens, layers, heads)


def test_what_is_known_of_the_model(client, bert):
    model = client.load(bert).model
    assert model.embeds and not model.continues
    assert model.encoder.most_tokens == model.context
    assert model.encoder.mask_token == "[MASK]" and model.encoder.has_pairs


def test_a_context_that_is_chosen_for_chats_is_no_hindrance(client, bert):
    """The window keeps it while models come and go; an encoder reads texts up to its own length."""
    most = client.load(bert).model.context
    model = client.load(bert, exact("cpu", context=8192)).model
    assert model.context == model.encoder.most_tokens == most < 8192
    assert len(encode(client).tokens) == 8


@pytest.mark.vulkan
def test_a_text_its_tokens_and_maps(loaded, reference):
    told = encode(loaded)
    names = [token.text for token in told.tokens]
    assert names == ["[CLS]", "the", "cat", "sat", "on", "the", "cat", "[SEP]"]
    assert [token.special for token in told.tokens] == [True, *[False] * 6, True]
    assert not told.left_out and not told.masks and told.seconds > 0
    ids = [token.token for token in told.tokens]
    found = map_of(loaded.engine.attention())
    assert np.abs(found - reference_maps(reference, ids)).max() < 1e-4
    assert np.triu(found, 1).max() > 0.01, "tokens look at those behind them"


@pytest.mark.vulkan
def test_masks_and_their_candidates(loaded, reference):
    told = encode(loaded, FILLED, fills=True)
    tokenizer, session = reference.model_file.tokenizer, reference.session
    _, known = fill(session, tokenizer, FILLED, 8)
    assert [mask.position for mask in told.masks] == [2, 5]
    for mask, other in zip(told.masks, known, strict=True):
        assert [one.token for one in mask.candidates] == [one.token for one in other.candidates]
        found = [one.probability for one in mask.candidates]
        assert found == pytest.approx([one.probability for one in other.candidates], abs=1e-4)
    plain = encode(loaded, FILLED)
    assert not plain.masks, "in a text, what is typed is text"


@pytest.mark.vulkan
def test_a_pair_and_its_segments(loaded):
    told = encode(loaded, TEXT, pair=OTHER)
    assert [token.segment for token in told.tokens] == [0] * 8 + [1] * 3
    assert [token.text for token in told.tokens[-4:]] == ["[SEP]", "a", "cat", "[SEP]"]
    assert loaded.engine.attention().length == 11


@pytest.mark.vulkan
def test_comparing_leaves_the_maps_of_the_text(loaded, reference):
    encode(loaded)
    before = loaded.engine.attention().tokens()
    told = loaded.result(CompareTexts((TEXT, OTHER, "on")))
    known = cosines(reference.embed((TEXT, OTHER, "on")))
    assert np.abs(np.array(told.similarities) - known).max() < 1e-4
    assert loaded.engine.attention().tokens() == before


@pytest.mark.vulkan
def test_a_head_that_is_off_changes_maps_and_stays_off(loaded):
    encode(loaded)
    source = loaded.engine.attention()
    before = map_of(source)
    gains = tuple((1.0, 0.0, *(1.0,) * (source.layers[0].heads - 2)) for _ in source.layers)
    loaded.send(SetInterventions(scales(gains)))
    encode(loaded)
    changed = map_of(loaded.engine.attention())
    assert np.abs(changed[0] - before[0]).max() < 1e-5, "the first layer looks as it did"
    assert np.abs(changed[1:] - before[1:]).max() > 1e-3
    loaded.send(Reconfigure(exact("cpu", mode="fp32")))
    loaded.until(ExecutorChanged)
    encode(loaded)
    assert np.abs(map_of(loaded.engine.attention()) - changed).max() < 1e-4


@pytest.mark.parametrize("mode", ["as-stored", "fp32", "fp16", "int8", "int4"])
def test_every_mode(client, bert, mode):
    client.load(bert, exact("cpu"))
    client.send(Reconfigure(exact("cpu", mode=mode)))
    changed = client.until(ExecutorChanged)
    assert changed.executor.mode == mode and changed.model.encoder.has_pairs
    assert len(encode(client).tokens) == 8


def test_of_texts_that_wait_only_the_last_is_encoded(client, bert, hook):
    client.load(bert)
    reached = hook.steps
    encode(client)
    taken = len(reached)
    server = client.engine._step_requests
    reports = []
    waiting = [Handle(EncodeText(TEXT), reports.append) for _ in range(5)]
    for handle in waiting:  # before the engine hears of any
        server.submit(handle)
    assert len(client.result(EncodeText(OTHER)).tokens) == 4
    for handle in waiting:
        with pytest.raises(RequestError, match="a newer request has taken its place"):
            handle.result(PATIENCE)
    assert [type(report.event) for report in reports] == [Ended] * 5
    assert len(reached) == taken + 1


def test_a_device_that_is_lost_gives_the_text_to_the_cpp_executor(client, bert, hook):
    client.load(bert, exact("numpy"))

    def lose(step, stop):
        hook.at_step = lambda step, stop: None
        raise DeviceLostError("lost")

    hook.at_step = lose
    assert len(encode(client).tokens) == 8
    assert client.until(ExecutorChanged).executor.backend == "cpu"


def test_rows_and_maps_as_a_file(client, bert, tmp_path):
    client.load(bert)
    encode(client)
    row = client.result(ReadAttentionRows(1, "from", "layer-mean", layer=0))
    assert len(row.weights) == 8 and row.weights[5] > 0 and sum(row.weights) == pytest.approx(1)
    assert len(client.result(ReadAttentionRows(6, "to", "rollout")).weights) == 8
    path = tmp_path / "maps.npz"
    exported = client.result(ExportMaps(str(path), ((0, 0), (1, 1))))
    assert exported == MapsExported(str(path))
    with np.load(path) as arrays:
        assert arrays["probs"].shape == (2, 8, 8)


def test_what_is_of_writing_is_refused_with_a_sentence(client, bert):
    client.load(bert)
    assert FOR_CHATS in client.refusal()
    for command in (Inspect(0), ReadEffect()):
        with pytest.raises(RequestError, match=FOR_CHATS):
            client.result(command)
    handle = client.send(MeasureModes(exact()))
    assert FOR_CHATS in client.end_of(handle)
    assert FOR_CHATS in client.end_of(client.send(StartServing()))
    assert not client.of(ServingChanged)


def test_texts_for_what_is_no_encoder_and_too_few(client, bert, tiny_llama):
    client.load(tiny_llama)
    with pytest.raises(RequestError, match="is no encoder"):
        encode(client)
    client.load(bert)
    with pytest.raises(RequestError, match="two texts or more"):
        client.result(CompareTexts((TEXT,)))


def test_a_long_text_says_what_is_left_out(client, bert):
    most = client.load(bert).model.encoder.most_tokens
    told = encode(client, "cat " * (most + 5))
    assert len(told.tokens) == most and told.left_out == 7
    assert told.tokens[-1].text == "[SEP]"


@pytest.mark.vulkan
@pytest.mark.parametrize("name", ["qwen3 last", "qwen2 both ways", "gemma3 windows"])
def test_a_decoder_that_makes_vectors_is_an_encoder_in_the_window(name, client, device, tmp_path):
    """Its page: tokens with what stands around the text, similarities of texts, maps; on the device
    as on the processor."""
    path, known = written(name, tmp_path / "m"), pooled(name)
    expected = cosines(known["vectors"])
    client.engine.device_lost(device)
    for backend in ("cpu", "vulkan"):
        model = client.load(path, exact(backend)).model
        assert model.embeds and not model.continues and model.encoder.mask_token == ""
        compared = client.result(CompareTexts(TEXTS))
        np.testing.assert_allclose(compared.similarities, expected, atol=2e-3)
        told = client.result(EncodeText(TEXTS[0]))
        assert [token.token for token in told.tokens] == known["ids0"].tolist()
        assert FOR_CHATS in client.refusal()
