"""Chat templates: Jinja made by a grammar (filters, methods, loops, slices, huge numbers, text that
grows), and hostile ones written by hand; compiled and rendered."""

from __future__ import annotations

import random

from llm_lite.core.text import chat_template
from llm_lite.core.text.chat_template import ChatTemplate
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import odd_text
from tests.hurry import hurried

_FEW = ("0", "1", "-1", "2", "3", "messages", "message.content", "m.role", "'a'", "'b c'", "x")
_SAFE = (
    "upper",
    "trim",
    "length",
    "list",
    "string",
    "default('a')",
    "tojson",
    "first",
    "last",
    "int",
)
_NUMBERS = (
    *("0", "1", "-1", "2", "7", "100", "1000000", "10**9", "-10**9", "10**18", "10**100", "1e308"),
    *("0.1", "-0.0", "1e400", "2**63", "9**9**9", "9**9**9**9", "true", "none"),
)
_STRINGS = (
    "''",
    "'a'",
    "'ab' * 1000",
    "'a' * 10**6",
    "'a' * 10**9",
    "' ' * 10**5",
    "'%s%999999999d'",
)
_STRINGS += (
    "'<|im_end|>'",
    "'\\x1b[2J'",
    "'{0.__class__}'",
    "'한글'",
    "'\\ud800'",
    "bos_token",
    "eos_token",
)
_NAMES = (
    "messages",
    "message",
    "m",
    "x",
    "ns",
    "ns.v",
    "loop.index",
    "add_generation_prompt",
    "undefined_name",
)
_ATTRIBUTES = (
    *("role", "content", "__class__", "__init__", "__globals__", "mro", "keys", "format", "append"),
    *("gi_frame", "cr_frame", "__subclasses__", "upper", "tokens", "0", "_x"),
)
_METHODS = (
    *(
        "upper",
        "strip",
        "split",
        "rfind",
        "find",
        "replace",
        "startswith",
        "join",
        "format",
        "center",
    ),
    *(
        "ljust",
        "zfill",
        "expandtabs",
        "encode",
        "splitlines",
        "partition",
        "count",
        "translate",
        "title",
    ),
    *(
        "items",
        "keys",
        "get",
        "append",
        "extend",
        "pop",
        "update",
        "sort",
        "copy",
        "rsplit",
        "casefold",
    ),
)
_FILTERS = (
    *("abs", "attr('x')", "batch(3)", "batch(10**9)", "capitalize", "center(10**9)", "center(80)"),
    *("default('a')", "dictsort", "escape", "filesizeformat", "first", "float", "forceescape"),
    *("format(1, 2)", "groupby('role')", "indent(4)", "indent(10**9)", "int", "items", "join(',')"),
    *("last", "length", "list", "lower", "map('upper')", "map(attribute='role')", "max", "min"),
    *("pprint", "random", "reject", "rejectattr('role')", "replace('a', 'bb' * 999)", "reverse"),
    *("round", "round(2)", "round(-10**9)", "round(10**9)", "safe", "select", "selectattr('role')"),
    *("slice(3)", "slice(10**9)", "sort", "string", "striptags", "sum", "title", "tojson"),
    *("tojson(indent=10**9)", "trim", "trim('ab' * 999)", "truncate(9)", "unique", "upper"),
    *(
        "urlencode",
        "urlize",
        "wordcount",
        "wordwrap(1)",
        "wordwrap(0)",
        "xmlattr",
        "no_such_filter",
    ),
)
_TESTS = (
    "defined",
    "string",
    "mapping",
    "iterable",
    "none",
    "sameas 1",
    "in [1]",
    "divisibleby 0",
    "eq 1",
)
_OPERATORS = (
    *("~", "==", "and", "or") * 4,
    *("+", "-", "*", "/", "//", "%", "**", "~"),
    *("==", "<", "and", "or", "in", "not in"),
)
_SLICES = (
    "[0]",
    "[-1]",
    "[::-1]",
    "[1:]",
    "[:10**9]",
    "[::10**18]",
    "['role']",
    "[-10**18:]",
    "[none]",
)
_RANGES = (
    "messages",
    "range(3)",
    "range(10**6)",
    "range(10**12)",
    "'abc'",
    "[1, 2]",
    "{'a': 1}.items()",
    "x",
)

_FUNCTIONS = ("range", "dict", "namespace", "cycler", "joiner", "strftime_now")

