"""Answers of a JSON schema: how many are valid, and what the sampler costs beside the model.

`python -m tools.bench.grammar` asks the bundled model at temperature 1, checks every answer with
jsonschema, and measures the time from a step to its token and the time of the model's steps in the
same run, with the schema and without. It fails where an answer is not valid.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import jsonschema

from llm_lite.core.generation import guide, sampling, steps
from llm_lite.core.generation.prompt import encode
from llm_lite.core.generation.token_chooser import TokenChooser
from llm_lite.core.loading import loader
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import ChatMessage, EngineOptions, SamplingOptions
from llm_lite.core.records import replace

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "mood": {"enum": ["happy", "sad", "curious"]},
        "hobbies": {
            "type": "array",
            "items": {"type": "string", "maxLength": 20},
            "minItems": 1,
            "maxItems": 4,
        },
    },
    "required": ["name", "age", "mood", "hobbies"],
    "additionalProperties": False,
}
QUESTION = "Invent a person. Answer with JSON: name, age, mood and hobbies."


@dataclass(slots=True)
class Times:
    """Seconds of every token. The medians are what a machine with other work still tells."""

    sampler: list[float] = field(default_factory=list)  # the grammar's part included
    steps: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        whole = 100 * sum(self.sampler) / sum(self.steps)
        step, choice = median(self.steps), median(self.sampler)
        return (
            f"{len(self.sampler)} tokens: steps {1e3 * sum(self.steps):.0f} ms, sampler "
            f"{1e3 * sum(self.sampler):.0f} ms, {whole:.1f} %; medians "
            f"{1e3 * step:.2f} ms and {1e6 * choice:.0f} us, {100 * choice / step:.1f} %"
        )


@contextmanager
def timed(runner: Runner) -> Iterator[Times]:
    """What is spent between a step's end and the choice of its token, and in the steps of one
    token."""
    times, choose, decode = Times(), TokenChooser.choose, runner.session.decode
    ended: list[float] = []  # when the last step did

    def timed_choose(*arguments: object) -> sampling.TokenChoice:
        choice = choose(*arguments)  # type: ignore[arg-type]
        if ended:
            times.sampler.append(time.perf_counter() - ended.pop())
        return choice

    def timed_decode(*arguments: object) -> object:
        begun = time.perf_counter()
        logits = decode(*arguments)  # type: ignore[arg-type]
        ended[:] = [time.perf_counter()]
        times.steps.append(ended[0] - begun)
        return logits

    TokenChooser.choose = timed_choose  # type: ignore[method-assign, assignment]
    runner.session.decode = timed_decode  # type: ignore[method-assign, assignment]
    try:
        yield times
    finally:
        TokenChooser.choose = choose  # type: ignore[method-assign]
        runner.session.decode = decode  # type: ignore[method-assign]


def answer(runner: Runner, options: SamplingOptions) -> str:
    tokenizer = runner.model_file.tokenizer
    encoded = encode(runner.model_file, (ChatMessage("user", QUESTION),), False)
    guided = guide.guide_of(tokenizer, options, encoded.thinking)
    if guided is not None:
        guided.check()
    ends = tokenizer.end_ids
    items = steps.generate_items(runner.session, encoded.ids, options, ends, guide=guided)
    chosen = [item.token for item in items if isinstance(item, sampling.TokenChoice)]
    return tokenizer.decode([token for token in chosen if token not in ends])


def problem(text: str) -> str:
    """Why a text is no JSON of the schema; "" where it is."""
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).partition("\n")[0]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--model")
    arguments = parser.parse_args()
    file = loader.open_model(arguments.model, lambda *_: None, print)
    engine = EngineOptions(backend="cpu", threads=arguments.threads)
    runner = loader.start(file, engine, None, lambda *_: None)
    free = SamplingOptions(temperature=1.0, max_new_tokens=200, seed=0)
    kept = replace(free, json_schema=json.dumps(SCHEMA))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    answer(runner, replace(kept, max_new_tokens=4))  # the vocabulary's table is made once
    bad = 0
    with timed(runner) as with_schema:
        for seed in range(arguments.answers):
            text = answer(runner, replace(kept, seed=seed))
            if why := problem(text):
                bad += 1
                print(f"seed {seed}: {why}: {text!r}")
    with timed(runner) as without:
        for seed in range(max(1, arguments.answers // 10)):
            answer(runner, replace(free, seed=seed))
    print(f"{arguments.answers - bad} of {arguments.answers} answers are valid")
    print(f"with the schema: {with_schema}")
    print(f"without: {without}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    runner.close()
    file.close()
    if bad:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
