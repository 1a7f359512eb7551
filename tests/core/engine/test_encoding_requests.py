"""The engine with an encoder: texts, pairs, masks and vectors, in every weight mode."""

import numpy as np
import pytest

from llm_lite.core.inspect.text_maps import text_maps
from llm_lite.core.messages import (
    EncodeText,
    TextEncoded,
)
from tests.encoder_checks import started, write_case
from tests.encoder_families import family_of
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


def encode(client, text=TEXT, request=1, **changes):
    client.send(EncodeText(request, text, **changes))
    return client.until(TextEncoded)


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
    assert model.kind == "encoder" and model.encoder is not None
    assert model.encoder.most_tokens == model.context
    assert model.encoder.mask_token == "[MASK]" and model.encoder.has_pairs


@pytest.mark.vulkan
def test_a_text_its_tokens_and_maps(loaded, reference):
    told = encode(loaded)
    names = [token.text for token in told.tokens]
    assert names == ["[CLS]", "the", "cat", "sat", "on", "the", "cat", "[SEP]"]
    assert [token.special for token in told.tokens] == [True, *[False] * 6, True]
    assert not told.problem and not told.left_out and not told.masks and told.seconds > 0
    ids = [token.token for token in told.tokens]
    found = map_of(loaded.engine.attention())
    assert np.abs(found - reference_maps(reference, ids)).max() < 1e-4
    assert np.triu(found, 1).max() > 0.01, "tokens look at those behind them"
