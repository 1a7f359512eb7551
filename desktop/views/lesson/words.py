"""What the lesson says at each step: a title, a sentence or two, and why it is so."""

from __future__ import annotations

from dataclasses import dataclass

from llm_lite.core.messages.inspecting.lesson import TokenTrace, TracedShape
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.lesson.lesson_state import StepName


@dataclass(frozen=True, slots=True)
class StepWords:
    """Marked for translation."""

    title: str
    says: str
    why: str
    legend: str  # what the letters of the formula are


WORDS: dict[StepName, StepWords] = {
    "tokens": StepWords(
        mark("Text becomes numbers"),
        mark(
            "The model reads tokens: words or parts of words, each with a number of its own, the "
            "id. The id of our token picks one row of a large table, the embedding. This list of "
            "numbers, a vector, stands for the token from now on."
        ),
        mark(
            "A network computes with numbers only. Nobody wrote the rows: training moved them "
            "until "
            "tokens that are used alike had rows that are alike. A single number of a row means "
            "nothing by itself; all together they do. RMS, the root mean square, says how large "
            "the "
            "numbers of a vector typically are."
        ),
        mark("x: the vector of the token. E: the embedding, rows × columns."),
    ),
    "position": StepWords(
        mark("Where the token stands"),
        mark(
            "Attention by itself would not know the order of the words. This model turns pairs of "
            "numbers like hands of a clock: the later a token stands in the text, the farther each "
            "hand has turned, some fast and some slowly."
        ),
        mark(
            "When two tokens are compared, only the difference of their angles counts: how far "
            "they "
            "are apart. Fast hands tell neighbours apart, slow hands tell the beginning of a text "
            "from its end. Queries and keys are turned in every layer; values are not "
            "(RoPE, Su et al. 2021)."
        ),
        mark(
            "φ: the angle of pair i. The first number is the token's position, the base of "
            "the power is fixed by the model."
        ),
    ),
    "norm": StepWords(
        mark("Brought to one size"),
        mark(
            "The model is a stack of {layers} layers that are built alike; we open layer {layer}. "
            "First the vector is divided by its typical size, and each number gets a weight of its "
            "own. The pattern mostly stays; the size changes."
        ),
        mark(
            "Layers before this one have worked on the vector already; step 10 shows them all. "
            "The vector grows from layer to layer. Without this step, late layers would get "
            "inputs that are many times larger than those of early layers, and training would "
            "fail. The original is kept: the layer's result is added to it later."
        ),
        mark(
            "x: the vector as it comes. h: what the layer reads. w: learned weights, one for "
            "each number."
        ),
    ),
    "queries": StepWords(
        mark("A question, a label, a content"),
        mark(
            "A layer has {heads} heads, which look at the text in different ways. Each makes three "
            "short vectors of the token. The query is what the token looks for, the key is what it "
            "can be found by, and the value is what it gives to a token that finds it."
        ),
        mark(
            "Three learned matrices, which are tables of numbers, make them: each row makes one "
            "number of a result. Heads learn different questions: one looks for the previous word, "
            "another for the subject of the sentence. Often several heads share keys and values, "
            "to save memory."
        ),
        mark(
            "h: what the layer reads. W: learned matrices. The shape is that of one head: as many "
            "rows as a query has numbers, as many columns as h has."
        ),
    ),
    "scores": StepWords(
        mark("The query meets the keys"),
        mark(
            "The query is compared with the key of every token so far: number times number, all "
            "added up. A large sum means that the head finds there what it looks for."
        ),
        mark(
            "Such a sum is called a dot product. Where query and key have the same sign, they add; "
            "where the signs differ, they take away. The keys of earlier tokens are not computed "
            "again: they wait in the KV cache. Keys in this picture show their first numbers, the "
            "sums take all."
        ),
        mark("s: the sum for token j. Query and key have as many numbers as the sum has parts."),
    ),
    "softmax": StepWords(
        mark("Scores become shares"),
        mark(
            "The sums are multiplied by a fixed scale. Softmax then makes shares of them that add "
            "up "
            "to 100%: a little more score is much more share. Tokens that come later are masked: "
            "they get nothing."
        ),
        mark(
            "Switch the scale off, and one token often takes nearly everything: a head that sees "
            "one token only learns badly. The mask is there because the model was trained to guess "
            "the next token, and must not see it. Much of the share often goes to the first token: "
            "heads rest there when they find nothing."
        ),
        mark(
            "z: the scaled score. a: the share of token j. e: 2.718…, by whose powers larger "
            "scores win."
        ),
    ),
    "values": StepWords(
        mark("What is found is mixed"),
        mark(
            "Each token gives its value, in proportion to its share. The sum is the head's output: "
            "what this head has learned about the token from the words around it."
        ),
        mark(
            "This is the only place in a layer where information moves from one token to another. "
            "Everything else happens to each token alone. The values, like the keys, wait in the "
            "KV cache."
        ),
        mark("o: the output of the head. a: shares, v: values, both of token j."),
    ),
    "output": StepWords(
        mark("All heads together"),
        mark(
            "The outputs of all heads stand side by side. One more matrix mixes them to a vector "
            "as "
            "wide as the first one, and that is added to what the token had before."
        ),
        mark(
            "Adding, not replacing: the running sum is called the residual. A layer that has "
            "nothing "
            "to say adds almost nothing, and what early layers found is still there for late "
            "ones. Press a tile to open another head."
        ),
        mark(
            "o: the outputs of the heads, one behind the other. W: a learned matrix. The "
            "arrow: x becomes."
        ),
    ),
    "neurons": StepWords(
        mark("Neurons answer"),
        mark(
            "Now the token is alone with the feed-forward network: {neurons} neurons, each of "
            "which answers to a pattern of its own. Here are those that answer most strongly. What "
            "they say is added to the residual, too."
        ),
        mark(
            "A large part of a model's weights is here, and much of what it knows about the world. "
            "A neuron compares the vector with its pattern; if they match, it adds its own "
            "direction "
            "to the sum. Most neurons stay nearly silent."
        ),
        mark(
            "h: what the network reads. W: learned matrices; each row of the first belongs to "
            "a neuron."
        ),
    ),
    "residual": StepWords(
        mark("Layer by layer, the sum grows"),
        mark(
            "Every layer did the same with its own weights, and added its two parts: attention and "
            "feed-forward. The river shows how large the sum is behind each layer."
        ),
        mark(
            "No layer alone knows the answer. Each reads the sum and writes a small correction. In "
            "the Lens view you can see what the model would say after each layer. Where the river "
            "jumps, a few numbers of the vector have become very large; many models do so at the "
            "first token of a text."
        ),
        mark(
            "x: the residual, first and last. a: what attention adds in layer l, f: what the "
            "feed-forward adds."
        ),
    ),
    "sampling": StepWords(
        mark("Which token comes next?"),
        mark(
            "A last matrix gives every token of the vocabulary a score, its logit. Softmax makes "
            "probabilities of them. Move the sliders: a low temperature favours the likeliest, and "
            "top-p leaves out all that is unlikely."
        ),
        mark(
            "The model never chooses a word by itself: it gives probabilities, and a random number "
            "decides. Why not always the likeliest? Such texts soon repeat themselves. At a "
            "temperature of 1 the probabilities are as the model was trained. Real answers may "
            "also use penalties for repetition, which are left out here."
        ),
        mark("p: the probability of token i. z: its logit. T: the temperature."),
    ),
    "cache": StepWords(
        mark("The token joins the text"),
        mark(
            "The drawn token is put behind the sentence, and everything begins again for it. What "
            "was computed for the earlier tokens is not computed again: their keys and values stay "
            "in the KV cache, which grows by one column."
        ),
        mark(
            "That is why an answer comes token by token, and why long texts need memory: each "
            "token "
            "leaves a key and a value in every layer. When the context is full, nothing more fits."
        ),
        mark(
            "n: how many numbers a token leaves: layers, times 2 for key and value, times heads "
            "that have keys of their own, times the numbers of one key."
        ),
    ),
}
LEARNED = mark(
    "Attention by itself would not know the order of the words. This model has a second table with "
    "a row for each position. The row of our token's position is added to its embedding."
)
LEARNED_WHY = mark(
    "The rows of positions were learned in training, like those of tokens. A text can not be "
    "longer "
    "than the table. Newer models turn queries and keys instead, which needs no table."
)
NO_POSITION = mark(
    "This layer uses no positions: it looks at tokens by what they say only. The order of words "
    "comes from other layers, and from the mask: a token sees only what stands before it."
)
LAYER_NORM = mark(
    "The model is a stack of {layers} layers that are built alike; we open layer {layer}. First "
    "the vector's mean is taken away, and it is divided by its typical deviation; each number gets "
    "a weight and an offset of its own."
)
NO_NORM = mark(
    "The model is a stack of {layers} layers that are built alike; we open layer {layer}. Most "
    "models bring the vector to one size here. This one does so later, with what the layer gives: "
    "the vector goes in as it is."
)


