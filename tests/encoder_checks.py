"""Tiny encoders beside what the references make of them: tests/encoder_families.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, PoolingType, get_tensor_name_map

from llm_lite.core.inspect.text_maps import text_maps
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import start_encoder
from tests.encoder_families import VOCABULARY, EncoderFamily, dense_tensors
from tests.make_safetensors import build_safetensors, entry
from tests.paths import FIXTURES
from tests.runners import exact

TOLERANCE = 1e-4  # what is asked for is 2e-3
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@cache
def stored(family: str, case: str) -> dict[str, Any]:
    with np.load(FIXTURES / "encoders" / f"{family}.npz") as arrays:
        return {
            name.removeprefix(f"{case}."): arrays[name]
            for name in arrays
            if name.startswith(f"{case}.")
        }


def words() -> list[str]:
    """A vocabulary of WordPiece: letters at the beginning of words and inside them, some words."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    found = [*SPECIAL, *letters, *(f"##{c}" for c in letters), "the", "cat", "sat", "##ing", "on"]
    return [*found, *(f"word{i}" for i in range(VOCABULARY - len(found)))]


def shapes_of(family: EncoderFamily, case: str) -> dict[str, tuple[int, ...]]:
    shapes = json.loads(str(stored(family.name, case)["shapes"]))
    return {name: tuple(shape) for name, shape in shapes.items()}


def write_case(family: EncoderFamily, case: str, folder: Path, **changes: object) -> Path:
    """As transformers writes it, with a vocab.txt whose separator is the family's."""
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads(str(stored(family.name, case)["config"]))
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    shapes = shapes_of(family, case)
    tensors = {name: entry(family.values(name, shape)) for name, shape in shapes.items()}
    (folder / "model.safetensors").write_bytes(build_safetensors(tensors))
    names = words()
    at = names.index("[SEP]")
    names[at], names[family.separator] = names[family.separator], names[at]
    (folder / "vocab.txt").write_text("\n".join(names) + "\n")
    if case in family.pooling:
        write_modules(family, case, folder)
    return folder


def write_modules(family: EncoderFamily, case: str, folder: Path) -> None:
    modules = ["Transformer", "Pooling"]
    pooling = folder / "1_Pooling"
    pooling.mkdir()
    (pooling / "config.json").write_text(json.dumps(dict(family.pooling[case])))
    if case in family.dense:
        width = json.loads(str(stored(family.name, case)["config"]))["hidden_size"]
        activation = "linear.Identity" if family.linear else "activation.Tanh"
        for number, shapes in enumerate(family.dense_shapes(case, width), 2):
            modules.append("Dense")
            dense = folder / f"{number}_Dense"
            dense.mkdir()
            rows, columns = shapes["linear.weight"]
            config = {"in_features": columns, "out_features": rows, "bias": not family.linear}
            config["activation_function"] = f"torch.nn.modules.{activation}"
            (dense / "config.json").write_text(json.dumps(config))
            tensors = dense_tensors(family, number - 2, shapes)
            (dense / "model.safetensors").write_bytes(
                build_safetensors({name: entry(values) for name, values in tensors.items()})
            )
        modules.append("Normalize")
    listed = [
        {"path": f"{i}_{name}" if i else "", "type": f"sentence_transformers.models.{name}"}
        for i, name in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))


def started(path: Path, backend: str, device: Any = None, **changes: object) -> EncoderRunner:
    file = loader.open_model(str(path), lambda *_: None, lambda text: None)
    return start_encoder(file, exact(backend, **changes), device)


def check_case(family: EncoderFamily, case: str, backend: str, folder: Path, device: Any) -> None:
    """Hidden states, logits, maps and the vector, beside the references'."""
    known = stored(family.name, case)
    runner = started(write_case(family, case, folder), backend, device)
    try:
        tokens, session = known["tokens"].tolist(), runner.session
        assert np.abs(session.hidden(tokens) - known["hidden"]).max() < TOLERANCE
        layers, heads = known["maps"].shape[:2]
        maps = text_maps(runner.attention, session, tokens, range(layers), range(heads))
        assert np.abs(maps - known["maps"]).max() < TOLERANCE
        assert session.has_head == ("logits" in known)
        if session.has_head:
            assert np.abs(session.logits(tokens) - known["logits"]).max() < TOLERANCE
            part = session.logits(tokens, 7, 3)
            assert np.abs(part - known["logits"][7:10]).max() < TOLERANCE
        if "embedding" in known:
            found = runner.embed_tokens([tokens])[0]
            assert np.abs(found - known["embedding"]).max() < TOLERANCE
        check_shared(runner, tokens)
    finally:
        runner.close()
        runner.model_file.close()


def check_shared(runner: EncoderRunner, tokens: list[int]) -> None:
    """Texts that share steps have the vectors that they have alone."""
    texts = [tokens, tokens[:1], tokens[3:12], tokens[::-1], tokens[:5], tokens[1:]] * 7
    together = runner.embed_tokens(texts)
    alone = np.concatenate([runner.embed_tokens([text]) for text in texts[:6]])
    assert np.abs(together.reshape(7, 6, -1) - alone).max() < TOLERANCE


def write_gguf(
    family: EncoderFamily,
    case: str,
    path: Path,
    vocabulary: Callable[[GGUFWriter], None] | None = None,
) -> Path:
    """The encoder as llama.cpp's conversion writes it: RoBERTa's positions from the first that is
    used on; the vocabulary of WordPiece in its own spelling, or another one. No head, which GGUF
    has no names for."""
    config = json.loads(str(stored(family.name, case)["config"]))
    layers, first = config["num_hidden_layers"], 0
    writer = GGUFWriter(path, MODEL_ARCH_NAMES[MODEL_ARCH.BERT])
    if family.name == "roberta":
        first = config["pad_token_id"] + 1
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"] - first)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.CLS)
    writer.add_token_type_count(config["type_vocab_size"])
    if vocabulary is None:
        write_words(writer, family)
    else:
        vocabulary(writer)
    found = get_tensor_name_map(MODEL_ARCH.BERT, layers)
    for name, shape in shapes_of(family, case).items():
        own = name.removeprefix("bert.").removeprefix("roberta.")
        if own.startswith(("cls.", "pooler.", "lm_head.")):
            continue
        values = family.values(name, shape)
        writer.add_tensor(
            found.get_name(own, try_suffixes=(".weight", ".bias")),
            values[first:] if own.startswith("embeddings.position") else values,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_words(writer: GGUFWriter, family: EncoderFamily) -> None:
    names = words()
    at = names.index("[SEP]")
    names[at], names[family.separator] = names[family.separator], names[at]
    writer.add_tokenizer_model("bert")
    writer.add_token_list([spelled_in_gguf(name) for name in names])
    writer.add_sep_token_id(family.separator)
    for name, role in zip(SPECIAL, ("pad", "unk", "bos", "", "mask"), strict=True):
        if role:
            getattr(writer, f"add_{role}_token_id")(names.index(name))


def spelled_in_gguf(token: str) -> str:
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[2:] if token.startswith("##") else "▁" + token
