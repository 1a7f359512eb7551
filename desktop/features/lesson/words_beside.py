"""The words of steps that encoders and encoder-decoders have, or have in another way."""

from __future__ import annotations

from llm_lite.desktop.features.lesson.state import StepName
from llm_lite.desktop.features.lesson.step_words import LEARNED, WORDS, StepWords
from llm_lite.desktop.language.translate import mark

_SEEN_WHOLE = mark(
    "The query is compared with the key of every token of the text, of those that follow it, too: "
    "an encoder reads a whole text at once. Number times number, all added up. A large sum means "
    "that the head finds there what it looks for."
)
ENCODER: dict[StepName, StepWords] = {
    "scores": StepWords(
        WORDS["scores"].title,
        _SEEN_WHOLE,
        mark(
            "Such a sum is called a dot product. Where query and key have the same sign, they add; "
            "where the signs differ, they take away. The tokens that the model itself puts around "
            "a text often get large sums: heads rest there when they find nothing else."
        ),
        WORDS["scores"].legend,
    ),
    "softmax": StepWords(
        WORDS["softmax"].title,
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
        WORDS["softmax"].legend,
    ),
    "values": StepWords(
        WORDS["values"].title,
        mark(
            "Each token gives its value, in proportion to its share, and all are added up number "
            "by number. The sum is the head's output: what it has gathered from the words around. "
            "Only here does information move from one token to another."
        ),
        mark("Everything else in a layer happens to each token alone."),
        WORDS["values"].legend,
    ),
    "filling": StepWords(
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
    "pooling": StepWords(
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
DENSE = mark("W, b: the weights of a learned layer behind.")
PAIR: dict[StepName, StepWords] = {
    "source": StepWords(
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
    "tokens": StepWords(
        mark("The target becomes numbers"),
        mark(
            "Now the decoder: it reads what is written of the target so far, which begins with a "
            "token of its own. The id of our token is its place in a list of {vocabulary} tokens, "
            "and picks one row of a large table, the embedding. These {width} numbers, a vector, "
            "stand for the token from now on."
        ),
        WORDS["tokens"].why,
        WORDS["tokens"].legend,
    ),
    "cross": StepWords(
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
    "residual": StepWords(
        WORDS["residual"].title,
        mark(
            "Every layer does the same with its own weights, and adds its three parts: attention, "
            "cross-attention and feed-forward. The river shows how large the sum is after each "
            "layer. Sizes do not simply add up: a part that points against the sum makes it "
            "smaller."
        ),
        WORDS["residual"].why,
        mark(
            "x: the residual, first and last. att, cross, ff: what attention, cross-attention and "
            "feed-forward add in layer l."
        ),
    ),
    "choosing": StepWords(
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
    "cache": StepWords(
        WORDS["cache"].title,
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
        WORDS["cache"].legend,
    ),
}
SEGMENTED = StepWords(
    LEARNED.title,
    mark(
        "So far nothing says where in the text the token stands. This model adds up three rows: "
        "that of the token, one for its segment (the first text or, of a pair, the second) and one "
        "for its position. A norm brings the sum to a common size."
    ),
    LEARNED.why,
    mark("E: the embedding. S: the table of segments. P: the table of positions, rows × columns."),
)
BUCKETS = StepWords(
    LEARNED.title,
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
STEADY = StepWords(
    WORDS["residual"].title,
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
