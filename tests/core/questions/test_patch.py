"""What follows a text under interventions: as the whole text computed at once has it, where nothing
is kept, on every executor; and afterwards nothing has changed."""

from pathlib import Path

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.messages import SetInterventions
from llm_lite.core.messages.interventions import Interventions, Replace, Scale, Shift
from llm_lite.core.questions import patch
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.sites import site_of
from tests.asking import asked
from tests.children import PATIENCE
from tests.families import family_of
from tests.family_checks import write_case
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact, running

RANDOM = np.random.default_rng(5)
TOKENS = tuple(RANDOM.integers(30, 250, 45).tolist())
SOURCE = tuple(RANDOM.integers(30, 250, 45).tolist())
CLOSE = {"atol": 2e-3, "rtol": 1e-3}


def at_once(runner, tokens, changes, sites=("logits",)):
    """What sites make of a whole text; `changes` by site are functions of its rows."""
    executor, step = runner.executor, runner.session.step(tokens, 0)
    plan = executor.program.plan_of(step)
    wanted = {site_of(plan, name).index: name for name in sites}
    acting = {site_of(plan, name).index: change for name, change in changes.items()}
    found, done = {}, 0
    for index in sorted({*wanted, *acting}):
        executor.run_ops(plan, step, done, index + 1)
        done = index + 1
        output = plan.tensors[plan.ops[index].outputs[0]]
        rows = executor.read(plan, output, step).copy()
        if index in acting:
            acting[index](rows)
            executor.write(plan, output, step, rows)
        if index in wanted:
            found[wanted[index]] = rows
    return found


def softmax(logits):
    shifted = np.exp(logits.astype(np.float64) - logits.max())
    return shifted / shifted.sum()


def columns_of(runner, name):
    return site_of(runner.executor.program.plans[0], name).columns


def cases(width, heads):
    """By name the interventions, and by site the same as functions of rows."""
    vector = tuple(RANDOM.normal(size=width).tolist())
    rows = tuple(tuple(row) for row in RANDOM.normal(size=(2, width)).tolist())

    def doubled_head(values):
        values[:, heads : 2 * heads] *= 2

    def moved(values):
        values[[7, 40]] += np.array(vector, np.float32)

    def replaced(values):
        values[[3, 30]] = rows

    def silenced(values):
        values[11:14] = 0

    head = Scale("layers.0.attention.heads", 2.0, unit=1)
    move = Shift("layers.0.feed_forward.residual", vector, positions=(7, 40))
    put = Replace("layers.0.attention.residual", rows, (3, 30))
    silence = Scale("layers.0.feed_forward.down", 0.0, positions=(11, 12, 13))
    by_site = {
        head.site: doubled_head,
        move.site: moved,
        put.site: replaced,
        silence.site: silenced,
    }
    each = {one.site: (one,) for one in (head, move, put, silence)}
    for name, changes in {**each, "all": (head, move, put, silence)}.items():
        yield name, Interventions(changes), {one.site: by_site[one.site] for one in changes}


