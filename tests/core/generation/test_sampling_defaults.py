"""How a model's answers are chosen where nobody says otherwise."""

import json

import pytest

from llm_lite.core.generation.sampling_defaults import FAMILIES, MEASURED, sampling_defaults
from llm_lite.core.messages import SamplingDefault
from llm_lite.core.records import replace
from tests.desktop.engine.model import MODEL

CONFIG = "generation_config.json"


def folder(path, **values):
    (path / CONFIG).write_text(json.dumps(values))
    return path


def told(found):
    return {default.name: (default.value, default.source) for default in found}


def test_a_folder_s_own_values_come_first(tmp_path):
    path = folder(tmp_path, temperature=0.7, top_k=20, top_p=0.8, do_sample=True, eos_token_id=2)
    metadata = {"general.sampling.temp": 0.1, "general.sampling.min_p": 0.02}
    found, problems = sampling_defaults(path, metadata, "Qwen3 0.6B")
    assert told(found) == {
        "temperature": (0.7, CONFIG),
        "top_k": (20, CONFIG),
        "top_p": (0.8, CONFIG),
        "min_p": (0.02, "the file's general.sampling"),
    }
    assert problems == []


def test_a_gguf_file_s_keys(tmp_path):
    metadata = {
        "general.sampling.temp": 0.949999988079071,  # float32
        "general.sampling.penalty_last_n": 128,
        "general.sampling.penalty_repeat": 1.1,
        "general.sampling.mirostat": 1,  # the first version, which is not ours
        "general.sampling.mirostat_tau": 5.0,
    }
    found, problems = sampling_defaults(tmp_path / "a.gguf", metadata, "Somebody's model")
    source = "the file's general.sampling"
    assert told(found) == {
        "temperature": (0.95, source),
        "penalty_window": (128, source),
        "repetition_penalty": (1.1, source),
    }
    assert problems == []
    found, _ = sampling_defaults(
        tmp_path / "a.gguf", {**metadata, "general.sampling.mirostat": 2}, ""
    )
    assert told(found)["mirostat_tau"] == (5.0, source)


def test_minus_one_is_all_or_none_chosen_as_llama_cpp_has_it(tmp_path):
    metadata = {"general.sampling.top_k": -1, "general.sampling.penalty_last_n": -1}
    found, problems = sampling_defaults(tmp_path / "a.gguf", metadata, "")
    source = "the file's general.sampling"
    assert told(found) == {"top_k": (0, source), "penalty_window": (1 << 30, source)}
    assert problems == []


@pytest.mark.parametrize("value", ["hot", -1, True, [0.5], 1e9])
def test_what_is_no_value_is_said_and_left_out(tmp_path, value):
    path = tmp_path / CONFIG
    path.write_text(json.dumps({"temperature": value, "top_p": 0.5}))
    found, problems = sampling_defaults(tmp_path, {}, "SmolLM3 3B")
    assert told(found) == {"top_p": (0.5, CONFIG)}
    (problem,) = problems
    assert str(path) in problem and "temperature: expected 0.0 to 100.0, found" in problem


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "SmolLM2 135M Instruct",
            {"temperature": 0.2, "top_p": 0.9, "repetition_penalty": 1.1, "penalty_window": 256},
        ),
        ("SmolLM2-1.7B-Instruct-Q4_K_M.gguf", {"temperature": 0.2, "top_p": 0.9}),
        ("SmolLM3-3B", {"temperature": 0.6, "top_p": 0.95}),
        ("SmolLM3-3B-Base", {}),
        ("Qwen3-0.6B", {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0}),
        ("Qwen3-Coder-30B", {}),
        ("Meta-Llama-3.1-8B-Instruct", {"temperature": 0.6, "top_p": 0.9}),
        ("gemma-3-1b-it", {"temperature": 1.0, "top_k": 64, "top_p": 0.95, "min_p": 0.0}),
        ("gemma-3-1b-pt", {}),
        ("somebody's model", {}),
    ],
)
def test_a_family_s_card_where_the_files_say_nothing(tmp_path, name, expected):
    found, _ = sampling_defaults(tmp_path / "a.gguf", {}, name)
    assert {default.name: default.value for default in found} == expected
    for default in found:
        assert default.source in (MEASURED, *(family.source for family in FAMILIES))


def test_what_a_person_chose_wins():
    advised = (SamplingDefault("temperature", 0.2, "a card"), SamplingDefault("top_k", 7, "a card"))
    known = replace(MODEL, sampling_defaults=advised)
    assert known.sampling().temperature == 0.2 and known.sampling().top_k == 7
    chosen = known.sampling(temperature=0.4, seed=3)  # the program's own, on purpose
    assert (chosen.temperature, chosen.top_k, chosen.seed) == (0.4, 7, 3)
    assert MODEL.sampling().temperature == 0.4


def test_a_greedy_answer_has_the_likeliest_tokens():
    """Temperature 0 asks for them: no penalty changes that, unless the person wants one."""
    advised = (
        SamplingDefault("temperature", 0.2, "a card"),
        SamplingDefault("repetition_penalty", 1.1, MEASURED),
    )
    known = replace(MODEL, sampling_defaults=advised)
    assert known.sampling().repetition_penalty == 1.1
    assert known.sampling(temperature=0.0).repetition_penalty == 1.0
    assert known.sampling(temperature=0.0, repetition_penalty=1.1).repetition_penalty == 1.1
