"""The choice of an executor for a model, with its reason. Where one fails,
`core/engine/hosting/model_host.py` falls back to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from llm_lite.core.errors import (
    AcceleratorError,
    DeviceError,
    DeviceLostError,
    RequestError,
    UnfitModelError,
)
from llm_lite.core.exec.accelerator import Accelerator, cut_of
from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.parts import Cut, crossing_bytes, experts_apart, whole_plan
from llm_lite.core.exec.split import SplitExecutor, split_executor
from llm_lite.core.messages import BACKENDS, Activations, EngineOptions, KvType, Speculate
from llm_lite.core.models.model import BuildOptions, ModelShape, Slice
from llm_lite.core.plain_text import one_line
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import PAGE, beam_pages, chat_pages
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.exec.cpu.executor import CpuExecutor
    from llm_lite.core.gpu.device import Device
    from llm_lite.core.gpu.info import DeviceInfo

Chosen = str  # "vulkan", "cpu", "numpy", or the name of an accelerator
ExpertsAt = Literal["", "memory", "cpu", "file"]  # as in ExecutorInfo
Progress = Callable[[float], None]

# Tokens a step may take. Small steps keep cancelling quick, large ones feed the matrix kernels.
_BUCKETS: Mapping[Chosen, tuple[int, ...]] = {
    "vulkan": (1, 16, 128),
    "cpu": (1, 128),
    "numpy": (1, 128),
}
# Tokens of a step that verifies drafted ones; no more than are multiplied as one token is.
_VERIFIED: Mapping[Chosen, int] = {"vulkan": 8, "cpu": 32, "numpy": 8}
_DISCRETE_BUCKETS = (1, 16, 256)  # such a device multiplies more tiles at a time
_EVERY_OUTPUT_BUCKETS = (1, 64)
_SHARED_BUCKETS = (1, 8, 16)  # of steps that several sequences share, below the largest
_SLICED = Bucket(1, 1, sliced=True)  # guesses a token
_STATE_BYTES = 256 << 20  # of recurrent states in the executor
_LEAST_STATES, _MOST_STATES = 4, 16
_DRAFTED_BYTES, _LEAST_DRAFTED = 128 << 20, 2  # of states of drafted tokens, besides these
_PRODUCTS = ("matmul", "expert_matmul")
ENCODER_BUCKETS = (16, 64, 128, 256)  # tokens of a text; the largest is the context
_ENCODER_OUTPUTS = 64  # tokens whose logits come from one pass through the masked-token head
# Weights of a feed-forward matrix from which a token's products take longer than the dispatches
# that quantize for them: four a layer, of some microseconds each
LEAST_MATRIX = 1 << 23
CACHE_DTYPES: Mapping[KvType, str] = {"fp16": "f16", "fp32": "f32", "int8": "i8", "int4": "i4"}


class ExecutorChoice(Struct, frozen=True):
    backend: Chosen
    reason: str  # a sentence for the status bar; "" where the user chose exactly this
    device: Device | None = None  # for vulkan
    owns_device: bool = False  # opened here, so closed with the executor
    described: DeviceInfo | None = None  # of a device that is only planned for
    # An executor of the same weights there, closed later: a device holds them once for both.
    beside: Executor | None = None
    experts: ExpertsAt = ""  # of a mixture; settled when its program is planned
    accelerator: Accelerator | None = None  # from outside, which runs what it takes beside C++

    @property
    def info(self) -> DeviceInfo | None:
        return self.described if self.device is None else self.device.info

    @property
    def most_verified(self) -> int:
        return _VERIFIED.get(self.backend, _VERIFIED["numpy"])


def choose(
    options: EngineOptions, shared: Device | None, shape: ModelShape | None = None
) -> ExecutorChoice:
    """Return the executor for these options, and for a model of this shape if there is one;
    `shared` is the device that also draws, if there is one.

    DeviceError where `options` insist on a Vulkan device that cannot be used, UnfitModelError where
    it cannot run the model.
    """
    if options.backend == "numpy":
        return ExecutorChoice("numpy", "")
    if options.backend == "cpu":
        return ExecutorChoice("cpu", "")
    if options.backend not in BACKENDS:
        from llm_lite.core.loading.accelerators import accelerator

        return ExecutorChoice(options.backend, "", accelerator=accelerator(options.backend))
    unfit = _unfit(shape)
    if options.backend == "vulkan":
        if unfit:
            raise UnfitModelError(unfit)
        return _open(options.device, shared)
    return _automatic(options, shared, unfit)


def _unfit(shape: ModelShape | None) -> str:
    """Return why no Vulkan device can run a model of this shape; "" if one can."""
    from llm_lite.core.exec.vulkan.tuning import unfit_heads

    return unfit_heads(shape.head_dim) if shape is not None else ""


def fallback(error: DeviceError, backend: str) -> ExecutorChoice:
    """Return the choice of the C++ executor, in place of that of `backend`, which failed or cannot
    run the model."""
    if isinstance(error, UnfitModelError | AcceleratorError):
        return ExecutorChoice("cpu", str(error))
    if backend not in BACKENDS:
        return ExecutorChoice("cpu", f"the accelerator {backend} failed: {error}")
    what = "was lost" if isinstance(error, DeviceLostError) else "failed"
    return ExecutorChoice("cpu", f"the Vulkan device {what}: {error}")


def _automatic(options: EngineOptions, shared: Device | None, unfit: str) -> ExecutorChoice:
    from llm_lite.core.gpu.device import list_devices

    if shared is not None and options.device in (None, shared.info.index):
        found = shared.info
    else:
        listed = list_devices()
        if options.device is not None and options.device not in {d.index for d in listed}:
            reason = f"there is no Vulkan device {options.device}: {len(listed)} were found"
            return ExecutorChoice("cpu", reason)
        usable = [d for d in listed if d.usable and options.device in (None, d.index)]
        hardware = [d for d in usable if d.kind != "software"]
        if not usable:
            return ExecutorChoice("cpu", "no usable Vulkan device was found")
        found = (hardware or usable)[0]
    if found.kind == "software":
        return ExecutorChoice("cpu", f"the Vulkan device is only software ({found.name})")
    if unfit:
        return ExecutorChoice("cpu", unfit)
    try:
        return _open(found.index, shared)
    except DeviceError as error:
        return ExecutorChoice("cpu", f"the Vulkan device cannot be used: {error}")


def _open(index: int | None, shared: Device | None) -> ExecutorChoice:
    from llm_lite.core.gpu.device import Device

    if shared is not None and index in (None, shared.info.index):
        return ExecutorChoice("vulkan", "", shared)
    return ExecutorChoice("vulkan", "", Device.open(index), owns_device=True)


def build_options(
    choice: ExecutorChoice,
    options: EngineOptions,
    shape: ModelShape,
    *,
    context: int,
    every_output: bool = False,
    draft_slice: Slice | None = None,
    answers: int = 0,
    pages: int = 0,
    windowed: int = 0,
    window: int = 0,
    states: int = 0,
) -> BuildOptions:
    """Return how the program of a model that writes is built for this executor: the chat's pages
    hold the whole context, or rings where layers slide, and behind them lie `pages` for so many
    `answers` of clients at once; of these, only `windowed` where layers slide by `window` or less,
    0 for all. `states`: slots of recurrent states for clients.

    With `every_output` a step may ask for the logits of all its tokens; steps are smaller then.
    `draft_slice`: the model's, which the program has too where `options` draft by it; RequestError
    where they do and it has none.
    """
    affordable = max(0, options.query_budget) // query_bytes(shape, options)
    wanted = _EVERY_OUTPUT_BUCKETS if every_output else _buckets(choice, affordable)
    prompts = sorted({min(n, context) for n in wanted})  # no step is larger than the cache
    verified = 1
    if not every_output and drafts(choice, options):
        verified = min(choice.most_verified, context, 1 + _most_drafted(shape))
    cut = slice_to_draft(options.speculate, draft_slice) if verified > 1 else None
    by_block = shape.draft_block and options.speculate == "auto" and verified > 1
    chunk = prompts[-1]
    kept = affordable if affordable >= chunk else 0
    return BuildOptions(
        context=context,
        k_dtype=CACHE_DTYPES[options.keys],
        v_dtype=CACHE_DTYPES[options.values],
        q_dtype=_query_dtype(options),
        integer_activations=activations(choice, options.activations, shape) == "a8",
        buckets=_in_order(
            _step_sizes(prompts, verified, answers, every_output=every_output),
            sliced=bool(cut) or by_block,
        ),
        query_rows=context if kept >= context else kept // PAGE * PAGE,
        whole_caches=options.whole_caches,
        pages=chat_pages(
            context,
            chunk,
            segments=max(verified, 1 + answers),
            others=pages,
            slots=2 + answers if answers else 1,  # the chat's, 1 everywhere, and of each answer
            windowed=windowed,
            window=window,
            states=_state_slots(shape),
            client_states=states,
            drafted_states=verified - 1 if shape.state_bytes else 0,
        ),
        source=context if shape.cross_attention else 0,
        draft_slice=cut,
    )


def _state_slots(shape: ModelShape) -> int:
    """Return how many recurrent states there are room for, within _STATE_BYTES or _LEAST_STATES of
    them: that in use, the one that comes next, and those that a conversation can go back to."""
    if not shape.state_bytes:
        return 0
    return min(_MOST_STATES, max(_LEAST_STATES, _STATE_BYTES // shape.state_bytes))


def _most_drafted(shape: ModelShape) -> int:
    """Return how many drafted tokens a step may verify, for whose states there is room."""
    if not shape.state_bytes:
        return max(_VERIFIED.values())
    return max(_LEAST_DRAFTED, _DRAFTED_BYTES // shape.state_bytes)


def _step_sizes(
    prompts: Sequence[int], verified: int, answers: int, *, every_output: bool
) -> dict[int, int]:
    """Return outputs by tokens of the steps of a program. A step has room for as much of the chat's
    prompt as without others beside a token of each answer, and for a page of their prompts beside
    tokens of all segments; in small steps every token may be a segment."""
    chunk, segments = prompts[-1], max(verified, 1 + answers)
    each = {n: n if every_output else 1 for n in prompts}
    sizes = {n + answers: each[n] + answers for n in prompts if n > 1}
    most = max(chunk + answers, PAGE + segments if answers else 0)
    sizes[most] = sizes.pop(chunk + answers, 1 + answers)
    shared = (*_SHARED_BUCKETS, segments) if answers else ()
    return sizes | {n: n for n in (1, verified, *shared) if n <= most}


def _in_order(sizes: Mapping[int, int], *, sliced: bool) -> tuple[Bucket, ...]:
    buckets = [Bucket(tokens, outputs) for tokens, outputs in sizes.items()]
    buckets += [_SLICED] if sliced else []
    return tuple(sorted(buckets, key=lambda b: (b.max_tokens, b.sliced)))


def drafts(choice: ExecutorChoice, options: EngineOptions) -> bool:
    """Return True if answers are drafted on this executor. Software devices gain nothing: they
    compute a token in as long as they read its weights."""
    software = choice.info is not None and choice.info.kind == "software"
    return options.speculate != "off" and not (options.speculate == "auto" and software)


def slice_to_draft(speculate: Speculate, draft_slice: Slice | None) -> Slice | None:
    """Return the model's slice if a person chose that it drafts; RequestError if it has none."""
    if speculate != "slice":
        return None
    if draft_slice is None:
        raise RequestError(
            "--speculate slice: this model was not trained to have a smaller one among its "
            "weights, as Gemma 3n E4B was; expected auto, lookup or off"
        )
    return draft_slice


