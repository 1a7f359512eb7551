"""What sites make of tokens: as the whole text makes them when it is read at once, everywhere."""

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.questions import activations
from llm_lite.core.questions import sites as naming
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.sites import site_of, sites_of
from tests.asking import asked
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import BACKENDS, exact, running

TOKENS = tuple(np.random.default_rng(5).integers(30, 250, 45).tolist())
CLOSE = {"atol": 2e-3, "rtol": 1e-3}


def read_at_once(runner, names):
    """What each site makes of the whole text, before anything of it is stored."""
    executor, step = runner.executor, runner.session.step(TOKENS, 0)
    plan = executor.program.plan_of(step)
    found, done = {}, 0
    for site in sorted((site_of(plan, name) for name in names), key=lambda one: one.index):
        executor.run_ops(plan, step, done, site.index + 1)
        done = site.index + 1
        output = plan.tensors[plan.ops[site.index].outputs[0]]
        found[site.name] = executor.read(plan, output, step).copy()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_site_makes_what_the_text_read_at_once_makes(tiny_llama, device, backend):
    with running(tiny_llama, exact("numpy")) as runner:
        end = runner.executor.program.plans[0].layer_ends[-1]
        shown = [one for one in sites_of(runner.executor.program.plans[0]) if one.index <= end]
        names = tuple(site.name for site in shown)
        expected = read_at_once(runner, names)
    with running(tiny_llama, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS[:20])
        runner.session.prefill(TOKENS)
        before, kept = runner.session.committed, runner.attention.keys(1).copy()
        found = asked(ReadActivations(names), runner)
        some = asked(ReadActivations(names[3:5], 10, 40), runner)
        assert runner.session.committed == before
        np.testing.assert_array_equal(runner.attention.keys(1), kept)
    assert found.first == 0 and tuple(found.values) == names
    for site in shown:
        assert found.values[site.name].shape == (len(TOKENS), site.columns)
        np.testing.assert_allclose(found.values[site.name], expected[site.name], **CLOSE)
    assert some.first == 10
    for name in names[3:5]:
        np.testing.assert_allclose(some.values[name], expected[name][10:40], **CLOSE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_states_go_on_where_tokens_run_again(recurrent_folder, device, backend):
    names = ("blocks.3.hook_resid_post", "layers.4.feed_forward.residual")
    with running(recurrent_folder, exact("numpy")) as runner:
        expected = read_at_once(runner, names)
    with running(recurrent_folder, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        found = asked(ReadActivations(names, 33), runner)
    for name, one in zip(names, expected.values(), strict=True):
        np.testing.assert_allclose(found.values[name], one[33:], **CLOSE)


def test_behind_the_layers_each_token_has_its_own_logits(tiny_llama):
    with llm_lite.load(tiny_llama, backend="cpu", activations="a32") as model:
        found = model.activations(TOKENS, ["lm_head", "model.norm"], 40)
        logits = model.logits(TOKENS)
    assert found["model.norm"].shape[0] == 5
    np.testing.assert_allclose(found["lm_head"], logits[40:], **CLOSE)


@pytest.mark.parametrize("family", ["olmoe", "qwen3_next", "gemma2", "gpt2"])
def test_sites_of_other_families_make_something_of_each_token(tmp_path, family):
    """Of a mixture, too: what its experts make, in their own order, is no site."""
    known = family_of(family)
    path = write_case(known, next(iter(known.cases)), tmp_path)
    with running(path, exact("numpy")) as runner:
        plan = runner.executor.program.plans[0]
        names = tuple(one.name for one in sites_of(plan) if one.index <= plan.layer_ends[-1])
        expected = read_at_once(runner, names)
    with running(path, exact("cpu", whole_caches=True)) as runner:
        runner.session.prefill(TOKENS)
        found = asked(ReadActivations(names), runner)
    for name, rows in found.values.items():
        np.testing.assert_allclose(rows, expected[name], **CLOSE, err_msg=name)


@pytest.mark.parametrize(
    ("family", "aliases"),
    [
        ("qwen2", {"model.layers.1.self_attn.q_proj": "layers.1.attention.q.biased"}),
        (
            "gpt2",
            {
                "hook_embed": "embedding",
                "blocks.0.hook_resid_pre": "embedding.placed",
                "blocks.1.mlp.hook_pre": "layers.1.feed_forward.up.biased",
                "blocks.1.hook_mlp_out": "layers.1.feed_forward.down.biased",
                "blocks.1.mlp.hook_pre_linear": None,
            },
        ),
        (
            "gemma2",
            {
                "blocks.0.hook_resid_pre": "embedding.scaled",
                "blocks.1.hook_attn_out": "layers.1.attention.post_norm",
                "model.layers.1.self_attn": "layers.1.attention.output",
                "blocks.1.hook_mlp_out": "layers.1.feed_forward.post_norm",
                "model.layers.1.post_attention_layernorm": "layers.1.attention.post_norm",
            },
        ),
        (
            "olmoe",
            {
                "blocks.1.hook_mlp_out": "layers.1.feed_forward.sum",
                "model.layers.1.mlp": "layers.1.feed_forward.sum",
                "model.layers.1.mlp.gate_proj": None,
                "layers.1.feed_forward.gate": None,
            },
        ),
        ("qwen3_next", {"model.layers.1.mlp": "layers.1.feed_forward.sum.shared"}),
    ],
)
def test_names_of_others_are_the_same_place_in_each_family(tmp_path, family, aliases):
    known = family_of(family)
    with running(write_case(known, next(iter(known.cases)), tmp_path)) as runner:
        sites = sites_of(runner.executor.program.plans[0])
    found = {name: one.name for one in sites for name in (one.name, *one.aliases)}
    assert {alias: found.get(alias) for alias in aliases} == aliases


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (ReadActivations(("layers.0.atention.q",)), "did you mean layers.0.attention.q?"),
        (ReadActivations(("layers.9.attention.q",)), "no site 'layers.9.attention.q'"),
        (ReadActivations(()), "sites: expected one or more, found none"),
        (ReadActivations(("embedding",), 3, 3), "positions 3 to 2 are not in the cache"),
        (ReadActivations(("embedding",), 0, 46), "positions 0 to 45 are not in the cache"),
    ],
)
def test_what_is_not_there(tiny_llama, wanted, sentence):
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        with pytest.raises(RequestError, match=sentence.replace("?", r"\?")):
            asked(wanted, runner)


