"""The tour with a scripted engine: every picture is made, and the report says what was asked."""

import json
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.messages import MODES, EngineOptions, LoadModel, SamplingOptions
from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.features.library.state import FitQuestion
from llm_lite.desktop.features.program.rail import PANELS
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.render.png import read_png
from tests.children import PATIENCE
from tests.desktop.engine.answers import ANSWER, pieces_of
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.vocabulary import SHARED
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tools.tour import input_driver, stage
from tools.tour.example_models import FOUND, FREE, LOCAL, ExampleServices
from tools.tour.tour import run_tour

pytestmark = pytest.mark.vulkan
HANGUL = re.compile("[가-힣]")


def started(*words):
    """The exit code of `python -m tools.tour WORDS`, and what it says on standard error."""
    command = [sys.executable, "-m", "tools.tour", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tour") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLM_LITE_VALIDATION", "1")
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: None)
        patch.setattr(
            input_driver, "time", clock
        )  # the engine steps with frames: these need no pause
        # As many points as on a dense screen, fewer pixels: the tour of a real engine draws all.
        patch.setattr(stage, "LARGE", (2560, 1440, 2.0))
        patch.setattr(stage, "IDLE_SECONDS", 0.2)
        shown = {}
        take = stage.Stage._picture
        patch.setattr(
            stage.Stage,
            "_picture",
            lambda own, name: (take(own, name), shown.setdefault(name, tr("Conversations"))),
        )
        report = run_tour(
            directory,
            "Why is the sky blue?",
            EngineOptions(),
            None,
            time.monotonic() - 0.1,
            SamplingOptions(max_new_tokens=1000),
            lambda device, wake: ScriptedEngine(wake=wake, steps_per_poll=8),
        )
    report["shown"] = shown
    return directory, report


def test_report(tour):
    directory, report = tour
    kept = json.loads((directory / "report.json").read_text("utf-8"))
    told = {name: value for name, value in report.items() if name != "shown"}
    assert kept == json.loads(json.dumps(told))  # which knows lists alone
    assert report["answer"] == ANSWER
    assert report["tokens"] == list(SHARED.ids_of(pieces_of(ANSWER)))
    assert report["stats"]["new_tokens"] == len(report["tokens"])
    assert report["validation_messages"] == []
    assert report["command_buffers_recorded_during_decode"] == 0
    assert report["attention"]["bytes_read_back_for_maps"] == 0
    assert report["attention"]["memory"]["maps"] > 0
    startup = report["startup"]
    assert 0.1 < startup["first_frame_s"] < startup["model_ready_s"] < startup["first_token_s"]
    for phase in ("idle", "prefill", "decode"):
        times = report["frame_ms"][phase]
        assert times["frames"] > 0
        assert 0 < times["p50"] <= times["p95"] <= times["p99"]


def test_pictures(tour):
    directory, report = tour
    names = " ".join(report["pictures"])
    for name in ("cache", "cache-hover", "cache-tokens", "cache-received", "cache-forgotten"):
        assert f"05-{name}.png" in report["pictures"]
    for name in ("runs", "runs-token", "modes-measured", "modes-report", "modes-switched"):
        assert f"06-{name}.png" in report["pictures"]
    for name in ("map", "fork", "map-light", "fork-light"):
        before = "06" if name.endswith("light") else "05"
        assert f"{before}-conversations-{name}.png" in report["pictures"]
    for name in ("text", "figure", "pairs", "fill", "fill-filled"):
        for theme in ("dark", "light"):
            base, _, end = name.partition("-")
            assert f"17-encoder-{base}-{theme}{'-' + end if end else ''}.png" in report["pictures"]
    figures = ["figure-grid", "figure-heads", "figure-text"]
    for name in [v.name for v in VIEWS[1:]] + [p.name for p in PANELS] + ["executor", *figures]:
        assert name in names
    shapes = set()
    for name in report["pictures"]:
        pixels = read_png(directory / name)
        if "figure" not in name:  # these have the size of what they show
            shapes.add(pixels.shape)
        assert np.unique(pixels.view(np.uint32)[::3, ::3]).size > 40, name  # colours
    assert shapes == {(720, 1280, 4), (1440, 2560, 4)}


