"""Pictures of a tour for the documentation: `python -m tools.doc_pictures TOUR`.

A page shows docs/pictures/NAME.png: one of the tour's in 256 colours, a quarter of the size. What a
tour lacks stays as it is: `account` is of one with `--backend uca --mode int4`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"

# name in docs/pictures -> name in the tour
SHOWN = {
    "chat": "03-answer",
    "conversations": "05-conversations",
    "conversations-search": "05-conversations-search",
    "conversations-versions": "05-conversations-versions",
    "files": "05-files-too-long",
    "prompts": "05-prompts",
    "thoughts": "05-thoughts-unfolded",
    "x-ray": "05-xray-looks",
    "x-ray-choice": "05-xray-choice",
    "attention": "04-attention-heads",
    "head": "04-attention-zoomed",
    "lens": "05-lens-held",
    "steer": "05-steered",
    "lesson": "16-lesson-06-softmax",
    "lesson-neurons": "16-lesson-09-neurons",
    "lesson-encoder": "17-encoder-lesson-dark-11-pooling",
    "encoder-text": "17-encoder-text-dark",
    "encoder-pairs": "17-encoder-pairs-dark",
    "tokenizer": "04-tokenizer-merging",
    "tokenizer-compare": "04-tokenizer-compare",
    "cache": "05-cache",
    "memory": "05-memory",
    "modes": "06-modes-measured",
    "runs": "06-runs-token",
    "report": "06-modes-report",
    "tensors": "06-modes-tensors",
    "performance": "04-performance-limit",
    "step": "04-step",
    "account": "04-account-what-if",
    "kernels": "04-kernels-vulkan",
    "log": "04-log",
    "serving": "05-serving-requests",
    "serving-start": "05-serving-network",
    "models": "15-models-details-light",
    "models-find": "15-models-found-light",
    "models-queue": "15-models-queue-light",
}


def main(tour: Path) -> None:
    for name, source in SHOWN.items():
        if not (tour / f"{source}.png").exists():
            print(f"{name}: {tour} has no {source}.png")
            continue
        picture = Image.open(tour / f"{source}.png").convert("RGB")
        picture = picture.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        picture.save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
