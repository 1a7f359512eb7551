"""Every family beside transformers: its logits on each executor, from checkpoints and from GGUF."""

import pytest

from tests.families import family_of
from tests.family_checks import NAMES, check_gguf, check_hub_config, check_logits, check_rings
from tests.pairs import on_executors

FAMILIES = [family_of(name) for name in NAMES]


def cases(named):
    """(family, case) of those that `named` gives of each family."""
    found = [(family, case) for family in FAMILIES for case in named(family)]
    ids = [f"{family.name}-{case}" for family, case in found]
    return pytest.mark.parametrize(("family", "case"), found, ids=ids)


@on_executors(FAMILIES)
def test_logits(family, case, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    check_logits(family, case, backend, tmp_path, device)


@cases(lambda family: family.cases if family.in_gguf is None else family.in_gguf)
def test_gguf_holds_the_same_model(family, case, tmp_path):
    check_gguf(family, case, tmp_path)


@cases(lambda family: family.cases)
def test_configs_of_the_hub(family, case, tmp_path):
    check_hub_config(family, case, tmp_path)


@cases(lambda family: family.rings)
def test_windows_in_rings(family, case, tmp_path):
    check_rings(family, case, tmp_path)
