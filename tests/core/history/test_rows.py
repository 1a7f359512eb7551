"""Options of a sampler come back from the file as they were; what is none is left out."""

import json
import math

import pytest

from llm_lite.core.history.database.rows import from_mapping
from llm_lite.core.messages import GenerationStats, SamplingOptions
from llm_lite.core.records import asdict, replace

OTHER = {
    "bool": False,
    "float": 0.375,
    "int": 7,
    "int | None": 8,
    "str": "root ::= [a-z]+",
    "tuple[str, ...]": ("END", "\n\n"),
    "tuple[tuple[int, float], ...]": ((5, -1.5), (6, 2.0)),
}


def test_every_option_comes_back():
    changed = replace(
        SamplingOptions(),
        **{name: OTHER[kind] for name, kind in SamplingOptions.__annotations__.items()},
    )
    assert from_mapping(SamplingOptions, json.loads(json.dumps(asdict(changed)))) == changed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "warm"),
        ("temperature", True),
        ("temperature", 10**400),
        ("temperature", math.inf),
        ("top_k", 1.5),
        ("seed", 1 << 64),
        ("grammar", 3),
        ("stop", "END"),
        ("stop", [1]),
        ("logit_bias", [[1, 2, 3]]),
        ("logit_bias", [[1.5, 2.0]]),
        ("logit_bias", {"5": 1}),
        ("unknown", 1),
    ],
)
def test_what_is_no_option_is_left_out(name, value):
    assert from_mapping(SamplingOptions, {name: value, "top_k": 3}) in (
        SamplingOptions(top_k=3),
        SamplingOptions(),  # where top_k itself was wrong
    )


def test_figures_come_back():
    drafts = [{"source": "lookup", "drafted": 9, "accepted": 7}]
    kinds = {
        "tuple[tuple[int, float], ...]": [[1, 2.5], [4, 3.0]],
        "tuple[SourceDrafts, ...]": drafts,
        "float": 1.5,
    }
    whole = {name: kinds.get(kind, 3) for name, kind in GenerationStats.__annotations__.items()}
    back = asdict(from_mapping(GenerationStats, whole))
    assert back == {**whole, "pass_ms": ((1, 2.5), (4, 3.0)), "drafted_by": tuple(drafts)}
    assert len(whole) > 3


@pytest.mark.parametrize(
    "drafts", [3, [3], [{}], [{"source": ""}], [{"source": 3, "drafted": 1, "accepted": 1}]]
)
def test_drafts_of_no_source_are_left_out(drafts):
    kept = {"new_tokens": 5, "drafted_by": drafts}
    assert from_mapping(GenerationStats, kept).drafted_by == ()
