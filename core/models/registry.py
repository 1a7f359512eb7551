"""The one list of architectures, by their names in GGUF files and in config.json."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.bart import BART
from llm_lite.core.models.bloom import BLOOM
from llm_lite.core.models.cohere import COHERE, COHERE_2
from llm_lite.core.models.description.architecture import (
    Architecture,
    Metadata,
    Tensors,
    Translated,
)
from llm_lite.core.models.description.slices import Cutter
from llm_lite.core.models.encoders.bert import BERT
from llm_lite.core.models.encoders.distilbert import DISTILBERT
from llm_lite.core.models.encoders.embedding_gemma import EMBEDDING_GEMMA
from llm_lite.core.models.encoders.roberta import ROBERTA
from llm_lite.core.models.ernie4_5 import ERNIE_4_5
from llm_lite.core.models.exaone4 import EXAONE_4
from llm_lite.core.models.gemma import GEMMA_1
from llm_lite.core.models.gemma2 import GEMMA_2
from llm_lite.core.models.gemma3 import GEMMA_3
from llm_lite.core.models.gemma3n.architecture import GEMMA_3N
from llm_lite.core.models.gemma3n.cut import Gemma3nCutter
from llm_lite.core.models.gemma4 import GEMMA_4, GEMMA_4_UNIFIED
from llm_lite.core.models.glm4 import GLM_4
from llm_lite.core.models.gpt1 import GPT_1
from llm_lite.core.models.gpt2 import GPT_2
from llm_lite.core.models.gpt_neox import GPT_NEOX
from llm_lite.core.models.gpt_oss import GPT_OSS
from llm_lite.core.models.granite import GRANITE
from llm_lite.core.models.granite_moe import GRANITE_MOE
from llm_lite.core.models.hunyuan import HUNYUAN
from llm_lite.core.models.internlm2 import INTERNLM_2
from llm_lite.core.models.lfm2 import LFM2
from llm_lite.core.models.lfm2_moe import LFM2_MOE
from llm_lite.core.models.llama import LLAMA
from llm_lite.core.models.marian import MARIAN
from llm_lite.core.models.ministral3 import MINISTRAL_3
from llm_lite.core.models.model import Model, Slice
from llm_lite.core.models.muse_glimmer import MUSE_GLIMMER
from llm_lite.core.models.olmo import OLMO
from llm_lite.core.models.olmo2 import OLMO_2
from llm_lite.core.models.olmoe import OLMOE
from llm_lite.core.models.phi3 import PHI_3
from llm_lite.core.models.qwen import QWEN
from llm_lite.core.models.qwen2 import QWEN2
from llm_lite.core.models.qwen3 import QWEN3
from llm_lite.core.models.qwen3_5 import QWEN3_5
from llm_lite.core.models.qwen3_5_moe import QWEN3_5_MOE
from llm_lite.core.models.qwen3_moe import QWEN3_MOE
from llm_lite.core.models.qwen3_next import QWEN3_NEXT
from llm_lite.core.models.seed_oss import SEED_OSS
from llm_lite.core.models.smollm3 import SMOLLM3
from llm_lite.core.models.stablelm import STABLE_LM
from llm_lite.core.models.starcoder2 import STARCODER_2
from llm_lite.core.models.t5 import T5
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.builder import WeightSpec

_ALL = (
    LLAMA,
    GEMMA_3N,
    QWEN3,
    MINISTRAL_3,
    SMOLLM3,
    OLMO_2,
    GRANITE,
    GEMMA_3,
    PHI_3,
    GEMMA_4,
    QWEN2,
    GEMMA_2,
    GPT_2,
    BERT,
    ROBERTA,
    DISTILBERT,
    EMBEDDING_GEMMA,
    T5,
    MARIAN,
    BART,
    GPT_1,
    BLOOM,
    GPT_NEOX,
    GEMMA_1,
    STARCODER_2,
    GLM_4,
    SEED_OSS,
    EXAONE_4,
    QWEN3_5,
    STABLE_LM,
    ERNIE_4_5,
    COHERE,
    COHERE_2,
    OLMO,
    HUNYUAN,
    INTERNLM_2,
    QWEN,
    LFM2,
    MUSE_GLIMMER,
    QWEN3_MOE,
    OLMOE,
    GPT_OSS,
    QWEN3_5_MOE,
    GRANITE_MOE,
    LFM2_MOE,
    QWEN3_NEXT,
)
ARCHITECTURES: Mapping[str, Architecture] = {one.gguf: one for one in _ALL}
# Those that GGUF files do not tell from one of these, and config.json does.
_OTHERS = (GEMMA_4_UNIFIED,)
MODEL_TYPES: Mapping[str, Architecture] = {
    kind: one for one in (*_ALL, *_OTHERS) for kind in one.model_types
}

# Those of a config.json whose attention is not causal (use_bidirectional_attention).
_BOTH_WAYS: Mapping[str, Architecture] = {"gemma3_text": EMBEDDING_GEMMA}

_NAMED = 8  # in a sentence about one that is unknown
_CUTTERS = {GEMMA_3N.gguf: Gemma3nCutter}


def read_model(metadata: Metadata, weights: Mapping[str, WeightSpec], path: Path) -> Model:
    """Return the model of a file. UnsupportedError or FileError if it is unknown or does not
    fit."""
    return architecture_of(metadata, path).read(metadata, weights, path)


def architecture_of(metadata: Metadata, path: Path) -> Architecture:
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise FileError(path, "general.architecture: the field is missing or no string")
    if name not in ARCHITECTURES:
        raise _unknown(f"{path}: architecture {quote(name)}", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def translate(config: CheckpointConfig, tensors: Tensors) -> Translated:
    """Translate a Hugging Face checkpoint to GGUF's keys and names. UnsupportedError for an unknown
    model type or feature; FileError that names the field."""
    return architecture_by_config(config).translate(config, tensors)


def architecture_by_config(config: CheckpointConfig) -> Architecture:
    """Return the architecture of a config.json. UnsupportedError for an unknown model type;
    FileError if there is none."""
    kind = config.text("model_type")
    if kind not in MODEL_TYPES:
        raise _unknown(f"{config.path}: model_type {quote(kind)}", kind, MODEL_TYPES)
    if kind in _BOTH_WAYS and config.flag("use_bidirectional_attention", False):
        return _BOTH_WAYS[kind]
    return MODEL_TYPES[kind]


def complete(metadata: Metadata, tensors: Tensors, path: Path) -> Tensors:
    """Return a GGUF file's tensors as graphs know them; of an unknown model as they are."""
    name = metadata.get("general.architecture")
    known = ARCHITECTURES.get(name) if isinstance(name, str) else None
    return tensors if known is None else known.complete(metadata, tensors, path)


def cutter_of(metadata: Metadata, tensors: Tensors, path: Path, cut: Slice) -> Cutter:
    """Return the cutter of a model. UnsupportedError for a model of no kind that can be sliced,
    RequestError for a cut that does not fit it."""
    architecture = architecture_of(metadata, path)
    if architecture.gguf not in _CUTTERS:
        kinds = " or ".join(ARCHITECTURES[name].title for name in _CUTTERS)
        raise UnsupportedError(f"{path}: is no {kinds}, the only kind that can be sliced")
    config = architecture.config_of(metadata, tensors, path)
    return _CUTTERS[architecture.gguf](config, cut)


def _unknown(subject: str, name: str, known: Iterable[str]) -> UnsupportedError:
    """Return an error with the closest of the names that are known, or some where none is close."""
    names = list(known)
    close = difflib.get_close_matches(name[:60], names, 1, cutoff=0.7)
    some = f"known are: {', '.join(names[:_NAMED])} and {len(names) - _NAMED} others"
    hint = f"the closest is {close[0]}" if close else some
    return UnsupportedError(f"{subject} is not known here; {hint}")
