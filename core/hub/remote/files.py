"""A repository's files as what can be fetched and run: GGUF files and checkpoints, all parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from llm_lite.core.hub.encoder_modules import is_module_file
from llm_lite.core.messages.library import HubFile
from llm_lite.core.plain_text import one_line
from llm_lite.core.quant.registry import GGUF_FORMATS
from llm_lite.core.text import template_files, tokenizer_files

MOST_FILES = 20_000
_LONGEST_PATH, _LONGEST_NAME = 1000, 200  # bytes
_FOREIGN = frozenset('\\:*?"<>|')  # in no name on Windows
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_REPO = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)
_OID, _SHA256 = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")
_SPLIT = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.(gguf|safetensors)", re.IGNORECASE)
# As llama.cpp and those who quantize with it write formats into names: "Q4_K_M", "UD-Q4_K_XL".
_FORMAT = re.compile(
    r"(?:^|[-_.])((?:UD-)?(?:I?Q[1-8]_(?:[0-9]|K|NL|XXS|XS|S|M)(?:_(?:XXL|XL|L|M|S|XS|XXS|P))?"
    r"|TQ[12]_0|BF16|FP16|F16|F32|FP32|MXFP4(?:_MOE)?|NVFP4))(?=$|[-_.])",
    re.IGNORECASE,
)
_MIXES = re.compile(r"_(?:XXL|XL|L|M|S|XS|XXS|P|NL)$")
# What a checkpoint needs beside its weights; the names that this program and others read.
_BESIDE = (
    "config.json",
    "generation_config.json",
    *tokenizer_files.ALL,
    *template_files.ALL,
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "preprocessor_config.json",
    "processor_config.json",
)
_INDEX = "model.safetensors.index.json"


class RemoteFile(Struct, frozen=True):
    """A file as the hub describes it. sha256: "" where git has it whole; `oid` is git's SHA-1."""

    path: str
    size: int
    oid: str
    sha256: str = ""

    @property
    def digest(self) -> str:
        """Return the file's name in the cache, its hash."""
        return self.sha256 or self.oid


def is_name(repo: str) -> bool:
    """Return True if a repository can have the name: OWNER/NAME, or NAME alone for very old
    ones."""
    parts = repo.split("/")
    return (
        _REPO.fullmatch(repo) is not None
        and ".." not in repo
        and "--" not in repo
        and not any(part.startswith((".", "-")) or part.endswith((".", "-")) for part in parts)
        and not repo.endswith(".git")
    )


def usable_path(path: object) -> bool:
    """Return True if a name from a hub can be one in a folder of ours, on every system."""
    if not isinstance(path, str) or not path or len(path.encode(errors="replace")) > _LONGEST_PATH:
        return False
    if one_line(path) != path or not _FOREIGN.isdisjoint(path):
        return False
    return all(
        part != ""
        and not part.endswith((".", " "))
        and not _DEVICE.fullmatch(part)
        and len(part.encode(errors="replace")) <= _LONGEST_NAME
        for part in path.split("/")
    )


def usable_file(file: RemoteFile) -> bool:
    return (
        usable_path(file.path)
        and type(file.size) is int
        and 0 <= file.size < 1 << 53
        and _OID.fullmatch(file.oid) is not None
        and (not file.sha256 or _SHA256.fullmatch(file.sha256) is not None)
    )


def choices(files: Iterable[RemoteFile], *, checkpoint_format: str = "") -> tuple[HubFile, ...]:
    """Return the models of a repository: checkpoints first, then GGUF files by their size."""
    found = list(files)
    result = [*_checkpoint(found, checkpoint_format), *_ggufs(found)]
    return tuple(sorted(result, key=lambda file: (file.form == "gguf", file.size, file.name)))


def _checkpoint(files: Sequence[RemoteFile], dtype: str) -> list[HubFile]:
    """Return the checkpoint in the root; those in folders are other programs'."""
    by_path = {file.path: file for file in files}
    if "config.json" not in by_path:
        return []
    shards = [path for path in by_path if _is_shard(path)]
    weights = ["model.safetensors"] if "model.safetensors" in by_path else sorted(shards)
    if not weights:
        return []
    problem = "" if weights == ["model.safetensors"] else _incomplete(weights)
    if not problem and len(weights) > 1 and _INDEX not in by_path:
        problem = f"its index {_INDEX} is missing"
    if not problem and not tokenizer_files.makes_tokenizer(by_path):
        problem = "its tokenizer is missing: tokenizer.json, or another that is read here"
    names = weights + [name for name in (_INDEX, *_BESIDE) if name in by_path]
    names += sorted(filter(is_module_file, by_path))
    if weights == ["model.safetensors"] and _INDEX in names:
        names.remove(_INDEX)
    size = sum(by_path[name].size for name in names)
    return [HubFile(weights[0], tuple(names), size, "huggingface", dtype, problem)]


def _is_shard(path: str) -> bool:
    match = _SPLIT.fullmatch(path)
    return match is not None and match[1] == "model" and match[4].lower() == "safetensors"


def _ggufs(files: Sequence[RemoteFile]) -> list[HubFile]:
    groups: dict[str, list[RemoteFile]] = {}
    for file in sorted(files, key=lambda file: file.path):
        if file.path.lower().endswith(".gguf"):
            match = _SPLIT.fullmatch(file.path)
            groups.setdefault(f"{match[1]}-of-{match[3]}" if match else file.path, []).append(file)
    return [_gguf(group) for group in groups.values()]


def _gguf(parts: Sequence[RemoteFile]) -> HubFile:
    paths = tuple(part.path for part in parts)
    name = paths[0].rpartition("/")[2].lower()
    form = format_of(paths[0])
    if "mmproj" in name:
        problem = "it sees images for another model and is none by itself"
    elif "imatrix" in name:
        problem = "it holds statistics for quantizing and no model"
    elif _SPLIT.fullmatch(paths[0]) and _incomplete(paths):
        problem = _incomplete(paths)
    elif form and not is_read(form):
        problem = f"its format {form} is not read here"
    else:
        problem = ""
    return HubFile(paths[0], paths, sum(part.size for part in parts), "gguf", form, problem)


def _incomplete(paths: Sequence[str]) -> str:
    match = _SPLIT.fullmatch(paths[0])
    count = int(match[3]) if match else len(paths)
    missing = count - len(paths)
    return f"{missing} of its {count} parts are missing" if missing else ""


def format_of(path: str) -> str:
    """Return the format in a GGUF file's name, in capitals; "" if there is none."""
    stem = re.sub(r"-[0-9]{5}-of-[0-9]{5}$", "", path.rpartition("/")[2][: -len(".gguf")])
    found = _FORMAT.findall(stem)
    if not found and "/" in path:  # a folder a format
        found = _FORMAT.findall(path.rpartition("/")[0].rpartition("/")[2])
    return {"FP16": "F16", "FP32": "F32"}.get(name := found[-1].upper(), name) if found else ""


def is_read(form: str) -> bool:
    """Return True if the weights of a mix of formats can be read: "Q4_K_M" is mostly q4_k."""
    name = form.upper().removeprefix("UD-").removesuffix("_MOE")
    return name.lower() in GGUF_FORMATS or _MIXES.sub("", name).lower() in GGUF_FORMATS