@pytest.mark.parametrize("backend", BACKENDS)
def test_later_tokens_see_what_became_of_changed_ones(tiny_llama: Path, device, backend):
    with running(tiny_llama, exact("numpy")) as runner:
        residual = columns_of(runner, "blocks.0.hook_resid_post")
        heads = columns_of(runner, "layers.0.attention.heads") // runner.model_info.heads
        known = list(cases(residual, heads))
        expected = {
            name: at_once(runner, TOKENS, by_site)["logits"][-1] for name, _, by_site in known
        }
        plain = at_once(runner, TOKENS, {})["logits"][-1]
    with running(tiny_llama, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        kept = runner.attention.keys(1).copy()
        queries = runner.attention.queries(1).copy()
        tokens = tuple(range(runner.executor.program.vocabulary))[:500]
        for name, interventions, _ in known:
            found = asked(ReadPatch(interventions=interventions, tokens=tokens), runner)
            assert found.position == len(TOKENS) - 1
            np.testing.assert_allclose(found.logits_before, plain[: len(tokens)], **CLOSE)
            after = expected[name]
            np.testing.assert_allclose(
                found.logits_after[0, 0], after[: len(tokens)], **CLOSE, err_msg=name
            )
            p, q = softmax(plain), softmax(after)
            np.testing.assert_allclose(found.kl, [[(p * np.log(p / q)).sum()]], **CLOSE)
            assert float(found.kl[0, 0]) > 1e-4
        np.testing.assert_array_equal(runner.attention.keys(1), kept)
        np.testing.assert_array_equal(runner.attention.queries(1), queries)
        logits = runner.session.decode(5)
    with running(tiny_llama, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        np.testing.assert_array_equal(runner.session.decode(5), logits)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_another_text_are_put_in(tiny_llama: Path, device, backend):
    sites = ("layers.0.feed_forward.residual", "layers.1.attention.heads")
    with running(tiny_llama, exact("numpy")) as runner:
        rows = at_once(runner, SOURCE, {}, (*sites, "logits"))

        def put(site, positions):
            def change(values):
                values[positions] = rows[site][positions]

            return change

        both = {site: put(site, [4, 44]) for site in sites}
        whole = at_once(runner, TOKENS, both)["logits"][-1]
        alone = [
            [at_once(runner, TOKENS, {site: put(site, [p])})["logits"][-1] for p in (4, 44)]
            for site in sites
        ]
    with running(tiny_llama, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        wanted = ReadPatch(sites, SOURCE, (4, 44), tokens=tuple(range(200)))
        found = asked(wanted, runner)
        each = asked(ReadPatch(sites, SOURCE, (4, 44), each=True, tokens=tuple(range(200))), runner)
    np.testing.assert_allclose(found.logits_after[0, 0], whole[:200], **CLOSE)
    np.testing.assert_allclose(each.logits_after, np.array(alone)[:, :, :200], **CLOSE)
    assert each.kl.shape == (2, 2)
    np.testing.assert_allclose(found.of_source, softmax(rows["logits"][-1])[:200], **CLOSE)


def test_a_whole_text_patched_in_behind_the_last_layer_is_the_other_text(tiny_llama: Path):
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        found = asked(ReadPatch(("layers.1.feed_forward.residual",), SOURCE), runner)
    np.testing.assert_allclose(found.after[0, 0], found.of_source, atol=1e-5)
    assert len(found.tokens) == len(found.texts) > 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_recurrent_states_carry_changes_on(recurrent_folder: Path, device, backend):
    site = "blocks.0.hook_resid_post"
    with running(recurrent_folder, exact("numpy")) as runner:
        vector = RANDOM.normal(size=columns_of(runner, site)).astype(np.float32)

        def change(values):
            values[5] += vector

        expected = at_once(
            runner, TOKENS, {site: change}, (site, "layers.4.feed_forward.residual", "logits")
        )
    moved = Interventions((Shift(site, tuple(vector.tolist()), positions=(5,)),))
    with running(recurrent_folder, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        found = asked(ReadPatch(interventions=moved, tokens=tuple(range(100))), runner)
        names = (site, "layers.4.feed_forward.residual")
        inside = asked(ReadActivations(names, 33, interventions=moved), runner)
        logits = runner.session.decode(5)
    np.testing.assert_allclose(found.logits_after[0, 0], expected["logits"][-1][:100], **CLOSE)
    for name in names:
        np.testing.assert_allclose(inside.values[name], expected[name][33:], **CLOSE)
    with running(recurrent_folder, exact(backend), device=device) as runner:
        runner.session.prefill(TOKENS)
        np.testing.assert_array_equal(runner.session.decode(5), logits)


@pytest.mark.parametrize("family", ["olmoe", "qwen3_next", "gemma2", "gpt2"])
def test_activations_of_other_families_under_interventions(tmp_path: Path, family):
    known = family_of(family)
    path = write_case(known, next(iter(known.cases)), tmp_path)
    names = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
    with running(path, exact("numpy")) as runner:
        vector = RANDOM.normal(size=columns_of(runner, names[0])).astype(np.float32)

        def change(values):
            values[9] += vector

        expected = at_once(runner, TOKENS, {names[0]: change}, names)
    moved = Interventions((Shift(names[0], tuple(vector.tolist()), positions=(9,)),))
    with running(path, exact("cpu", whole_caches=True)) as runner:
        runner.session.prefill(TOKENS)
        found = asked(ReadActivations(names, interventions=moved), runner)
        some = asked(ReadActivations(names, 20, 33, interventions=moved), runner)
    for name in names:
        np.testing.assert_allclose(found.values[name], expected[name], **CLOSE, err_msg=name)
        np.testing.assert_allclose(some.values[name], expected[name][20:33], **CLOSE)


def test_the_share_of_an_expert_is_scaled_as_its_switch_does(tmp_path: Path):
    path = write_case(family_of("olmoe"), "plain", tmp_path)
    with running(path, exact("cpu", whole_caches=True)) as runner:
        runner.session.prefill(TOKENS)
        off = Interventions((Scale("layers.1.feed_forward.route", 0.0, unit=2),))
        found = asked(ReadPatch(interventions=off, tokens=tuple(range(100))), runner)
        gains = [list(row) for row in runner.session.gains]
        layers = runner.model_info.layers
        gains[layers + 1][2] = 0.0
        runner.session.clear()
        runner.session.set_gains(tuple(map(tuple, gains)))
        expected = runner.session.prefill(TOKENS)
    np.testing.assert_allclose(found.logits_after[0, 0], expected[:100], **CLOSE)
    assert float(found.kl[0, 0]) > 1e-6


WRONG = [
    (ReadPatch(), "source: expected tokens of another text"),
    (ReadPatch(("embedding",)), "source: expected tokens of another text"),
    (ReadPatch((), SOURCE), "sites: expected one or more"),
    (ReadPatch(("embeding",), SOURCE), "did you mean embedding?"),
    (ReadPatch(("embedding",), SOURCE, position=45), "position: expected 0 to 44"),
    (ReadPatch(("embedding",), SOURCE, (45,)), "expected 0 to 44, the tokens of the"),
    (ReadPatch(("embedding",), SOURCE[:9], (9,)), "source_positions: expected 0 to 8"),
    (ReadPatch(("embedding",), SOURCE, (1, 2), (3,)), "source_positions: expected 2"),
    (ReadPatch(("embedding",), SOURCE, unit=5000), "unit: embedding has columns 0 to"),
    (ReadPatch(("embedding",), (99999,)), "token 99,999 is not in the vocabulary"),
    (ReadPatch(("embedding",), SOURCE, tokens=(99999,)), "token 99,999 is not in the vocabulary"),
    (ReadPatch(("embedding",), SOURCE * 40), "do not fit into the context of"),
]


@pytest.mark.parametrize(("wanted", "sentence"), WRONG)
def test_what_cannot_be_patched(tiny_llama: Path, wanted, sentence):
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        with pytest.raises(RequestError, match=sentence.replace("?", r"\?")):
            asked(wanted, runner)


CHANGES = [
    ((Scale("layers.0.atention.q", 1.0),), "did you mean layers.0.attention.q?"),
    ((Shift("embedding", (1.0,)),), r"interventions\[0\].vector: expected 64 numbers, the columns"),
    (
        (Scale("embedding", 0.0), Scale("layers.0.attention.heads", 1.0, unit=99)),
        r"interventions\[1\].unit: layers.0.attention.heads has heads 0 to 3, found 99",
    ),
    ((Scale("embedding", float("nan")),), r"interventions\[0\].factor: expected finite"),
    ((Scale("embedding", 1.0, positions=(3, 45)),), "expected 0 to 44, the tokens of the text"),
    ((Replace("embedding", (), (3,)),), r"rows: expected one for each of 1 positions, found 0"),
    ((Replace("embedding", ((1.0,),), (3,)),), r"rows\[0\]: expected 64 numbers"),
]


@pytest.mark.parametrize(("changes", "sentence"), CHANGES)
def test_interventions_that_do_not_fit(tiny_llama: Path, changes, sentence):
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        for wanted in (
            ReadPatch(interventions=Interventions(changes)),
            ReadActivations(("embedding",), interventions=Interventions(changes)),
        ):
            with pytest.raises(
                RequestError,
                match=sentence.replace(
                    "mean layers.0.attention.q?", "mean layers.0.attention.q\\?"
                ),
            ):
                asked(wanted, runner)


def test_interventions_of_another_model_are_refused(tiny_llama: Path):
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        name = runner.model_info.name
        other = Interventions((Scale("embedding", 0.5),), "other")
        with pytest.raises(RequestError, match=f"made for other, and the model is {name}"):
            asked(ReadPatch(interventions=other), runner)
        own = Interventions((Scale("embedding", 0.5),), name)
        assert asked(ReadPatch(interventions=own), runner).kl[0, 0] > 0


def test_interventions_of_a_model_whose_weights_were_changed_are_refused(tmp_path: Path, client):
    """Of the same name and shapes: where tokens run again, and while it writes."""
    change = llm_lite.Scale("layers.0.attention.heads", 0.0, unit=1)
    paths = [
        write_tiny_llama(tmp_path / f"{seed}.gguf", {"general.name": "m"}, seed=seed)
        for seed in (1, 2)
    ]
    with llm_lite.load(paths[0], backend="cpu") as model:
        made = model.interventions(change)
        assert (made.model, made.changes) == (model.info.name, (change,))
        assert model.patch(TOKENS, interventions=made).kl[0, 0] > 0
        model.complete(TOKENS, interventions=made, max_new_tokens=1)
        own = model.info.name
    sentence = f"made for weights {made.weights[:12]} of {own}, and the model's are [0-9a-f]{{12}}"
    with llm_lite.load(paths[1], backend="cpu") as other:
        assert other.info.name == own
        for ask in (
            lambda: other.patch(TOKENS, interventions=made),
            lambda: other.activations(TOKENS, "embedding", interventions=made),
            lambda: other.complete(TOKENS, interventions=made),
        ):
            with pytest.raises(RequestError, match=sentence):
                ask()
        again = other.interventions(made)
        assert again.key == made.key and again.weights != made.weights
        assert other.patch(TOKENS, interventions=again).kl[0, 0] > 0
    client.load(paths[1], exact("cpu"))
    with pytest.raises(RequestError, match=sentence):
        client.send(SetInterventions(made)).result(PATIENCE)
    client.send(SetInterventions(again)).result(PATIENCE)


def test_python_takes_texts_and_arrays(tiny_llama: Path):
    with llm_lite.load(tiny_llama, backend="cpu", activations="a32") as model:
        width = next(one.columns for one in model.sites() if one.name == "embedding")
        found = model.patch("Hello there", "Hello where", "blocks.1.hook_resid_post")
        moved = model.patch(
            "Hello there", interventions=llm_lite.Shift("embedding", np.ones(width, np.float32))
        )
        assert found.kl.shape == moved.kl.shape == (1, 1) and moved.kl[0, 0] > 0
        by_name = model.ask(
            "Hello there", "patch", source="Hello where", sites="blocks.1.hook_resid_post"
        )
        np.testing.assert_array_equal(by_name.after, found.after)
        with pytest.raises(RequestError, match=r"interventions: changes\[0\]"):
            model.patch("Hello", interventions=[{"kind": "shift", "site": "embedding"}])


def test_a_grid_for_a_client_has_a_limit(tiny_llama: Path, monkeypatch):
    monkeypatch.setattr(patch, "MOST_VALUES", 100)
    with running(tiny_llama) as runner:
        runner.session.prefill(TOKENS)
        with pytest.raises(RequestError, match="values are too many, at most 100"):
            asked(ReadPatch(("embedding",), SOURCE, tuple(range(45))), runner)


def test_equal_interventions_have_one_key():
    one = Interventions((Scale("embedding", 1.0),))
    assert one.key == Interventions((Scale("embedding", 1.0),), "tiny").key != ""
    assert one.key != Interventions((Scale("embedding", 1.5),)).key
    assert Interventions().key == ""
