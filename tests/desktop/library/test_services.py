"""What the page asks of the real machine: a home of its own with models as programs lay them out,
and the hub of the tests."""

import json
import time
from types import SimpleNamespace

import pytest

from llm_lite.core.errors import FileError, LlmLiteError, RequestError
from llm_lite.core.messages import EngineOptions
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.host_fitting import choice_of
from llm_lite.desktop.features.library.host_services import CoreServices, edit_of
from llm_lite.desktop.features.library.model import (
    CancelJob,
    FetchModel,
    PauseJob,
    QuantizeModel,
    SliceModel,
)
from llm_lite.desktop.features.library.state import FitQuestion, HubSearch
from tests.children import PATIENCE
from tests.core.hub.fit.test_choosing import QWEN3
from tests.core.hub.local.conftest import home  # noqa: F401  a home of its own
from tests.core.hub.local.layouts import gguf, hub_repository, put
from tests.core.hub.remote.conftest import cache, hub  # noqa: F401
from tests.core.hub.remote.pulls import content

LLAMA = {"architecture": "llama", "total": 134_515_008, "context_length": 8192}
OPTIONS = EngineOptions(backend="cpu")


@pytest.fixture
def services(home, monkeypatch):  # noqa: F811
    for kind in ("data", "config", "state", "cache"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(home / f".{kind}"))
    made = CoreServices()
    yield made
    made.close()


def by_name(services):
    return {model.name: model for model in services.local()}


def test_models_are_listed_weighed_and_imported(services, home):  # noqa: F811
    cache = home / ".cache/huggingface/hub"  # noqa: F811
    hub_repository(cache, "tiny/talker", {"talker.gguf": gguf()})
    place = put(home / "elsewhere" / "mine.gguf", gguf())
    found = by_name(services)
    assert "talker" in found and "mine" not in found
    weighed = services.weigh([found["talker"]])
    assert weighed.freed >= found["talker"].size and not weighed.problem
    assert services.import_model(place) == "mine"
    assert "mine" in by_name(services)
    assert "only forgotten" in services.weigh([by_name(services)["mine"]]).notes[0]
    with pytest.raises(FileError):
        services.import_model(home / "nothing.gguf")


def test_a_model_is_verified(services, home):  # noqa: F811
    place = put(home / "elsewhere" / "mine.gguf", gguf())
    services.import_model(place)
    model = by_name(services)["mine"]
    assert "sound" in services.verify(model, lambda: False)
    with pytest.raises(LlmLiteError):
        services.verify(model, lambda: True)
    place.write_bytes(gguf()[:-100])
    with pytest.raises(FileError, match=r"mine\.gguf"):
        services.verify(model, lambda: False)


def test_what_a_model_takes_is_told_in_each_mode(services, home):  # noqa: F811
    services.import_model(put(home / "elsewhere" / "mine.gguf", gguf()))
    model = by_name(services)["mine"]
    questions = [
        FitQuestion("mine", "", "", replace(OPTIONS, mode=mode, context=context))
        for mode, context in (("as-stored", 32), ("fp16", 32), ("int8", 64))
    ]
    told = services.fits(questions, model)
    for one in questions:
        fit = told[one].fit
        assert (fit.mode, fit.context, fit.backend) == (one.mode, one.context, "cpu")
        assert fit.fits and not told[one].rough and fit.speed > 0
    too_long = replace(questions[0], options=replace(OPTIONS, context=1 << 20))
    answer = services.fits([too_long], model)[too_long]
    assert answer.fit is None and "context" in answer.problem


