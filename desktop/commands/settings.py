"""Every setting: what it is called, the popover that holds it, and the control's name there."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.language.translate import mark


class NamedSetting(Struct, frozen=True):
    control: str  # the name that the control is drawn with
    title: str  # marked for translation
    popover: str
    unfold: str = ""  # of the sampling panel, the group that holds it
    words: str = ""

    @property
    def key(self) -> str:
        return f"setting:{self.control}"


def _sampling(field: str, title: str, unfold: str = "", words: str = "") -> NamedSetting:
    return NamedSetting(f"sampler.{field}", title, "sampler", unfold, words)


SETTINGS = (
    NamedSetting("settings.theme.system", mark("Theme"), "settings", words="dark light appearance"),
    NamedSetting("settings.language", mark("Language"), "settings", words="english korean"),
    NamedSetting("settings.font_size", mark("Text size"), "settings", words="font zoom"),
    NamedSetting("settings.reset_layout", mark("Reset the layout"), "settings"),
    NamedSetting(
        "system_prompt.text", mark("System prompt"), "system_prompt", words="instructions"
    ),
    NamedSetting("presets.list", mark("Preset"), "sampler"),
    _sampling("greedy", mark("Greedy"), words="deterministic"),
    _sampling("temperature", mark("Temperature"), words="creativity randomness"),
    _sampling("top_k", mark("Top-k"), "filters"),
    _sampling("top_p", mark("Top-p"), "filters", "nucleus"),
    _sampling("min_p", mark("Min-p"), "filters"),
    _sampling("typical_p", mark("Typical-p"), "filters"),
    _sampling("xtc_probability", mark("XTC probability"), "filters"),
    _sampling("mirostat_tau", mark("Mirostat tau"), "filters"),
    _sampling("repetition_penalty", mark("Repetition penalty"), "penalties"),
    _sampling("presence_penalty", mark("Presence penalty"), "penalties"),
    _sampling("frequency_penalty", mark("Frequency penalty"), "penalties"),
    _sampling("dry_multiplier", mark("DRY"), "penalties", "repetition"),
    _sampling("stop_strings", mark("Stop strings"), "stop"),
    _sampling("logit_bias", mark("Logit bias"), "stop"),
    _sampling("form.free", mark("Structured output"), "form", "json schema grammar gbnf"),
    _sampling("max_new_tokens", mark("Max tokens"), words="max tokens length"),
    _sampling("seed_fixed", mark("Fixed seed"), words="random"),
    NamedSetting("memory.context", mark("Context"), "memory", words="length tokens window"),
    NamedSetting("memory.keys.fp16", mark("Precision of keys"), "memory", words="kv cache"),
    NamedSetting("memory.values.fp16", mark("Precision of values"), "memory", words="kv cache"),
    NamedSetting(
        "executor.backend.auto", mark("Executor"), "executor", words="backend vulkan cpu gpu"
    ),
    NamedSetting(
        "executor.mode.as-stored", mark("Weights"), "executor", words="quantization int4 int8"
    ),
    NamedSetting("executor.activations.auto", mark("Activations"), "executor", words="a8 a32"),
    NamedSetting(
        "executor.speculate.auto",
        mark("Drafts"),
        "executor",
        words="speculation speculative lookup",
    ),
    NamedSetting(
        "executor.learned.learn",
        mark("Drafts learned from answers"),
        "executor",
        words="speculation ngrams privacy learning",
    ),
    NamedSetting("serving.port", mark("Port of the server"), "serving", words="serve api"),
    NamedSetting("models.path", mark("Path of a model"), "models", words="gguf file open"),
)
