"""An architecture: the rows in its file in core/models/, and what follows from them for every
one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.files.json_text import found
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.description import rope, sentence_files
from llm_lite.core.models.description.decoder import EMBEDDING, HEAD
from llm_lite.core.models.description.experts import joined_experts
from llm_lite.core.models.description.modules import Own, module_names, of_decoder
from llm_lite.core.models.description.pooling import DENSE_TENSORS
from llm_lite.core.models.description.rows import (
    CheckpointFields,
    FieldSource,
    GgufFields,
    Known,
    read_rows,
    rows_of,
)
from llm_lite.core.models.description.tensors import (
    FusedRow,
    KnownShape,
    NameRow,
    Shapes,
    added,
    check_shapes,
    flattened,
    numbered,
    part_by_part,
    queries_first,
    shape_of,
    shapes_of,
    split_rows,
    spread,
    transposed,
)
from llm_lite.core.models.description.tied import without_copies
from llm_lite.core.models.model import BuildOptions, Model, Slice
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.attention_layers import DRAFT
from llm_lite.core.plan.builder import Bucket, WeightSpec
from llm_lite.core.plan.module_names import ModuleNames
from llm_lite.core.plan.plan import Plan
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

Metadata = Mapping[str, Any]
Weights = Mapping[str, WeightSpec]
Tensors = Mapping[str, TensorData]
Graph = Callable[[Any, Weights, BuildOptions, Bucket], Plan]

# Where the text model lies in a checkpoint that holds more, and what else lies there.
_PREFIXES = (
    "model.language_model.",
    "language_model.model.",
    "model.",
    "transformer.",
    "gpt_neox.",
)
_TOWERS = {
    "vision": (
        *("vision_tower", "vision_model", "visual"),
        *("embed_vision", "vision_embedder", "multi_modal_projector"),
        *("vision_adapter", "vision_projection"),
    ),
    "audio": ("audio_tower", "embed_audio"),
}
_DRAFTING = "mtp."  # begins the names of blocks that draft further tokens
_DRAFT_BLOCK = f"blk.{DRAFT}."  # likewise, of the one that is used
_BLOCK = re.compile(r"blk\.([0-9]{1,5})\.")
HEAD_NAME = "lm_head.weight"
_OTHER_HEADS = ("embed_out.weight", "output.weight")  # of GPT-NeoX, of InternLM2
_POOLED = (1, 2, 3)  # GGUF's pooling types that make vectors of texts
_MADE = (
    ".attn.masked_bias",
    "rotary_emb.inv_freq",
)  # buffers that old checkpoints keep


class Translated(Struct):
    """A checkpoint in the terms of GGUF; `originals`: the text model's tensors under names that
    transformers would give it alone."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorData]
    notes: list[str] = field(default_factory=list)
    originals: dict[str, TensorData] = field(default_factory=dict)


