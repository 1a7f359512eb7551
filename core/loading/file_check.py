"""Checks all that can be known of a model's files without running it, for `llm-lite verify`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.formats.variant_checksums import read_checksums
from llm_lite.core.formats.variant_reader import (
    MANIFEST_FILE,
    check_size,
    read_manifest,
    was_variant,
)
from llm_lite.core.hub import catalog
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.loading.slice_view import SliceSource
from llm_lite.core.loading.sources import (
    GgufSource,
    VariantSource,
    folder_of,
    open_source,
)
from llm_lite.core.loading.verification import document_parts, verify, worth_releasing
from llm_lite.core.models.registry import read_model
from llm_lite.core.text.pretokenizers import pretokenizer_note

T = TypeVar("T")
EMBEDDING = "token_embd.weight"

Progress = Callable[[float], None]  # the part done, 0..1


class Verdict(Struct):
    """The result of a check. `findings` are sentences on what is wrong, `notes` on what is only
    worth knowing."""

    path: Path
    kind: str = "model"
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tensors: int = 0
    nbytes: int = 0
    checksums: int = 0  # compared

    @property
    def sound(self) -> bool:
        return not self.findings


def verify_model(source: str | None, progress: Progress = lambda fraction: None) -> Verdict:
    """Read every byte of a model's files: sizes, checksums, headers, fields, vocabulary, template,
    and whether all weights are finite numbers. RequestError for an unknown name."""
    path = catalog.resolve(source)
    verdict = Verdict(folder_of(path) or path)
    if was_variant(verdict.path) and not _read_documents(verdict):
        return verdict
    opened = _tried(verdict, lambda: open_source(verdict.path))
    if opened is None:
        return verdict
    try:
        _describe(verdict, opened)
        _read(verdict, opened)
        _read_weights(verdict, opened, progress)
    finally:
        opened.close()
    return verdict


def _tried(verdict: Verdict, work: Callable[[], T]) -> T | None:
    try:
        return work()
    except LlmLiteError as error:
        verdict.findings.append(str(error))
        return None


def _read_documents(verdict: Verdict) -> bool:
    """Check sizes and checksums of a variant's files and return True if it can be opened."""
    folder = verdict.path
    manifest = _tried(verdict, lambda: read_manifest(folder))
    if manifest is None:
        return False
    for name, size in manifest["files"].items():
        if type(size) is int:
            _tried(verdict, partial(check_size, folder / name, size))
    if verdict.findings:
        return False
    known = _tried(verdict, lambda: read_checksums(manifest, folder / MANIFEST_FILE))
    if known is not None:
        parts = document_parts(folder, known)
        verdict.checksums += len(parts)
        verdict.findings += [str(problem) for problem in verify(parts) if problem]
    return verdict.sound


def _describe(verdict: Verdict, source: ModelSource) -> None:
    base = source.base if isinstance(source, SliceSource) else source
    kind = "Hugging Face directory"
    if isinstance(base, VariantSource):
        kind = f"variant in {base.folder.mode}"
        if base.folder.checksums is None:
            verdict.notes.append(
                f"{base.path}: was written without checksums: damage shows only where weights are "
                "no numbers; quantize the source again to have them"
            )
    elif isinstance(base, GgufSource):
        kind = "GGUF file"
    verdict.kind = kind if base is source else f"view of a {kind}"
    notes = filter(None, (*source.notes, pretokenizer_note(source.metadata)))
    verdict.notes += [f"{source.path}: {note}" for note in notes]
    verdict.nbytes = source.nbytes


def _read(verdict: Verdict, source: ModelSource) -> None:
    """Check fields and shapes, vocabulary and template."""
    _tried(verdict, lambda: read_model(source.metadata, source.tensors, source.path))
    embedding = source.tensors.get(EMBEDDING)
    if embedding is None:
        return  # reported with the shapes
    tokenizer = _tried(verdict, lambda: source.tokenizer(embedding.shape[0]))
    if tokenizer is not None:
        verdict.notes += [f"{source.path}: {note}" for note in tokenizer.notes]
        _tried(verdict, lambda: source.template(tokenizer))


def _read_weights(verdict: Verdict, source: ModelSource, progress: Progress) -> None:
    view = isinstance(source, SliceSource)  # whose base's documents were not read
    parts = [part for part in source.parts if view or part.tensor is not None]
    total, done = sum(part.nbytes for part in parts), 0
    verdict.tensors = sum(part.tensor is not None for part in parts)
    verdict.checksums += sum(part.checksum is not None for part in parts)

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress(min(1.0, done / max(1, total)))

    for problem in verify(parts, release=worth_releasing(total), progress=report):
        if problem is not None:
            verdict.findings.append(str(problem))