def encoder_build_options(build: BuildOptions) -> BuildOptions:
    """Return how the encoder's program is built besides its decoder's: a source is one step."""
    rows = build.source if build.query_rows else 0
    whole = (Bucket(build.source, build.source),)
    return replace(build, context=build.source, buckets=whole, query_rows=rows, pages=None)


def beam_build_options(build: BuildOptions, width: int) -> BuildOptions:
    """Return how a decoder's program is built for a beam of hypotheses, besides that for one
    sequence."""
    sizes = sorted({1, width})
    return replace(
        build,
        buckets=tuple(Bucket(n, n) for n in sizes),
        query_rows=0,
        pages=beam_pages(width, build.context),
    )


def text_encoder_options(
    choice: ExecutorChoice, options: EngineOptions, shape: ModelShape, *, context: int
) -> BuildOptions:
    """Return how an encoder's program is built, whose steps have a whole text: keys, values and
    queries live for one step, and are float32 whatever `options` say of caches."""
    sizes = sorted({n for n in ENCODER_BUCKETS if n < context} | {context})
    affordable = max(0, options.query_budget) // (4 * shape.query_values)
    return BuildOptions(
        context=context,
        k_dtype="f32",
        v_dtype="f32",
        q_dtype="f32",
        integer_activations=activations(choice, options.activations, shape) == "a8",
        buckets=tuple(Bucket(n, min(n, _ENCODER_OUTPUTS)) for n in sizes),
        query_rows=context if affordable >= context else 0,
    )


