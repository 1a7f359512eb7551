"""What each control of the sampling panel does to the text, in a sentence or two."""

from llm_lite.desktop.language.translate import mark

HINTS = {
    "greedy": mark("Always take the likeliest token: the same question gives the same answer."),
    "repetition_guard": mark(
        "An answer that says the same again and again, without an end, is ended. Code, tables, "
        "lists of numbers and refrains go on."
    ),
    "temperature": mark(
        "Below 1 the likely tokens become likelier and the text calmer; above 1 rare tokens "
        "come up and the text wanders."
    ),
    "top_k": mark("Only the k likeliest tokens may be chosen. 0 lets all of them in."),
    "top_p": mark(
        "Only the likeliest tokens whose probabilities add up to p may be chosen: few"
        " where the model is sure, many where it is not. 1 allows all tokens."
    ),
    "min_p": mark(
        "A token must be at least this fraction as likely as the likeliest one. 0 lets all in."
    ),
    "typical_p": mark(
        "Only tokens about as surprising as the model expects may be chosen, until they add up to "
        "p: the too obvious goes as well as the too odd. 1 lets all of them in."
    ),
    "xtc_probability": mark(
        "How often the obvious choices are taken away: of all tokens above the threshold, only the "
        "least likely stays. The text becomes less predictable and stays sensible. 0 is off."
    ),
    "xtc_threshold": mark("How likely a token must be to count as an obvious choice."),
    "mirostat_tau": mark(
        "The entropy that Mirostat 2 holds the text at, in bits a token; around 5 is usual. "
        "It replaces the other filters. 0 is off."
    ),
    "mirostat_eta": mark("Mirostat's learning rate: how fast it corrects itself."),
    "repetition_penalty": mark(
        "Tokens that were said lately become less likely. 1 is off; much above 1.2 the model "
        "avoids even the words it needs."
    ),
    "presence_penalty": mark(
        "A token that was said lately loses this much, however often it was said: new subjects "
        "come up. 0 is off."
    ),
    "frequency_penalty": mark(
        "A token loses this much each time it was said lately: words that come often become rare. "
        "0 is off."
    ),
    "penalty_window": mark("How many last tokens these three penalties look at."),
    "dry_multiplier": mark(
        "Against loops: a token that would go on with a repeat of what was said before loses more, "
        "the longer the repeat is. Single words may come again. 0.8 is usual; 0 is off."
    ),
    "dry_base": mark("How fast DRY's penalty grows with the length of the repeat."),
    "dry_allowed_length": mark("Repeats of up to so many tokens cost nothing."),
    "max_new_tokens": mark("The answer ends after this many tokens; Continue makes more."),
    "max_thinking_tokens": mark(
        "The thought is ended after so many tokens, and the answer begins. 0 lets it think as long "
        "as it likes."
    ),
    "thinking": mark(
        "The model thinks before it answers: better answers to hard questions, and later. Its "
        "thoughts are folded above the answer."
    ),
    "seed": mark("The start of the random numbers. The same seed gives the same answer again."),
    "stop_strings": mark(
        "The answer ends before the first of these. One a line; \\n in it is a line's end, \\t a "
        "tab."
    ),
    "logit_bias": mark(
        "Makes a token more or less likely: its id, =, and what is added to its logit. -100 bans "
        "it. One a line, as 198=-100; Tokens shows the ids."
    ),
    "form": mark("The answer is whatever the model says."),
    "json_schema": mark(
        "The answer is JSON of this schema: tokens that do not fit are never chosen. Thoughts stay "
        "free."
    ),
    "grammar": mark("The answer is a text of this grammar, in GBNF (llama.cpp) or Lark."),
}