HOSTILE = (
    "{{ 1|round(-10**9) }}",
    "{{ 1|round(10**9) }}",
    "{{ 'a' * 10**9 }}",
    "{{ (('a' * 10**6) ~ 'b').rfind('a' * 10**5 ~ 'c') }}",
    "{{ ('ab' * 400000).find('a' * 200000 ~ 'b' * 200000) }}",
    "{{ (' ' * 10**6)|trim('x' * 10**6) }}",
    "{{ ('a' * 10**6).strip('b' * 10**5 ~ 'a') }}",
    "{{ ([0] * 10**8)[::2] }}",
    "{{ [[0] * 1000] * 1000 }}",
    "{{ ('a' * 900000)[:-1][:-1][:-1]|length }}",
    "{{ messages|list * 10**6 }}",
    "{{ range(10**9)|list }}",
    "{{ range(99999)|list|sort|reverse|list|length }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{{ a }}{% endfor %}",
    *(
        f"{{% set ns = namespace(v={v}) %}}{{% for i in range(60) %}}{grown}{{% endfor %}}"
        for v, grown in (
            ("'a'", "{% set ns.v = ns.v ~ ns.v %}"),
            ("2", "{% set ns.v = ns.v * ns.v %}"),
            ("[]", "{% set ns.v = ns.v + ns.v + [1] %}"),
        )
    ),
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%s' % (('a',) * 3) }}",
    "{{ '{:>999999999}'.format(1) }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ 9**9**9 }}",
    "{{ (9**9**6)|string|length }}",
    "{{ 10**5000 }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ lipsum(n=10**6) }}",
    "{{ messages[0].update({'role': messages}) }}{{ messages }}",
    "{% set x = [] %}{{ x.append(x) }}{{ x }}",
    "{% set x = {} %}{{ x.update({'a': x}) }}{{ x|tojson }}",
    "{{ raise_exception('\\x1b[2J forged\\nline') }}",
    "{{ raise_exception('') }}",
    "{{ raise_exception() }}",
    "{{ raise_exception(none) }}",
    "{{ raise_exception(messages) }}",
    "{{ strftime_now('%Y' * 100000) }}",
    "{{ 'a'.encode('utf-16') }}",
    "{{ ('a' * 100000)|wordwrap(1)|length }}",
    "{{ ('<' * 100000)|striptags|length }}",
    "{{ ('http://a ' * 20000)|urlize|length }}",
    "{{ ('a ' * 100000)|title|length }}",
    "{{ ('a' * 100000)|indent(1000)|length }}",
    "{{ ('\\n' * 100000)|indent(100000)|length }}",
    "{% import 'x' as x %}",
    "{% include '/etc/passwd' %}",
    "{% extends messages %}",
    "{% raw %}" + "{{" * 100,
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 300 + "]" * 300 + " }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ " + "not " * 5000 + "1 }}",
    "{{ 1" + " + 1" * 20000 + " }}",
    "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "{% for a in [1] %}" * 60 + "x" + "{% endfor %}" * 60,
    "{{ x" + ".a" * 20000 + " }}",
    "{{ x" + "|upper" * 5000 + " }}",
    "{#" * 60000,
    "{{ '" + "a" * 120000 + "' }}",
    "{% set a" + ", a" * 5000 + " = messages %}",
    "\x00{{ 1 }}",
    "{{ '\ud800' }}",
    "\ud800",
    "{{ messages[10**30] }}",
    "{{ messages[-1]['content'][10**30:] }}",
    "{{ 'a'.join(range(10**6)|map('string')) }}",
    "{{ range(10**6)|map('string')|join }}",
    "{{ dict(a=1).fromkeys(range(10**7)) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ ('\\t' * 10**5).expandtabs(10**6) }}",
    "{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}",
    "{{ ('a' * 10**6).split('a')|length }}",
    "{{ ('a' * 10**5).replace('', 'b' * 10**5) }}",
    "{{ 'a'.center(10**6).center(10**7).center(10**8) }}",
    "{{ 'x'.translate({120: 'y' * 10**9}) }}",
    "{% set t = 'a' %}{% for i in range(25) %}{% set t = t + t %}{{ t }}{% endfor %}",
    "{{ [1, 'a']|sort }}",
    "{{ 1/0 }}",
    "{{ 1 % 0 }}",
    "{{ messages|groupby('content')|list }}",
    "{{ (10**4000)|string }}",
    "{{ 1|filesizeformat }}{{ (10**400)|float }}",
)


