"""SPIR-V: where it is and what it declares.

Reflection reads the few instructions that name an interface. Opcodes and enumerants are from the
SPIR-V 1.5 specification, sections 2.3 (layout of a module) and 3 (binary form).
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from llm_lite.core.errors import DeviceError

MAGIC = 0x07230203

# Opcodes
_NAME, _CAPABILITY = 5, 17
_INT, _FLOAT, _VECTOR, _MATRIX, _IMAGE = 21, 22, 23, 24, 25
_ARRAY, _STRUCT, _POINTER, _CONSTANT, _VARIABLE = 28, 30, 32, 43, 59
_DECORATE, _MEMBER_DECORATE = 71, 72
_BUFFER_DIM = 5  # of an image
_COOPERATIVE_MATRIX = 6022  # a capability, of SPV_KHR_cooperative_matrix
# Decorations
_SPEC_ID, _NON_WRITABLE, _BINDING, _SET, _OFFSET = 1, 24, 33, 34, 35
# Storage classes
_UNIFORM_CONSTANT, _UNIFORM, _PUSH_CONSTANT, _STORAGE_BUFFER = 0, 2, 9, 12
# Image formats that the shaders name, rgba32f, rgba32ui and r32ui, and Vulkan's for them
_VK_FORMATS = {1: 109, 30: 107, 33: 98}


class Binding(Struct, frozen=True):
    """A resource that a shader binds; `kind`: 'storage_buffer' | 'uniform_buffer' |
    'storage_image' | 'sampled_image' | 'texel_buffer', whose VkFormat is `format`."""

    name: str
    set: int
    binding: int
    kind: str
    read_only: bool
    format: int = 0


class Interface(Struct, frozen=True):
    """The interface of a shader to its pipeline. `push_bytes` counts the push-constant block."""

    bindings: tuple[Binding, ...]
    push_bytes: int
    constants: dict[str, int]  # name of a specialization constant -> its id
    full_subgroups: bool = False  # it needs them, as cooperative matrices do


class _Module(Struct):
    """The instructions of interest, by result id."""

    capabilities: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    decorations: dict[int, dict[int, int]] = field(default_factory=dict)
    members: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    types: dict[int, tuple[int, list[int]]] = field(default_factory=dict)  # id -> opcode, operands
    constants: dict[int, int] = field(default_factory=dict)
    variables: list[tuple[int, int, int]] = field(default_factory=list)  # id, type, storage class


@lru_cache(maxsize=256)
def load_spirv(name: str) -> bytes:
    """Return the binary of a row of variants.txt, by its output stem, as 'matvec.q4_1'."""
    path = _spirv_folder() / f"{name}.spv"
    try:
        return path.read_bytes()
    except OSError as error:
        raise DeviceError(
            f"{path}: the shader binary is missing ({error.strerror}); build the kernels first."
        ) from error


@lru_cache(maxsize=256)
def interface_of(name: str) -> Interface:
    return reflect(load_spirv(name))


@lru_cache(maxsize=1)
def _spirv_folder() -> Path:
    spec = importlib.util.find_spec("llm_lite_kernels")
    if spec is None or not spec.submodule_search_locations:
        raise DeviceError("The package llm_lite_kernels is missing; build the kernels first.")
    return Path(spec.submodule_search_locations[0]) / "spirv"


def reflect(spirv: bytes) -> Interface:
    """Return bindings, push-constant size and named specialization constants of a SPIR-V module."""
    module = _parse(spirv)
    bindings, push_bytes = [], 0
    for variable, pointer, storage in module.variables:
        pointee = module.types[pointer][1][1]
        if storage == _PUSH_CONSTANT:
            push_bytes = _struct_bytes(module, pointee)
        elif storage in (_UNIFORM_CONSTANT, _UNIFORM, _STORAGE_BUFFER):
            bindings.append(_binding(module, variable, pointee, storage))
    constants = {
        module.names[target]: marks[_SPEC_ID]
        for target, marks in module.decorations.items()
        if _SPEC_ID in marks and target in module.names
    }
    full = _COOPERATIVE_MATRIX in module.capabilities
    bindings.sort(key=lambda b: (b.binding, -len(b.name)))
    unique = {b.binding: b for b in bindings}  # a longer name is the same buffer, read otherwise
    return Interface(tuple(unique.values()), push_bytes, constants, full)


def _parse(spirv: bytes) -> _Module:
    if len(spirv) < 20 or len(spirv) % 4 or int.from_bytes(spirv[:4], "little") != MAGIC:
        raise DeviceError("A shader binary is not SPIR-V (wrong size or magic number).")
    words = np.frombuffer(spirv, "<u4").tolist()
    module, at = _Module(), 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        if length == 0 or at + length > len(words):
            raise DeviceError(f"A shader binary is damaged at word {at}.")
        _take(module, opcode, words[at + 1 : at + length])
        at += length
    return module


def _take(module: _Module, opcode: int, operands: list[int]) -> None:
    if opcode == _CAPABILITY:
        module.capabilities.add(operands[0])
    elif opcode == _NAME:
        module.names[operands[0]] = _text(operands[1:])
    elif opcode == _DECORATE:
        value = operands[2] if len(operands) > 2 else 1
        module.decorations.setdefault(operands[0], {})[operands[1]] = value
    elif opcode == _MEMBER_DECORATE:
        value = operands[3] if len(operands) > 3 else 1
        module.members.setdefault((operands[0], operands[1]), {})[operands[2]] = value
    elif _INT <= opcode <= _POINTER:
        module.types[operands[0]] = (opcode, operands[1:])
    elif opcode == _CONSTANT:
        module.constants[operands[1]] = operands[2]
    elif opcode == _VARIABLE:
        module.variables.append((operands[1], operands[0], operands[2]))


def _text(words: list[int]) -> str:
    return np.array(words, "<u4").tobytes().split(b"\0")[0].decode("utf-8")


def _binding(module: _Module, variable: int, pointee: int, storage: int) -> Binding:
    marks = module.decorations.get(variable, {})
    opcode, operands = module.types[pointee]
    name = module.names.get(variable) or module.names.get(pointee, "")
    texels = 0
    kind = "storage_buffer" if storage == _STORAGE_BUFFER else "uniform_buffer"
    read_only = storage != _STORAGE_BUFFER
    if storage == _STORAGE_BUFFER:
        members = range(len(operands))
        read_only = _NON_WRITABLE in marks or all(
            _NON_WRITABLE in module.members.get((pointee, i), {}) for i in members
        )
    elif storage == _UNIFORM_CONSTANT:
        kind = "storage_image" if opcode == _IMAGE else "sampled_image"
        read_only = opcode != _IMAGE or _NON_WRITABLE in marks
        if opcode == _IMAGE and operands[1] == _BUFFER_DIM:
            kind, texels = "texel_buffer", _VK_FORMATS[operands[6]]
    return Binding(name, marks.get(_SET, 0), marks.get(_BINDING, 0), kind, read_only, texels)


def _struct_bytes(module: _Module, struct: int) -> int:
    operands = module.types[struct][1]
    ends = [
        module.members.get((struct, i), {}).get(_OFFSET, 0) + _bytes(module, member)
        for i, member in enumerate(operands)
    ]
    return max(ends, default=0)


def _bytes(module: _Module, type_id: int) -> int:
    opcode, operands = module.types[type_id]
    if opcode in (_INT, _FLOAT):
        return operands[0] // 8
    if opcode in (_VECTOR, _MATRIX):
        return operands[1] * _bytes(module, operands[0])
    if opcode == _ARRAY:
        return module.constants[operands[1]] * _bytes(module, operands[0])
    if opcode == _STRUCT:
        return _struct_bytes(module, type_id)
    raise DeviceError(f"A shader's push constants use SPIR-V type opcode {opcode}, not known here.")
