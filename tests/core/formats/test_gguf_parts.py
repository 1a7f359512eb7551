"""Models in several GGUF files."""

import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.formats.gguf_reader import open_gguf
from tests.make_gguf import TinyLlama, Typed, build_gguf, llama_metadata, llama_tensors


def write_parts(folder, count=3, **said):
    """A tiny llama in so many files; `said` replaces what the second part says of itself."""
    metadata, tensors = llama_metadata(TinyLlama()), dict(llama_tensors(TinyLlama()))
    names, paths = list(tensors), []
    for number in range(count):
        split = {
            "split.no": Typed(2, number),
            "split.count": Typed(2, count),
            "split.tensors.count": Typed(5, len(names)),
        }
        split |= said if number == 1 else {}
        path = folder / f"tiny-{number + 1:05}-of-{count:05}.gguf"
        own = {name: tensors[name] for name in names[number::count]}
        path.write_bytes(build_gguf({**(metadata if number == 0 else {}), **split}, own))
        paths.append(path)
    return paths


def test_the_first_opens_all(tmp_path):
    paths = write_parts(tmp_path)
    whole = dict(llama_tensors(TinyLlama()))
    with open_gguf(paths[0]) as file:
        assert {n: t.data.tobytes() for n, t in file.tensors.items()} == {
            name: tensor.data for name, tensor in whole.items()
        }
        assert file.nbytes == sum(path.stat().st_size for path in paths)


def test_another_part_names_the_first(tmp_path):
    paths = write_parts(tmp_path)
    with pytest.raises(FileError, match=r"not the first of 3 parts: open .*tiny-00001-of-00003"):
        open_gguf(paths[1])


def test_a_part_that_is_missing_is_named(tmp_path):
    paths = write_parts(tmp_path)
    paths[2].unlink()
    with pytest.raises(FileError, match=r"tiny-00003-of-00003\.gguf: no such file"):
        open_gguf(paths[0])


def test_a_name_that_says_no_number(tmp_path):
    path = write_parts(tmp_path)[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(FileError, match=r"one of 3 parts.*-00001-of-00003.gguf"):
        open_gguf(path)


@pytest.mark.parametrize(
    "said, sentence",
    [
        ({"split.no": Typed(2, 2)}, "expected split.no 1 and split.count 3, found split.no 2"),
        ({"split.count": Typed(2, 4)}, "found split.no 1 and split.count 4"),
        ({"split.no": "one"}, "found split.no 'one'"),
    ],
)
def test_a_part_of_another_model(tmp_path, said, sentence):
    with pytest.raises(FileError, match=sentence):
        open_gguf(write_parts(tmp_path, **said)[0])


@pytest.mark.parametrize("count", [-1, 1 << 30, "three", 1.5])
def test_a_count_that_is_none(tmp_path, count):
    path = tmp_path / "x-00001-of-00002.gguf"
    path.write_bytes(build_gguf({"split.count": count}, {}))
    with pytest.raises(FileError, match=r"split\.count is .*expected a number up to"):
        open_gguf(path)


def test_parts_that_lack_tensors(tmp_path):
    paths = write_parts(tmp_path, 2)
    metadata = {"split.no": Typed(2, 1), "split.count": Typed(2, 2)}
    paths[1].write_bytes(build_gguf(metadata, {}))
    with pytest.raises(FileError, match=r"split\.tensors\.count: expected \d+ in all parts"):
        open_gguf(paths[0])


def test_the_same_part_twice(tmp_path):
    paths = write_parts(tmp_path, 2)
    metadata = {"split.no": Typed(2, 1), "split.count": Typed(2, 2)}
    first = dict(list(llama_tensors(TinyLlama()).items())[::2])
    paths[1].write_bytes(build_gguf(metadata, first))
    with pytest.raises(FileError, match="is in an earlier part too"):
        open_gguf(paths[0])
