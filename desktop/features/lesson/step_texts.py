"""The texts of the steps: a title, an explanation, why it is so, and the letters of the formula.
Each is marked for translation; those of decoders come first, then what differs in encoders, in
encoder-decoders and in models that lack or move a part."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages.inspecting.lesson import TokenTrace, TracedShape
from llm_lite.desktop.features.lesson.state import LessonPage, StepName
from llm_lite.desktop.language.translate import mark, tr


class StepTexts(Struct, frozen=True):
    title: str
    explanation: str
    why: str
    legend: str  # what the letters of the formula are


DECODER: dict[StepName, StepTexts] = {
    "tokens": StepTexts(
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
    "position": StepTexts(
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
    "norm": StepTexts(
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
    "queries": StepTexts(
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
    "scores": StepTexts(
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
    "softmax": StepTexts(
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
    "values": StepTexts(
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
    "output": StepTexts(
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
    "neurons": StepTexts(
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
    "residual": StepTexts(
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
    "sampling": StepTexts(
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
    "cache": StepTexts(
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
    "summary": StepTexts(
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
LEARNED_POSITIONS = StepTexts(
    DECODER["position"].title,
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
SINUSOIDS = StepTexts(
    DECODER["position"].title,
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
ALIBI = StepTexts(
    DECODER["position"].title,
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
LAYER_NORM = StepTexts(
    DECODER["norm"].title,
    mark(
        "The model is a stack of {layers} layers that are built alike. We open layer {layer}; the "
        "layers before it have changed the token's vector already. First the vector's mean is "
        "taken away, and it is divided by its typical deviation. Then each number is multiplied by "
        "a weight, and an offset is added; both were learned."
    ),
    DECODER["norm"].why,
    mark(
        "μ: the mean of the vector. σ: its typical deviation. w, b: learned, one for each number."
    ),
)
POST_NORM = StepTexts(
    DECODER["norm"].title,
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
UNGATED_NEURONS = StepTexts(
    DECODER["neurons"].title,
    mark(
        "Now the token is alone with the feed-forward network: {neurons} neurons, each with a "
        "pattern of its own. A neuron compares the vector with its pattern: the number before the "
        "curve. The curve makes its answer of that: nearly nothing where it is below 0. All "
        "answers together are added to the residual."
    ),
    DECODER["neurons"].why,
    mark(
        "h: what the network reads. W: learned matrices; each row of the first belongs to a neuron."
    ),
)
PARALLEL_NEURONS = StepTexts(
    DECODER["neurons"].title,
    mark(
        "In this model the feed-forward network stands beside attention, not behind it: it reads "
        "the residual as it was before. There are {neurons} neurons, each with a pattern of its "
        "own. A neuron compares the vector with its pattern: the number before the curve. The "
        "curve makes its answer of that. All answers are added to the residual, as what attention "
        "found is."
    ),
    DECODER["neurons"].why,
    UNGATED_NEURONS.legend,
)
PARALLEL_GATED_NEURONS = StepTexts(
    DECODER["neurons"].title,
    mark(
        "In this model the feed-forward network stands beside attention, not behind it: it reads "
        "the residual as it was before. Each of {neurons} neurons computes two numbers: its gate, "
        "which the curve opens or shuts, and up, what passes through. Their product is its answer. "
        "All answers are added to the residual, as what attention found is."
    ),
    DECODER["neurons"].why,
    DECODER["neurons"].legend,
)
UNSCALED_SOFTMAX = StepTexts(
    DECODER["softmax"].title,
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
_SEEN_WHOLE = mark(
    "The query is compared with the key of every token of the text, of those that follow it, too: "
    "an encoder reads a whole text at once. Number times number, all added up. A large sum means "
    "that the head finds there what it looks for."
)
ENCODER: dict[StepName, StepTexts] = {
    "scores": StepTexts(
        DECODER["scores"].title,
        _SEEN_WHOLE,
        mark(
            "Such a sum is called a dot product. Where query and key have the same sign, they add; "
            "where the signs differ, they take away. The tokens that the model itself puts around "
            "a text often get large sums: heads rest there when they find nothing else."
        ),
        DECODER["scores"].legend,
    ),
    "softmax": StepTexts(
        DECODER["softmax"].title,
        mark(
            "The sums are multiplied by a fixed scale. Softmax then makes shares of them that add "
            "up to 100%: a little more score is much more share. These shares are the head's "
            "attention. Nothing is masked: every token sees all others."
        ),
        mark(
            "A model that writes must not see what comes next, so it has a mask. An encoder writes "
            "nothing: it is to understand a text that is there, and a word is often clear only by "
            "what follows. Switch the scale off, and one token often takes nearly everything: a "
            "head that sees one token only learns badly."
        ),
        DECODER["softmax"].legend,
    ),
    "values": StepTexts(
        DECODER["values"].title,
        mark(
            "Each token gives its value, in proportion to its share, and all are added up number "
            "by number. The sum is the head's output: what it has gathered from the words around. "
            "Only here does information move from one token to another."
        ),
        mark("Everything else in a layer happens to each token alone."),
        DECODER["values"].legend,
    ),
    "filling": StepTexts(
        mark("What could stand here?"),
        mark(
            "The token's last vector goes through one more small network and a matrix, the "
            "masked-token head. It gives each of the {vocabulary} tokens of the vocabulary a "
            "score, its logit: how well that token would fit here. Softmax makes probabilities of "
            "them."
        ),
        mark(
            "This is how the model was trained: some tokens of a text were hidden behind a mask "
            "token, and it guessed them. A token that is not hidden is usually found again, as the "
            "model sees it. Put the mask token into your sentence to let it guess."
        ),
        mark("p: the probability of token i. z: its logit."),
    ),
    "pooling": StepTexts(
        mark("The text becomes one vector"),
        mark(
            "After the last layer every token has a vector that knows the whole text. The vectors "
            "of all tokens become one, the vector of the text. Write a second text: the cosine of "
            "the angle between both vectors says how alike the texts are, 1 for the same direction."
        ),
        mark(
            "The model was trained with pairs of texts: those that mean the same were pulled "
            "together, others pushed apart. So a search can find texts by what they mean: it "
            "compares vectors, which were computed once, and needs no common words."
        ),
        mark(
            "e: the vector of the text; e' that of the other text. x: the last vectors of its n "
            "tokens. |e|: its length. cos: how alike."
        ),
    ),
}
DENSE_LEGEND = mark("W, b: the weights of a learned layer behind.")
ENCODER_DECODER: dict[StepName, StepTexts] = {
    "source": StepTexts(
        mark("First, the source is read"),
        mark(
            "The model has two halves. The encoder reads the source as a whole: {encoder} layers, "
            "in which every token sees all others. It runs once, and leaves a vector for each "
            "token of the source. The decoder then writes the target token by token, and looks at "
            "these vectors."
        ),
        mark(
            "A sentence must be read to its end before it can be translated: words stand in "
            "another order, and what comes late may change what comes early. The inside of the "
            "encoder's layers is like that of the decoder's, which the next steps open; only the "
            "mask is missing."
        ),
        mark("h: what the encoder leaves, a vector for each of the source's tokens."),
    ),
    "tokens": StepTexts(
        mark("The target becomes numbers"),
        mark(
            "Now the decoder: it reads what is written of the target so far, which begins with a "
            "token of its own. The id of our token is its place in a list of {vocabulary} tokens, "
            "and picks one row of a large table, the embedding. These {width} numbers, a vector, "
            "stand for the token from now on."
        ),
        DECODER["tokens"].why,
        DECODER["tokens"].legend,
    ),
    "cross": StepTexts(
        mark("A look at the source"),
        mark(
            "Cross-attention: the token of the target makes another query, and the keys and values "
            "are those of the source's tokens, made of what the encoder left. The shares say which "
            "words of the source matter for what is written next. What is found is added to the "
            "residual."
        ),
        mark(
            "Here a translation knows what it translates. Nothing is masked, as the whole source "
            "is known. Keys and values of the source are computed once and stay as they are, "
            "however long the target grows. Such shares were the first attention of all: they line "
            "up words of two languages (Bahdanau et al. 2014)."
        ),
        mark("q: the target's query. k, v: keys and values of the source's token j."),
    ),
    "residual": StepTexts(
        DECODER["residual"].title,
        mark(
            "Every layer does the same with its own weights, and adds its three parts: attention, "
            "cross-attention and feed-forward. The river shows how large the sum is after each "
            "layer. Sizes do not simply add up: a part that points against the sum makes it "
            "smaller."
        ),
        DECODER["residual"].why,
        mark(
            "x: the residual, first and last. att, cross, ff: what attention, cross-attention and "
            "feed-forward add in layer l."
        ),
    ),
    "choosing": StepTexts(
        mark("Which token comes next?"),
        mark(
            "A last matrix gives each of the {vocabulary} tokens a score, its logit; softmax makes "
            "probabilities of them. Greedy decoding takes the likeliest token. A beam keeps "
            "several beginnings of the target: each is continued with its likeliest tokens, and "
            "those with the best sums of log p stay. A beam of 1 is greedy; this model's settings "
            "ask for a beam of {beams}."
        ),
        mark(
            "The likeliest first token need not begin the likeliest sentence. A beam looks a "
            "little ahead: a beginning that seems second may win later. No random number is used, "
            "as a translation is to be right and not surprising. Probabilities multiply along a "
            "sentence, so their logarithms add up."
        ),
        mark("p: the probability of token i. z: its logit. S: the score of a beginning."),
    ),
    "cache": StepTexts(
        DECODER["cache"].title,
        mark(
            "The likeliest token is put after the target, and all steps but the first begin again "
            "for it. Keys and values of the target's earlier tokens stay in the KV cache, which "
            "grows by one column. Those of the source stay as they are."
        ),
        mark(
            "That is why a target comes token by token, while its source is read at once. The "
            "target ends when the token that means the end is the likeliest, or when the best "
            "beginning of the beam has ended."
        ),
        DECODER["cache"].legend,
    ),
}
LEARNED_WITH_SEGMENTS = StepTexts(
    LEARNED_POSITIONS.title,
    mark(
        "So far nothing says where in the text the token stands. This model adds up three rows: "
        "that of the token, one for its segment (the first text or, of a pair, the second) and one "
        "for its position. A norm brings the sum to a common size."
    ),
    LEARNED_POSITIONS.why,
    mark("E: the embedding. S: the table of segments. P: the table of positions, rows × columns."),
)
RELATIVE_BIAS = StepTexts(
    LEARNED_POSITIONS.title,
    mark(
        "So far nothing says where in the text the tokens stand. This model adds a learned number "
        "to each score, by how far the two tokens are apart. Distances that are large share a "
        "number. Each head has numbers of its own."
    ),
    mark(
        "So a head can learn to look at the token before, or far back. The first layer holds these "
        "numbers for all layers. They depend on distances only, so that texts may be longer than "
        "those of the training (T5, Raffel et al. 2020)."
    ),
    mark("b: what is added to the score of token j: a number for each distance and head."),
)
RECURRENT: dict[StepName, StepTexts] = {  # models some of whose layers have a state
    "norm": StepTexts(
        DECODER["norm"].title,
        mark(
            "The model is a stack of {layers} layers. {states} of them have a recurrent state; the "
            "others attend, and we open one of these, layer {layer}. First the vector is divided "
            "by its RMS, its typical size; then each number is multiplied by a weight, a number "
            "that was learned."
        ),
        DECODER["norm"].why,
        DECODER["norm"].legend,
    ),
    "residual": StepTexts(
        DECODER["residual"].title,
        mark(
            "Every layer adds its two parts: attention, or what it reads of its state, and "
            "feed-forward. The river shows how large the sum is after each layer. Sizes do not "
            "simply add up: a part that points against the sum makes it smaller."
        ),
        mark(
            "No layer alone knows the answer: each reads the sum and adds a part. In the Lens view "
            "you can see what the model would say after each layer. Layers with a state are not "
            "opened here: the Attention view tells what is known of them. Press a layer to open "
            "it, or the nearest one that attends."
        ),
        mark(
            "x: the residual, first and last. att, ff: what attention or the state, and "
            "feed-forward, add in layer l."
        ),
    ),
    "cache": StepTexts(
        DECODER["cache"].title,
        mark(
            "The drawn token is put after the sentence, and all steps begin again for it. Layers "
            "that attend keep its keys and values in the KV cache, which grows by one column. The "
            "{states} others have a state instead of a cache: {values} numbers in all, however "
            "long the text is, which each token changes."
        ),
        mark(
            "So a long text takes little memory, and the last token costs no more than the first. "
            "The price: a state is of one size, and what was written long ago fades; and it cannot "
            "go back. To change a message, the program keeps some states of earlier places and "
            "reads on from the nearest one. The token drawn here is an example: the text itself "
            "stays as it is. A KiB is 1,024 bytes."
        ),
        DECODER["cache"].legend,
    ),
    "summary": StepTexts(
        DECODER["summary"].title,
        mark(
            "Text is cut into tokens, and each becomes a vector. {layers} layers change it: "
            "attention gathers from the tokens before, states say what is left of them, neurons "
            "answer to what they read, and all is added. The last vector gives every token a "
            "probability; one is drawn, joins the text, and all begins again."
        ),
        DECODER["summary"].why,
        "",
    ),
}
GATED_OUTPUT = StepTexts(
    DECODER["output"].title,
    mark(
        "The outputs of all {heads} heads stand side by side. Each number is multiplied by a gate "
        "between 0 and 1, which the token makes of its own vector. One more learned matrix mixes "
        "them to a vector as wide as the first one, and that is added to what the token had "
        "before. The running sum is called the residual. Press a tile to open another head."
    ),
    mark(
        "A gate that is shut lets a head find nothing: so it need not rest on the first token. "
        "Adding, not replacing: what early layers found is still there for late ones. The columns "
        "can be checked: the first two vectors add up to the third."
    ),
    mark(
        "o: the outputs of the heads, one behind the other. g: the gates. W: a learned matrix. ⊙: "
        "number times number. The arrow: x becomes."
    ),
)
POST_NORM_RESIDUAL = StepTexts(
    DECODER["residual"].title,
    mark(
        "Every layer does the same with its own weights, and adds its parts. After each sum a norm "
        "brings the vector to a common size again, so the river stays about as wide. The bars show "
        "how large a part is beside it."
    ),
    mark(
        "No layer alone knows the answer: each reads the sum and adds a part. A part that is small "
        "beside the river changes the vector a little, a large one changes it a lot. Press a layer "
        "to open it."
    ),
    mark("x: the residual. att, ff: what attention and feed-forward add in layer l."),
)


def texts_of(name: StepName, shape: TracedShape) -> StepTexts:
    """Return the texts of a step for a model of this shape, to be translated."""
    if name == "position":
        return _position_texts(shape)
    if name == "norm" and (shape.norm_behind or shape.norm == "layer"):
        return POST_NORM if shape.norm_behind else LAYER_NORM
    if name == "neurons" and shape.parallel:
        return PARALLEL_NEURONS if shape.gate == "none" else PARALLEL_GATED_NEURONS
    if name == "neurons" and shape.gate == "none":
        return UNGATED_NEURONS
    if name == "residual" and shape.norm_behind:
        return POST_NORM_RESIDUAL
    if name == "softmax" and shape.causal and shape.scale == 1.0:
        return UNSCALED_SOFTMAX
    if name == "output" and shape.output_gate:
        return GATED_OUTPUT
    if shape.state_layers and name in RECURRENT:
        return RECURRENT[name]
    of_path = {"encoder": ENCODER, "encoder_decoder": ENCODER_DECODER, "decoder": {}}
    return of_path[shape.path].get(name) or DECODER[name]


def _position_texts(shape: TracedShape) -> StepTexts:
    match shape.positions:
        case "learned":
            return LEARNED_WITH_SEGMENTS if shape.segments else LEARNED_POSITIONS
        case "sines":
            return SINUSOIDS
        case "bias":
            return RELATIVE_BIAS if shape.path == "encoder_decoder" else ALIBI
    return DECODER["position"]


def title_of(name: StepName, lesson: LessonPage) -> str:
    """Return the title of a step, to be translated."""
    if lesson.trace is not None:
        return texts_of(name, lesson.trace.shape).title
    is_encoder = "cache" not in lesson.steps
    of_path = ENCODER_DECODER if "source" in lesson.steps else ENCODER if is_encoder else {}
    return (of_path.get(name) or DECODER[name]).title


def explanation(lesson: LessonPage, trace: TokenTrace) -> str:
    """Return the translated explanation of the step, with this model's numbers."""
    shape = trace.shape
    return tr(texts_of(lesson.step_name, shape).explanation).format(
        layers=shape.layers, layer=trace.layer, heads=shape.heads, head=trace.head,
        neurons=f"{shape.feed_forward:,}", vocabulary=f"{shape.vocabulary:,}",
        width=f"{shape.width:,}", size=shape.head_dim, encoder=shape.encoder_layers,
        beams=shape.beams, states=shape.state_layers, values=f"{shape.state_values:,}",
    )  # fmt: skip
