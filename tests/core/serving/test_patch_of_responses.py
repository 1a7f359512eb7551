"""Rows of one response are patched into another, of each kind of model that is served: as of the
same tokens in Python."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import CancelledError, GoneError, RequestError
from llm_lite.core.inspect.text_maps import EVERY_QUERY
from llm_lite.core.messages import CommandProgress
from llm_lite.core.messages.interventions import Interventions, Scale
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.question import advance
from llm_lite.core.serving.direct_services import EncoderService, TargetService
from tests import encoder_checks, encoder_families, seq2seq_checks
from tests.asking import parts_of
from tests.children import PATIENCE
from tests.core.serving.clients import Asked, serve
from tests.fixtures.seq2seq import t5
from tests.runners import exact, running

EXACT = {"backend": "cpu", "keys": "fp32", "values": "fp32", "activations": "a32"}
OTHER = Interventions((Scale("layers.0.attention.heads", 0.0, unit=1),))
Served = tuple[Any, str, str, Callable[..., Any]]


@contextmanager
def decoder(folder: Path, client: Any, path: Path) -> Iterator[Served]:
    client.load(path, exact("cpu", query_budget=EVERY_QUERY))
    service = serve(client, parallel=2)
    texts = {"a": tuple(range(40, 60)), "b": tuple(range(80, 100))}
    for name, tokens in texts.items():
        Asked(service, tokens=tokens, response=name).finished()
    read = {name: service.answer_tokens(name).tokens for name in texts}
    with llm_lite.load(path, **EXACT) as model:
        yield service, "a", "b", lambda **more: model.patch(read["a"], read["b"], **more)


@contextmanager
def encoder(folder: Path, client: Any, path: Path) -> Iterator[Served]:
    written = encoder_checks.write_case(encoder_families.family_of("bert"), "masked", folder / "m")
    runner = encoder_checks.started(written, "cpu")
    texts = [7, 8, 9, 10, 11], [7, 80, 90, 10, 11, 12]
    try:
        service = EncoderService(runner)
        name = service.embed(texts).response
        with llm_lite.load(written, **EXACT) as model:
            yield service, name, f"{name}.1", lambda **more: model.patch(*texts, **more)
    finally:
        runner.close()
        runner.model_file.close()


@contextmanager
def pair(folder: Path, client: Any, path: Path) -> Iterator[Served]:
    written = seq2seq_checks.write_case(t5.FAMILY, "gated", folder / "m")
    with running(written, exact("cpu")) as runner, llm_lite.load(written, **EXACT) as model:
        service = TargetService(runner)
        try:
            for name, text in (("a", "Where is it?"), ("b", "Who is she?")):
                Asked(service, text=text, response=name).finished()
            one, other = service.answer_tokens("a"), service.answer_tokens("b")
            yield (
                service,
                "a",
                "b",
                lambda **more: model.patch(
                    one.source,
                    other.source,
                    target=one.tokens[1:],
                    source_target=list(other.tokens[1:]),
                    **more,
                ),
            )
        finally:
            service.close()


KINDS = {
    decoder: ("layers.0.feed_forward.residual", "layers.1.attention.heads"),
    encoder: ("layers.0.attention.heads", "layers.1.feed_forward.down"),
    pair: ("encoder.layers.0.feed_forward.residual", "decoder.layers.0.feed_forward.residual"),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_response_is_patched_into_another(client, tiny_llama: Path, tmp_path: Path, kind):
    sites = KINDS[kind]
    with kind(tmp_path, client, tiny_llama) as (service, name, other, in_python):
        for more in ({}, {"positions": (1, 3), "source_positions": (2, 4), "each": True}):
            wanted = ReadPatch(sites, tokens=tuple(range(150)), source_response=other, **more)
            found = service.ask(name, wanted)
            expected = in_python(sites=sites, tokens=range(150), **more)
            for field in ("before", "of_source", "after", "logits_before", "logits_after", "kl"):
                one, two = getattr(found, field), getattr(expected, field)
                np.testing.assert_allclose(one, two, atol=2e-3, rtol=1e-3, err_msg=field)
            assert (found.kl > 1e-7).any()
        with pytest.raises(GoneError, match=r"no answer of the name c|nothing of the name c"):
            service.ask(name, ReadPatch(sites, source_response="c"))
        with pytest.raises(RequestError, match="source_response: expected no source besides"):
            service.ask(name, ReadPatch(sites, (7, 8), source_response=other))


def test_the_other_response_has_its_own_interventions(client, tiny_llama: Path):
    client.load(tiny_llama, exact("cpu", query_budget=EVERY_QUERY))
    service = serve(client, parallel=2)
    tokens, end = tuple(range(40, 60)), "layers.1.feed_forward.residual"
    Asked(service, tokens=tokens, response="plain").finished()
    Asked(service, tokens=tokens, response="changed", interventions=OTHER).finished()
    heads = ("layers.0.attention.heads",)
    columns = tuple(range(100))
    last = len(tokens) - 1
    wanted = ReadPatch((end,), (), (last,), source_response="changed", position=last)
    whole = service.ask("plain", wanted)
    off = service.ask("plain", ReadPatch(interventions=OTHER, position=last))
    assert off.kl[0, 0] > 1e-6
    np.testing.assert_allclose(whole.kl, off.kl, rtol=1e-2)
    same = ReadPatch(heads, tokens, (5,), tokens=columns)
    other = ReadPatch(heads, (), (5,), tokens=columns, source_response="changed")
    assert service.ask("plain", same).kl[0, 0] < 1e-6 < service.ask("plain", other).kl[0, 0]


def test_only_a_server_has_responses_by_name(tiny_llama: Path):
    with (
        llm_lite.load(tiny_llama, **EXACT) as model,
        pytest.raises(RequestError, match="source_response: expected nothing, as only a server"),
    ):
        model.patch([7, 8, 9], sites="embedding", source_response="a")


def test_an_answer_is_patched_into_a_text(tiny_llama: Path):
    with llm_lite.load(tiny_llama, **EXACT) as model:
        answer = model.complete("Hello there", temperature=0.0, max_new_tokens=5)
        assert answer.text is not None
        ids = [*answer.prompt, *answer.ids.tolist()]
        found = model.patch(ids[:6], answer, "layers.0.attention.heads", (3,))
        expected = model.patch(ids[:6], ids, "layers.0.attention.heads", (3,))
        np.testing.assert_array_equal(found.after, expected.after)


def test_a_grid_tells_how_far_it_is_and_ends_between_cells(client, tiny_llama: Path):
    client.load(tiny_llama, exact("cpu"))
    client.ask()
    sites = ("layers.0.attention.heads", "layers.0.feed_forward.residual")
    wanted = ReadPatch(sites, tuple(range(60, 75)), tuple(range(10)), each=True)
    handle = client.send(wanted)
    client.until_end(handle)
    assert handle.result(PATIENCE).kl.shape == (2, 10)
    told = client.of(CommandProgress)
    assert [one.fraction for one in told] == [number / 20 for number in range(20)]
    assert {one.stage for one in told} == {"patching"}
    service, cells = serve(client), list[float]()
    Asked(service, tokens=tuple(range(40, 60)), response="r").finished()
    looks: list[int] = []

    def is_unwanted() -> bool:
        looks.append(1)
        return len(looks) > 6

    with pytest.raises(CancelledError):
        service.ask("r", wanted, is_unwanted)
    assert len(looks) == 7
    with running(tiny_llama) as runner:
        runner.session.prefill(range(40, 60))
        parts = parts_of(wanted, runner)
        with pytest.raises(CancelledError):
            while True:
                advance(parts, 0.0, lambda: len(cells) > 3, lambda one: cells.append(one.fraction))
        assert cells == [number / 20 for number in range(4)]
