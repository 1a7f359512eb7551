"""config.json of a Hugging Face directory: every field that a model definition reads, with absurd
values; and the small files beside it."""

from __future__ import annotations

import json
import random
import re
import shutil
from functools import cache
from inspect import getsource
from pathlib import Path
from typing import Any

from llm_lite.core.formats import huggingface_reader as reader
from llm_lite.core.models import gemma3, gemma4, ministral3, smollm3
from llm_lite.core.models.description import decoder, rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import rows_of
from llm_lite.core.models.gemma3n import config as gemma3n
from llm_lite.core.models.registry import ARCHITECTURES
from tests.families import family_of
from tests.family_checks import write_case
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.doors.safetensors import LLAMA
from tests.fuzz.mutations import change_json, mutate_bytes, odd_value, special_file, to_json
from tests.make_huggingface import GEMMA3N_CONFIG, gemma3n_tensors, llama_tensors, write_folder

_READERS = (reader, decoder, rope, gemma3, gemma3n, gemma4, ministral3, smollm3)
_READ = re.compile(
    r"config\.(?:get|has|part|text|integer|number|flag|list_of|must_be|error)\(\s*\"(\w+)\""
    r"|part\.(?:text|integer|number)\(\s*\"(\w+)\""
)
GEMMA = {**GEMMA3N_CONFIG, "hidden_size": 16, "vocab_size": 264, "vocab_size_per_layer_input": 260}
GEMMA |= {"intermediate_size": [12, 12, 9, 12, 12, 12], "num_attention_heads": 2, "head_dim": 4}
GEMMA |= {"num_key_value_heads": 1, "hidden_size_per_layer_input": 4, "laurel_rank": 3}
_FAMILIES = ("gemma3", "gemma4", "granite", "ministral3", "phi3", "qwen3", "smollm3")
ROPES: tuple[Any, ...] = (
    {"rope_type": "linear", "factor": 2.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    {"type": "yarn", "factor": 4.0},
    {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 2.0},
    {"type": "longrope", "short_factor": [1.0] * 5, "long_factor": [2.0] * 5},
    {"rope_theta": 500.0},
    GEMMA3N_CONFIG["rope_parameters"],
)
_BESIDE = ("tokenizer_config.json", "generation_config.json", "special_tokens_map.json")
_TOLD: tuple[Any, ...] = (
    {"eos_token_id": [1, 2, 3]},
    {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<|im_start|>"},
    {"chat_template": [{"name": "default", "template": "{{ messages }}"}]},
    {"unk_token": "nothing", "add_bos_token": True},
)


@cache
def fields() -> tuple[str, ...]:
    """Every field that a reader asks a config for, of its rows and in the readers' own source."""
    found = {a or b for module in _READERS for a, b in _READ.findall(getsource(module))}
    for architecture in ARCHITECTURES.values():
        found |= fields_of(architecture)
    return tuple(sorted(found | {"vocab_size", "eos_token_id", "rope_scaling", "rope_theta"}))


def fields_of(architecture: Architecture) -> set[str]:
    rows = rows_of(architecture.config).values()
    named = {row.checkpoint for row in rows if isinstance(row.checkpoint, str)}
    return named | {key for key, _, _ in architecture.must_be}


@cache
def folders() -> dict[str, tuple[Path, dict[str, Any]]]:
    """A directory of each architecture, made once in each process."""
    parts = {
        "llama": (LLAMA, llama_tensors(LLAMA)),
        "gemma": (GEMMA, gemma3n_tensors(GEMMA)),
    }
    place = Path.cwd() / "tmp"
    made = {
        name: (write_folder(place / name, config, tensors), dict(config))
        for name, (config, tensors) in parts.items()
    }
    for name in _FAMILIES:
        family = family_of(name)
        case = list(family.cases)[-1]
        made[name] = write_case(family, case, place / name, raw=True), family.raw(case)
    return made


def use(case: Case) -> Result:
    rng, folder = case.rng, case.folder / "m"
    source, config = folders()[rng.choice(("llama", "gemma", "llama", "gemma", *_FAMILIES))]
    shutil.copytree(source, folder)
    config = json.loads(json.dumps(config))
    if rng.random() < 0.2:
        config = {"text_config": config, "model_type": config["model_type"].removesuffix("_text")}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change_config(config.get("text_config", config), rng)
    raw = to_json(config)
    if rng.random() < 0.1:
        raw = mutate_bytes(raw, rng)
    (folder / "config.json").write_bytes(raw)
    if rng.random() < 0.01:
        special_file(folder / rng.choice(("config.json", "tokenizer.json", *_BESIDE)), rng)
    elif rng.random() < 0.25:
        change_beside(folder / rng.choice(_BESIDE), rng)
    return whole.run(folder, rng)


def change_config(config: Any, rng: random.Random) -> None:
    if not isinstance(config, dict):
        return
    choice = rng.random()
    if choice < 0.1:
        config[rng.choice(("rope_scaling", "rope_parameters"))] = json.loads(
            json.dumps(rng.choice(ROPES))
        )
    elif choice < 0.3:
        change_json(config, rng)
    else:
        config[rng.choice(fields())] = odd_value(rng)


def change_beside(path: Path, rng: random.Random) -> None:
    value = (
        json.loads(path.read_text()) if path.exists() else json.loads(json.dumps(rng.choice(_TOLD)))
    )
    change_json(value, rng)
    path.write_bytes(to_json(value))


def prepare() -> None:
    whole.prepare()
    fields()
    folders()


DOOR = Door("config", use, prepare)
