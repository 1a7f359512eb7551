"""Checks the words of the product: docstrings that are no sentences, names that say nothing.

    python -m tests.words           the number of fragments, by top folder
    python -m tests.words core/gpu  and each of them under a folder, with bad names and phrases

A docstring of a function begins with a verb ("Return the ...") or has a subject and a verb before
its first full stop. One of a class or of a module may be a noun phrase ("A queue of requests.").
None begins with a word that needs the line above it ("Of vectors.", "Whether a dialog is.").
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tests.paths import ROOT, program_files

Kind = Literal["function", "class", "module"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words that a sentence of a docstring does not begin with: what they belong to stands elsewhere.
_ELLIPTIC = _set("of whether as by with without where wherever also those these it its they none")
# Questions without a verb of their own: "What a plan reads."
_QUESTIONS = _set("what who whom whose which how why whoever whatever when")

# Types of arrays: a docstring that begins with one, or with a shape, is a contract in notation.
_NOTATION = re.compile(r"\[|(?:float|bfloat|u?int)\d+\b")

# Verbs that a docstring may begin with: "Return", "Returns".
_VERBS = _set(
    """
    abort accept accumulate acquire adapt add adjust admit advance align allocate allow
    announce answer append apply approximate archive ask assert assign assume attach attend
    average avoid back balance be begin benchmark bind blend block borrow bound break bring
    broadcast bucket build bundle cache calculate calibrate call cancel cap capture carry
    cast catch change charge check choose claim clamp clean clear clip clone close collapse
    collect combine come commit compare compile complete compress compute concatenate
    configure confirm connect consider construct consume contain continue convert copy
    correct count cover create cross cut damage deal decide declare decode decompress
    decrease deduplicate defer define delete deliver denormalize dequantize derive describe
    destroy detach detect determine diff disable discard disconnect dispatch distrust divide
    do double download draft drain draw drive drop dump duplicate edit embed emit empty
    enable encode end enlarge ensure enter enumerate erase escape estimate evaluate evict
    examine exchange exclude execute exit expand expect explain export expose express extend
    extract fade fail fall feed fetch fill filter find finish fit fix flag flatten flip
    flush fold follow forbid force forget fork form format forward free freeze fuse gather
    generate get give go group grow guard guess guide halve hand handle hash have hide hold
    identify ignore import improve include increase increment index infer inform inherit
    initialize insert inspect install integrate interleave interpolate interpret interrupt
    intersect introduce invert invoke iterate join judge jump keep kill label latch lay lead
    learn leave let lift limit link list load locate lock log look lower make manage map
    mark mask match measure memory-map merge migrate mirror mix modify move multiply name
    narrow need normalize note notify number obtain occupy offer omit open order overlay
    overwrite own pace pack pad pair parse pass pause peek perform permute pick pin place
    plan point poll pool pop post preallocate precompute predict prefer prefill prepare
    prepend preserve prevent print probe proceed process produce project promise promote
    propagate propose protect provide prune pull push put quantize query queue raise rank
    read rearrange rebuild receive recompute record recover reduce refer refill refine
    refresh refuse register regroup reject release reload rely remember remove rename render
    reopen reorder repack repair repeal repeat replace replay reply report represent request
    requeue require rerun reserve reset reshape resize resolve respond restart restore
    restrict resume retain retry return reuse reverse revert rewind rewrite rotate round
    route run sample satisfy save scale scan scatter schedule score search seek select send
    separate serialize serve set settle share shift shorten show shrink shut sign signal
    silence simulate skip sleep slice snapshot sort spawn specialize split spread stack
    stamp start state stay step stop store stream strip study submit subtract suggest sum
    supply support suspend swap switch sync synchronize tag take teach tell terminate test
    tile time tokenize touch trace track train transcode transfer transform translate
    transpose traverse treat trim truncate try tune turn undo unescape unfold unload unlock
    unmap unpack unregister unwrap update upload use validate verify visit wait wake walk
    warm warn watch weigh widen withdraw work wrap write yield zero
    """
)
# Of these, the ones whose forms are nouns as well: "Steps of a plan", "Names by index".
_NOUNS = _set(
    """
    answer block bound bucket bundle cache call cap change charge check claim clip clone commit
    copy count cover cross cut damage deal diff dispatch draft drop dump estimate exit export
    fall feed fill filter fit fix flag flip flush fold fork form format forward group guard
    guess guide hand handle hash import index install join judge jump label latch lead limit
    link list load lock log look map mark mask match measure merge mirror mix move name need
    note number offer order pad pair pass pause pick pin place plan point poll pool post print
    probe process produce project promise prune pull push query queue rank read record release
    repair repeat replay reply report request reserve reset result return reuse reverse round
    route run sample save scale scan schedule score search set shape share shift show sign
    signal skip slice snapshot sort split spread stack stamp start state step stop store stream
    strip sum supply support swap switch tag test tile time touch trace track train transfer
    trim try turn update upload use visit wait walk watch work wrap write
    """
)
_AUXILIARIES = _set(
    """
    is are was were am has have had does do did can cannot could may might must shall should
    will would isn't aren't wasn't doesn't don't can't won't
    """
)
# Behind these a verb belongs to another clause: "The tokens that were read" has none of its own.
_SUBORDINATE = _set(
    """
    that which who whom whose what whatever whoever where wherever when whenever while if how
    why whether because since as until unless than though although before after so
    """
)
_ARTICLES = _set("a an the none all every each it this both")  # "Steps the": a verb
_NOT_AFTER_VERB = _set("of")  # "Hash of a file": a noun

# Names that say nothing, as each had many meanings, and what says it instead.
BANNED_NAMES = {
    "asked": "request, requested",
    "carry_out": "execute, delete",
    "follow": "trace, watch, update",
    "figures": "picture, numbers, stats",
    "followed": "traced",
    "give_back": "release, free",
    "hear": "feed, handle, receive",
    "heard": "received",
    "judge": "record_outcome, score",
    "judged": "scored",
    "keeper": "store",
    "let_go": "drop_pages, release",
    "look": "poll, inspect, find",
    "lose": "drop",
    "said": "visible_text, content",
    "spoken": "visible_text, continue_last, has_text",
    "say": "emit, send",
    "take_in": "restore_prefix, learn_from",
    "take_out": "copy_prefix",
    "take_over": "continue_from, put_in_place",
    "told": "what it returns: message_text, with_draft_counts",
}
# Parts of names of the same kind: `TokenTeller`, `MadeWhenAsked`, `_tell_cache`.
_BANNED_PARTS = re.compile(
    r"Teller|WhenAsked|Keeper|Judge|Told|Heard|RAISED|(?:^|_)(?:tell|told|judge)_"
)
_PLAIN_VARIABLES = ("asked",)  # what was requested; as the name of a function it says nothing
_BANNED_PHRASES = re.compile(r"\b(?:[Ww]hoever|of which|asked of|what came of)\b")


@dataclass(frozen=True)
class Docstring:
    path: Path
    line: int
    kind: Kind
    name: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line} {self.name}"


def docstrings(path: Path, text: str) -> Iterator[Docstring]:
    """Yield the docstrings of a file's text, that of the module first."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found is not None:
                kind: Kind = "function"
                if isinstance(node, ast.Module | ast.ClassDef):
                    kind = "class" if isinstance(node, ast.ClassDef) else "module"
                line = getattr(node, "lineno", 1)
                yield Docstring(path, line, kind, getattr(node, "name", "module"), found)


