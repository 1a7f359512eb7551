"""A model for Python by its path or name."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from llm_lite.api.encoder import Encoder
from llm_lite.api.given import engine_options
from llm_lite.api.model import Model
from llm_lite.api.translator import Translator
from llm_lite.core.loading import loader
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import EngineOptions


def load(
    model: str | PathLike[str] | None = None,
    *,
    warn: loader.Warn = lambda text: None,
    **options: Any,
) -> Model:
    """Open a model: a GGUF file, a folder of Hugging Face or a variant, a name of `llm-lite models
    list`, or None for the bundled one.

    `options` are the fields of `core.messages.EngineOptions`, as `backend="cpu"`, `mode="int8"` or
    `context=4096`. `warn` is told what is odd about the file. Raises FileError, UnsupportedError
    and RequestError (all `LlmLiteError`), each with one sentence.
    """
    chosen = engine_options(options)
    file = loader.open_model(None if model is None else fspath(model), lambda *_: None, warn)
    loaded = opened(file, chosen)
    if note := loaded.note:
        warn(note)
    return loaded


def opened(file: ModelFile, options: EngineOptions) -> Model:
    """Return the model of an open file, which closes the file; an encoder is an `Encoder`, an
    encoder-decoder a `Translator`."""
    try:
        kinds = (Encoder, file.model.embeds), (Translator, file.model.translates), (Model, True)
        return next(kind for kind, fits in kinds if fits)(file, options)
    except BaseException:
        file.close()
        raise
