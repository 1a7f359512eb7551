"""Measurements and checks by hand import, though no test runs them."""

import importlib

from tests.paths import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("tools/bench", "tools/cross", "tools/tour", "tests/fixtures", "tests/sanitize")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.startswith(("test_", "__"))
)
# Installed for a script alone.
NEED = ("torch", "transformers", "llama_cpp", "accelerate", "gguf")
NEED += ("sentencepiece", "sentence_transformers", "tiktoken", "ik_llama_cpp")
NEED += ("agents", "langchain_core", "langchain_openai")


def test_they_can_be_imported():
    refused = {}
    for module in MODULES:
        try:
            importlib.import_module(module)
        except Exception as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if (missing or "").partition(".")[0] not in NEED:
                refused[module] = repr(error)
    assert not refused, "\n".join(map(str, refused.items()))
