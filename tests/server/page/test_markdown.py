"""Markdown of a model as HTML: nothing of it acts, and nothing of it needs a style in HTML."""

import re

import pytest

from llm_lite.server.page import routes
from llm_lite.server.page.routes import Renderer


@pytest.fixture(scope="module")
def renderer():
    made = Renderer()
    yield made
    made.close()


def test_what_models_write(renderer):
    html = renderer.html("# A\n\nSome *words* and `code`.\n\n- one\n- two\n\n|a|b|\n|:-|-:|\n|1|2|")
    assert "<h1>A</h1>" in html
    assert "<em>words</em>" in html
    assert "<li>one</li>" in html
    assert '<td class="right">2</td>' in html


def test_code_is_coloured_by_classes(renderer):
    html = renderer.html("```python\ndef f(): return '<b>'\n```")
    assert '<span class="c-keyword">def</span>' in html
    assert "&lt;b&gt;" in html
    assert "<span>python</span>" in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "[a](vbscript:x)",
        "[a](intent://x#Intent;scheme=http;end)",
        "[a](blob:http://x/y)",
        "[a](filesystem:http://x/temporary/y)",
        "[a](FILE:///etc/passwd) [a](ms-settings:x) [a](tel:1) [a](//elsewhere) [a](/page/status)",
        "[a][b]\n\n[b]: intent://x",
        "<intent://x> <blob:http://x/y>",
        "<javascript:alert(1)>",
        "![a](http://elsewhere/x.png)",
        "```<script>\nx\n```",
        '```"><script>alert(1)</script>\nx\n```',
        '[a](http://x "\\"><script>")',
        '[a](http://x/"onclick=alert(1))',
        "|a|\n|-|\n|<script>|",
        "# <style>*{}</style>",
        "a\x00b\x1b[2J",
    ],
)
def test_nothing_of_it_acts(renderer, text):
    html = renderer.html(text)
    tags = re.findall(r"<(/?[a-z0-9]+)((?:\s[^<>]*)?)>", html)
    assert {name.strip("/") for name, _ in tags} <= {
        *(
            "p",
            "a",
            "h1",
            "div",
            "span",
            "pre",
            "code",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        ),
        *("em", "strong", "ul", "ol", "li"),
    }
    for _, attributes in tags:
        assert set(re.findall(r'([\w-]+)="', attributes)) <= {
            "class",
            "href",
            "target",
            "rel",
            "tabindex",
        }
    assert not re.search(r'href="(?!https?:)', html)
    assert "\x00" not in html and "\x1b" not in html


def test_formulas_are_mathml(renderer):
    html = renderer.html("Inline $x^2$ and\n\n$$\\frac{a}{b}$$\n\n\\[ \\sum_{i=0}^n i \\]")
    assert "<math><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>" in html
    assert html.count('<math display="block">') == 2
    assert "<mfrac>" in html and "<munderover>" in html


@pytest.mark.parametrize(
    "tex",
    [
        r"\text{<script>alert(1)</script>}",
        r"\href{javascript:alert(1)}{x}",
        r"\mathrm{<img src=x onerror=alert(1)>}",
        r"\text{&lt;script&gt;}",
        r"\color{red;background:url(x)}{x}",
        r"\class{x\" onload=\"alert(1)}{y}",
        r"\style{color:red}{x}",
        "{" * 900 + "x" + "}" * 900,
    ],
)
def test_no_formula_acts(renderer, tex):
    html = renderer.html(f"${tex}$ and\n\n$${tex}$$")
    assert not re.search(r"<(script|img|svg|a)\b", html)
    for attributes in re.findall(r"<[a-z]+((?:\s[^<>]*)?)>", html):
        assert not re.search(r"\b(on\w+|href|style|src)=", attributes)


def test_what_is_no_formula_stays_as_it_was_written(renderer):
    assert "<code>$\\nonsense{x}$</code>" in renderer.html("It is $\\nonsense{x}$.")
    assert renderer.html("It costs $5 and $6.") == "<p>It costs $5 and $6.</p>\n"


def test_links_open_apart_and_tell_nothing(renderer):
    html = renderer.html("[a](https://example.org)")
    assert 'target="_blank"' in html and 'rel="noopener noreferrer nofollow"' in html


def test_nothing_is_styled_in_html(renderer):
    assert "style=" not in renderer.html("|a|b|c|\n|:-|:-:|-:|\n|1|2|3|")


def test_an_open_fence_is_code_while_it_comes(renderer):
    assert '<pre tabindex="0">' in renderer.html("Look:\n\n```js\nlet a")


def test_what_is_too_long_is_plain_text(renderer):
    html = renderer.html("*<b>*" * 60_000)
    assert html.startswith('<p class="plain">*&lt;b&gt;*')


def test_a_process_that_is_gone_starts_again(renderer):
    renderer.close()
    assert renderer.html("*a*") == "<p><em>a</em></p>\n"


def test_what_takes_too_long_is_plain_text(monkeypatch):
    monkeypatch.setattr(routes, "LIMITS", routes.Limits(0.05, 5.0, 512 << 20))
    made = Renderer()
    html = made.html("```python\n" + "x = [(" * 9000 + "\n```\n" + "* a\n" * 20_000)
    made.close()
    assert html.startswith('<p class="plain">')


def test_the_route(client):
    said = client.post("/page/markdown", json={"text": "**a**"})
    assert said.json() == {"html": "<p><strong>a</strong></p>\n"}
    assert client.post("/page/markdown", json={}).status_code == 400
