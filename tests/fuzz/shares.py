"""All doors by name, and what part of a run's cases each has."""

from __future__ import annotations

# Larger for what is tried faster, and for what has more to get wrong.
WEIGHTS = {
    "gguf": 10,
    "families": 8,
    "safetensors": 8,
    "config": 6,
    "checkpoints": 6,
    "numbers": 6,
    "variant": 6,
    "tokenizer": 8,
    "template": 8,
    "cache": 6,
    "settings": 5,
    "conversations": 5,
    "preset": 4,
    "grammar": 4,
    "costly": 4,
    "catalogue": 3,
    "places": 4,
    "prompt": 6,
    "slice": 4,
    "cli": 8,
    "markdown": 6,
    "server": 6,
    "tools": 5,
    "elsewhere": 5,
    "kept": 4,
    "page": 4,
    "answers": 4,
}
DOORS = tuple(WEIGHTS)


def share(door: str, count: int) -> int:
    """Of `count` cases over all doors, those of one."""
    return count * WEIGHTS[door] // sum(WEIGHTS.values())
