"""Hugging Face directories of BERT, RoBERTa, EmbeddingGemma, T5, Marian, BART and BLOOM: their
fields, and the files of their tokenizers and of sentence-transformers."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from llm_lite.core.models.description.rows import rows_of
from llm_lite.core.models.registry import MODEL_TYPES
from tests import encoder_checks, family_checks, seq2seq_checks
from tests.encoder_families import family_of as encoder_family
from tests.families import family_of
from tests.fixtures.seq2seq import bart, marian, t5
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.doors.config import ROPES
from tests.fuzz.doors.families import embed, translate
from tests.fuzz.mutations import change_json, mutate_bytes, odd_value, special_file, to_json
from tests.paths import FIXTURES

_MORE_FIELDS = ("rope_scaling", "rope_parameters", "vocab_size", "tie_word_embeddings", "n_inner")
_MORE_FIELDS += ("num_attention_heads", "n_head", "encoder_attention_heads", "decoder_ffn_dim")
_MORE_FIELDS += ("bad_words_ids", "task_specific_params", "pad_token_id", "architectures", "d_ff")
# What a person's checkpoint may have beside its config, and what may be in it.
_BESIDE: dict[str, tuple[Any, ...]] = {
    "tokenizer_config.json": (
        {"added_tokens_decoder": {"3": {"content": "[SEP]"}, "²": {"content": "</s>"}}},
        {"do_lower_case": False, "strip_accents": None, "tokenize_chinese_chars": True},
        {"sep_token": {"content": "[SEP]"}, "cls_token": "[CLS]", "mask_token": 5},
    ),
    "special_tokens_map.json": ({"unk_token": "<unk>", "pad_token": {"content": "<pad>"}},),
    "generation_config.json": ({"num_beams": 3, "early_stopping": True, "length_penalty": 0.6},),
    "sentence_bert_config.json": ({"max_seq_length": 16, "do_lower_case": False},),
    "config_sentence_transformers.json": ({"prompts": {"query": "task: ", "document": ""}},),
    "modules.json": ([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}],),
    "1_Pooling/config.json": ({"pooling_mode": "mean"}, {"pooling_mode_cls_token": True}),
    "2_Dense/config.json": ({"in_features": 3, "out_features": 2},),
    "vocab.json": ({"</s>": 0, "<unk>": 1, "▁a": 2},),
}
_PLAIN = ("vocab.txt", "source.spm", "target.spm", "2_Dense/model.safetensors")


@cache
def folders() -> dict[str, tuple[Path, Callable[[Path, random.Random], Result]]]:
    """A directory of each kind, made once in each process, and what is done with it."""
    place = Path.cwd() / "tmp"
    made: dict[str, tuple[Path, Callable[[Path, random.Random], Result]]] = {}
    for name, case in (
        *(("bert", "masked"), ("bert", "several"), ("roberta", "masked")),
        ("embedding_gemma", "windows"),
    ):
        family = encoder_family(name)
        folder = encoder_checks.write_case(family, case, place / f"{name}-{case}")
        made[folder.name] = folder, embed
    for name, module in (("t5", t5), ("marian", marian), ("bart", bart)):
        folder = seq2seq_checks.write_case(module.FAMILY, "plain", place / name)
        made[name] = folder, translate
    folder = seq2seq_checks.write_case(marian.FAMILY, "plain", place / "marian-pieces")
    _write_pieces(folder)
    made[folder.name] = folder, translate
    bloom = family_of("bloom")
    made["bloom"] = family_checks.write_case(bloom, "plain", place / "bloom"), whole.run
    return made


def _write_pieces(folder: Path) -> None:
    """Two SentencePiece models, and a vocabulary of as many ids as the embedding has rows."""
    rows = seq2seq_checks.VOCABULARY
    fixture = FIXTURES / "marian_tokenizer"
    for name in ("source.spm", "target.spm"):
        shutil.copy(fixture / name, folder / name)
    known = json.loads((fixture / "vocab.json").read_text())
    ids = {token: number for token, number in known.items() if number < rows}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "tokenizer.json").unlink()


@cache
def _fields(model_type: str) -> tuple[str, ...]:
    architecture = MODEL_TYPES[model_type]
    rows = rows_of(architecture.config).values()
    named = {row.checkpoint for row in rows if isinstance(row.checkpoint, str)}
    named |= {key for key, _, _ in architecture.must_be}
    return (*sorted(named), *_MORE_FIELDS)


def use(case: Case) -> Result:
    rng, folder = case.rng, case.folder / "m"
    source, run = folders()[rng.choice(tuple(folders()))]
    shutil.copytree(source, folder)
    if rng.random() < 0.55:
        change_config(folder / "config.json", rng)
    else:
        there = [name for name in _PLAIN if (folder / name).is_file()]
        for name in sorted(
            {rng.choice((*_BESIDE, *there, *there)) for _ in range(rng.choice((1, 1, 2)))}
        ):
            change_beside(folder / name, rng)
    return run(folder, rng)


def change_config(path: Path, rng: random.Random) -> None:
    config = json.loads(path.read_text())
    fields = _fields(config["model_type"])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        choice = rng.random()
        if choice < 0.15:
            config["rope_scaling"] = json.loads(json.dumps(rng.choice(ROPES)))
        elif choice < 0.3:
            change_json(config, rng)
        elif choice < 0.65:
            whole_ones = [key for key, value in config.items() if type(value) is int]
            if whole_ones:
                config[rng.choice(whole_ones)] = rng.choice((0, 1, 2, 3, 7, 48, 1 << 24, 1 << 62))
        else:
            config[rng.choice(fields)] = odd_value(rng)
    path.write_bytes(to_json(config))


def change_beside(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.03 and path.is_file():
        special_file(path, rng)
        return
    name = path.name if path.parent.name == "m" else f"{path.parent.name}/{path.name}"
    if name not in _BESIDE:
        path.write_bytes(mutate_bytes(path.read_bytes(), rng))
        return
    path.parent.mkdir(exist_ok=True)
    if path.is_file() and rng.random() < 0.7:
        value = json.loads(path.read_text())
    else:
        value = json.loads(json.dumps(rng.choice(_BESIDE[name])))
    for _ in range(rng.choice((0, 1, 1, 2))):
        change_json(value, rng)
    path.write_bytes(to_json(value))


def prepare() -> None:
    whole.prepare()
    folders()


DOOR = Door("checkpoints", use, prepare)