def test_no_picture_is_that_of_another(tour):
    directory, report = tour
    seen = {}
    for name in report["pictures"]:
        pixels = read_png(directory / name)
        seen.setdefault((pixels.shape, pixels.tobytes()), []).append(name)
    same = [names for names in seen.values() if len(names) > 1]
    # The scripted engine ends both runs in the frames that a picture of their middle takes.
    assert same in ([], [["06-runs-writing.png", "06-runs.png"]])


def test_korean_pictures_are_in_korean(tour):
    """The word over the list of conversations in each picture, and in no other one."""
    _, report = tour
    words = report["shown"]
    korean = {name for name in words if "korean" in name}
    assert len(korean) == 4
    assert {name for name, word in words.items() if HANGUL.search(word)} == korean


@pytest.mark.parametrize("subject", [*LOCAL, *FOUND], ids=lambda one: getattr(one, "name", ""))
def test_what_is_said_to_fit_in_the_examples_does(subject):
    local = isinstance(subject, LocalModel)
    files = [""] if local else [file.name for file in subject.files]
    questions = [
        FitQuestion("", "", file, EngineOptions(mode=mode, context=context))
        for file in files
        for mode in MODES
        for context in (4096, 32_768, 131_072)
    ]
    fits = ExampleServices().fits(questions, subject)
    for question, answer in fits.items():
        fit = answer.fit
        assert (fit.mode, fit.context) == (question.mode, question.context)
        assert bool(fit.instead) != fit.fits
        said = [float(n) * (1 << 30 if unit == "GiB" else 1 << 20)
                for n, unit in re.findall(r"\(([0-9.]+) (GiB|MiB)\)", fit.instead)]  # fmt: skip
        assert all(amount <= FREE for amount in said), fit.instead


def test_themes_and_languages_differ(tour):
    directory, _ = tour
    dark = read_png(directory / "09-korean-13px-dark.png")[..., :3].mean()
    light = read_png(directory / "08-korean-13px-light.png")[..., :3].mean()
    assert dark < 80 < 180 < light


def missing(command):
    raise RequestError("missing.gguf: no such file")


def test_a_model_that_cannot_be_loaded_is_a_sentence(tmp_path):
    with pytest.raises(LlmLiteError, match=r"missing\.gguf: no such file"):
        run_tour(
            tmp_path,
            None,
            EngineOptions(),
            None,
            0.0,
            engine=lambda d, w: ScriptedEngine(0.0, answers={LoadModel: missing}),
        )


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LlmLiteError, match="cannot be made: there is a file where"):
        run_tour(tmp_path / "file" / "x", None, EngineOptions(), None, 0.0)


def test_a_model_of_one_layer_and_head_and_few_tokens_has_its_pictures(tmp_path):
    model = write_tiny_llama(tmp_path / "tiny.gguf", seed=2, layers=1, heads=1, kv_heads=1)
    code, err = started(tmp_path / "tour", "--model", model)
    assert (code, err) == (0, b"")
    report = json.loads((tmp_path / "tour" / "report.json").read_text("utf-8"))
    assert len(report["pictures"]) > 60
    assert all((tmp_path / "tour" / name).exists() for name in report["pictures"])
    assert read_png(tmp_path / "tour" / "12-attention-dark.png").shape == (2160, 3840, 4)


def test_a_model_that_cannot_answer_is_a_sentence(tmp_path):
    model = write_tiny_llama(tmp_path / "tiny.gguf", seed=2, context=16)
    code, err = started(tmp_path / "tour", "--model", model)
    assert code == 1
    assert err.startswith(b"llm-lite: the tour needs an answer of at least 8 tokens")
    assert b"the context holds 16" in err
    assert err.count(b"\n") == 1


@pytest.mark.parametrize("words", [[], ["DIR", "--language"], ["DIR", "--backend", "abacus"]])
def test_wrong_usage_is_a_sentence(words):
    code, err = started(*words)
    assert code == 2
    said = err.decode().splitlines()
    assert len(said) == 2 and said[1] == "See `python -m tools.tour --help`."