def is_fragment(text: str, kind: Kind) -> bool:
    """Return True if the first sentence of a docstring is none, by its first word and its verbs."""
    if kind == "function" and _NOTATION.match(text):
        return False
    # Shapes and code are neither subject nor verb.
    plain = re.sub(r"`[^`]*`|\[[^\]]*\]|\([^)]*\)", " X ", text.strip())
    sentence = re.split(r"\.(?:\s|$)|\n\n", plain, maxsplit=1)[0]
    words = [word.lower() for word in re.findall(r"[A-Za-z][A-Za-z0-9'_-]*", sentence)]
    if not words:
        return True
    if words[0] in _ELLIPTIC:
        return True
    own = sum(_finite(word) for word in words) - sum(word in _SUBORDINATE for word in words)
    if kind != "function":
        return words[0] in _QUESTIONS and own <= 0
    return not _begins_with_verb(words) and own <= 0


def _begins_with_verb(words: list[str]) -> bool:
    if words[0].endswith("ly") and words[0] not in _VERBS:  # "Temporarily disable ..."
        words = words[1:]
    if not words or (len(words) > 1 and words[1] in _NOT_AFTER_VERB):
        return False
    if len(words) > 1 and words[1] in _ARTICLES and words[0].removesuffix("s") in _VERBS:
        return True
    return words[0] in _VERBS or _is_third_person(words[0])


