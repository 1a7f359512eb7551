"""A family's tiny checkpoints beside the logits of transformers: tests/families.py made them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gguf import MODEL_ARCH_NAMES, GGUFWriter, TensorNameMap, get_tensor_name_map

from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import ReadRouting
from llm_lite.core.models.registry import architecture_of
from llm_lite.core.plan.step import PAGE
from tests.asking import asked
from tests.families import VOCABULARY, Family
from tests.make_gguf import tokenizer_metadata
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.paths import FIXTURES
from tests.runners import exact, running

NAMES = sorted(path.stem for path in (FIXTURES / "families").glob("*.npz"))
# Families some of whose layers have a recurrent state, those with experts, and those with both
RECURRENT = ("qwen3_5", "lfm2")
RECURRENT_MIXTURES = ("qwen3_5_moe", "qwen3_next", "lfm2_moe")
MIXTURES = (*RECURRENT_MIXTURES, "qwen3_moe", "olmoe", "gpt_oss", "granite_moe", "gemma4_moe")
TOLERANCE = 2e-3
CUTS = ((3, 8, 9, 20, 24, 63, 66, 80), tuple(range(1, 81)))  # of texts as long as that


@cache
def stored(name: str) -> Mapping[str, Any]:
    with np.load(FIXTURES / "families" / f"{name}.npz") as arrays:
        return dict(arrays)


@dataclass(frozen=True)
class Reference:
    """What transformers made of a case."""

    config: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    tokens: list[int]
    logits: np.ndarray  # float32 [tokens, vocabulary]


def reference(family: Family, case: str) -> Reference:
    arrays = stored(family.name)
    config, shapes = (json.loads(str(arrays[f"{case}.{part}"])) for part in ("config", "shapes"))
    shapes = {name: tuple(shape) for name, shape in shapes.items()}
    tokens = arrays[f"{case}.tokens"].tolist()
    return Reference(config, shapes, tokens, arrays[f"{case}.logits"])


def write_case(
    family: Family, case: str, folder: Path, *, raw: bool = False, **changes: object
) -> Path:
    """The checkpoint, with the config.json of transformers or with that of the hub (`raw`)."""
    known = reference(family, case)
    config = family.raw(case) if raw else known.config
    tensors = {n: entry(family.values(n, shape, case)) for n, shape in known.shapes.items()}
    return write_folder(folder, {**config, **changes}, tensors, tokens=VOCABULARY)


def check_logits(family: Family, case: str, backend: str, folder: Path, device: Any) -> None:
    """In one prefill, in uneven chunks and token by token."""
    known, path = reference(family, case), write_case(family, case, folder)
    options = exact(backend, context=family.context.get(case, 0))
    assert 4 < np.abs(known.logits).max() < 40
    with running(path, options, device=device, every_output=True) as runner:
        session = runner.session
        assert np.abs(session.logits(known.tokens) - known.logits).max() < TOLERANCE
        for cuts in CUTS:
            session.clear()
            for end in (cut for cut in cuts if cut <= len(known.tokens)):
                found = session.prefill(known.tokens[:end])
                assert np.abs(found - known.logits[end - 1]).max() < TOLERANCE, end


def check_routing(family: Family, case: str, backend: str, folder: Path, device: Any) -> None:
    """The experts that tokens chose, and their shares, as a session keeps them: of a prompt in
    chunks, then of single tokens."""
    known, path, arrays = (
        reference(family, case),
        write_case(family, case, folder),
        stored(family.name),
    )
    options = exact(backend, context=family.context.get(case, 0))
    with running(path, options, device=device) as runner:
        session, half = runner.session, len(known.tokens) // 2
        session.prefill(known.tokens[:half])
        for token in known.tokens[half:]:
            session.decode(token)
        found = Routing.of(asked(ReadRouting(), runner))
        later = Routing.of(asked(ReadRouting(half), runner))
    assert (found.first, later.first) == (0, half)
    np.testing.assert_array_equal(later.chosen, found.chosen[half:])
    np.testing.assert_array_equal(found.chosen, arrays[f"{case}.experts"])
    assert np.abs(found.shares - arrays[f"{case}.shares"]).max() < 1e-4


def check_switched_off(family: Family, case: str, backend: str, folder: Path, device: Any) -> None:
    """Logits where one expert counts 0, and again as before once it counts."""
    known, path = reference(family, case), write_case(family, case, folder)
    arrays = stored(family.name)
    options = exact(backend, context=family.context.get(case, 0))
    with running(path, options, device=device, every_output=True) as runner:
        session, info = runner.session, runner.model_info
        router, expert = arrays[f"{case}.off"].tolist()
        gains = [list(row) for row in session.gains]
        gains[info.layers + info.expert_layers[router]][expert] = 0.0
        plain = session.gains
        session.set_gains(tuple(map(tuple, gains)), throughout=True)
        found = session.logits(known.tokens)
        assert np.abs(found - arrays[f"{case}.off_logits"]).max() < TOLERANCE
        session.set_gains(plain, throughout=True)
        assert np.abs(session.logits(known.tokens) - known.logits).max() < TOLERANCE


def check_rings(family: Family, case: str, folder: Path) -> None:
    """Sliding layers keep less than a long text; its logits are those of whole caches."""
    path = write_case(family, case, folder, max_position_embeddings=4 * PAGE)
    tokens = (reference(family, case).tokens * PAGE)[: 3 * PAGE]
    found = []
    for whole in (False, True):
        options = exact("cpu", context=4 * PAGE, whole_caches=whole)
        with running(path, options, every_output=True) as runner:
            rows = {layer.rows for layer in runner.session.cache.layers}
            assert (min(rows) < len(tokens)) is not whole
            found.append(runner.session.logits(tokens))
    assert np.abs(found[0] - found[1]).max() < TOLERANCE


def check_gguf(family: Family, case: str, folder: Path) -> None:
    """The same weights in a GGUF file, keys and names by the `gguf` package."""
    known, path = reference(family, case), folder / "m.gguf"
    write_gguf(family, case, path)
    options = exact("cpu", context=family.context.get(case, 0))
    with running(path, options, every_output=True) as runner:
        logits = runner.session.logits(known.tokens)
    assert np.abs(logits - known.logits).max() < TOLERANCE


def check_hub_config(family: Family, case: str, folder: Path) -> None:
    """A config.json of the hub says the same as what transformers writes."""
    configs = []
    for name, raw in (("raw", True), ("written", False)):
        source = open_source(write_case(family, case, folder / name, raw=raw))
        architecture = architecture_of(source.metadata, source.path)
        configs.append(architecture.config_of(source.metadata, source.tensors, source.path))
    assert configs[0] == configs[1]


def write_gguf(family: Family, case: str, path: Path) -> None:
    known, config = reference(family, case), family.common(case)
    writer = GGUFWriter(path, family.gguf or MODEL_ARCH_NAMES[family.arch])
    write_common(writer, config)
    family.fields(writer, config)
    write_tokenizer(writer)
    names = get_tensor_name_map(family.arch, config["num_hidden_layers"])
    tensors = {name: family.values(name, shape, case) for name, shape in known.shapes.items()}
    if family.stand_in is not None and family.stand_in.in_gguf:
        tensors = family.stand_in.tensors(tensors, config)
    for name, checkpoint in with_stacked_experts(family.apart(tensors)).items():
        own, values = family.to_gguf(name, checkpoint, config)
        found = own or gguf_name(names, name)
        if family.is_centred(name) and values.ndim == 1 and "norm" in name:
            values = values + np.float32(1)
        if (family.permuted and ".q_proj" in name) or (family.permuted and ".k_proj" in name):
            values = permuted(values, head_dim(config))
        if name.endswith(family.in_turns or ("\0",)):
            turns = values.reshape(config["num_attention_heads"], 3, -1).swapaxes(0, 1)
            values = np.ascontiguousarray(turns).reshape(values.shape)
        if name.endswith(family.transposed):
            values = np.ascontiguousarray(values.T)
        writer.add_tensor(found, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def with_stacked_experts(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The matrices of a layer's experts as one tensor [experts, rows, columns] each."""
    stacks: dict[str, dict[int, np.ndarray]] = {}
    for name, values in tensors.items():
        number = re.search(r"(?<=\.experts\.)\d+(?=\.)", name)
        stem = re.sub(r"(?<=\.experts)\.\d+(?=\.)", "", name)
        stacks.setdefault(stem, {})[int(number[0]) if number else -1] = values
    return {
        name: parts[-1] if -1 in parts else np.stack([parts[i] for i in range(len(parts))])
        for name, parts in stacks.items()
    }


