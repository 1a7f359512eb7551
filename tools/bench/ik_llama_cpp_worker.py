"""ik_llama.cpp in the place of llama.cpp. Run by the interpreter of its environment.

ik_llama_cpp_worker.py measure MODEL THREADS
    as llama_cpp_worker.py does. Weights are repacked when they are loaded, as its users have it

It is a fork with nearly the same C interface; what its bindings lack stands here under llama.cpp's
names.
"""

from __future__ import annotations

import ctypes
import sys

import ik_llama_cpp
from ik_llama_cpp import _ctypes_api as ik
from ik_llama_cpp._lib_loader import load_shared_library

_library = load_shared_library()
_library.llama_print_system_info.restype = ctypes.c_char_p
_defaults, _context_defaults = ik.llama_model_default_params, ik.llama_context_default_params


def _repacked() -> ik.llama_model_params:
    options = _defaults()
    options.repack_tensors = True
    return options


def _attends_in_blocks() -> ik.llama_context_params:
    options = _context_defaults()
    options.flash_attn = True
    return options


ik.__version__ = ik_llama_cpp.__version__
ik.llama_model_default_params = _repacked
ik.llama_context_default_params = _attends_in_blocks
ik.llama_print_system_info = _library.llama_print_system_info
ik.llama_log_set = lambda *_: None
ik.llama_get_memory = lambda context: context
ik.llama_memory_clear = lambda context, _: ik.llama_kv_cache_clear(context)
ik.llama_synchronize = lambda _: None
sys.modules["llama_cpp"] = ik

import llama_cpp_worker  # noqa: E402

if __name__ == "__main__":
    sys.exit(llama_cpp_worker.main(sys.argv[1:]))