def _finite(word: str) -> bool:
    return word in _AUXILIARIES or _is_third_person(word)


def _is_third_person(word: str) -> bool:
    """Return True for "returns" and "carries", not for "steps", which are things as well."""
    if not word.endswith("s"):
        return False
    bases = {word[:-1]}
    if word.endswith("es"):
        bases.add(word[:-2])
    if word.endswith("ies"):
        bases.add(word[:-3] + "y")
    return bool(bases & (_VERBS - _NOUNS))


def checked_files() -> list[Path]:
    """Return the Python files of the product, the scripts in tools/ and the tour."""
    tools = ROOT / "tools"
    return [*program_files(), *sorted(tools.glob("*.py")), *sorted((tools / "tour").rglob("*.py"))]


@cache
def fragments() -> tuple[Docstring, ...]:
    """Return every docstring of `checked_files` that is a fragment."""
    return tuple(
        one
        for path in checked_files()
        for one in docstrings(path.relative_to(ROOT), path.read_text("utf-8"))
        if is_fragment(one.text, one.kind)
    )


def by_top(found: Iterable[Docstring]) -> dict[str, int]:
    """Count docstrings by the first folder of their path."""
    return dict(sorted(Counter(one.path.parts[0] for one in found).items()))


def bad_names(path: Path, text: str) -> Iterator[str]:
    """Yield what a file defines under a banned name, with its line and what to say instead."""
    for node in ast.walk(ast.parse(text)):
        name, line = _defined(node)
        bare = name.strip("_")
        if bare in BANNED_NAMES:
            yield f"{path}:{line} {name}: {BANNED_NAMES[bare]}"
        elif _BANNED_PARTS.search(name):
            yield f"{path}:{line} {name}"


def _defined(node: ast.AST) -> tuple[str, int]:
    """Return the name that a node defines, and its line; ("", 0) if it defines none."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name, node.lineno
        case ast.arg() if node.arg not in _PLAIN_VARIABLES:
            return node.arg, node.lineno
        case ast.Name(ctx=ast.Store()) if node.id not in _PLAIN_VARIABLES:
            return node.id, node.lineno
        case ast.Attribute(ctx=ast.Store()):
            return node.attr, node.lineno
    return "", 0


def bad_phrases(path: Path, text: str) -> Iterator[str]:
    """Yield the docstrings and comments of a file that have a riddle in place of a noun."""
    if not _BANNED_PHRASES.search(" ".join(text.split())):
        return
    prose = [(one.line, one.text) for one in docstrings(path, text)]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            prose.append((token.start[0], token.string))
    for line, words in prose:
        if found := _BANNED_PHRASES.search(words):
            yield f"{path}:{line} {found[0]!r}"


def main(arguments: list[str]) -> None:
    found = fragments()
    for one in found:
        if any(str(one.path).startswith(folder) for folder in arguments):
            first = one.text.partition("\n")[0]
            print(f"{one.place}: {first}")
    for path in checked_files() if arguments else ():
        place = path.relative_to(ROOT)
        if any(str(place).startswith(folder) for folder in arguments):
            text = path.read_text("utf-8")
            print(*bad_names(place, text), *bad_phrases(place, text), sep="\n", end="")
    print(*(f"{top:10}{count:6,}" for top, count in by_top(found).items()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