def gguf_name(names: TensorNameMap, name: str) -> str:
    tried = (name, name.removeprefix("transformer."), name.replace(".language_model.", "."))
    both = (names.get_name(one, try_suffixes=(".weight", ".bias")) for one in tried)
    found = next((one for one in both if one is not None), None)
    assert found is not None, name
    return found + ("" if name.endswith((".weight", ".bias")) else ".weight")


def head_dim(config: Mapping[str, Any]) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def permuted(values: np.ndarray, d: int) -> np.ndarray:
    """Rows of each head so that those of a pair are neighbours."""
    heads = values.reshape(-1, 2, d // 2, *values.shape[1:])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(values.shape)


def write_common(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    heads = config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config.get("intermediate_size") or 4 * config["hidden_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(head_dim(config))
    writer.add_value_length(head_dim(config))
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))


def write_tokenizer(writer: GGUFWriter) -> None:
    made = {k.removeprefix("tokenizer."): v for k, v in tokenizer_metadata(VOCABULARY).items()}
    writer.add_tokenizer_model(made["ggml.model"])
    writer.add_tokenizer_pre(made["ggml.pre"])
    writer.add_token_list(made["ggml.tokens"])
    writer.add_token_types(made["ggml.token_type"])
    writer.add_token_merges(made["ggml.merges"])
    writer.add_bos_token_id(made["ggml.bos_token_id"])
    writer.add_eos_token_id(made["ggml.eos_token_id"])