class Architecture(Struct, frozen=True, kw_only=True, dict=True):  # for what is computed once
    """An architecture; title: in sentences. gguf: `general.architecture`. model_types: of
    config.json.

    config: a record of rows (`DecoderConfig` or of its kind). must_be: fields of config.json
    that may have one value only, and what any other would mean. defaults: of a config.json;
    defaults_of: those that differ, by model type. refused: keys of GGUF that must be 0 or absent,
    and what they would mean. draft_slice: the smaller model that was trained among the weights, of
    the fields (MatFormer). on_disk: weights whose single rows are read on disk. of_config: tensors
    of GGUF that are fields in a config.json; of_fields: those that no file has. copies: ends of
    names of tensors that are the embedding again, beside the head. module: what a module is called
    in transformers, with a head and without, of its name in `tensors`; modules: those whose names
    do not follow from the rows of tensors, and the labels of ops that make their outputs, the first
    that there is: with `{i}`, behind "layers.{i}."; (): no op does.
    """

    title: str
    gguf: str
    model_types: tuple[str, ...]
    config: type[Any]
    tensors: tuple[NameRow, ...]
    graph: Graph
    fused: tuple[FusedRow, ...] = ()
    must_be: tuple[tuple[str, object, str], ...] = (
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("mlp_bias", False, "biases are"),
    )
    refused: tuple[tuple[str, str], ...] = (("expert_count", "mixtures of experts are"),)
    defaults: Mapping[str, object] = field(default_factory=dict)
    defaults_of: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    vocabularies: tuple[tuple[str, str], ...] = (("vocab_size", EMBEDDING),)
    tied: bool = False  # where a config.json does not say it
    copies: tuple[str, ...] = ()
    draft_slice: Callable[[Any], Slice | None] = lambda config: None
    on_disk: frozenset[str] = frozenset()
    encoder_graph: Graph | None = None  # of an encoder-decoder; `graph` is then its decoder's
    unused: tuple[str, ...] = ()  # ends of names in checkpoints that nothing is made of
    sees_all: bool = True  # may see tokens on both sides, where its files say that it does
    drafting: str = ""  # GGUF's count of last blocks that draft further tokens
    # Tables that graphs read, made of the fields and of other tensors; their names begin as MADE.
    derived: Callable[[Any, Tensors], list[TensorData]] | None = None
    of_config: Callable[[CheckpointConfig, Known], list[TensorData]] = rope.checkpoint_factors
    of_fields: Callable[[Any], list[TensorData]] = rope.made_tensors
    module: Callable[[str], tuple[str, ...]] = of_decoder
    modules: Own | Callable[[Weights], Own] = field(default_factory=dict)

    def read(self, metadata: Metadata, weights: Weights, path: Path) -> Model:
        """Read a model's definition: fields, and every tensor's name and shape. FileError,
        UnsupportedError."""
        config = self.config_of(metadata, weights, path)
        encoder = decoding = None
        if self.encoder_graph is not None:
            decoding = config.decoding
            plan = partial(self.encoder_graph, config, weights)
            names = self._names(config, weights, "encoder")
            encoder = Model(config.encoder_shape, plan, bidirectional=True, names=names)
        plan = partial(self.graph, config, weights)
        names = self._names(config, weights, "" if encoder is None else "decoder")
        if self._is_pooled and config.embeds:
            self._check_embeds(config, path)
            return Model(
                config.shape,
                plan,
                self.on_disk,
                bidirectional=True,
                embedding=config.embedding,
                has_head=False,
                names=names,
            )
        return Model(
            config.shape,
            plan,
            self.on_disk,
            encoder=encoder,
            decoding=decoding,
            embedding=config.embedding if self._is_pooled and config.poolings else None,
            draft_slice=self.draft_slice(config),
            names=names,
        )

    def _names(self, config: Any, weights: Weights, stack: str = "") -> ModuleNames:
        modules = self.modules(weights) if callable(self.modules) else self.modules
        own = {"lm_head": ("logits",), **modules}

        def full(name: str) -> tuple[str, ...]:
            return (*self.module(name), name) if is_bare else self.module(name)

        # Without a head, as models that make vectors are used, names lack the prefix of the rest.
        is_bare = self._is_pooled and config.embeds
        return module_names(self.tensors, self.fused, config, full, own, stack)

    def _check_embeds(self, config: Any, path: Path) -> None:
        """Raise UnsupportedError for vectors of texts that the model would not make."""
        slides = 0 < config.window < config.context and any(config.sliding)
        key, problem = "attention.causal", ""
        if config.shape.recurrent_layers:
            key, problem = "pooling_type", " with recurrent states"
        elif not config.causal and not self.sees_all:
            problem = " that sees both sides"
        elif not config.causal and slides:
            problem = " with windows on both sides"
        if problem:
            raise UnsupportedError(
                f"{path}: {self.gguf}.{key}: vectors of texts by a {self.title} model{problem} are "
                "not known here"
            )

    def config_of(self, metadata: Metadata, weights: Weights, path: Path) -> Any:
        """Return the fields, checked, and check every tensor's shape against them."""
        config = self._config(metadata, weights, path)
        check_shapes(self.title, self._shapes(config, weights.__contains__), weights, path)
        return config

    def shapes_of(
        self,
        metadata: Metadata,
        path: Path,
        *,
        sizes: Mapping[str, tuple[int, ...]],
        optional: bool | Collection[str] = False,
    ) -> Shapes:
        """Return the shapes of every tensor of a model with these fields. `sizes`: the shapes of
        tensors that determine what no field does, such as the vocabulary; `optional`: with all that
        a model may leave out, or with these of them."""
        known = {name: KnownShape(name, "f32", size) for name, size in sizes.items()}
        config = self._config(metadata, known, path)
        if isinstance(optional, bool):
            return self._shapes(config, lambda name: optional)
        return self._shapes(config, optional.__contains__)

    @cached_property
    def _drafts(self) -> frozenset[str]:
        """Return GGUF's names of the tensors of a block that drafts, which graphs know."""
        return frozenset(row.gguf for row in self.tensors if row.gguf.startswith(_DRAFT_BLOCK))

    def _layers(self, metadata: Metadata) -> Metadata:
        """Return the fields without the blocks that draft further tokens."""
        blocks = metadata.get(f"{self.gguf}.block_count")
        drafting = metadata.get(f"{self.gguf}.{self.drafting}", 0) if self.drafting else 0
        if type(blocks) is not int or type(drafting) is not int or drafting < 1:
            return metadata
        return {**metadata, f"{self.gguf}.block_count": blocks - drafting}

    def _config(self, metadata: Metadata, weights: Weights, path: Path) -> Any:
        metadata = self._layers(metadata)
        for key, meaning in self.refused:
            if metadata.get(f"{self.gguf}.{key}"):
                raise UnsupportedError(f"{path}: {self.gguf}.{key}: {meaning} not known here")
        if not self._is_pooled and metadata.get(f"{self.gguf}.pooling_type") in _POOLED:
            raise UnsupportedError(
                f"{path}: {self.gguf}.pooling_type: vectors of texts by a {self.title} model are "
                "not known here"
            )
        self._check_scaling(metadata, path)
        known = self._known(GgufFields(metadata, path, f"{self.gguf}."))[0]
        return self.config(**known, **self.config.of_tensors(known, weights, path))

    def _check_scaling(self, metadata: Metadata, path: Path) -> None:
        """Raise UnsupportedError for scalings of rotary positions that would be passed over."""
        for key, neutral in rope.NEUTRAL.items():
            value = metadata.get(f"{self.gguf}.{key}", neutral[0])
            if value not in neutral:
                raise UnsupportedError(
                    f"{path}: {self.gguf}.{key} is {found(value)}, which is not known here; "
                    f"expected {' or '.join(f'{one:g}' for one in neutral)}"
                )
        if self._scales:
            return
        prefix = f"{self.gguf}.rope.scaling."
        kind, factor = metadata.get(prefix + "type", "none"), metadata.get(prefix + "factor", 0)
        if kind != "none" and (kind != "linear" or factor not in (0, 1)):
            raise UnsupportedError(
                f"{path}: {prefix}type is {found(kind)}, expected none: "
                f"a {self.title} model has no such positions here"
            )
        if kind == "none" and prefix + "type" not in metadata and factor not in (0, 1):
            raise UnsupportedError(
                f"{path}: {prefix}factor is {found(factor)}, expected 1: "
                f"a {self.title} model has no such positions here"
            )

    @cached_property
    def _rotates(self) -> bool:
        """Return True if there are rotary positions: for other models they are ignored in a
        config.json."""
        return "theta" in rows_of(self.config)

    @cached_property
    def _is_pooled(self) -> bool:
        """Return True if files may say how hidden states become vectors of texts."""
        return "poolings" in rows_of(self.config)

    @cached_property
    def _scales(self) -> bool:
        """Return True if rotary positions may be scaled by GGUF's fields."""
        return "scaling" in rows_of(self.config)

    def _known(self, source: FieldSource) -> tuple[dict[str, Any], frozenset[str]]:
        return read_rows(self.config, source)

    def _shapes(self, config: Any, present: Callable[[str], bool]) -> Shapes:
        dense = DENSE_TENSORS if self._is_pooled else ()
        return shapes_of((*self.tensors, *dense), config, present)

    def translate(self, config: CheckpointConfig, tensors: Tensors) -> Translated:
        """Translate a checkpoint to GGUF's terms. FileError and UnsupportedError name the field or
        tensor."""
        text = self.with_defaults(config.part("text_config"))
        metadata, known = self._metadata(text)
        result = Translated(metadata, {})
        skipped, drafting = dict.fromkeys(_TOWERS, 0), 0
        tied = self.is_tied(config, text)
        embeds = self._is_pooled and self.config.says_vectors(known)
        if not self._is_pooled and sentence_files.poolings(text, known) is not None:
            raise UnsupportedError(
                f"{text.path.parent / sentence_files.MODULES_FILE}: vectors of texts by a "
                f"{self.title} model are not known here"
            )
        for old, tensor in self._once(joined_experts(tensors, text.path.parent), tied).items():
            if tower := _tower(old):
                skipped[tower] += 1
            elif self.drafting and old.startswith(_DRAFTING) and not self._is_used(tensors):
                drafting += 1
            elif not old.endswith((*_MADE, *self.unused)) and not (embeds and _is_head(old)):
                self._add(result, text.path.parent, old, tensor, known)
        self._check_vocabularies(text, result.tensors)
        if not tied and not embeds and HEAD not in result.tensors:
            raise UnsupportedError(
                f"{text.path}: tie_word_embeddings is false, but there is no tensor {HEAD_NAME!r}"
            )
        if self._rotates:
            result.tensors |= {tensor.name: tensor for tensor in self.of_config(text, known)}
        if self._is_pooled:
            dense = sentence_files.dense_tensors(text, known)
            result.tensors |= {tensor.name: tensor for tensor in dense}
        result.notes += [
            f"the {tower} tower ({count} tensors) is not used: this is the text model"
            for tower, count in skipped.items()
            if count
        ]
        if self._rotates and rows_of(self.config)["theta"].checkpoint is rope.base:
            result.notes += [
                f"rotary field {quote(key)} is not known here, and not used"
                for key in rope.unread(text)
            ]
        if drafting:
            result.notes.append(
                f"the block that drafts further tokens ({drafting} tensors) is not used"
            )
        result.tensors = dict(self.complete(metadata, result.tensors, text.path.parent))
        return result

    def is_tied(self, config: CheckpointConfig, text: CheckpointConfig) -> bool:
        """Return whether the head is the embedding where there is none. `config`: of a multimodal
        checkpoint; `text`: of its text model."""
        whole = config.flag("tie_word_embeddings", self.tied)
        return text.flag("tie_embedding", text.flag("tie_word_embeddings", whole))  # LFM2's name

    def _once(self, tensors: Tensors, tied: bool) -> Tensors:
        """Return the tensors without copies of the embedding."""
        rows = (row.checkpoint for row in self.tensors if row.gguf == EMBEDDING)
        embedding = next(name for name in rows if name is not None)
        names = {_without_prefix(name): name for name in tensors if _tower(name) is None}
        copies = [name for own, name in names.items() if own.endswith(self.copies)]
        copies += [name for name in names.values() if tied and _is_head(name)]
        return without_copies(tensors, names.get(embedding, embedding), tuple(copies))

    def _is_used(self, tensors: Collection[str]) -> bool:
        """Return whether a checkpoint's block that drafts is used: there is one, of tensors that
        graphs know."""
        own = [numbered(name) for name in tensors if name.startswith(_DRAFTING)]
        return all(pattern in self._of_checkpoint and n in ("", "0") for pattern, n in own)

    def metadata_of(self, config: CheckpointConfig) -> dict[str, Any]:
        """Return GGUF's fields for a config.json of the text model."""
        return self._metadata(self.with_defaults(config))[0]

    def with_defaults(self, config: CheckpointConfig) -> CheckpointConfig:
        """Return the config with what its model type says where a field is left out."""
        own = self.defaults_of.get(str(config.get("model_type")), {})
        return config.with_defaults({**self.defaults, **own})

    def _metadata(self, config: CheckpointConfig) -> tuple[dict[str, Any], dict[str, Any]]:
        for key, value, meaning in self.must_be:
            config.must_be(key, value, meaning)
        known, in_config = self._known(CheckpointFields(config))
        metadata: dict[str, Any] = {"general.architecture": self.gguf}
        for name, row in rows_of(self.config).items():
            if name in in_config:
                value = known[name]
                plain = list(value) if isinstance(value, tuple) else value
                metadata[row.key(f"{self.gguf}.")] = plain
        return metadata, known

    def _add(
        self, result: Translated, folder: Path, old: str, tensor: TensorData, known: Known
    ) -> None:
        own = HEAD_NAME if _is_head(old) else _without_prefix(old)
        pattern, number = numbered(own)
        row = self._of_checkpoint.get(pattern)
        if row is None:
            raise UnsupportedError(
                f"{folder}: tensor {quote(old)} has no place in a {self.title} model"
            )
        renamed = replace(tensor, name=row.gguf.replace("{i}", number))
        more = row.add if isinstance(row, NameRow) else 0.0
        if row.transposed and len(tensor.shape) == 2:
            renamed = transposed(renamed)
        if isinstance(row, FusedRow) and (row.interleaved or row.grouped):
            renamed = self._in_order(renamed, row, known, folder)
        if isinstance(row, NameRow) and row.flat:
            renamed = flattened(renamed)
        if row.changed is not None:
            renamed = row.changed(renamed)
        result.tensors[renamed.name] = added(renamed, more) if more else renamed
        result.originals[f"model.{own}"] = tensor

    def _in_order(
        self, tensor: TensorData, row: FusedRow, known: Known, folder: Path
    ) -> TensorData:
        heads, parts = known["heads"], len(row.parts)
        count = heads + 2 * known["kv_heads"] if row.grouped else parts * heads
        if not tensor.shape or tensor.shape[0] % count:
            rows = f"{count} heads" if row.grouped else f"{parts} parts of {heads} heads"
            raise FileError(
                folder,
                f"tensor {tensor.name}: expected rows of {rows}, found shape {tensor.shape}",
            )
        if row.grouped:
            return queries_first(tensor, heads, known["kv_heads"])
        return part_by_part(tensor, parts, heads)

    @cached_property
    def _of_checkpoint(self) -> Mapping[str, NameRow | FusedRow]:
        rows: list[NameRow | FusedRow] = [*self.tensors, *self.fused]
        return {row.checkpoint: row for row in rows if row.checkpoint is not None}

    def _check_vocabularies(self, config: CheckpointConfig, tensors: Tensors) -> None:
        for key, name in self.vocabularies:
            if name in tensors and tensors[name].shape:
                own = next(row.checkpoint for row in self.tensors if row.gguf == name)
                config.rows(key, f"model.{own}", tensors[name].shape[0])

    def complete(self, metadata: Metadata, tensors: Tensors, path: Path) -> Tensors:
        """Return the tensors as graphs know them: fused matrices as views of their parts, and what
        scaled rotary positions need and no file has. Returns the same mapping if nothing is to be
        done."""
        tensors = self._without_drafting(metadata, tensors)
        fused = {name: parts for name in tensors if (parts := self._parts(name, tensors))}
        scalars = [name for name, tensor in tensors.items() if self._spreads(name, tensor)]
        folded = [name for name, tensor in tensors.items() if self._unfolds(name, tensor)]
        prefix = f"{self.gguf}.rope.scaling."
        scaled = self._scales and any(key.startswith(prefix) for key in metadata)
        derives = self.derived is not None and not any(n.startswith(MADE) for n in tensors)
        if not fused and not scaled and not scalars and not folded and not derives:
            return tensors
        config = self._config(metadata, tensors, path)
        result: dict[str, TensorData] = {}
        for name, tensor in tensors.items():
            rows = {part: shape_of(row, config)[0] for part, row in fused.get(name, {}).items()}
            ordered = self._ordered(tensor, config) if rows else tensor
            views = split_rows(ordered, rows, path) if rows else [tensor]
            result |= {view.name: view for view in views}
        for name in scalars:
            result[name] = spread(tensors[name], config.width)
        result |= {name: flattened(tensors[name]) for name in folded}
        made = self.of_fields(config) if scaled else []
        if self.derived is not None and derives:
            shapes = self._shapes(config, result.__contains__)
            of_file = [(name, shape) for name, shape in shapes if not name.startswith(MADE)]
            check_shapes(self.title, of_file, result, path)  # the tables are as large as they say
            made += self.derived(config, result)
        result |= {tensor.name: tensor for tensor in made if tensor.name not in result}
        return MappingProxyType(result)

    def _without_drafting(self, metadata: Metadata, tensors: Tensors) -> Tensors:
        layers = self._layers(metadata)
        if layers is metadata:
            return tensors
        blocks = int(layers[f"{self.gguf}.block_count"])
        numbers = {name: _BLOCK.match(name) for name in tensors}
        behind = {name: found for name, found in numbers.items() if found}
        names = {
            name: _DRAFT_BLOCK + name[found.end() :].removeprefix("nextn.")
            for name, found in behind.items()
            if int(found[1]) >= blocks
        }
        result = {name: tensor for name, tensor in tensors.items() if name not in names}
        if metadata[f"{self.gguf}.block_count"] == blocks + 1 and self._drafts >= {*names.values()}:
            result |= {own: replace(tensors[name], name=own) for name, own in names.items()}
        return result

    def _spreads(self, name: str, tensor: TensorData) -> bool:
        pattern = numbered(name)[0]
        is_scalar = tensor.shape == (1,)
        return is_scalar and any(row.spread and row.gguf == pattern for row in self.tensors)

    def _unfolds(self, name: str, tensor: TensorData) -> bool:
        pattern = numbered(name)[0]
        is_folded = len(tensor.shape) > 1
        return is_folded and any(row.flat and row.gguf == pattern for row in self.tensors)

    def _fused_row(self, name: str) -> FusedRow | None:
        pattern = numbered(name)[0]
        return next((row for row in self.fused if row.gguf == pattern), None)

    def _ordered(self, tensor: TensorData, config: Any) -> TensorData:
        row = self._fused_row(tensor.name)
        return tensor if row is None or row.ordered is None else row.ordered(tensor, config)

    def _parts(self, name: str, tensors: Tensors) -> dict[str, NameRow]:
        """Return the parts in the rows of a fused matrix, by name; {} if it is no such matrix."""
        row, number = self._fused_row(name), numbered(name)[1]
        if row is None:
            return {}
        parts = {part.gguf.replace("{i}", number): part for part in row.parts}
        return {} if next(iter(parts)) in tensors else parts


def _tower(name: str) -> str | None:
    parts = name.split(".")[:2]
    return next((t for t, stems in _TOWERS.items() if not set(stems).isdisjoint(parts)), None)


def _is_head(name: str) -> bool:
    return name in (HEAD_NAME, *_OTHER_HEADS) or name.endswith("." + HEAD_NAME)


def _without_prefix(name: str) -> str:
    return name.removeprefix(next((p for p in _PREFIXES if name.startswith(p)), ""))
