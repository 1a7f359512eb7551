"""The words of steps that decoders have: a title, a few sentences, why it is so, and the letters of
the formula. Each is marked for translation."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.features.lesson.state import StepName
from llm_lite.desktop.language.translate import mark


class StepWords(Struct, frozen=True):
    title: str
    says: str
    why: str
    legend: str  # what the letters of the formula are


WORDS: dict[StepName, StepWords] = {
    "tokens": StepWords(
        mark("Text becomes numbers"),
        mark(
            "The model reads tokens: words or pieces of words. Each has an id, which is only its "
            "place in a list of {vocabulary} tokens. The id of our token picks one row of a large "
            "table, the embedding. These {width} numbers, a vector, stand for the token from now "
            "on."
        ),
        mark(
            "A network computes with numbers only. Nobody wrote the rows: training moved them "
            "until tokens that are used alike had rows that are alike. A single number of a row "
            "means nothing by itself; all together they do. Where words are cut was decided by "
            "counting: frequent words are one token, rare ones are made of several, and a letter "
            "of another script may be several pieces, too."
        ),
        mark(
            "x: the vector of the token. E: the embedding, rows × columns. RMS, the root mean "
            "square: how large the numbers of a vector typically are."
        ),
    ),
    "position": StepWords(
        mark("Where the token stands"),
        mark(
            "So far nothing says where in the text the token stands. So query and key are cut into "
            "pairs of numbers. A pair is an arrow on a circle: thin as it was, thick as the "
            "token's position has turned it. The first pairs turn fast, the last ones slowly."
        ),
        mark(
            "When two tokens are compared, only the difference of their angles counts: how far "
            "they are apart. Fast arrows tell neighbours apart, slow ones tell the beginning of a "
            "text from its end. All layers turn their queries and keys, but not their values. This "
            "is called RoPE, rotary position embedding (Su et al. 2021)."
        ),
        mark(
            "φ: the angle of pair i, in radians; 2π, about 6.28, is a full turn. First the "
            "token's position, counted from 0, then a constant of the model."
        ),
    ),
    "norm": StepWords(
        mark("Brought to a common size"),
        mark(
            "The model is a stack of {layers} layers that are built alike. We open layer {layer}; "
            "the layers before it have changed the token's vector already. First the vector is "
            "divided by its RMS, its typical size; then each number is multiplied by a weight, a "
            "number that was learned."
        ),
        mark(
            "The vector grows from layer to layer. Without this step, late layers would get inputs "
            "that are many times larger than those of early layers, and training would fail. The "
            "original is kept: the layer's result is added to it later. Layers count from 0; the "
            "list above the picture opens another one."
        ),
        mark(
            "x: the vector as it comes. h: what the layer reads. w: learned weights, one for "
            "each number."
        ),
    ),
    "queries": StepWords(
        mark("A question, a label, a content"),
        mark(
            "Attention is how a token looks at other tokens. A layer has {heads} heads that look "
            "in different ways; we follow head {head}. It makes three short vectors of {size} "
            "numbers. The query is a question: what the token looks for. The key is a label: what "
            "others find it by. The value is a content: what it gives to those that find it."
        ),
        mark(
            "Three learned matrices, which are tables of numbers, make them: each row makes one "
            "number of a result. What a query asks for cannot be read off its numbers; which "
            "tokens it finds can, in the next steps. Often several heads share one key and one "
            "value, to save memory."
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
            "added up. A large sum means that the head finds there what it looks for. Keys and "
            "values of earlier tokens wait in a memory, the KV cache (K for key, V for value)."
        ),
        mark(
            "Such a sum is called a dot product. Where query and key have the same sign, they add; "
            "where the signs differ, they take away. The first token often gets a large sum, "
            "whatever it says: heads rest there when they find nothing else."
        ),
        mark("s: the sum for token j. Query and key have as many numbers as the sum has parts."),
    ),
    "softmax": StepWords(
        mark("Scores become shares"),
        mark(
            "The sums are multiplied by a fixed scale. Softmax then makes shares of them that add "
            "up to 100%: a little more score is much more share. These shares are the head's "
            "attention. Tokens that come later are masked: they get nothing."
        ),
        mark(
            "Switch the scale off, and one token often takes nearly everything: a head that sees "
            "one token only learns badly. The scale is 1 divided by the root of the query's "
            "length. The mask is there because the model was trained to guess the next token, and "
            "must not see it. Much of the share often goes to the first token: heads rest there "
            "when they find nothing."
        ),
        mark(
            "z: the scaled score. a: the share of token j. e: 2.718…; powers of it favour"
            " larger scores."
        ),
    ),
    "values": StepWords(
        mark("What is found is mixed"),
        mark(
            "Each token gives its value, in proportion to its share, and all are added up number "
            "by number. The sum is the head's output: what it has gathered from the words before. "
            "Only here does information move from one token to another."
        ),
        mark(
            "Everything else in a layer happens to each token alone. The values, like the keys, "
            "wait in the KV cache, so that they are computed once only."
        ),
        mark("o: the output of the head. a: shares, v: values, both of token j."),
    ),
    "output": StepWords(
        mark("All heads together"),
        mark(
            "The outputs of all {heads} heads stand side by side. One more learned matrix mixes "
            "them to a vector as wide as the first one, and that is added to what the token had "
            "before. The running sum is called the residual. Press a tile to open another head."
        ),
        mark(
            "Adding, not replacing: a layer that has nothing to say adds almost nothing, and what "
            "early layers found is still there for late ones. The columns can be checked: the "
            "first two vectors add up to the third."
        ),
        mark(
            "o: the outputs of the heads, one behind the other. W: a learned matrix. The "
            "arrow: x becomes."
        ),
    ),
    "neurons": StepWords(
        mark("Neurons answer"),
        mark(
            "Now the token is alone with the feed-forward network: {neurons} neurons, each with a "
            "pattern of its own. They read the residual, brought to a common size again. A neuron "
            "computes two numbers: its gate, which the curve opens or shuts, and up, what passes "
            "through. Their product is its answer. All answers together are added to the residual."
        ),
        mark(
            "A large part of a model's weights is here, and much of what it knows about the world. "
            "A neuron compares the vector with its pattern; if they match, it adds a direction of "
            "its own to the sum. Most neurons stay nearly silent. What a single one stands for is "
            "known of few of them."
        ),
        mark(
            "h: what the network reads. W: learned matrices, for gate, up and down; each row of "
            "the first two belongs to a neuron. ⊙: number times number."
        ),
    ),
    "residual": StepWords(
        mark("Layer by layer, the sum changes"),
        mark(
            "Every layer does the same with its own weights, and adds its two parts: attention and "
            "feed-forward. The river shows how large the sum is after each layer. Sizes do not "
            "simply add up: a part that points against the sum makes it smaller."
        ),
        mark(
            "No layer alone knows the answer: each reads the sum and adds a part. In the Lens view "
            "you can see what the model would say after each layer. Where the river jumps, a few "
            "numbers of the vector have become very large; many models do so at the first token of "
            "a text. Press a layer to open it."
        ),
        mark(
            "x: the residual, first and last. att, ff: what attention and feed-forward add in "
            "layer l."
        ),
    ),
    "sampling": StepWords(
        mark("Which token comes next?"),
        mark(
            "A last matrix turns the residual into a score for each of the {vocabulary} tokens of "
            "the vocabulary: its logit. Softmax makes probabilities of them. Move the sliders: a "
            "low temperature favours the likeliest token; top-p keeps the likeliest tokens until "
            "they make up so much, and leaves out the rest."
        ),
        mark(
            "The model never chooses a token by itself: it gives probabilities, and a random "
            "number decides. Why not always the likeliest? Such texts soon repeat themselves. At a "
            "temperature of 1 the probabilities are as the model was trained. Your text went on "
            "with another random number, and with the chat's own settings, which may also have "
            "penalties for repetition; these are left out here."
        ),
        mark(
            "p: the probability of token i. z: its logit. T: the temperature. m runs over all "
            "tokens of the vocabulary."
        ),
    ),
    "cache": StepWords(
        mark("The token joins the text"),
        mark(
            "The drawn token is put after the sentence, and all steps begin again for it. What was "
            "computed for the earlier tokens is kept: their keys and values stay in the KV cache, "
            "which grows by one column."
        ),
        mark(
            "That is why an answer comes token by token, and why long texts need memory: each "
            "token leaves a key and a value in every layer. The context is how many tokens fit. "
            "The token drawn here is an example: the text itself stays as it is. A KiB is 1,024 "
            "bytes."
        ),
        mark(
            "n: how many numbers a token leaves: layers, times 2 for key and value, times heads "
            "that have keys of their own, times the numbers of one key."
        ),
    ),
    "summary": StepWords(
        mark("The whole way"),
        mark(
            "Text is cut into tokens, and each becomes a vector. {layers} layers change it: "
            "attention gathers from the tokens before, neurons answer to what they read, and both "
            "are added. The last vector gives every token a probability; one is drawn, joins the "
            "text, and all begins again."
        ),
        mark(
            "Nothing else happens when a language model writes: no rule of grammar and no list of "
            "facts is looked up. All that it knows lies in the numbers of its matrices, and "
            "training found these by guessing the next token of very many texts."
        ),
        "",
    ),
}
LEARNED = StepWords(
    WORDS["position"].title,
    mark(
        "So far nothing says where in the text the token stands. This model has a second table "
        "with a row for each position. The row of our token's position is added to its embedding."
    ),
    mark(
        "The rows of positions were learned in training, like those of tokens. A text cannot be "
        "longer than the table. Newer models turn queries and keys instead, which needs no table."
    ),
    mark("x: the vector. E: the embedding. P: the table of positions, rows × columns."),
)
SINES = StepWords(
    WORDS["position"].title,
    mark(
        "So far nothing says where in the text the token stands. So each position has a row of "
        "sines and cosines, some of fast waves and some of slow ones. The row of our token's "
        "position is added to its embedding. Positions count from 0."
    ),
    mark(
        "Waves of many lengths tell positions apart as the digits of a number do: fast ones change "
        "with every token, slow ones only over a long text. Nothing had to be learned for it. The "
        "first Transformer did it so (Vaswani et al. 2017)."
    ),
    mark("x: the vector. E: the embedding. P: the table of sines and cosines, rows × columns."),
)
ALIBI = StepWords(
    WORDS["position"].title,
    mark(
        "So far nothing says where in the text the tokens stand. This model takes something away "
        "from each score: the farther back a token stands, the more. How much a step back costs is "
        "fixed for each head."
    ),
    mark(
        "Heads with a small cost see far, heads with a large one see their neighbours. Nothing had "
        "to be learned, and texts may be longer than those of the training. This is called ALiBi, "
        "attention with linear biases (Press et al. 2022)."
    ),
    mark("b: what is added to the score of token j. m: the slope of the head."),
)
LAYER_NORM = StepWords(
    WORDS["norm"].title,
    mark(
        "The model is a stack of {layers} layers that are built alike. We open layer {layer}; the "
        "layers before it have changed the token's vector already. First the vector's mean is "
        "taken away, and it is divided by its typical deviation. Then each number is multiplied by "
        "a weight, and an offset is added; both were learned."
    ),
    WORDS["norm"].why,
    mark(
        "μ: the mean of the vector. σ: its typical deviation. w, b: learned, one for each number."
    ),
)
BEHIND = StepWords(
    WORDS["norm"].title,
    mark(
        "The sum of both is brought to a common size, before the next part reads it: its mean is "
        "taken away, it is divided by its typical deviation, then each number is multiplied by a "
        "weight and an offset is added; both were learned."
    ),
    mark(
        "Without this step, late layers would get inputs that are many times larger than those of "
        "early layers, and training would fail. The first Transformers had this norm after each "
        "sum, as this model has; most later ones have it before each part of a layer, which is "
        "easier to train when there are many layers."
    ),
    LAYER_NORM.legend,
)
PLAIN_NEURONS = StepWords(
    WORDS["neurons"].title,
    mark(
        "Now the token is alone with the feed-forward network: {neurons} neurons, each with a "
        "pattern of its own. A neuron compares the vector with its pattern: the number before the "
        "curve. The curve makes its answer of that: nearly nothing where it is below 0. All "
        "answers together are added to the residual."
    ),
    WORDS["neurons"].why,
    mark(
        "h: what the network reads. W: learned matrices; each row of the first belongs to a neuron."
    ),
)
UNSCALED = StepWords(
    WORDS["softmax"].title,
    mark(
        "Softmax makes shares of the scores that add up to 100%: a little more score is much more "
        "share. These shares are the head's attention. Tokens that come later are masked: they get "
        "nothing."
    ),
    mark(
        "Most models multiply the sums by a fixed scale first, so that no token takes nearly "
        "everything. This one learned matrices that need none. The mask is there because the model "
        "was trained to guess the next token, and must not see it."
    ),
    mark("z: the score. a: the share of token j. e: 2.718…; powers of it favour larger scores."),
)
