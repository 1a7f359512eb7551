"""How everyday prompts end on the bundled model, long stories among them: by themselves, at the
limit, or as they repeat themselves.

    python -m tools.cross.everyday [--seeds 3] [--before] [--max-new-tokens 1024]

`--before`: with the program's own defaults and without the guard, as answers were once made. Ends
with 1 where an answer reaches the limit by a loop, or where the guard has ended one of another
kind: each answer is computed without the guard, which must say the same up to where it ends.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence

import llm_lite
from llm_lite.api.model import Model
from llm_lite.core.generation.repetition import repeats
from llm_lite.core.messages import SamplingOptions

PROMPTS = (
    "Why is the sky blue?",
    "Write a short story about a cat who finds a key.",
    "Give me five tips for sleeping better.",
    "Explain how a bicycle stays upright.",
    "Write an email asking my landlord to repair the heating.",
    "What should I see in Rome in three days?",
    "Write a poem about the sea.",
    "Plan a week of simple dinners.",
    "What is the difference between weather and climate?",
    "How do I make pancakes?",
    "Write a long story about the sea.",
    "Write a long story about a dragon who is afraid of the dark.",
    "Tell me a long fairy tale about a fox and a bear.",
    "Write a long letter from a grandmother to her grandson.",
    "List three colors.",
)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=1024)
    parser.add_argument("--before", action="store_true")
    arguments = parser.parse_args(words)
    before = SamplingOptions()
    own = ("temperature", "top_p", "repetition_penalty", "penalty_window")
    chosen = {name: getattr(before, name) for name in own} if arguments.before else {}
    ends: Counter[str] = Counter()
    wrong = 0
    with llm_lite.load(backend="cpu", pool_budget=0) as model:
        print("| prompt | seed | tokens | end | loops at |\n| --- | --- | --- | --- | --- |")
        for prompt in PROMPTS:
            for seed in range(1, arguments.seeds + 1):
                most = arguments.max_new_tokens
                options = {**chosen, "seed": seed, "max_new_tokens": most}
                free = afresh(model).generate(prompt, repetition_guard=False, **options)
                loops = looping_at(prompt, free)
                end, count = free.finish_reason, len(free.tokens)
                if not arguments.before:
                    guarded = afresh(model).generate(prompt, **options)
                    list(guarded)
                    end, count = guarded.finish_reason, len(guarded.tokens)
                    expected = free.ids[:loops] if loops else free.ids
                    wrong += guarded.ids.tolist() != expected.tolist()
                    wrong += (end == "repetition") != (loops is not None)
                    wrong += end == "length" and loops is not None
                ends[str(end)] += 1
                print(f"| {prompt} | {seed} | {count} | {end} | {loops or ''} |", flush=True)
    print(", ".join(f"{end}: {count}" for end, count in ends.most_common()), f"; wrong: {wrong}")
    return int(wrong > 0)


def afresh(model: Model) -> Model:
    """Return the model with nothing in its cache: a prompt that is read on may be computed in
    other chunks."""
    model._runner.session.clear()
    return model


def looping_at(prompt: str, answer: llm_lite.Answer) -> int | None:
    """Return after how many tokens the answer loops, by the definition; the whole of it is
    computed."""
    tokens = list(answer)
    return repeats([t.id for t in tokens], [t.text for t in tokens], request=prompt)


if __name__ == "__main__":
    code = main()
    os._exit(code)