def _buckets(choice: ExecutorChoice, queries: int) -> tuple[int, ...]:
    """Return sizes of steps; `queries`: how many rows may be kept. A step keeps those of all its
    tokens: a larger one must not be what costs the attention maps."""
    usual = _BUCKETS.get(choice.backend, _BUCKETS["cpu"])
    discrete = choice.info is not None and choice.info.kind == "discrete"
    if not discrete or usual[-1] <= queries < _DISCRETE_BUCKETS[-1]:
        return usual
    return _DISCRETE_BUCKETS


def query_bytes(shape: ModelShape, options: EngineOptions) -> int:
    """Return the bytes of one position's queries, all layers and heads together."""
    return shape.query_values * {"f16": 2, "f32": 4}[_query_dtype(options)]


def _query_dtype(options: EngineOptions) -> str:
    """Return the type of queries, which are as exact as the keys, and never in blocks: one serves
    many maps."""
    return "f32" if options.keys == "fp32" else "f16"


def query_note(build: BuildOptions, shape: ModelShape, options: EngineOptions) -> str:
    """Return a sentence on why no queries are kept; "" if they are."""
    if build.query_rows:
        return ""
    if options.query_budget <= 0:
        return "queries are not kept, so there are no attention maps: their memory budget is 0"
    step = build.pages.chunk if build.pages else build.buckets[-1].max_tokens
    needed = step * query_bytes(shape, options) / 2**20
    return (
        f"queries are not kept, so there are no attention maps: {needed:.1f} MiB are needed for "
        f"the {step} tokens of a step, the budget is {options.query_budget / 2**20:.1f} MiB"
    )


