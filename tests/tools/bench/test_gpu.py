"""What `tools.bench.gpu` keeps when a part fails or the time is up."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from llm_lite.core.errors import FileError
from tools.bench import gpu

RATES = {
    "activations": "a8",
    "prefill_tok_s": {"median": 10.0},
    "decode_tok_s": {"median": 2.0},
    "bandwidth_share": 0.5,
    "read_gb_s_measured": 9.0,
}


def _main(monkeypatch, tmp_path, answer, *words):
    """The exit code, the report and the commands; `answer` makes their output."""
    asked = []

    def run(command, until):
        asked.append([word for word in command if word not in ("-c", "-m", gpu._COMMAND)])
        return answer(asked[-1])

    monkeypatch.setattr(gpu, "run", run)
    monkeypatch.setattr(sys, "argv", ["gpu", "--json", str(tmp_path / "out.json"), *words])
    code = gpu.main()
    return code, json.loads((tmp_path / "out.json").read_text()), asked


def test_what_is_done_stays_when_the_rest_fails(monkeypatch, tmp_path, capsys):
    def answer(words):
        if "int8" in words or words[0] != "bench":
            raise gpu.LeftOutError("no time was left")
        return json.dumps(RATES)

    code, report, asked = _main(monkeypatch, tmp_path, answer, "--modes", "int4,int8", "--new", "7")
    assert code == 1
    assert [row["mode"] for row in report["rates"]] == ["int4", "int4"]
    assert report["left_out"] == [
        f"{part}: no time was left" for part in ("rates", "frames", "tour")
    ]
    assert all(words[words.index("--backend") + 1] == "vulkan" for words in asked)
    assert asked[0][asked[0].index("--new-tokens") + 1] == "7"
    assert "left out: tour" in capsys.readouterr().out


def test_parts_and_device_are_chosen(monkeypatch, tmp_path):
    words = ["--parts", "rates", "--modes", "fp16", "--device", "1"]
    code, report, asked = _main(monkeypatch, tmp_path, lambda _: json.dumps(RATES), *words)
    assert code == 0 and "frame_ms" not in report
    assert [words[-2:] for words in asked] == [["--device", "1"]]
    with pytest.raises(SystemExit):
        _main(monkeypatch, tmp_path, lambda _: "", "--parts", "tours")


def test_random_weights_where_the_model_is_not_installed(monkeypatch, tmp_path):
    def missing(_):
        raise FileError("model", "is not installed")

    written = []
    monkeypatch.setattr(gpu.catalog, "resolve", missing)
    monkeypatch.setattr(gpu, "write_synthetic", lambda name, path, **_: written.append(path))
    words = ["--parts", "rates", "--modes", "int4"]
    _, report, asked = _main(monkeypatch, tmp_path, lambda _: json.dumps(RATES), *words)
    assert asked[0][1] == str(written[0])
    assert report["rates"][0]["model"] == "smollm2-135m-random"


def test_a_command_ends_with_its_time(monkeypatch, capfd):
    monkeypatch.setattr(gpu, "STILL_S", 0.1)
    began = time.monotonic()
    with pytest.raises(gpu.LeftOutError, match="no time"):  # else this test ends by its own limit
        gpu.run(["-c", "import time; time.sleep(3600)"], began + 0.5)
    assert time.monotonic() > began + 0.4
    assert "..." in capfd.readouterr().err
    assert gpu.run(["-c", "print(5)"], began + 3600) == "5\n"
    with pytest.raises(gpu.LeftOutError, match="code 3"):
        gpu.run(["-c", "import sys; sys.exit(3)"], began + 3600)


def test_frames_and_tour_are_reported(monkeypatch, tmp_path, capsys):
    phase = {"p50": 3.0, "p95": 4.5, "p99": 5.0, "frames": 9}
    found = {"device": {"name": "Some GPU", "driver": "1.2"}, "frame_ms": {"decode": phase}}
    found |= {"validation_messages": [], "executor": {}, "stats": {}, "startup": {}}

    def answer(words):
        if words[0] == "tools.tour":
            folder = Path(words[1])
            folder.mkdir()
            (folder / "report.json").write_text(json.dumps(found))
        return json.dumps(found)

    words = ["--parts", "frames,tour", "--words", "50"]
    code, report, asked = _main(monkeypatch, tmp_path, answer, *words)
    assert code == 0 and report["device"]["name"] == "Some GPU"
    assert report["frames"]["frame_ms"] == report["tour"]["frame_ms"] == {"decode": phase}
    assert asked[0][:3] == ["tools.bench.prompt_frames", "--words", "50"]
    assert "frames decode   p50    3.0 ms, p95    4.5 ms of 9 frames" in capsys.readouterr().out
