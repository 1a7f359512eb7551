"""Words and sentences of the engine and the history that the window shows often; core writes them
in English.

Its errors (why a file cannot be read, which field is wrong) are shown as they are.
"""

from __future__ import annotations

import re
from functools import lru_cache

from llm_lite.desktop.language.translate import mark, number, tr

WORDS = (
    # what is under way: loading, converting, measuring
    mark("opening"),
    mark("reading the model"),
    mark("cutting"),
    mark("starting"),
    mark("ready"),
    mark("reading the header"),
    mark("reading the vocabulary"),
    mark("checking the weights"),
    mark("checking the source"),
    mark("mapping the variant on disk"),
    mark("preparing the weights"),
    mark("loading the draft model"),
    mark("preparing the executor"),
    mark("calibrating"),
    mark("writing a text to calibrate with"),
    mark("asking B for what A said"),
    mark("measuring memory"),
    mark("measuring a step"),
    mark("patching"),
    mark("run A"),
    mark("run B"),
    # where a model's sampling defaults are from
    mark("the file's general.sampling"),
    mark("measured against repetition"),
    # devices
    mark("discrete"),
    mark("integrated"),
    mark("software"),
    mark("virtual"),
    mark("other"),
    mark("auto"),
    # the kernel study: its forms, and why each is faster than the one before
    mark("choosing a size"),
    mark("measuring arithmetic and memory"),
    mark("measuring"),
    mark("naive"),
    mark("coalesced"),
    mark("tiled in shared memory"),
    mark("register-blocked"),
    mark("the program's own"),
    mark("loop order"),
    mark("cache-blocked"),
    mark(
        "An invocation makes one output. Neighbouring invocations read values of b that lie a "
        "whole row apart: a GPU fetches a cache line for each of them."
    ),
    mark(
        "b lies transposed: neighbouring invocations read neighbouring values, and a GPU fetches "
        "one cache line for many of them."
    ),
    mark(
        "A workgroup copies tiles of a and b into shared memory: it reads each value from memory "
        "once, and a whole row or column of invocations uses it."
    ),
    mark(
        "An invocation makes 4 x 4 outputs in registers. 8 reads of shared memory serve 16 "
        "multiply-adds; in the tiled form, 2 reads serve one."
    ),
    mark(
        "This multiplies prompts: the same idea with larger tiles, chosen for the kind of device, "
        "and with weights of any format, 32 at a time."
    ),
    mark(
        "This multiplies prompts where the driver is software: no shared memory and no barriers. "
        "An invocation makes 4 x 4 outputs, and takes values of a from its neighbours' registers."
    ),
    mark(
        "This multiplies few rows, and prompts where the driver is software and its subgroups are "
        "narrow. The invocations of a workgroup share k; values that one loads serve several "
        "outputs."
    ),
    mark(
        "Three loops, one output after the other. Each addition waits for the one before it, so "
        "the vector units stay unused."
    ),
    mark(
        "The innermost loop goes along a row of c and of b, which lies transposed. Neighbouring "
        "sums do not wait for each other, so the compiler makes vectors of them."
    ),
    mark(
        "A tile of b (32 KiB) is copied together and meets 32 rows of a while it is in the "
        "nearest cache. This pays where b is larger than the caches."
    ),
    mark(
        "4 rows by two vectors of c stay in registers over 64 steps of k: c is not loaded and "
        "stored at each step, and a value of b is loaded once for 4 rows."
    ),
    mark(
        "This multiplies prompts: weights of any format become panels in the cache, more sums "
        "stay in registers, and the next panel is fetched while this one is used."
    ),
    mark(
        "This driver is software: the processor stands in for a GPU. An invocation is an element "
        "of a vector, shared memory is ordinary memory, and a barrier cuts every loop. Steps that "
        "help a GPU can cost time here."
    ),
    # what is undone and done again, beside the words in desktop/features/undo/model.py
    mark("Show version"),
)
# With values in them, which are recognized by the words between.
SENTENCES = (
    # where the model runs, and why
    mark("no usable Vulkan device was found"),
    mark("the Vulkan device is only software ({device})"),
    # accelerators
    mark("{taken} of {all} products run on {name}, all else in C++; {size} kB cross for a token"),
    mark("{taken} of {all} ops run on {name}, all else in C++; {size} kB cross for a token"),
    mark("no op with {formats} weights runs on {name}: C++ runs all"),
    mark("the Vulkan device cannot be used: {error}"),
    mark("there is no Vulkan device {wanted}: {count} were found"),
    mark("attention heads of {width} values: on Vulkan their number must be even"),
    mark("the driver has no timeline semaphores"),
    mark("the device has no compute queue"),
    mark("needs Vulkan 1.2, the driver offers {major}.{minor}"),
    mark("queries are not kept, so there are no attention maps: their memory budget is 0"),
    mark(
        "queries are not kept, so there are no attention maps: {needed} MiB are needed for the "
        "{tokens} tokens of a step, the budget is {budget} MiB"
    ),
    # which mode to choose
    mark("{mode} is the fastest here: {speed} tok/s"),
    mark(
        "{mode} takes less memory than {other} and is nearly as fast: {speed} against {fastest} "
        "tok/s"
    ),
    mark("{mode} loses less than {other} and is nearly as fast: {speed} against {fastest} tok/s"),
    mark(
        "{share} of the weights have about as few bits in the file as {mode} has: to round them "
        "once more loses as much again, and answers get worse; as-stored keeps them as they are"
    ),
    mark(
        "{share} of the weights have about as few bits in the file as {mode} has: rounding them "
        "once more changes them by {error} (root mean square, by a sample of their rows), and "
        "answers get worse; as-stored keeps them as they are"
    ),
    mark(
        "{mode} rounds no weights a second time, as {other} does: {speed} against {fastest} tok/s"
    ),
    mark(
        "{mode} is more exact than {other} and is nearly as fast: {speed} against {fastest} tok/s"
    ),
    # what fits instead of a model that does not
    mark("mode {mode} with a context of {tokens} tokens ({size})"),
    mark("mode {mode} ({size})"),
    mark("a context of {tokens} tokens ({size})"),
    mark("its slice {name}"),
    mark("nothing smaller of this model fits; close other programs, or take a smaller model"),
    # weight formats
    mark("Single weights of {bits} bits."),
    mark("Blocks of {weights} weights in {size} bytes: {bits} bits a weight."),
    # why an answer ends or does not begin
    mark(
        "the context of {tokens} tokens is full; start a new chat, choose a larger context or let "
        "the beginning be forgotten"
    ),
    mark(
        "the prompt has {tokens} tokens, but the context holds {context}; shorten it or load the "
        "model with a larger context"
    ),
    # why a target cannot be written
    mark("the source has {tokens} tokens, expected 1 to {most}"),
    mark(
        "the source has {tokens} tokens, but the context holds {context}; shorten it or load the "
        "model with a larger context"
    ),
    mark("an internal error ({kind}); the log has the details"),
    mark("the model card of {family}"),
    mark("the advice of {family}'s authors"),
    # where the kernel study was measured
    mark("{processor}, {kernels}, 1 thread"),
    mark("{processor}, {kernels}, {count} threads"),
    # what the window says itself, without the words of a view
    mark("The X server refused request {request} of this program: error {code}."),
)
_ENDS = re.compile(r"(, |: )")


def translated(words: str) -> str:
    """Translate `words` of core; words that are not listed here stay as they are."""
    return _translated(words, number())


def translated_stage(words: str) -> str:
    """Translate the name of a stage, which may have a mode before it and a run behind it."""
    return "".join(translated(part) for part in _ENDS.split(words) if part)


@lru_cache(maxsize=256)
def _translated(words: str, language: int) -> str:
    whole = tr(words)
    if whole != words:
        return whole
    for sentence, pattern in _patterns():
        if found := pattern.fullmatch(words):
            return tr(sentence).format(**found.groupdict())
    return words


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    def pattern(sentence: str) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(sentence)), re.DOTALL)

    return [(sentence, pattern(sentence)) for sentence in SENTENCES if "{" in sentence]