def test_the_hub_is_searched_and_files_that_are_not_here_are_estimated(services, hub):  # noqa: F811
    hub.add(
        "tiny/talker-gguf",
        {"talker.Q4_0.gguf": content(5000), "talker.Q8_0.gguf": content(9000)},
        gguf=LLAMA,
        downloads=10,
    )
    hub.add("tiny/other", {"other.gguf": content(100)}, gguf={"architecture": "unknown"})
    assert services.hub() == hub.url
    assert services.curated() and hub.asked == []
    found = services.search(HubSearch("talker"))
    assert [model.repo for model in found] == ["tiny/talker-gguf"]
    assert len(services.search(HubSearch(runnable=False))) == 2
    model = services.read("tiny/talker-gguf")
    questions = [
        FitQuestion("", model.repo, file.name, replace(OPTIONS, mode=mode, context=4096))
        for file in model.files
        for mode in ("as-stored", "int8")
    ]
    told = services.fits(questions, model)
    weights = [told[one].fit.parts[0].host for one in questions]
    assert weights[0] == 5000 and weights[2] == 9000
    assert weights[1] == weights[3] == round(LLAMA["total"] * 8.5 / 8)
    assert all(answer.rough for answer in told.values())
    with pytest.raises(LlmLiteError, match="tiny/nothing"):
        services.read("tiny/nothing")


def test_a_file_is_fetched_and_deleted_by_the_queue(services, hub, home):  # noqa: F811
    hub.add("tiny/talker", {"talker.gguf": gguf()}, gguf=LLAMA)
    states = []
    services.begin_queue(states.append)
    services.queue(FetchModel("tiny/talker", "talker.gguf"))
    wait(lambda: states and states[-1].jobs and states[-1].jobs[0].current is None)
    model = by_name(services)["talker"]
    assert model.path.read_bytes() == gguf() and states[-1].jobs[0].result == "talker"
    services.remove([model])
    wait(lambda: len(states[-1].jobs) == 2)
    assert states[-1].jobs[1].deletes == ("talker",) and model.path.exists()


def wait(until):
    end = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_the_queue_is_asked_becomes_a_change_of_its_jobs(services, home):  # noqa: F811
    services.import_model(put(home / "elsewhere" / "mine.gguf", gguf()))
    known = by_name(services)
    (job,) = edit_of(QuantizeModel("mine", "int4", calibrate=False), known)(())
    assert [stage.stage for stage in job.row.stages] == ["quantize"]
    assert not job.calibrate and job.row.mode == "int4"
    (job,) = edit_of(SliceModel("mine"), known)(())
    assert job.row.slice == "E2B"
    fetched = FetchModel("a/b", "c.gguf", 5, "int8", delete_source=True)
    (job,) = edit_of(fetched, known)(())
    stages = [stage.stage for stage in job.row.stages]
    assert stages == ["download", "quantize", "delete source"] and job.calibrate
    (paused,) = edit_of(PauseJob(job.id), known)((job,))
    assert paused.row.current.state == "paused"
    (cancelled,) = edit_of(CancelJob(job.id), known)((paused,))
    assert cancelled.row.current.state == "failed"
    with pytest.raises(RequestError, match="gone"):
        edit_of(QuantizeModel("gone", "int4"), known)


def test_the_executor_is_the_one_that_a_load_would_choose():
    card, soft = SimpleNamespace(kind="discrete"), SimpleNamespace(kind="software")
    auto = EngineOptions()
    assert choice_of(auto, card).backend == "vulkan" and choice_of(auto, card).info is card
    assert choice_of(auto, soft).backend == choice_of(auto, None).backend == "cpu"
    assert choice_of(replace(auto, backend="vulkan"), soft).backend == "vulkan"
    assert choice_of(replace(auto, backend="cpu"), card).backend == "cpu"


def test_what_nobody_has_fetched_is_estimated_by_its_own_config(services, hub):  # noqa: F811
    weights = {"tokenizer.json": b"{}", "model.safetensors": b"x"}
    raw = json.dumps(QWEN3).encode()
    hub.add("tiny/told", {"config.json": raw, **weights}, config={"model_type": "qwen3"})
    hub.add("tiny/odd", {"config.json": b"[]", **weights}, config={"model_type": "qwen3"})
    for repo, rough in (("tiny/told", False), ("tiny/odd", True)):
        model = services.read(repo)
        one = FitQuestion(
            "", repo, model.files[0].name, replace(OPTIONS, mode="int8", context=4096)
        )
        answer = services.fits([one], model)[one]
        assert answer.fit is not None and answer.rough is rough
        kept = next(part.host for part in answer.fit.parts if part.name == "cache")
        assert (kept == 4096 * 28 * 2 * 8 * 128 * 2) is not rough