def activations(
    choice: ExecutorChoice, asked: Activations, shape: ModelShape | None = None
) -> Literal["a32", "a8"]:
    """Return the activations: int8 by default only where integer dot products make them pay; on a
    device not for a model of small matrices (`shape`; None: a large one)."""
    if asked != "auto":
        return asked
    fast = False
    if choice.accelerator is not None:
        return choice.accelerator.activations
    if choice.backend == "cpu":
        from llm_lite.core.exec.cpu.self_test import validated_isa
        from llm_lite.core.processor import has_integer_dot

        validated_isa()
        fast = has_integer_dot()
    elif choice.device is not None and _is_large(shape):
        from llm_lite.core.exec.vulkan.self_test import validated

        fast = validated(choice.device).integer_dot
    elif choice.info is not None and _is_large(shape):
        fast = choice.info.features["integer_dot_accelerated"]
    return "a8" if fast else "a32"


def _is_large(shape: ModelShape | None) -> bool:
    return shape is None or shape.width * shape.feed_forward >= LEAST_MATRIX


def make_executor(
    choice: ExecutorChoice,
    program: Program,
    weights: Mapping[str, TensorData],
    threads: int,
    progress: Progress,
) -> Executor:
    if choice.backend == "vulkan":
        from llm_lite.core.exec.vulkan.executor import VulkanExecutor
        from llm_lite.core.exec.vulkan.self_test import validated

        assert choice.device is not None
        tuning = validated(choice.device)
        partner, cut = None, whole_plan
        if choice.experts in ("cpu", "file"):
            cut = experts_apart
            partner = _cpu_executor(choice, program, weights, threads, beside=cut)
        executor = VulkanExecutor(
            choice.device,
            program,
            weights,
            progress=progress,
            tuning=tuning,
            beside=choice.beside if isinstance(choice.beside, VulkanExecutor) else None,
            partner=partner,
            cut=cut,
        )
        try:
            executor.prepare()  # now, so that no answer waits for it and decoding records nothing
        except BaseException:
            executor.close()
            raise
        return executor
    if choice.backend == "cpu":
        return _cpu_executor(choice, program, weights, threads)
    if choice.accelerator is not None:
        return _split_executor(choice, choice.accelerator, program, weights, threads)
    from llm_lite.core.exec.numpy_executor import NumpyExecutor

    return NumpyExecutor(program, weights)


