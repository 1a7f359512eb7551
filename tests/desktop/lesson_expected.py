"""What the lesson must show, by the names of its numbers: from the reference alone."""

import math
import re

import numpy as np

from llm_lite.core.exec import reference
from tests.lesson_reference import LessonReference, rms


class Expected:
    """Any number of the lesson by its name, from the reference alone."""

    def __init__(self, path, lesson, tokens, context=0, *, whole=None, source=(), beside=None):
        """whole: of encoders and encoder-decoders, whose numbers it holds. source: ids of what a
        target is about. beside: the vector of another text."""
        self.lesson, self.trace, self.tokens = lesson, lesson.trace, tokens
        self.source, self.beside = source, beside
        known = self.trace
        self.ref = LessonReference(
            path, tokens, known.layer, known.head, context, known.position, whole=whole
        )

    def of(self, name):
        """Its value; `scale` is how large what it is a part of can be."""
        self.scale = 0.0
        kind, which = name[0], name[1] if len(name) > 1 else None
        ref, scale = self.ref, self.ref.wiring.scale
        if vector := self.vectors().get(kind):
            found = vector()
            if np.ndim(found):
                self.scale = float(np.abs(found).max())
                return rms(found) if which == "rms" else float(found[which])
        if self.lesson.step_name == "residual":
            return ref.growth(kind, which)
        inside = [score.position for score in self.trace.opened.head.scores]
        outside = [p for p in range(ref.seen) if p not in inside]
        match kind:
            case "id":
                return self.tokens[which]
            case "position":
                return ref.position
            case "angle":
                return self.angle(which)
            case "distance":
                return which - ref.position
            case "bias":
                return ref.biases[which]
            case "turns":
                return self.turned(which) // 360
            case "factor":
                return ref.normed[which] * rms(ref.before) / ref.before[which]
            case "scale":
                return scale
            case "dot" | "sum":
                self.scale = float(np.abs(ref.dots).max())
                return ref.dots[which]
            case "score":
                return ref.scores(scale)[which]
            case "probability":
                return 100 * ref.shares(scale)[which]
            case "unscaled":
                return 100 * ref.shares(1.0)[which]
            case "others":
                return 100 * ref.shares(scale)[outside].sum()
            case "others_unscaled":
                return 100 * ref.shares(1.0)[outside].sum()
            case "head":
                return rms(ref.outputs[which])
            case "neuron":
                return ref.activations[which]
            case "up" | "gate":
                return ref.of_layer("feed_forward", kind, f"{kind}.biased")[which]
            case "curved":
                return curve(self.trace.shape.curve)(
                    ref.of_layer("feed_forward", "gate", "gate.biased")[which : which + 1]
                )[0]
            case "strong":
                return int((abs(ref.activations) >= abs(ref.activations).max() / 10).sum())
            case "neurons":
                return len(ref.activations)
        if self.lesson.step_name in ("cross", "source", "filling", "choosing", "pooling"):
            return self.beside_decoders(kind, which)
        return self.sampled(kind, which)

    def beside_decoders(self, kind, which):
        """Of the steps that only encoders and encoder-decoders have."""
        ref, rows = self.ref, self.ref.whole.rows
        match kind:
            case "source_id":
                return self.source[which]
            case "hidden":
                return rms(rows["source"][which])
            case "cross_score":
                self.scale = float(np.abs(ref.crossing().dots).max())
                return ref.crossing().scores(ref.wiring.scale)[which]
            case "cross_probability":
                return 100 * ref.crossing().shares(ref.wiring.scale)[which]
            case "logit":
                return ref.logits[which]
            case "likely":
                return 100 * ref.probabilities(1.0)[which]
            case "log_likely":
                return np.log(ref.probabilities(1.0)[which])
            case "rank":
                return self.rank()
            case "pooled_tokens":
                return len(self.tokens)
            case "pooled_length":
                return np.linalg.norm(rows[ref.names[ref.ends[-1]]].mean(axis=0))
            case "similarity":
                own, other = rows["vector"][0], self.beside
                return own @ other / np.linalg.norm(own) / np.linalg.norm(other)
        raise AssertionError(kind)

    def rank(self):
        """Of the token that stands behind, or that the model wrote: 1 is the likeliest."""
        stands, logits = self.trace.distribution.went_on, self.ref.logits
        return 0 if stands is None else int((logits > logits[stands.id]).sum()) + 1

    def vectors(self):
        ref = self.ref
        residual = {} if self.lesson.step_name == "residual" else {"residual": lambda: ref.before}
        return {
            "row": lambda: ref.row("embedding"),
            "segment": lambda: ref.row("types"),
            "place": lambda: ref.row("positions"),
            "embedding_sum": lambda: ref.embedding_sum,
            "embedded": lambda: ref.embedded,
            "divided": lambda: ref.before / rms(ref.before),
            "normed": lambda: ref.normed,
            "query": lambda: ref.query,
            "key": lambda: ref.keys[ref.own],
            "value": lambda: ref.values[ref.own],
            "head_output": lambda: ref.shares(ref.wiring.scale) @ ref.values,
            "attended": lambda: ref.attended,
            "summed": lambda: ref.summed,
            "after_attention": lambda: ref.after_attention,
            "ff_output": lambda: ref.added,
            "cross_query": lambda: ref.crossing().query,
            "cross_output": lambda: ref.crossing().outputs[ref.head],
            "cross_attended": lambda: ref.crossing().attended,
            "vector": lambda: ref.whole.rows["vector"][0],
            **residual,
        }

    def angle(self, pair):
        return self.turned(pair) % 360

    def turned(self, pair):
        """Degrees, by the formula of rotary positions (Su et al. 2021)."""
        shape = self.trace.shape
        turned = self.ref.position * shape.theta ** (-2 * pair / shape.rotary_dim)
        return math.degrees(turned)

    def sampled(self, kind, which):
        lesson, shape = self.lesson, self.trace.shape
        shares = self.ref.probabilities(lesson.temperature)
        order = np.argsort(-shares, kind="stable")
        sums = np.cumsum(shares[order])
        kept = order[: int((sums < lesson.top_p).sum()) + 1]
        left = shares[kept].sum()
        draw = (0.5 + lesson.draws * 0.6180339887498949) % 1.0
        chosen = kept[np.searchsorted(sums[: len(kept)], draw * left, side="right")]
        length, layers = self.ref.position + 1, len(self.ref.ends)
        row = 2 * 4 * shape.kv_heads * shape.head_dim * layers  # keys and values in float32
        return {
            "rank": self.rank(),
            "temperature": lesson.temperature,
            "top_p": lesson.top_p,
            "logit": lambda: self.ref.logits[which],
            "share": lambda: 100 * shares[which],
            "kept_share": lambda: 100 * shares[which] / left,
            "kept": len(kept),
            "likely": lambda: 100 * self.ref.probabilities(1.0)[which],
            "drawn": draw,
            "chosen_share": 100 * shares[chosen] / left,
            "length": length,
            "grown": length + 1,
            "position_bytes": row,
            "cache_values": row // 4,
            "cache_bytes": row * (length + 1),
            "context": shape.context,
        }[kind]


def curve(name):
    """As the NumPy executor defines it."""
    return {"silu": reference.silu, "gelu": reference.gelu, "relu": reference.relu}[name]


def compare(name, text, expected):
    """A number on the screen is the expected one, to the digits that stand there."""
    wanted = expected.of(name)
    wanted = float(wanted() if callable(wanted) else wanted)
    unit = re.search(r"(KiB|MiB|GiB|B)$", text)
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit[1]] if unit else 1
    digits = re.sub(r"[^0-9.+-]", "", text.replace("−", "-"))
    found, places = float(digits), len(digits.partition(".")[2])
    least = 10.0**-places
    # Sums in another order differ in float32's last bits: a number may lie that near a rounding.
    noise = 3e-6 * max(abs(wanted), expected.scale) / factor
    assert abs(found - wanted / factor) <= 0.501 * least + noise, (name, text, wanted)
