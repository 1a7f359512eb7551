"""Measurements and checks by hand import, though no test runs them."""

import importlib

import pytest

from tests.paths import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("bench", "cross", "fixtures", "sanitize")
    for path in (ROOT / "tests" / folder).rglob("*.py")
    if not path.name.startswith(("test_", "__"))
)
# Installed for a script alone.
NEED = ("torch", "transformers", "llama_cpp", "accelerate", "gguf")
NEED += ("sentencepiece", "sentence_transformers")


@pytest.mark.parametrize("module", MODULES)
def test_it_can_be_imported(module):
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEED:
            raise
