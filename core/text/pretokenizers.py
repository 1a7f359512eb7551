"""How byte-level BPE cuts text into words before merging: one rule for each name in GGUF files.

The patterns are those published in the models' tokenizer.json files. Unicode normalisation, which
some of these (Qwen's NFC) also ask for, is not recorded in GGUF and not applied: what the user
typed is what the model reads.
"""

from __future__ import annotations

from dataclasses import dataclass

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + _LETTERS + r"\p{N}{1,3}" + _REST
_QWEN2 = _CONTRACTIONS + _LETTERS + r"\p{N}" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class Rule:
    """Patterns are applied one after the other, each to the words the ones before it left."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word that is a token is taken as it is, without merging


_RULES = {
    ("gpt-2", "phi-2", "mpt", "olmo"): Rule((_GPT2,)),
    ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"): Rule((r"\p{N}", _GPT2)),
    ("llama-bpe", "llama3", "llama-v3", "falcon3"): Rule((_LLAMA3,), whole_words=True),
    ("dbrx", "smaug-bpe"): Rule((_LLAMA3,)),
    ("qwen2", "deepseek-r1-qwen", "stablelm2"): Rule((_QWEN2,)),
    ("tekken",): Rule((_TEKKEN,), whole_words=True),
    ("default",): Rule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
}
RULES: dict[str, Rule] = {name: rule for names, rule in _RULES.items() for name in names}