def use(case: Case) -> None:
    rng = case.rng
    if case.number < len(HOSTILE):  # each once
        source = HOSTILE[case.number]
    else:
        source = rng.choice(HOSTILE) if rng.random() < 0.05 else template(rng)
    if rng.random() < 0.05:
        source += odd_text(rng)
    made = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    messages = conversation(rng)
    text = made.render(messages, add_generation_prompt=rng.random() < 0.8)
    assert isinstance(text, str)
    segments = made.render_segments(messages, control_tokens=("<|im_end|>",))
    assert all(isinstance(part, str) for part, _ in segments)


def conversation(rng: random.Random) -> list[dict[str, str]]:
    roles = ("system", "user", "assistant", "user")
    texts = ("Hi", "", " ", "<|im_end|>", "{{ 1 }}", "a" * 2000, "x\ny", odd_text(rng))
    start = rng.randint(0, 1)
    return [
        {"role": role, "content": rng.choice(texts)}
        for role in roles[start : rng.randint(start, 4)]
    ]


_KNOWN = (
    "{% set x = 'a' %}{% set m = messages|last %}{% set message = m %}"
    "{% set ns = namespace(v='a') %}"
)


def template(rng: random.Random) -> str:
    return _KNOWN + "".join(statement(rng, rng.choice((1, 2, 3))) for _ in range(rng.randint(1, 3)))


def statement(rng: random.Random, depth: int) -> str:
    inner = (
        "".join(statement(rng, depth - 1) for _ in range(rng.randint(1, 2))) if depth else "text "
    )
    e = expression(rng, rng.choice((0, 1, 1, 2, 3)))
    match rng.randint(0, 11):
        case 0 | 1 | 2:
            return f"{{{{ {e} }}}}"
        case 3:
            each, of = rng.choice(("m", "x", "message")), rng.choice(_RANGES)
            return f"{{% for {each} in {of} %}}{inner}{{% endfor %}}"
        case 4:
            return f"{{% for x in {e} %}}{inner}{{% else %}}{inner}{{% endfor %}}"
        case 5:
            return f"{{% if {e} %}}{inner}{{% elif {e} %}}{inner}{{% else %}}{inner}{{% endif %}}"
        case 6:
            return f"{{% set x = {e} %}}{inner}"
        case 7:
            grown = rng.choice(("ns.v ~ ns.v", "ns.v + ns.v", "ns.v * 2", f"ns.v ~ ({e})"))
            times = rng.choice((3, 30, 300))
            loop = f"{{% for i in range({times}) %}}{{% set ns.v = {grown} %}}{{% endfor %}}"
            return f"{{% set ns = namespace(v={e}) %}}{loop}{inner}"
        case 8:
            return f"{{% macro f(x) %}}{inner}{{% endmacro %}}{{{{ f({e}) }}}}"
        case 9:
            return f"{{% filter {rng.choice(_FILTERS)} %}}{inner}{{% endfilter %}}"
        case 10:
            return f"{{{{ raise_exception({e}) }}}}" if rng.random() < 0.3 else inner
        case _:
            return rng.choice(
                ("text", "\n", "<|im_start|>", "{#- c -#}", "{%- raw %}{{{% endraw -%}", "{{", "%}")
            )


def expression(rng: random.Random, depth: int) -> str:
    if not depth:
        if rng.random() < 0.7:
            return rng.choice(_FEW)
        return rng.choice(rng.choice((_NUMBERS, _STRINGS, _NAMES, _NAMES)))
    e, other = (expression(rng, depth - 1) for _ in range(2))
    match rng.randint(0, 10):
        case 0 | 1:
            return f"({e})|{rng.choice(_SAFE if rng.random() < 0.8 else _FILTERS)}"
        case 2:
            return f"({e}) {rng.choice(_OPERATORS)} ({other})"
        case 3:
            return f"({e}).{rng.choice(_METHODS)}({rng.choice(('', other, f'{other}, {e}'))})"
        case 4:
            return f"({e}).{rng.choice(_ATTRIBUTES)}"
        case 5:
            return f"({e}){rng.choice(_SLICES)}"
        case 6:
            return f"({e}) is {rng.choice(_TESTS)}"
        case 7:
            return f"[{e}, {other}]" if rng.random() < 0.5 else f"{{'a': {e}}}"
        case 8:
            return f"{e} if {other} else {e}"
        case 9:
            return f"{rng.choice(_FUNCTIONS)}({e})"
        case _:
            return e


def prepare() -> None:
    for name, limits in hurried().items():
        setattr(chat_template, name, limits)
    ChatTemplate("{{ messages }}").render([])


# What a template says, or Jinja of it, may be any words; they are one line all the same.
_QUOTES = ("the chat template refuses this: ", "the chat template fails: ")
DOOR = Door("template", use, prepare, quotes=_QUOTES)
