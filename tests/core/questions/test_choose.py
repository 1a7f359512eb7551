"""Gains of heads and switches of experts as interventions, in every family; what `choose` does."""

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import NO_CHANGES, Interventions, ReadRouting
from llm_lite.core.messages.gains import fit_heads, from_old_gains, gains_of, others, with_gains
from llm_lite.core.messages.interventions import Choose, Scale, Shift
from llm_lite.core.questions.interventions.live import intervene
from llm_lite.core.questions.patch import ReadPatch
from tests.asking import asked
from tests.encoder_checks import started
from tests.encoder_checks import write_case as encoder_case
from tests.encoder_families import family_of as encoder_family
from tests.families import family_of
from tests.family_checks import NAMES, reference, write_case
from tests.fixtures.seq2seq import marian, t5
from tests.runners import exact, running
from tests.seq2seq_checks import write_case as write_seq2seq


def check_every_row(runner):
    """Gains of all rows go there as interventions and come back."""
    info, rng = runner.model_info, np.random.default_rng(0)
    wanted = []
    for number, (site, width) in enumerate(zip(info.gain_sites, info.gain_widths, strict=True)):
        row = rng.choice([0.0, 0.5, 1.0], width) if site else np.ones(width)
        if number >= info.gain_rows and site:
            row[info.experts :] = rng.choice([0.0, 1.0, 2.0], info.experts)
        wanted.append(tuple(row.tolist()))
    changes = with_gains(NO_CHANGES, tuple(wanted), info)
    assert intervene(runner, changes) == changes, "by the names of the model"
    assert runner.gains == tuple(wanted) == gains_of(changes, info)
    assert fit_heads(changes, info) and not others(changes, info)
    intervene(runner, NO_CHANGES)
    assert set(sum(runner.gains, ())) == {1.0}
    if info.translator is None and len({*info.gain_widths}) == 1 + bool(info.experts):
        assert from_old_gains(tuple(wanted)).changes == changes.changes


@pytest.mark.parametrize("name", NAMES)
def test_gains_of_every_family_are_interventions_and_back(name, tmp_path):
    family = family_of(name)
    with running(write_case(family, next(iter(family.cases)), tmp_path), exact("cpu")) as runner:
        check_every_row(runner)


@pytest.mark.parametrize("family", [t5.FAMILY, marian.FAMILY], ids=["t5", "marian"])
def test_gains_of_an_encoder_decoder_are_interventions_and_back(family, tmp_path):
    path = write_seq2seq(family, next(iter(family.cases)), tmp_path)
    with running(path, exact("cpu")) as runner:
        check_every_row(runner)


@pytest.mark.parametrize("name", ["bert", "distilbert", "embedding_gemma", "roberta"])
def test_gains_of_an_encoder_are_interventions_and_back(name, tmp_path):
    family = encoder_family(name)
    runner = started(encoder_case(family, next(iter(family.cases)), tmp_path), "cpu")
    try:
        check_every_row(runner)
        plan = runner.executor.program.plans[0]
        shift = Shift(plan.ops[plan.layer_ends[0]].label, (1.0,) * runner.model_info.width)
        with pytest.raises(RequestError, match="is an encoder, which is not shifted"):
            intervene(runner, Interventions((shift,)))
    finally:
        runner.close()


@pytest.fixture
def mixture(tmp_path):
    with running(write_case(family_of("olmoe"), "plain", tmp_path), exact("cpu")) as runner:
        runner.session.prefill(reference(family_of("olmoe"), "plain").tokens)
        yield runner


def test_an_expert_is_chosen_always_or_last(mixture):
    before = Routing.of(asked(ReadRouting(), mixture)).chosen[:, 1]
    counted = np.bincount(before.ravel(), minlength=mixture.model_info.experts)
    often, seldom = int(counted.argmax()), int(counted.argmin())
    site = "layers.1.feed_forward.route"
    changes = (Choose(site, "last", often), Choose(site, "always", seldom))
    intervene(mixture, Interventions(changes), throughout=True)
    mixture.session.prefill(reference(family_of("olmoe"), "plain").tokens)
    after = Routing.of(asked(ReadRouting(), mixture)).chosen[:, 1]
    assert (after != often).all() and (after == seldom).any(axis=1).all()


def test_experts_are_not_chosen_where_tokens_run_again(mixture):
    change = Choose("layers.1.feed_forward.route", "always", 0)
    with pytest.raises(RequestError, match=r"^interventions\[0\]: experts are chosen while the"):
        asked(ReadPatch(interventions=Interventions((change,))), mixture)


def test_what_is_no_gain_stays(mixture):
    info = mixture.model_info
    shift = Shift("layers.0.feed_forward.residual", (0.5,) * info.width)
    half, here = Scale("layers.0.attention.heads", 0.5, 1), (3, 4)
    some = Scale("layers.0.attention.heads", 0.0, 2, positions=here)
    changes = Interventions((shift, half, some))
    assert others(changes, info) == (shift, some)
    ones = gains_of(NO_CHANGES, info)
    assert with_gains(changes, ones, info).changes == (shift, some)
    assert gains_of(changes, info)[0][:3] == (1.0, 0.5, 1.0)
    assert not fit_heads(changes, info)