def test_too_many_values_are_refused(tiny_llama, monkeypatch):
    monkeypatch.setattr(activations, "MOST_VALUES", 1000)
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        with pytest.raises(RequestError, match="values are too many, at most 1,000"):
            asked(ReadActivations(("embedding",)), runner)


def test_any_number_of_names_takes_one_look_at_the_plan(tiny_llama, monkeypatch):
    """A client may send thousands, while all answers wait."""
    looks = []
    monkeypatch.setattr(naming, "sites_of", lambda plan: looks.append(plan) or sites_of(plan))
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        found = asked(ReadActivations(("embedding",) * 1000 + ("logits",), 0, 2), runner)
    assert tuple(found.values) == ("embedding", "logits") and len(looks) == 1


def test_names_of_others_stand_for_the_same_sites(tiny_llama):
    with running(tiny_llama) as runner:
        plan = runner.executor.program.plans[0]
        for name, alias in (
            ("embedding", "blocks.0.hook_resid_pre"),
            ("layers.0.feed_forward.residual", "blocks.1.hook_resid_pre"),
            ("layers.1.feed_forward.residual", "model.layers.1"),
            ("layers.1.attention.heads", "blocks.1.attn.hook_z"),
            ("layers.0.feed_forward.down", "model.layers.0.mlp.down_proj"),
            ("logits", "lm_head"),
        ):
            assert site_of(plan, alias) == site_of(plan, name)
            assert alias in site_of(plan, name).aliases


def test_no_second_model_is_made_where_queries_are_not_needed(tiny_llama, monkeypatch):
    with llm_lite.load(tiny_llama, backend="cpu", query_budget=0) as model:
        made = []
        monkeypatch.setattr(loader, "start", lambda *given, **more: made.append(given))
        assert model.activations(TOKENS, "logits")["logits"].shape[0] == len(TOKENS)
        assert model.ask(TOKENS, "lens", position=3).rows
        assert made == []
