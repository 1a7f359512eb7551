"""llama.cpp through its C interface. Run by the peer's own interpreter, so it imports none of ours.

llama_cpp_worker.py system
    the instructions that the library was built for
llama_cpp_worker.py quantize SOURCE DESTINATION TYPE
llama_cpp_worker.py measure MODEL THREADS [LAYERS]
    JSON lines in (tokens to run), JSON lines out; so many layers on the GPU, none if left out
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time

import llama_cpp as llama

_BATCH = 512  # its default
# llama.h, enum llama_ftype: what its quantizer writes, mixed as its users have it
FILE_TYPES = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K_M": 12,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "IQ3_S": 26,
    "IQ4_XS": 30,
    "BF16": 32,
    "TQ1_0": 36,
    "TQ2_0": 37,
    "MXFP4": 38,
}
FLASH_TYPES = {"auto": -1, "off": 0, "on": 1}  # llama.h, enum llama_flash_attn_type
CACHE_TYPES = {"F16": 1, "Q8_0": 8, "Q4_0": 2}  # ggml.h, enum ggml_type: of keys and values
# One type for all matrices. That of MXFP4 is meant for experts: without them all would be Q8_0.
_PURE = ("MXFP4",)
# The library keeps its address only.
_SILENT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)


def quantize(source: str, destination: str, name: str) -> int:
    options = llama.llama_model_quantize_default_params()
    options.ftype = FILE_TYPES[name]
    options.pure = name in _PURE
    options.allow_requantize = True
    options.nthread = len(os.sched_getaffinity(0))
    return llama.llama_model_quantize(source.encode(), destination.encode(), ctypes.byref(options))


class Runner:
    def __init__(
        self,
        path: str,
        threads: int,
        layers: int = 0,
        context: int = 2048,
        cache: str = "F16",
        flash: str = "auto",
    ) -> None:
        if layers and not llama.llama_supports_gpu_offload():
            raise SystemExit("this build of llama.cpp knows no GPU, or finds none")
        model_options = llama.llama_model_default_params()
        model_options.n_gpu_layers = layers
        self._model = llama.llama_model_load_from_file(path.encode(), model_options)
        options = llama.llama_context_default_params()
        options.n_ctx = context
        options.type_k = options.type_v = CACHE_TYPES[cache]
        options.flash_attn_type = FLASH_TYPES[flash]
        options.n_batch = options.n_ubatch = _BATCH
        options.n_threads = options.n_threads_batch = threads
        self._context = llama.llama_init_from_model(self._model, options)
        self._vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self._batch = llama.llama_batch_init(_BATCH, 0, 1)
        self._length = 0

    def measure(self, prompt_tokens: int, new_tokens: int, depth: int) -> dict[str, float]:
        """Tokens per second: prefill from an empty cache, decode from `depth` on."""
        draw = random.Random(1)
        prompt, past, new = (
            [draw.randrange(self._vocabulary) for _ in range(n)]
            for n in (prompt_tokens, depth, new_tokens)
        )
        self._clear()
        began = time.perf_counter()
        self._feed(prompt)
        prefill = time.perf_counter() - began
        self._clear()
        self._feed(past)
        began = time.perf_counter()
        for token in new:
            self._feed([token])
        decode = time.perf_counter() - began
        return {"prefill_tok_s": prompt_tokens / prefill, "decode_tok_s": new_tokens / decode}

    def _clear(self) -> None:
        llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
        self._length = 0

    def _feed(self, tokens: list[int]) -> None:
        """Logits of the last token only, as llama.cpp's own programs ask for."""
        batch = self._batch
        for first in range(0, len(tokens), _BATCH):
            part = tokens[first : first + _BATCH]
            batch.n_tokens = len(part)
            for i, token in enumerate(part):
                batch.token[i] = token
                batch.pos[i] = self._length + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = first + i == len(tokens) - 1
            if llama.llama_decode(self._context, batch):
                raise SystemExit("llama_decode failed")
            self._length += len(part)
        llama.llama_synchronize(self._context)


def start() -> str:
    """The library without its log; its line about the instructions that it was built for.

    Some architectures print to standard output: that is ours alone, theirs leads to the errors'."""
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    llama.llama_log_set(_SILENT, None)
    llama.llama_backend_init()
    return llama.llama_print_system_info().decode()


def main(arguments: list[str]) -> int:
    system = start()
    if arguments[0] == "system":
        print(system)
        return 0
    if arguments[0] == "quantize":
        return quantize(*arguments[1:])
    runner = Runner(arguments[1], *map(int, arguments[2:]))
    runner.measure(32, 4, 0)
    print(json.dumps({"version": llama.__version__, "system": system}), flush=True)
    for line in sys.stdin:
        print(json.dumps(runner.measure(**json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
