"""What holds for every family of models: names, shapes, variants, sentences for what is wrong."""

import json
import math

import numpy as np
import pytest

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import LlmLiteError, UnsupportedError
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.description.rows import rows_of
from llm_lite.core.models.description.tensors import KnownShape
from llm_lite.core.models.registry import ARCHITECTURES, MODEL_TYPES, architecture_of, read_model
from tests.families import VOCABULARY, family_of
from tests.family_checks import NAMES, TOLERANCE, reference, write_case
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running
from tests.tiers import tiered

FAMILIES = {name: family_of(name) for name in NAMES}
MODES = ("fp16", "int8", "int4")


def first(family):
    return next(iter(family.cases))


@pytest.fixture(scope="module", params=NAMES)
def opened(request, tmp_path_factory):
    """(family, source) of the first case."""
    family = FAMILIES[request.param]
    folder = write_case(family, first(family), tmp_path_factory.mktemp(family.name) / "m")
    return family, open_source(folder)


def refused(metadata, weights, source, error=LlmLiteError):
    with pytest.raises(error) as caught:
        read_model(metadata, weights, source.path)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 400
    return text


def test_every_architecture_has_a_family():
    known = {MODEL_TYPES[str(family.config["model_type"])].gguf for family in FAMILIES.values()}
    elsewhere = {
        "gemma3n",
        "bert",
        "roberta",
        "distilbert",
        "gemma-embedding",
        "t5",
        "marian",
        "bart",
    }
    assert known | elsewhere == set(ARCHITECTURES)


def test_shapes_are_known_without_the_tensors(opened):
    _, source = opened
    architecture = architecture_of(source.metadata, source.path)
    sizes = {name: tensor.shape for name, tensor in source.tensors.items()}
    asked = {name: size for name, size in sizes.items() if "token_embd" in name}
    shapes = architecture.shapes_of(source.metadata, source.path, sizes=asked)
    assert shapes == [(name, sizes[name]) for name, _ in shapes]
    optional = {"output.weight", "rope_freqs.weight"}
    assert set(sizes) - {name for name, _ in shapes} <= optional | {
        name for name in sizes if "attn_v" in name or "exp_probs_b" in name
    }


def test_a_tensor_that_is_missing_wrong_or_too_many_is_named(opened):
    _, source = opened
    architecture = architecture_of(source.metadata, source.path)
    config = architecture.config_of(source.metadata, source.tensors, source.path)
    known = {n: KnownShape(n, t.dtype, t.shape) for n, t in source.tensors.items()}
    needed = {name for name, _ in architecture._shapes(config, lambda name: False)}
    for name, weight in known.items():
        if name in needed:
            left = {other: one for other, one in known.items() if other != name}
            assert f"tensor {name} is missing" in refused(source.metadata, left, source)
        if "token_embd" not in name:
            shape = (*weight.shape[:-1], weight.shape[-1] + 1)
            wrong = known | {name: KnownShape(name, "f32", shape)}
            text = refused(source.metadata, wrong, source)
            assert f"tensor {name}: expected shape {weight.shape}, found {shape}" in text
    more = known | {"blk.0.surplus.bias": KnownShape("blk.0.surplus.bias", "f32", (4,))}
    text = refused(source.metadata, more, source, UnsupportedError)
    assert text.endswith(f"'blk.0.surplus.bias' has no place in a {architecture.title} model")


ABSURD = (-1, 1 << 62, 10**400, math.nan, "x", True, [], {}, [1, 2])


def test_every_field_of_gguf_is_refused_by_its_name(opened):
    _, source = opened
    architecture = architecture_of(source.metadata, source.path)
    for row in rows_of(architecture.config).values():
        key = f"{architecture.gguf}.{row.gguf}"
        refusals = []
        for value in ABSURD:
            try:
                read_model({**source.metadata, key: value}, source.tensors, source.path)
            except LlmLiteError as error:
                refusals.append(str(error))
        assert len(refusals) >= 6, key
        assert all(len(text) < 400 and "\n" not in text for text in refusals)
        assert sum(f"{key}: expected " in text for text in refusals) >= 6, key


def test_every_field_of_a_config_is_refused_by_its_name(opened, tmp_path):
    family, source = opened
    architecture = architecture_of(source.metadata, source.path)
    rows = rows_of(architecture.config).values()
    fields = {row.checkpoint for row in rows if isinstance(row.checkpoint, str)}
    folder = write_case(family, first(family), tmp_path, raw=True)
    config = folder / "config.json"
    known = json.loads(config.read_text())
    for number, field in enumerate(sorted(fields)):
        for value in (-1, 10**400, "x", True)[number % 2 :: 2]:
            if value is True and field in ("altup_correct_scale", "norm_topk_prob"):
                continue
            config.write_text(json.dumps({**known, field: value}))
            with pytest.raises(LlmLiteError) as caught:
                open_source(folder)
            assert f"config.json: {field} is " in str(caught.value), (field, value)


def test_towers_are_left_out_with_a_note(opened, tmp_path):
    family, source = opened
    known = reference(family, first(family))
    tensors = {name: entry(family.values(name, shape)) for name, shape in known.shapes.items()}
    one = entry(np.ones((2, 3), np.float32))
    tensors |= {"model.vision_tower.a.weight": one, "model.audio_tower.b.0.weight": one}
    write_folder(tmp_path, known.config, tensors, tokens=VOCABULARY)
    found = open_source(tmp_path)
    assert set(found.tensors) == set(source.tensors)
    assert found.notes == tuple(
        f"the {tower} tower (1 tensors) is not used: this is the text model"
        for tower in ("vision", "audio")
    )


def test_a_vocabulary_that_is_not_the_embeddings(opened, tmp_path):
    family, _ = opened
    folder = write_case(family, first(family), tmp_path, vocab_size=VOCABULARY + 1)
    with pytest.raises(
        LlmLiteError, match=f"vocab_size is {VOCABULARY + 1}, expected {VOCABULARY}"
    ):
        open_source(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_is_the_same_model(name, tmp_path):
    """Its metadata says all that the config.json does, and its tensors are those of the graph."""
    family = FAMILIES[name]
    case = list(family.cases)[-1]
    known = reference(family, case)
    file = loader.open_model(str(write_case(family, case, tmp_path / "m")), lambda *_: None, print)
    quantize(file, tmp_path / "variant", "fp32")
    file.close()
    options = exact("cpu", context=family.context.get(case, 0))
    with running(tmp_path / "variant", options, every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
    assert np.abs(logits - known.logits).max() < TOLERANCE


@tiered(
    "name, mode",
    [(name, mode) for name in NAMES for mode in MODES],
    first=[(name, MODES[number % 3]) for number, name in enumerate(NAMES)],
)
def test_other_modes_answer_nearly_alike(name, mode, tmp_path):
    family = FAMILIES[name]
    known = reference(family, first(family))
    path = write_case(family, first(family), tmp_path)
    with running(path, exact("cpu", mode=mode), every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
    spread = known.logits.std()
    error = np.sqrt(np.square(logits - known.logits).mean()) / spread
    assert error < family.sensitivity * {"fp16": 0.01, "int8": 0.05, "int4": 0.6}[mode]
