"""Accounts of steps by name, from the command line and of a model that runs."""

import json
from importlib import import_module

import pytest

from llm_lite.cli.main import main
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.accelerator import Accounting
from llm_lite.core.loading.accelerators import accelerator
from llm_lite.core.metrics.step_profile import account_step
from tests.runners import exact, running
from tests.seq2seq_checks import write_t5_gguf


def told(capsys, *words):
    code = main(["account", *map(str, words), "--json"])
    out = capsys.readouterr().out
    assert code == 0
    return json.loads(out)


def test_a_step_of_smollm2(smollm2, capsys):
    words = (smollm2, "--backend", "uca", "--mode", "int4")
    one, more = told(capsys, *words), told(capsys, *words, "--tokens", 128, "--depth", 512)
    assert (one["tokens"], one["depth"], more["tokens"], more["depth"]) == (1, 0, 128, 512)
    assert more["tokens_per_second"] > 2 * one["tokens_per_second"]
    products = [op for op in one["ops"] if op["on"] == "accelerator"]
    assert len(products) == 210
    assert sum(op["moving"] for op in products) > sum(op["busy"] for op in products)
    many = [op for op in more["ops"] if op["on"] == "accelerator"]
    assert sum(op["moving"] for op in many) < sum(op["busy"] for op in many)


def test_what_if(smollm2, capsys):
    words = (smollm2, "--backend", "uca", "--mode", "int8")
    usual = told(capsys, *words)
    faster = told(capsys, *words, "--set", "ddr_gb_s=38.4")
    ours = lambda found: sum(op["seconds"] for op in found["ops"] if op["on"] == "accelerator")  # noqa: E731
    assert ours(faster) < 0.75 * ours(usual)
    values = {p["name"]: p["value"] for p in faster["parameters"]}
    assert values["ddr_gb_s"] == 38.4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "volts=3"), "volts: expected one of rows, columns, clock_mhz, ddr_gb_s"),
        (("--set", "rows=1e9"), "rows: expected 8 to 128, found 1e+09"),
        (("--set", "rows=24"), "rows: expected one of 8, 16, 32, 64, 96, 128, found 24"),
        (("--set", "rows"), "expected NAME=NUMBER, found 'rows'"),
        (("--tokens", "4000"), "--tokens: expected 1 to"),
        (("--backend", "cpu"), "--backend cpu: expected an accelerator that gives an account"),
        (("--backend", "nobody"), "expected one of auto, vulkan, cpu, numpy, template, uca"),
    ],
)
def test_what_is_not_there_is_said(smollm2, capsys, words, said):
    words = ["account", str(smollm2), "--backend", "uca", "--mode", "int4", *words]
    try:
        code = main(words)
    except SystemExit as ended:  # by the parser
        code = ended.code
    assert code
    assert said in capsys.readouterr().err


def test_it_is_printed(smollm2, capsys):
    assert main(["account", str(smollm2), "--backend", "uca", "--mode", "int4"]) == 0
    out = capsys.readouterr().out
    assert "uca: 1 tokens behind 0:" in out and "waits for" in out
    assert "Nothing overlaps" in out and "ddr_gb_s = 19.2 GB/s" in out


def test_cross_attention_reads_the_source_and_not_the_cache(tmp_path, capsys):
    path = tmp_path / "t5.gguf"
    write_t5_gguf(import_module("tests.fixtures.seq2seq.t5").FAMILY, "plain", path)
    words = (path, "--backend", "uca", "--mode", "int8")
    near, far = told(capsys, *words), told(capsys, *words, "--depth", 30)
    for part, times in (("cross_attention", 1), ("attention", 31)):
        label = f"layers.0.{part}.heads"
        at = [op["macs"] for found in (near, far) for op in found["ops"] if op["label"] == label]
        assert at[0] and at[1] == times * at[0]


def test_labels_and_assumptions_are_there_in_korean(smollm2):
    with running(smollm2, exact("uca", mode="int4", activations="a8", context=64)) as runner:
        found = account_step(runner, 1, (("ddr_gb_s", 38.4),))
    shown = {*(one.label for one in found.parameters), *found.assumptions}
    assert set(found.translations["ko"]) == shown
    assert any("38.4 GB/s" in words for words in found.translations["ko"].values())


def test_a_model_that_runs(smollm2):
    options = exact("uca", mode="int4", activations="a8", context=256)
    with running(smollm2, options) as runner:
        assert runner.executor_info.accounts
        found = account_step(runner, 1, (("clock_mhz", 600.0),))
        assert found.tokens == 1 and len(found.ops) == len(runner.executor.program.plans[0].ops)
        with pytest.raises(RequestError, match="volts: expected one of"):
            account_step(runner, 1, (("volts", 1.0),))
    assert isinstance(accelerator("uca"), Accounting)
    assert not isinstance(accelerator("template"), Accounting)


def test_others_give_none(smollm2):
    with running(smollm2, exact("cpu", context=64)) as runner:
        assert not runner.executor_info.accounts
        with pytest.raises(RequestError, match="gives no account"):
            account_step(runner, 1, ())
