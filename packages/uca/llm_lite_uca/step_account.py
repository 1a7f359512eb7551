"""The account of a step: products on the array, all else on the Arm cores, one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping

from llm_lite.core.messages.inspecting.accounts import AccountParameter, OpAccount, StepAccount
from llm_lite.core.plan.plan import Kind, Op, Plan, tensor_row_bytes
from llm_lite.core.plan.step import Step
from llm_lite.core.plan.traffic import op_read_bytes
from llm_lite.core.records import replace
from llm_lite_uca.account import account_of
from llm_lite_uca.compiler import Shape, shape_of, takes
from llm_lite_uca.parameters import Parameters
from llm_lite_uca.translations import TRANSLATIONS

# What a person may change, with the value of a KV260. Rows are parts or multiples of a block.
CHOSEN = {
    one.name: one
    for one in (
        AccountParameter("rows", "Rows of multipliers", "", 32, 8, 128, (8, 16, 32, 64, 96, 128)),
        AccountParameter(
            "columns", "Columns of multipliers", "", 32, 8, 128, tuple(range(8, 129, 8))
        ),
        AccountParameter("clock_mhz", "Clock", "MHz", 300, 50, 1000),
        AccountParameter("ddr_gb_s", "Memory", "GB/s", 19.2, 1, 200),
    )
}
_ELEMENT_MACS = 4  # of an elementwise op, for each value
ASSUMPTIONS = (
    "Nothing overlaps: an op begins when the one before it has ended.",
    "Long transfers reach {ddr_share:.0%} of the memory's {ddr_gb_s:g} GB/s, each after "
    "{dma_latency} cycles.",
    "The array takes {load_rows} rows of weights in a cycle, beside its products.",
    "The Arm cores make {arm_gmacs:g} billion multiply-adds a second and read {arm_gb_s:g} GB/s.",
    "Energy: {mac_pj:g} pJ a multiply-add, {ddr_pj:g} pJ a byte of memory, {static_watts:g} W all "
    "the time.",
)


def with_chosen(parameters: Parameters, chosen: Mapping[str, float]) -> Parameters:
    """Return parameters with those that a person chose, within their bounds. ValueError for a name
    that is none."""
    changes = dict[str, float]()
    for name, value in chosen.items():
        if name not in CHOSEN:
            raise ValueError(f"{name}: expected one of {', '.join(CHOSEN)}")
        one = CHOSEN[name]
        if not math.isfinite(value) or not one.least <= value <= one.most:
            raise ValueError(f"{name}: expected {one.least:g} to {one.most:g}, found {value:g}")
        if one.values and value not in one.values:
            values = ", ".join(f"{each:g}" for each in one.values)
            raise ValueError(f"{name}: expected one of {values}, found {value:g}")
        changes[name] = type(getattr(parameters, name))(value)
    return replace(parameters, **changes)


def step_account(plan: Plan, step: Step, parameters: Parameters) -> StepAccount:
    ops = tuple(_op_account(plan, op, step, parameters) for op in plan.ops)
    on_array = [op for op in ops if op.on == "accelerator"]
    moved = sum(op.moved_bytes for op in ops)
    picojoules = sum(op.macs for op in on_array) * parameters.mac_pj + moved * parameters.ddr_pj
    seconds = sum(op.seconds for op in ops)
    facts = {name: getattr(parameters, name) for name in parameters.__struct_fields__}
    return StepAccount(
        "uca",
        step.count,
        step.start if not step.segments else step.segments[0].start,
        ops,
        1e-12 * picojoules + parameters.static_watts * seconds,
        parameters.macs_per_cycle * parameters.clock_mhz * 1e6,
        parameters.ddr_gb_s * 1e9,
        tuple(replace(one, value=float(facts[name])) for name, one in CHOSEN.items()),
        tuple(line.format(**facts) for line in ASSUMPTIONS),
        {
            code: {line.format(**facts): words.format(**facts) for line, words in texts.items()}
            for code, texts in TRANSLATIONS.items()
        },
    )


def _op_account(plan: Plan, op: Op, step: Step, parameters: Parameters) -> OpAccount:
    if takes(op, plan):
        rows = plan.tensors[op.outputs[0]].rows_in(step)
        return _on_array(op, shape_of(op, plan, rows), parameters)
    return _on_host(plan, op, step, parameters)


def _on_array(op: Op, shape: Shape, parameters: Parameters) -> OpAccount:
    if not shape.tokens:
        return OpAccount(op.name, op.label, "accelerator", 0.0)
    found = account_of(shape, parameters)
    return OpAccount(
        op.name,
        op.label,
        "accelerator",
        parameters.seconds(found.cycles),
        parameters.seconds(found.array),
        parameters.seconds(found.transfers),
        found.read_bytes + found.written_bytes,
        found.macs,
    )


def _on_host(plan: Plan, op: Op, step: Step, parameters: Parameters) -> OpAccount:
    """Return the cost on the Arm cores: of arithmetic or of what is read and written, whichever
    takes longer."""
    outputs = [plan.tensors[i] for i in op.outputs if plan.tensors[i].kind is Kind.SCRATCH]
    values = sum(t.rows_in(step) * t.shape[1] for t in outputs)
    scratch = [t for i in op.given if (t := plan.tensors[i]).kind is Kind.SCRATCH]
    moved = sum(t.rows_in(step) * tensor_row_bytes(t) for t in (*outputs, *scratch))
    moved += op_read_bytes(plan, op, step)
    macs = _ELEMENT_MACS * values
    if op.name in ("matmul", "expert_matmul"):
        macs = values * plan.tensors[op.inputs[0]].shape[1]
    elif op.name == "attention":
        seen = step.source if op.params["cross"] else step.kv_length
        seen = min(seen, int(op.params["window"]) or seen)
        macs = 2 * values * seen
    elif op.name == "delta_rule":
        macs = 3 * values * int(op.params["key_dim"])
    seconds = max(macs / parameters.arm_gmacs, moved / parameters.arm_gb_s) * 1e-9
    return OpAccount(op.name, op.label, "host", seconds, moved_bytes=moved, macs=macs)
