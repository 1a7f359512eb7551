"""Every setting: what it is called, the popover that holds it, and the control's name there."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages.sampling_options import OPTIONS
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


def _sampling(name: str, control: str = "", unfold: str = "", words: str = "") -> NamedSetting:
    """Return the setting of a sampler option; `control` where that is not called as the option."""
    row = OPTIONS[name]
    return NamedSetting(
        f"sampler.{control or name}", row.title, "sampler", unfold or row.group, words or row.search
    )


# What only has an effect beside something else is not drawn while that is off.
_IN_GROUPS = tuple(_sampling(name) for name, row in OPTIONS.items() if row.group and not row.needs)
SETTINGS = (
    NamedSetting("settings.theme.system", mark("Theme"), "settings", words="dark light appearance"),
    NamedSetting("settings.language", mark("Language"), "settings", words="english korean"),
    NamedSetting("settings.font_size", mark("Text size"), "settings", words="font zoom"),
    NamedSetting("settings.reset_layout", mark("Reset the layout"), "settings"),
    NamedSetting(
        "system_prompt.text", mark("System prompt"), "system_prompt", words="instructions"
    ),
    NamedSetting("presets.list", mark("Preset"), "sampler"),
    NamedSetting("sampler.greedy", mark("Greedy"), "sampler", words="deterministic"),
    _sampling("temperature"),
    *_IN_GROUPS,
    _sampling("stop", "stop_strings", "stop"),
    _sampling("logit_bias", unfold="stop"),
    NamedSetting(
        "sampler.form.free",
        mark("Structured output"),
        "sampler",
        "form",
        "json schema grammar gbnf",
    ),
    _sampling("max_new_tokens"),
    _sampling("seed", "seed_fixed"),
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
