"""What passes over several tokens cost, as `llm-lite bench --curve` says."""

import json
from types import SimpleNamespace

import pytest

from llm_lite.cli.main import main
from llm_lite.core.errors import RequestError
from llm_lite.core.metrics.pass_costs import break_even, drafting_ms, pass_costs
from llm_lite.core.records import replace
from tests.runners import exact, running


@pytest.mark.parametrize("drafted, ratio", [(1, 1.4), (3, 1.9), (7, 3.6)])
def test_break_even_is_where_tokens_are_worth_their_pass(drafted, ratio):
    chance = break_even(drafted, ratio)
    assert sum(chance**n for n in range(drafted + 1)) == pytest.approx(ratio)


def test_what_never_pays():
    assert break_even(1, 2.5) == 1.0
    assert break_even(7, 1.0) == pytest.approx(0.0, abs=1e-6)


def test_each_token_of_a_pass_is_a_segment(tiny_llama):
    with running(tiny_llama, exact("cpu", speculate="lookup", context=64)) as runner:
        ran, run = [], runner.session.executor.run

        def counted(step, stop=None):
            ran.append((step.count, len(step.segments)))
            return run(step, stop)

        runner.session.executor.run = counted
        costs = pass_costs(runner, depth=5, repeat=2)
        assert [cost.tokens for cost in costs] == [1, 2, 4, 8, 16, 32]
        assert all(cost.ms.median > 0 for cost in costs) and costs[0].ratio == 1
        decoded = ran[-18:]
        assert sorted(decoded) == sorted([(n, n) for n in (1, 2, 4, 8, 16, 32)] * 3)


def test_what_a_draft_model_takes(tiny_llama, capsys):
    words = ["bench", str(tiny_llama), "--backend", "cpu", "--ctx", "100", "--conversation", "0"]
    sizes = ["--prompt-tokens", "8", "--new-tokens", "4", "--repeat", "1", "--json"]
    assert main([*words, *sizes, "--speculate", str(tiny_llama)]) == 0
    draft = json.loads(capsys.readouterr().out)["draft_model"]
    assert draft["path"] == str(tiny_llama) and draft["mode"] == "int4"
    assert draft["ms_per_token"] > 0
    assert main([*words, *sizes]) == 0
    assert "draft_model" not in json.loads(capsys.readouterr().out)


def test_what_others_take_is_not_the_draft_model_s(tiny_llama):
    options = exact("cpu", speculate="lookup", context=64, draft_model=str(tiny_llama))
    with running(tiny_llama, options) as runner:
        speculation, source = runner.session.speculation, runner.draft.source
        speculation.sources = (SimpleNamespace(name="slice", seconds_per_token=7.0), source)
        assert drafting_ms(runner) == pytest.approx(1e3 * source.seconds_per_token)
        assert 0 < drafting_ms(runner) < 7000
        speculation.sources = speculation.sources[:1]
        assert drafting_ms(runner) == 0


@pytest.mark.parametrize("speculate, context, named", [("off", 64, "lookup"), ("lookup", 36, "36")])
def test_refusals(speculate, context, named, tiny_llama):
    options = replace(exact("cpu", speculate=speculate), context=context)
    with running(tiny_llama, options) as runner, pytest.raises(RequestError, match=named):
        pass_costs(runner, depth=10, repeat=1)


def test_bench_says_the_curve(tiny_llama, capsys):
    words = ["bench", str(tiny_llama), "--backend", "cpu", "--repeat", "1", "--curve"]
    sizes = ["--prompt-tokens", "4", "--new-tokens", "2", "--conversation", "0"]
    assert main([*words, *sizes, "--json"]) == 0
    passes = json.loads(capsys.readouterr().out)["passes"]
    assert [row["tokens"] for row in passes] == [1, 2, 4, 8, 16, 32]
    assert all(0 <= row["break_even"] <= 1 for row in passes)
    assert main([*words, *sizes]) == 0
    said = capsys.readouterr().out
    assert "T(1)" in said and "T(8)" in said and "drafts pay where" in said
    assert main([*words, *sizes, "--speculate", "off"]) != 0
    assert "--speculate lookup" in capsys.readouterr().err