def _split_executor(
    choice: ExecutorChoice,
    accelerator: Accelerator,
    program: Program,
    weights: Mapping[str, TensorData],
    threads: int,
) -> SplitExecutor:
    return split_executor(
        accelerator,
        program,
        weights,
        lambda cut: _cpu_executor(choice, program, weights, threads, beside=cut),
    )


def _cpu_executor(
    choice: ExecutorChoice,
    program: Program,
    weights: Mapping[str, TensorData],
    threads: int,
    beside: Cut | None = None,
) -> CpuExecutor:
    from llm_lite.core.exec.cpu.executor import CpuExecutor
    from llm_lite.core.exec.cpu.self_test import validated_isa

    return CpuExecutor(
        program,
        weights,
        threads=threads,
        isa=validated_isa(),
        experts_in_file=choice.experts == "file",
        beside=beside,
    )


def shared_work(choice: ExecutorChoice, program: Program) -> str:
    """Return a sentence on what of a token an accelerator runs; "" if it runs nothing, or if there
    is none."""
    if choice.accelerator is None:
        return ""
    plan, name = program.plans[0], choice.backend
    parts = cut_of(choice.accelerator)(plan)
    taken = [op for part in parts if not part.apart for op in part.ops(plan)]
    kilobytes = f"{crossing_bytes(parts) / 1e3:.0f}"
    products = sum(op.name in _PRODUCTS for op in plan.ops)
    if mine := sum(op.name in _PRODUCTS for op in taken):
        return (
            f"{mine} of {products} products run on {name}, all else in C++; {kilobytes} kB cross "
            f"for a token"
        )
    if taken:
        return (
            f"{len(taken)} of {len(plan.ops)} ops run on {name}, all else in C++; {kilobytes} kB "
            f"cross for a token"
        )
    return ""


def unused_note(choice: ExecutorChoice, program: Program) -> str:
    """Return a sentence where an accelerator takes nothing of a model; "" otherwise."""
    if choice.accelerator is None or shared_work(choice, program):
        return ""
    plan = program.plans[0]
    formats = {plan.tensors[op.inputs[1]].dtype for op in plan.ops if op.name in _PRODUCTS}
    return f"no op with {', '.join(sorted(formats))} weights runs on {choice.backend}: C++ runs all"


def device_name(choice: ExecutorChoice) -> str:
    if choice.backend == "vulkan":
        assert choice.device is not None
        return choice.device.info.name
    if choice.backend == "cpu":
        from llm_lite.core.processor import processor_name

        return processor_name()
    return "NumPy" if choice.accelerator is None else one_line(choice.accelerator.device)
