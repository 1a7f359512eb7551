"""`llm-lite bench` and `llm-lite doctor`: what they measure here."""

import json

import pytest

from llm_lite.cli.main import main
from tests.make_gguf import write_tiny_llama


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_bench(tiny_llama, capsys, backend):
    words = ["bench", str(tiny_llama), "--backend", backend, "--kv", "fp32", "--repeat", "2"]
    sizes = ["--prompt-tokens", "9", "--new-tokens", "4", "--depth", "5"]
    assert main([*words, *sizes, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = {"backend": backend, "mode": "as-stored", "prompt_tokens": 9, "new_tokens": 4}
    assert expected.items() <= report.items()
    assert (report["depth"], report["model"]) == (5, "Tiny llama 2")
    assert {"device", "activations", "threads", "weight_bytes", "bandwidth_share"} <= set(report)
    for rate in ("prefill_tok_s", "decode_tok_s"):
        assert set(report[rate]) == {"median", "min", "max"}
        assert 0 < report[rate]["min"] <= report[rate]["median"] <= report[rate]["max"]
    assert report["read_gb_s_measured"] > 0
    assert main([*words, *sizes]) == 0
    assert "tok/s" in capsys.readouterr().out


NOTE = "llm-lite: 15 tensors of type nvfp4 are multiplied as int8"


@pytest.mark.parametrize("mode", ["as-stored", "int8"])
@pytest.mark.parametrize("command", ["bench", "logits", "attention", "perplexity"])
def test_what_is_not_multiplied_as_it_is_stored_is_told(tmp_path, capsys, command, mode):
    model = str(write_tiny_llama(tmp_path / "m.gguf", dtype="nvfp4"))
    (tmp_path / "text.txt").write_text("on the sea " * 30)
    words = {
        "bench": ["--repeat", "1", "--prompt-tokens", "4", "--new-tokens", "2"],
        "logits": ["--tokens", "70,71", "--out", str(tmp_path / "x.npy")],
        "attention": ["--tokens", "70,71", "--out", str(tmp_path / "x.npz")],
        "perplexity": ["--file", str(tmp_path / "text.txt"), "--ctx", "16", "--chunks", "1"],
    }[command]
    assert main([command, model, "--backend", "cpu", "--mode", mode, *words]) == 0
    assert capsys.readouterr().err.count(NOTE) == (mode == "as-stored")


def test_doctor_measures_modes(tiny_llama, capsys):
    words = ["doctor", "--benchmark-modes", "--model", str(tiny_llama), "--backend", "cpu"]
    assert main([*words, "--json"]) == 0
    modes = json.loads(capsys.readouterr().out)["modes"]
    speeds = {row["mode"]: row["decode_tok_s"] for row in modes["rows"]}
    assert set(speeds) == {"as-stored", "fp32", "fp16", "int8", "int4"}
    assert min(speeds.values()) > 0 and modes["recommended"] in speeds and modes["reason"]
    assert main(words) == 0
    assert "\nRecommended " in capsys.readouterr().out


def test_doctor(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    facts = {"processor", "devices", "auto", "models", "learned_drafts"}
    facts |= {"accelerators", "ignored_accelerators"}
    assert set(report) == facts
    assert {"template", "uca"} <= {one["name"] for one in report["accelerators"]}
    assert report["processor"]["threads"] >= 1
    assert report["processor"]["kernels"] == report["processor"]["kernels_available"][-1]
    assert not report["processor"]["kernels_left_out"] and report["processor"]["kernels_reason"]
    for device in report["devices"]:
        assert {"name", "kind", "queue_families", "features", "usable"} <= set(device)
    auto = report["auto"]
    assert auto["backend"] in ("vulkan", "cpu")
    assert auto["reason"]
    if all(device["kind"] == "software" for device in report["devices"]):
        assert auto["backend"] == "cpu"
    assert main(["doctor", "--backend", "cpu"]) == 0
    out = capsys.readouterr().out
    assert report["processor"]["name"] in out
    assert "Auto        cpu" in out
    assert "because --backend cpu asks for it" in out
    assert all(device["name"] in out for device in report["devices"])
