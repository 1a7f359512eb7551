import numpy as np
import pytest
from PIL import Image

from llm_lite.core.errors import FileError
from llm_lite.desktop.render.png import read_png, write_png


@pytest.fixture
def picture():
    return np.random.default_rng(1).integers(0, 256, (13, 127, 4), dtype=np.uint8)


def test_another_reader_sees_the_same_pixels(tmp_path, picture):
    write_png(tmp_path / "a.png", picture)
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == "RGBA"
        np.testing.assert_array_equal(np.asarray(image), picture)


def test_round_trip(tmp_path, picture):
    write_png(tmp_path / "a.png", picture)
    np.testing.assert_array_equal(read_png(tmp_path / "a.png"), picture)


def test_wrong_shape_is_refused(tmp_path, picture):
    with pytest.raises(ValueError, match=r"\[13, 127, 3\]"):
        write_png(tmp_path / "a.png", picture[..., :3])


@pytest.mark.parametrize("length", [0, 7, 20, 40, 400])
def test_truncated_file(tmp_path, picture, length):
    file = tmp_path / "a.png"
    write_png(file, picture)
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(FileError, match=r"a\.png"):
        read_png(file)


def test_foreign_kind_of_png(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "rgb.png")
    with pytest.raises(FileError, match="8-bit RGBA"):
        read_png(tmp_path / "rgb.png")
