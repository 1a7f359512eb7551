"""The page's files: all of them, under fixed addresses, with a policy that lets nothing else in."""

import json
import re
import subprocess

import pytest

from llm_lite.server.page.routes import TYPES, file_routes
from tests.paths import ROOT

WEB = ROOT / "assets" / "web"
SCRIPTS = sorted(WEB.rglob("*.js"))
ADDRESSES = {route.path for route in file_routes()}


def test_every_file_has_an_address():
    files = {f"/web/{path.relative_to(WEB).as_posix()}" for path in WEB.rglob("*.*")}
    assert files - ADDRESSES == {"/web/index.html"}
    assert "/" in ADDRESSES
    assert {path.suffix for path in WEB.rglob("*.*")} <= set(TYPES)


def test_addresses_hold_no_parameters():
    """No path is made of what a request says."""
    assert not any("{" in address for address in ADDRESSES)


@pytest.mark.parametrize(
    "at", ["/web/../maps.py", "/web/%2e%2e/models.json", "/web/", "/web/index.html"]
)
def test_there_are_no_other_files(client, at):
    assert client.get(at).status_code == 404


def test_the_page_and_all_that_it_names(client):
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r'(?:src|href)="([^"#][^"]*)"', page.text)
    assert len(named) > 5
    for address in named:
        assert client.get(f"/{address}").status_code == 200, address


def test_every_address_is_relative():
    """A proxy may put the server into a folder of its own."""
    for path in [*SCRIPTS, *WEB.rglob("*.css"), WEB / "index.html"]:
        text = path.read_text("utf-8")
        found = re.findall(r"""(?:src|href)="/|["'`]/(?:web|page|v1|inspect)\b|url\("?/""", text)
        assert not found, f"{path}: {found}"
        assert "fetch(" not in text or path.name == "api.js"


def test_styles_name_what_is_there():
    for path in WEB.rglob("*.css"):
        for name in re.findall(r'url\("([^"]+)"\)', path.read_text("utf-8")):
            there = (path.parent / name).resolve().relative_to(WEB.resolve())
            assert f"/web/{there.as_posix()}" in ADDRESSES, f"{path}: {name}"


def test_keys_of_a_composition_are_told_in_one_way():
    """Safari ends a composition before its Enter, whose code says that it was part of it."""
    for path in SCRIPTS:
        text = path.read_text("utf-8")
        assert ("isComposing" in text) == (path.name == "dom.js"), path
        if "Enter" in text and "keydown" in text and path.parent.name == "chat":
            assert "composes(event)" in text, path


def test_the_policy_allows_this_server_alone(client):
    policy = client.get("/").headers["content-security-policy"]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts.pop("default-src") == "'none'"
    assert set(parts.values()) == {"'self'", "'none'"}
    assert parts["script-src"] == parts["connect-src"] == "'self'"
    assert parts["frame-ancestors"] == parts["form-action"] == "'none'"


def test_the_html_holds_no_script_no_style_and_no_handler():
    html = (WEB / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", html)


def test_nothing_names_another_server():
    for path in [*SCRIPTS, *WEB.rglob("*.css"), WEB / "index.html"]:
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|\beval\(|new Function|@import", text), path


def test_modules_import_what_is_there():
    for path in SCRIPTS:
        for name in re.findall(r'from "([^"]+)"', path.read_text("utf-8")):
            assert (path.parent / name).is_file(), f"{path}: {name}"


def test_a_browser_that_has_a_file_is_not_sent_it_again(client):
    first = client.get("/web/main.js")
    again = client.get("/web/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "content-security-policy" in again.headers


def test_every_file_can_be_read_at_once():
    for path in [*SCRIPTS, *WEB.rglob("*.css")]:
        assert path.read_text("utf-8").count("\n") <= 400, path


def words(code: str) -> dict[str, object]:
    """As a browser reads them: keys without quotes, commas at the end."""
    text = (WEB / "words" / f"{code}.js").read_text("utf-8").partition("export default")[2]
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r'(?<=[{,\n])\s*(\w+):(?=\s+["\[])', r'"\1":', text)
    return json.loads(re.sub(r",\s*([}\]])", r"\1", text.strip().rstrip(";")))


def test_both_languages_say_the_same():
    english, korean = words("en"), words("ko")
    assert english.keys() == korean.keys()
    for key, said in english.items():
        there = korean[key]
        assert type(said) is type(there)
        if isinstance(said, str):
            assert set(re.findall(r"\{\w+\}", said)) == set(re.findall(r"\{\w+\}", there)), key
            assert there.strip()


def test_every_word_is_there_and_is_used():
    known = set(words("en"))
    code = "\n".join(
        path.read_text("utf-8")
        for path in [*SCRIPTS, WEB / "index.html"]
        if path.parent.name != "words"
    )
    said = set(re.findall(r'\bt\("(\w+)"', code)) | set(
        re.findall(r'data-t(?:-\w+)?="(\w+)"', code)
    )
    assert said <= known
    assert {key for key in known if f'"{key}"' not in code} == set()


def test_scripts_are_javascript():
    try:
        subprocess.run(["node", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("node is not installed")
    for path in SCRIPTS:
        checked = subprocess.run(["node", "--check", path], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
