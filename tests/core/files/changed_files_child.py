"""What is done with a model while its files change. Run by test_changed_files.py, in a process of
its own: where a fault is not caught, it ends that."""

import json
import os
from pathlib import Path

from llm_lite.cli import main as commands
from llm_lite.core.convert.calibration_run import calibrate
from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.convert.slicing import slice_model
from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import LlmLiteError
from llm_lite.core.generation.steps import generate
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.loading import backends, loader
from llm_lite.core.messages import SamplingOptions, TokenDecoded
from llm_lite.core.metrics.step_profile import profile_step
from llm_lite.core.metrics.tensors import analyze
from llm_lite.core.models.model import Slice
from tests.asking import effect, lens
from tests.core.engine_client import Client
from tests.runners import exact, running

PROMPT = [5, 250, 3, 77, 120, 9, 299, 42]
GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=8)
HEADER = 4096  # bytes that stay of what is cut


def cut(file):
    os.truncate(file, HEADER)


def write(file):
    """Other bytes behind the header, in place."""
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.seek(HEADER)
        stream.write(bytes([0x3C]) * (size - HEADER))


def nothing(file):
    pass


def touch(file):
    os.utime(file, ns=(0, 1))


def replace(file):
    new = file.with_name("new")
    new.write_bytes(b"another file")
    new.replace(file)


def delete(file):
    file.unlink()


def cut_and_mend(file):
    """As it was to whoever looks afterwards; called again after the step."""
    if file not in _whole:
        _whole[file] = file.read_bytes(), file.stat()
        return cut(file)
    content, status = _whole.pop(file)
    with file.open("r+b") as stream:
        stream.write(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return None


_whole = {}
AT = 3  # the step that begins when the files change


def during_steps(runner, change, file, again=False):
    """Change the file when a step has begun; again when it is done."""
    run, steps = runner.executor.run, []

    def changed(step, should_stop=None):
        steps.append(step)
        if len(steps) == AT:
            change(file)
        logits = run(step, should_stop)
        if len(steps) == AT and again:
            change(file)
        return logits

    runner.executor.run = changed


def said(work):
    """What an error says, or what there is without one."""
    try:
        return work()
    except LlmLiteError as error:
        return f"{type(error).__name__}: {error}"


def answer(path, file, backend, change, mode="as-stored"):
    """Tokens, and the error that ended them."""
    with running(path, exact(backend, mode=mode)) as runner:
        action = globals()[change]
        during_steps(runner, action, file, again=action is cut_and_mend)
        tokens = []

        def work():
            for choice in generate(runner.session, PROMPT, GREEDY, frozenset()):
                tokens.append(choice.token)
            return ""

        problem = said(work)
        return tokens, problem, runner.session.context_used, said(lambda: later(runner))


def by_workers(path, file, rounds):
    """How often the step of eight threads ended as it must, of so many times."""
    content, told = file.read_bytes(), 0
    for _ in range(int(rounds)):
        file.write_bytes(content)
        with running(path, exact("cpu", threads=8)) as runner:
            during_steps(runner, cut, file)
            problem = said(lambda: list(generate(runner.session, PROMPT, GREEDY, frozenset())))
            told += "changed while it was in use" in problem
    return told


def later(runner):
    """Whatever else runs steps."""
    runner.session.prefill(PROMPT)
    return ""


def opened(path):
    return loader.open_model(str(path), lambda *_: None, print, check_weights=False)


def at_stage(stage, change, after=0.0):
    """A progress that changes the files when a stage is reached, once."""
    done = []

    def progress(name, fraction):
        if name.startswith(stage) and fraction > after and not done:
            done.append(name)
            change()

    return progress


def load(path, file, stage):
    progress = at_stage(stage, lambda: cut(file))

    def work():
        model = loader.open_model(str(path), progress, print)
        loader.start(model, exact("cpu", mode="int8"), None, progress).close()
        return "loaded"

    return said(work)


def make_variant(path, file, target, change="cut"):
    model, target = opened(path), Path(target)
    progress = at_stage("quantizing", lambda: globals()[change](file))
    return said(lambda: quantize(model, target, "int4", replace=True, progress=progress) and "")


def look(path, file, what, folder):
    """Long work that reads weights outside the session's steps."""
    folder = Path(folder)
    with running(path, exact("cpu")) as runner:
        model = runner.model_file
        if what == "analyze":
            progress = at_stage("", lambda: cut(file))
            return said(lambda: analyze(model.file.tensors, "int4", progress) and "")
        if what == "profile":
            progress = at_stage("measuring a step", lambda: cut(file))
            return said(lambda: profile_step(runner, 1, progress) and "")
        if what == "calibrate":
            text = folder / "text"
            text.write_text("some words to read again and again, " * 40)
            progress = at_stage("calibrating", lambda: cut(file))
            return said(lambda: calibrate(model, text, folder, progress) and "")
        runner.session.prefill(PROMPT)
        if what in ("lens", "gains"):
            return inside(runner, file, what)
        saved = folder / "saved"
        if what == "save":
            cut(file)
            return said(lambda: cache_transfer.save(runner, saved)), saved.exists()
        cache_transfer.save(runner, saved)
        load = on_disk.load

        def changed(*arguments):
            prefix = load(*arguments)
            os.truncate(saved, 4096)
            return prefix

        on_disk.load = changed
        return said(lambda: cache_transfer.open_saved(runner, saved)), runner.session.context_used


def inside(runner, file, what):
    """What looks inside a model runs ops again, outside the session's steps."""
    session = runner.session
    run = runner.executor.run_ops

    def changed(*arguments):
        cut(file)
        run(*arguments)

    runner.executor.run_ops = changed
    if what == "lens":
        return said(lambda: lens(session, 3) and "")
    return said(lambda: effect(session))


def cut_slice(path, file, target):
    cut_out = Slice((), 64)
    whole = []

    def progress(fraction):
        if not whole:
            whole.append(fraction)
            cut(file)

    return said(lambda: slice_model(path, Path(target), cut_out, progress=progress))


def converse(path, file):
    """The window's engine: what it says of the change, and that it goes on."""
    client, content = Client(), file.read_bytes()
    client.load(path, exact("cpu"))
    first, tokens = client.ask()
    cut(file)
    problem = client.refusal()
    none = [event.token for event in client.of(TokenDecoded, client.handles[-1])]
    file.write_bytes(content)
    client.load(path, exact("cpu"))
    third, again = client.ask()
    client.engine.close()
    return [
        first.stop_reason,
        problem,
        none,
        third.stop_reason,
        tokens == again,
    ]


def command(path, file, *arguments):
    """A command of the terminal, whose steps see the files change; its exit status."""
    make = backends.make_executor

    def changed(*rest):
        executor = make(*rest)
        run = executor.run

        def cut_first(step, should_stop=None):
            cut(file)
            return run(step, should_stop)

        executor.run = cut_first
        return executor

    backends.make_executor = changed
    return commands.main(list(arguments))


def main(arguments):
    case, model, changing, *rest = arguments
    print(json.dumps(globals()[case](Path(model), Path(changing), *rest)))
