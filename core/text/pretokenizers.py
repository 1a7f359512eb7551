"""The rules by which pair encoding cuts text into words before merging: one for each name in GGUF
files.

The names are those that conversion writes as `tokenizer.ggml.pre`: llama-bpe (Llama 3), smaug-bpe
(SmolLM3), qwen2 (Qwen2 to Qwen3), qwen35, tekken (Mistral, Ministral), gpt-4o (Phi-4-mini,
gpt-oss), dbrx (Phi-4, OLMo 2, Granite 4), refact (Granite 3), smollm, glm4, seed-coder (Seed-OSS),
gpt-2, olmo (Pythia), stablelm2, exaone4, superbpe, bloom, hunyuan and hunyuan-dense, deepseek-coder
and deepseek-llm (of Llama's architecture). The patterns are those published in the models'
tokenizer.json files, and so is Qwen's Unicode normalisation. Names of models that share a rule
stand together, as llama.cpp has them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES
_LLAMA3 = _SHORT + "|" + _LETTERS + r"\p{N}{1,3}" + _REST
_QWEN2 = _SHORT + "|" + _LETTERS + r"\p{N}" + _REST
_QWEN35 = (
    _SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _SPACES
)
_SEED = _SHORT + "|" + _LETTERS + r"\p{N}| ?[^\s\p{L}\p{N}]+" + _SPACES
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


_LLAMA3_LONG = _SHORT + "|" + _LETTERS + r"\p{N}+" + _REST
_NO_SHORT = _LETTERS + r"\p{N}" + _REST
_KANA = "[一-龥\u3040-\u309f\u30a0-\u30ff]+"
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*" + _SPACES
)
_HAN = "[一-龥\u0800-一가-\ud7ff]+"
_LETTERS_WITH_CASE = r"\s?[\p{Lu}\p{Ll}\p{Lt}]+"
_SIGNS = r"\s?" + "[!-/:-~！-／：-～‘-‟\u3000-。]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_PHRASES = (
    _SHORT + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_RUNS = "".join(
    rf"|\s{{{count}}}(?!\S)" for count in ("512", "256", "128", "64", "32", "16", "8", "4")
)


def _cased(short: str, digits: str) -> str:
    """Return a pattern whose words end where small letters are followed by capitals."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{lead}{_UPPER}*{_LOWER}+{short}|{lead}{_UPPER}+{_LOWER}*{short}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*" + _SPACES


_GPT4O = _cased(_SHORT + "?", r"\p{N}{1,3}")


class Rule(Struct, frozen=True):
    """A rule of cutting text into words. Patterns are applied one after the other, each to the
    words the ones before it left."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word that is a token is taken as it is, without merging
    add_bos: bool = False  # where the file says nothing of it
    composed: bool = False  # text is brought into Unicode's normal form C first


_RULES = {
    (
        *("gpt-2", "phi-2", "mpt", "olmo", "exaone4", "roberta-bpe", "jina-v1-en", "jina-v2-code"),
        *("jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum"),
        *("modern-bert", "jais", "trillion", "granite-docling"),
    ): Rule((_GPT2,)),
    (
        *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
        "mellum2",
    ): Rule((r"\p{N}", _GPT2)),
    (
        *("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"),
        *("midm-2.0", "jina-v5-nano"),
    ): Rule((_LLAMA3,), whole_words=True, add_bos=True),
    ("smaug-bpe",): Rule((_LLAMA3,), whole_words=True),  # Llama 3's words without a begin token
    ("dbrx", "glm4", "chatglm-bpe"): Rule((_LLAMA3,)),
    ("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "f2llmv2"): Rule(
        (_QWEN2,), composed=True
    ),
    ("kormo", "megrez", "solar-open", "grok-2"): Rule((_QWEN2,)),
    ("ufakzeka",): Rule((_NO_SHORT,)),
    ("laguna",): Rule((r"[^\n]+|[\n]+", _QWEN2)),
    ("qwen35",): Rule((_QWEN35,), composed=True),
    ("tekken",): Rule((_cased("", r"\p{N}"),), whole_words=True, add_bos=True),
    ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"): Rule((_GPT4O,)),
    ("granite-embed-multi-97m",): Rule((_GPT4O,), whole_words=True),
    ("tiny_aya", "cohere2moe"): Rule((r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O)),
    ("minicpm5",): Rule((r"\p{N}{1,3}", _LLAMA3_LONG), whole_words=True),
    ("jais-2",): Rule((_LLAMA3.removesuffix(r"|\s+(?!\S)|\s+") + _RUNS + r"|\s{1,2}(?!\S)|\s{1}",)),
    ("bloom", "poro-chat", "gpt3-finnish"): Rule((_BLOOM,)),
    ("viking",): Rule((_BLOOM, r"\p{N}")),
    ("hunyuan-dense", "deepseek-v3", "joyai-llm", "hy_v4"): Rule(
        (r"\p{N}{1,3}", _KANA, _DEEPSEEK3)
    ),
    ("deepseek-llm",): Rule((r"[\r\n]", _LETTERS_WITH_CASE, _SIGNS, r"\s+$", _HAN, r"\p{N}+")),
    ("deepseek-coder",): Rule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN, r"\p{N}")),
    ("bailingmoe", "bailingmoe2", "llada-moe"): Rule((_BAILING,)),
    ("exaone-moe",): Rule((_PHRASES,)),
    ("seed-coder",): Rule((_SEED,)),
    ("superbpe",): Rule((r"\p{N}+", r"(?=(\d{3})+(?!\d))")),
    ("default",): Rule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
}
RULES: dict[str, Rule] = {name: rule for names, rule in _RULES.items() for name in names}
DEFAULT = "default"


def rule_of(name: str) -> Rule:
    """Return the rule of that name; the default's for a name that is not known."""
    return RULES.get(name, RULES[DEFAULT])


def pretokenizer_note(metadata: Mapping[str, object]) -> str:
    """Return a sentence if a GGUF header names no rule that is known; "" else.

    Other words before merging give other tokens than the model was trained on: answers get worse.
    """
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        return ""
    name = metadata.get("tokenizer.ggml.pre")
    if name is None:
        problem = "the file names no pre-tokenizer (tokenizer.ggml.pre)"
    elif isinstance(name, str) and name not in RULES:
        problem = f"the pre-tokenizer {name[:40]!r} (tokenizer.ggml.pre) is not known"
    else:
        return ""
    return f"{problem}: the default is taken, and answers may be worse"
