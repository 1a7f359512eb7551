"""Models whose activations `python -m tests.fixtures.make_activations` stores: by family the
cases, the first of each and those whose layers are made of other modules."""

POSITIONS = (3, -1)  # of the tokens whose rows are stored
FAMILIES = {
    "bloom": ("plain",),
    "cohere": ("plain", "own keys"),
    "cohere2": ("windows",),
    "ernie4_5": ("plain",),
    "exaone4": ("windows",),
    "gemma": ("plain",),
    "gemma2": ("plain",),
    "gemma3": ("plain",),
    "gemma4": ("shared", "keys as values"),
    "gemma4_moe": ("plain",),
    "gemma4_unified": ("keys as values",),
    "glm4": ("plain",),
    "gpt1": ("plain",),
    "gpt2": ("plain",),
    "gpt_neox": ("parallel", "in turn"),
    "gpt_oss": ("plain",),
    "granite": ("plain",),
    "granite_moe": ("plain", "shared"),
    "hunyuan": ("plain",),
    "internlm2": ("groups",),
    "lfm2": ("plain", "odd heads and biases"),
    "lfm2_moe": ("plain",),
    "llama": ("llama3",),
    "ministral3": ("plain",),
    "mistral": ("window",),
    "muse_glimmer": ("plain",),
    "olmo": ("plain",),
    "olmo2": ("plain",),
    "olmo3": ("yarn",),
    "olmoe": ("plain",),
    "phi3": ("window", "longrope of a part"),
    "qwen": ("plain",),
    "qwen2": ("plain",),
    "qwen3": ("plain",),
    "qwen3_5": ("plain",),
    "qwen3_5_moe": ("all",),
    "qwen3_moe": ("plain",),
    "qwen3_next": ("all",),
    "seed_oss": ("plain",),
    "smollm3": ("every fourth",),
    "stablelm": ("plain", "biases"),
    "starcoder2": ("plain",),
}
GEMMA3N = ("gemma", tuple(range(7, 31)))
ENCODERS = {
    "bert": ("masked", "untied", "plain"),
    "roberta": ("masked",),
    "distilbert": ("masked",),
    "embedding_gemma": ("windows",),
}
SEQ2SEQ = {"t5": ("plain", "gated", "flan"), "bart": ("plain", "scaled"), "marian": ("plain",)}
SMOLLM2_TOKENS = (504, 253, 12, 1070, 338, 5217, 260, 3121, 30, 198, 2683, 11, 351, 17)
