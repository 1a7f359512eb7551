"""What a scripted engine says of its model, of the machine and of the pool of prefixes."""

from types import MappingProxyType

from llm_lite.core.messages import (
    CacheLayerInfo,
    CacheLayout,
    ExecutorInfo,
    ModelInfo,
    PooledPrefix,
)

ROW = 3 * 64 * 2  # bytes of a key or a value of a layer, fp16
LAYOUT = CacheLayout(
    tuple(CacheLayerInfo(i, (), 8192, 0, ROW, ROW) for i in range(30)),
    "fp16",
    "fp16",
    30 * 2 * ROW * 8192,
)
MODEL = ModelInfo(
    name="SmolLM2-135M-Instruct",
    path="/models/smollm2-135m-instruct-q4_1.gguf",
    architecture="llama",
    parameters=134_515_008,
    file_bytes=98_000_000,
    weight_bytes=96_400_000,
    kv_bytes=2 * 30 * 3 * 64 * 2 * 8192,
    context=8192,
    trained_context=8192,
    vocabulary=49152,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    width=576,
    feed_forward=1536,
    has_chat_template=True,
    switches_thinking=True,
    stored_formats=MappingProxyType({"q4_1": 66_355_200, "q8_0": 30_081_024, "f32": 140_544}),
    format_notes=MappingProxyType({"q4_1": "Blocks of 32 weights in 20 bytes: 5 bits a weight."}),
    block_formats=("q4_1", "q8_0"),
    cache=LAYOUT,
    mode_bytes=MappingProxyType(
        {
            "as-stored": 96_400_000,
            "fp32": 538_000_000,
            "fp16": 269_000_000,
            "int8": 143_000_000,
            "int4": 76_000_000,
        }
    ),
)
EXECUTOR = ExecutorInfo(
    backend="cpu",
    device="AMD Ryzen 5 4500U, 6 threads, AVX2",
    reason="The only Vulkan device is a software one: the C++ executor is faster.",
    mode="as-stored",
    activations="a8",
    keys="fp16",
    values="fp16",
    threads=6,
)
PREFIXES = (
    PooledPrefix("Why do we dream?", 1240, 1240 * ROW * 60),
    PooledPrefix("Write a Python function that reverses a string", 311, 311 * ROW * 60),
)
