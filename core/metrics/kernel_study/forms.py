"""The forms of the product, in the order of the study: their sources, and why each is faster."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

OWN = "the program's own"


class Form(Struct, frozen=True):
    """A form of a kernel: `stem` is the name that runs it, `path` its source in the repository."""

    name: str
    stem: str
    path: str
    why: str
    plain: bool = False  # B lies as [N,K], not transposed
    function: str = ""  # the part of the source that is shown; "": all but what all files have

    @property
    def language(self) -> Literal["glsl", "cpp"]:
        return "glsl" if self.path.startswith("kernels_glsl/") else "cpp"


VULKAN = (
    Form(
        "naive",
        "naive",
        "kernels_glsl/study/naive.comp",
        "An invocation makes one output. Neighbouring invocations read values of b that lie a "
        "whole row apart: a GPU fetches a cache line for each of them.",
        plain=True,
    ),
    Form(
        "coalesced",
        "coalesced",
        "kernels_glsl/study/coalesced.comp",
        "b lies transposed: neighbouring invocations read neighbouring values, and a GPU fetches "
        "one cache line for many of them.",
    ),
    Form(
        "tiled in shared memory",
        "tiled",
        "kernels_glsl/study/tiled.comp",
        "A workgroup copies tiles of a and b into shared memory: it reads each value from memory "
        "once, and a whole row or column of invocations uses it.",
    ),
    Form(
        "register-blocked",
        "registers",
        "kernels_glsl/study/registers.comp",
        "An invocation makes 4 x 4 outputs in registers. 8 reads of shared memory serve 16 "
        "multiply-adds; in the tiled form, 2 reads serve one.",
    ),
)
VULKAN_OWN = Form(
    OWN,
    "own",
    "kernels_glsl/matmul.comp",
    "This multiplies prompts: the same idea with larger tiles, chosen for the kind of device, and "
    "with weights of any format, 32 at a time.",
    function="main",
)
SOFTWARE_OWN = Form(
    OWN,
    "own",
    "kernels_glsl/matmul_rows.comp",
    "This multiplies prompts where the driver is software: no shared memory and no barriers. An "
    "invocation makes 4 x 4 outputs, and takes values of a from its neighbours' registers.",
    function="add_block",
)
MATVEC_OWN = Form(
    OWN,
    "own",
    "kernels_glsl/matvec.comp",
    "This multiplies few rows, and prompts where the driver is software and its subgroups are "
    "narrow. The invocations of a workgroup share k; values that one loads serve several outputs.",
    function="main",
)
VULKAN_OWNS = (VULKAN_OWN, SOFTWARE_OWN, MATVEC_OWN)
CPU = (
    Form(
        "naive",
        "naive",
        "kernels_cpp/study/naive.cpp",
        "Three loops, one output after the other. Each addition waits for the one before it, so "
        "the vector units stay unused.",
        plain=True,
    ),
    Form(
        "loop order",
        "loop_order",
        "kernels_cpp/study/loop_order.cpp",
        "The innermost loop goes along a row of c and of b, which lies transposed. Neighbouring "
        "sums do not wait for each other, so the compiler makes vectors of them.",
    ),
    Form(
        "cache-blocked",
        "blocked",
        "kernels_cpp/study/blocked.cpp",
        "A tile of b (32 KiB) is copied together and meets 32 rows of a while it is in the nearest "
        "cache. This pays where b is larger than the caches.",
    ),
    Form(
        "register-blocked",
        "registers",
        "kernels_cpp/study/registers.cpp",
        "4 rows by two vectors of c stay in registers over 64 steps of k: c is not loaded and "
        "stored at each step, and a value of b is loaded once for 4 rows.",
    ),
)
CPU_OWN = Form(
    OWN,
    "own",
    "kernels_cpp/ops/panel_a32.h",
    "This multiplies prompts: weights of any format become panels in the cache, more sums stay in "
    "registers, and the next panel is fetched while this one is used.",
    function="panel_times_a32",
)
