"""Nobody but the door writes, renames or deletes files: read from the source of the program."""

import ast

import pytest

from tests.paths import ROOT, program_files

DOOR = {
    "core/files/writing.py",
    "core/files/folders.py",
    "core/files/leftovers.py",
    "core/files/private.py",
    "core/files/renaming.py",
}
# What is written elsewhere, and why that needs no door.
EXCEPTIONS = {
    (
        "core/convert/calibration_run.py",
        "tempfile.TemporaryFile",
    ): "sums, in files that have no name",
    ("core/generation/session.py", "self.pool.touch"): "no file, but a prefix of the cache",
    ("core/tools/supervisor.py", "os.open"): "nothing, in the place of a server's streams",
    ("desktop/app/interface.py", "self._turns.open"): "no file, but a view",
    ("core/history/database/connection.py", "os.open"): "an empty file for its owner alone, which "
    "SQLite then writes",
    ("desktop/features/history/host.py", "journal.rename"): "no file, but a conversation",
    (
        "desktop/features/presets/host.py",
        "self._path(name).unlink",
    ): "a preset that a person deletes",
    (
        "desktop/features/prompts/host.py",
        "path.unlink",
    ): "a prompt that a person deletes or renames",
    ("core/serving/serving.py", "self._queue.open"): "no file, but the queue of requests",
    ("llm_lite/server/inspect.py", "np.savez"): "bytes in memory",
    ("core/files/regular.py", "os.open"): "to read, without waiting",
    ("core/files/regular.py", "os.fdopen"): "to read",
    ("core/files/places.py", "tempfile.mkdtemp"): "a folder of its own, for a user who has none",
    ("core/text/sandbox/serving.py", "os.open"): "os.devnull, in the place of the streams",
    ("core/text/sandbox/serving.py", "os.fdopen"): "the two pipes",
    ("core/convert/stages/worker.py", "os.open"): "os.devnull, in the place of the streams",
    ("core/convert/stages/worker.py", "open"): "the same",
    ("core/convert/stages/worker.py", "os.fdopen"): "the two pipes",
    **{
        ("core/hub/remote/transfer.py", call): "a partial file, which the next pull goes on with"
        for call in ("partial.open", "partial.unlink", "partial.replace")
    },
    **{
        ("core/hub/remote/pulling.py", call): "links of a cache that is huggingface_hub's"
        for call in ("pointer.symlink_to", "pointer.unlink", "blob.replace")
    },
    ("llm_lite/cli/terminal/endings.py", "tempfile.mkstemp"): "a traceback, in a file of its own",
    ("llm_lite/cli/terminal/endings.py", "os.fdopen"): "the same",
    ("llm_lite/cli/conversation/full_editor.py", "os.open"): "to append a line to a regular file",
    ("llm_lite/cli/conversation/full_editor.py", "os.fdopen"): "to read",
    ("llm_lite/cli/conversation/full_editor.py", "os.ftruncate"): "of a file that has grown",
    ("llm_lite/cli/terminal/output.py", "os.open"): "os.devnull, in the place of a closed stream",
    ("llm_lite/cli/terminal/output.py", "open"): "the same, and standard output itself",
}
METHODS = {
    *("write_bytes", "write_text", "touch", "mkdir", "rmdir", "unlink", "rename"),
    *("symlink_to", "hardlink_to", "link_to", "chmod", "lchmod", "tofile", "open_memmap"),
}
FUNCTIONS = {
    "os": {
        *("open", "fdopen", "replace", "rename", "renames", "remove", "unlink", "rmdir"),
        *("removedirs", "link", "symlink", "truncate", "ftruncate", "mkdir", "makedirs"),
        *("mknod", "mkfifo", "chmod", "chown", "utime"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "copymode", "copystat", "move", "rmtree"},
    "tempfile": {
        *("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory"),
        *("mkstemp", "mkdtemp", "mktemp"),
    },
    "io": {"FileIO", "open_code"},
    "np": {"save", "savez", "savez_compressed", "savetxt"},
}
OPENERS = {"open", "fdopen", "GzipFile", "ZipFile", "TarFile", "memmap"}
READING = {"r", "rb", "rt", "c"}


def writes(source):
    """The calls in a module that may write, rename or delete a file: line and name."""
    tree = ast.parse(source)
    given = _given_by_the_door(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted((c.lineno, ast.unparse(c.func)) for c in calls if _may_write(c, given))


def _given_by_the_door(tree):
    """The names of files that a `with replaced(...) as name` hands out."""
    items = [item for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items]
    return {
        ast.unparse(item.optional_vars)
        for item in items
        if item.optional_vars is not None and ast.unparse(item.context_expr).startswith("replaced(")
    }


def _may_write(call, given):
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if name in FUNCTIONS.get(owner, ()):
        return owner != "np" or not call.args or ast.unparse(call.args[0]) not in given
    if name in OPENERS:
        return _opens_to_write(call, owner)
    if name == "replace" and owner:  # of a path; that of a text has two arguments
        return len(call.args) == 1 and not call.keywords
    return bool(owner) and name in METHODS


def _opens_to_write(call, owner):
    """Path.open has its mode first, np.memmap third, all others second."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    others = {"io", "gzip", "bz2", "lzma", "tarfile", "zipfile", "np", "codecs", "mmap"}
    place = 0 if owner and owner not in others else 1
    mapped = ast.unparse(call.func) == "np.memmap"
    place += mapped
    mode = named or call.args[place : place + 1]
    if not mode:
        return mapped  # r+ without one
    if not isinstance(mode[0], ast.Constant):
        return not (place == 0 and owner[:1].isupper())  # Device.open(index) opens no file
    return isinstance(mode[0].value, str) and mode[0].value not in READING


PLANTED = {
    "open(p, 'wb')": 1,
    "open(p, mode='a')": 1,
    "open(p, mode)": 1,
    "p.open('r+b')": 1,
    "p.open('x')": 1,
    "io.open(p, 'w')": 1,
    "gzip.open(p, 'wb')": 1,
    "np.memmap(p, np.uint8)": 1,
    "np.memmap(p, np.uint8, 'r+')": 1,
    "p.with_name('x').write_bytes(b'')": 1,
    "part.replace(target)": 1,
    "os.replace(part, target)": 1,
    "shutil.rmtree(folder)": 1,
    "tempfile.mkstemp()": 1,
    "np.save(path, x)": 1,
    "with open(p, 'wb') as out:\n    np.save(out, x)": 2,
    "with replaced(p) as out:\n    np.save(out, x)": 0,
    "open(p)": 0,
    "open(p, 'rb')": 0,
    "p.open('rb')": 0,
    "np.memmap(p, np.uint8, 'r')": 0,
    "text.replace('a', 'b')": 0,
    "replace(state, x=1)": 0,
    "Device.open(index)": 0,
}


@pytest.mark.parametrize("source", PLANTED)
def test_the_search_finds_what_is_planted(source):
    assert len(writes(source)) == PLANTED[source]


def test_nobody_but_the_door_writes():
    found = {
        (str(path.relative_to(ROOT)), name): line
        for path in program_files()
        for line, name in writes(path.read_text("utf-8"))
        if str(path.relative_to(ROOT)) not in DOOR
    }
    unknown = [f"{path}:{line}: {name}" for (path, name), line in found.items()
               if (path, name) not in EXCEPTIONS]  # fmt: skip
    assert unknown == [], "these go through core/files/writing.py or core/files/folders.py"
    assert EXCEPTIONS.keys() <= found.keys(), "exceptions that are needed no more"
