# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A model from inside
#
# The bundled model, SmolLM2 with 135 million weights, in half a minute: it answers, and shows how
# sure it is of each word, where its heads look, what its layers would say, and what it costs to
# hold its weights in fewer bits.
#
# This notebook is a text file. Jupyter opens it as it is where `jupytext` is installed
# (`pip install jupyterlab jupytext`, `jupyter lab`, then "Open With: Notebook").
# `jupytext --to ipynb docs/notebook.py` makes the other form. [Python](python.md) tells what else
# there is.

# %%
import numpy as np

import llm_lite
from llm_lite.core.assets import ASSETS

model = llm_lite.load(backend="cpu")  # or load("MODEL.gguf", mode="int4"), a name, a folder
model

# %% [markdown]
# ## An answer, token by token
#
# `generate` gives an iterator: each token is computed when it is asked for, and says how likely it
# was and what else might have come.

# %%
answer = model.generate("Why is the sky blue?", temperature=0, max_new_tokens=40)
for token in answer:
    print(token.text, end="", flush=True)

# %%
unsure = min(answer.tokens, key=lambda token: token.probability)
print(f"least likely: {unsure.text!r} with {unsure.probability:.0%}; the five likeliest there:")
for other in unsure.alternatives:
    print(f"{other.probability:8.1%}  {other.text!r}")

# %% [markdown]
# A notebook shows the answer itself with its tokens tinted: the stronger, the less likely the model
# found them. A pointer on a token tells the numbers.

# %%
answer

# %% [markdown]
# Any text can be read this way. The model is not surprised by Paris; by Berlin it is.

# %%
model.likelihood("The capital of France is Paris, and the capital of Spain is Berlin.")

# %% [markdown]
# ## What each layer would say
#
# The logit lens: the residual behind each layer, through the output norm and the head.

# %%
text = "The capital of France is"
lens = model.lens(text)
lens

# %%
paris = int(model.tokenize(" Paris")[0])
print("the likeliest from layer", int(np.argmax(lens.logits.argmax(axis=1) == paris)))
print("in the last six layers:", lens.probability(paris)[-6:].round(3))

# %% [markdown]
# ## Heads taken away
#
# `gains` is an array with a number for every head: 1 leaves it alone, 0 ablates it. Each head is
# taken away by itself: which of them does " Paris" depend on?


# %%
def log_p(token):
    logits = model.logits(text)[-1].astype(float)
    return logits[token] - np.logaddexp.reduce(logits)


whole = log_p(paris)
change = np.zeros(model.gains.shape)  # [layers, heads], in nats
for at in np.ndindex(change.shape):
    model.gains[at] = 0
    change[at] = log_p(paris) - whole
    model.gains[at] = 1

for at in np.argsort(change, axis=None)[:5]:
    layer, head = np.unravel_index(at, change.shape)
    print(f"without layer {layer:2}, head {head}: {change[layer, head]:+.2f} nats")

# %% [markdown]
# ## Where a head looks
#
# `attention` gives arrays: of all heads, of some or of one. Here is the late one of these heads. A
# notebook shows `head_map` as a picture: each row is a token, and where it looks.

# %%
maps = model.attention(text)
print(maps.shape, maps.dtype)  # layers, heads, the token that looks, the token that is looked at
late = np.where(np.arange(len(change))[:, None] >= 20, change, 0)
layer, head = (int(at) for at in np.unravel_index(late.argmin(), late.shape))
model.head_map(text, layer, head)

# %% [markdown]
# The last row once more, as tints of the text: the head brings what stands at " France".

# %%
model.highlight(text, maps[layer, head, -1])

# %% [markdown]
# ## Two weight modes
#
# The same file with its weights in 16 bits and in 4: what the smaller one costs.

# %%
passage = (ASSETS / "sample.txt").read_text("utf-8")
for mode in ("fp16", "int4"):
    with llm_lite.load(backend="cpu", mode=mode) as other:
        size = other.info.weight_bytes / 1e6
        print(f"{mode}: {size:.0f} MB of weights, perplexity {other.perplexity(passage):.2f}")

# %% [markdown]
# ## Texts as vectors

# %%
texts = [
    "A cat sleeps on the sofa.",
    "A kitten naps on the couch.",
    "Shares fell by three percent.",
]
vectors = model.embed(texts)
print(vectors.shape)
print((vectors @ vectors.T).round(2))

# %%
model.close()