def says_of(name: StepName, shape: TracedShape) -> str:
    """The sentences of a step, as they are true of this model; to be translated."""
    if name == "position" and shape.positions != "rotary":
        return LEARNED if shape.positions == "learned" else NO_POSITION
    if name == "norm" and shape.norm != "rms":
        return LAYER_NORM if shape.norm == "layer" else NO_NORM
    return WORDS[name].says


def said(name: StepName, trace: TokenTrace) -> str:
    """As `says_of`, translated, with this model's numbers."""
    shape = trace.shape
    return tr(says_of(name, shape)).format(
        layers=shape.layers, layer=trace.layer, heads=shape.heads,
        neurons=f"{shape.feed_forward:,}",
    )  # fmt: skip


def why_of(name: StepName, shape: TracedShape) -> str:
    if name == "position" and shape.positions == "learned":
        return LEARNED_WHY
    return WORDS[name].why


LEARNED_LEGEND = mark("x: the vector. E: the embedding. P: the table of positions, rows × columns.")
LAYER_NORM_LEGEND = mark(
    "μ: the mean of the vector. σ: its typical deviation. w, b: learned, one for each number."
)


def legend_of(name: StepName, shape: TracedShape) -> str:
    """What the letters of the formula are; "" where there is none."""
    if name == "position" and shape.positions != "rotary":
        return LEARNED_LEGEND if shape.positions == "learned" else ""
    if name == "norm" and shape.norm != "rms":
        return LAYER_NORM_LEGEND if shape.norm == "layer" else ""
    return WORDS[name].legend
