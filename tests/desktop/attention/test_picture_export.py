"""Pictures of views: drawn by the program, rendered on a validated device, read from the file."""

import numpy as np
import pytest

from llm_lite.core.inspect.attention import layer_probabilities
from llm_lite.core.messages import EngineOptions, ExportMaps, LoadModel, SamplingOptions
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.records import replace
from llm_lite.desktop.attention import colors, work
from llm_lite.desktop.features.attention import map_pictures
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.encoder.model import ENCODED
from llm_lite.desktop.features.export_picture.view import SavePaths, default_path
from llm_lite.desktop.features.program.model import ExportAttention
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import XRay
from llm_lite.desktop.render.png import read_png
from llm_lite.desktop.widgets.theme import DARK
from tests.desktop.engine.engine import ScriptedEngine
from tools.tour.scenes.encoding import BUNDLED
from tools.tour.stage import Stage

pytestmark = pytest.mark.vulkan


@pytest.fixture
def stage(monkeypatch):
    """The program on an offscreen surface after a short answer of a scripted engine."""
    monkeypatch.setenv("LLM_LITE_VALIDATION", "1")
    monkeypatch.setattr(work, "SOFTWARE_IDLE_MS", 200.0)
    one = Stage(EngineOptions(), SamplingOptions(max_new_tokens=12), 0.0)
    one._engine = ScriptedEngine(0.0)
    one.program.start(one._engine)
    one._engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.program.do(Send("Why is the sky blue?"))
    one.driver.wait("the answer", lambda s: s.messages and not s.busy)
    yield one
    messages = list(one.device.validation_messages)
    one.close()
    assert messages == []


def saved(stage, view, path):
    """The pixels of the picture, uint8 [h, w, 4]."""
    stage.program.do(ExportAttention(view, "png", str(path)))
    stage.driver.wait("the picture", lambda s: any(str(path) in n.text for n in s.notices))
    assert stage.driver.state.notices[-1].text.startswith("Saved")
    return read_png(path)


PAPER = tuple(DARK.sunken.to_bytes(3, "big"))  # behind maps


def choose(stage, **changes):
    state = stage.driver.state
    stage.program.do(SetAttention(replace(state.attention, **changes)))


def colors_of(stage, layer, head):
    """What the map must look like, int [n, n, 3]; NaN above the diagonal."""
    source = stage._engine.source
    q, k = source.head(layer, head)
    n, scale = source.length, source.layers[layer].scale
    layer = AttentionLayer("q", "k", 1, 1, q.shape[1], scale, 0)
    p = layer_probabilities(layer, 0, q, k, np.arange(n))
    faded = colors.faded("viridis").astype(float)
    share = faded[:, 3:] / 255
    table = faded[:, :3] * share + np.array(PAPER) * (1 - share)
    found = table[np.rint(p * 255).astype(int)]
    found[np.triu_indices(n, 1)] = np.nan
    return found


def test_a_head_has_its_map_axes_and_title(stage, tmp_path):
    choose(stage, locked=((1, 2),), logarithmic=False)
    pixels = saved(stage, "heads", tmp_path / "new" / "head.png")
    want = colors_of(stage, 1, 2)
    n = len(want)
    each = map_pictures._side(n, map_pictures.SMALLEST[0]) // n
    lit = np.isclose(pixels[..., :3], PAPER, atol=3).all(axis=2)
    rows, columns = np.flatnonzero(lit.any(axis=1)), np.flatnonzero(lit.any(axis=0))
    bottom, left = find_map(pixels, want, each, rows[-1], columns[0])
    top = bottom - n * each
    centers = pixels[top + each // 2 : bottom : each, left + each // 2 :: each][:, :n, :3]
    drawn = ~np.isnan(want)
    np.testing.assert_allclose(centers[drawn], want[drawn], atol=3)
    background = pixels[0, 0]
    for part in (pixels[:top, left:], pixels[top:bottom, :left]):  # words above and at the left
        assert (part != background).any()


def find_map(pixels, want, each, bottom, left):
    """Lower edge and left edge of the map: its lower left corner is always drawn."""
    n, half = len(want), each // 2
    for low in range(bottom + 1, bottom - each * n, -1):
        for start in range(left, left + 4):
            top = low - n * each
            if top < 0:
                continue
            got = pixels[top + half : low : each, start + half, :3][:n].astype(float)
            if len(got) == n and np.abs(got - want[:, 0]).max() <= 3:
                return low, start
    raise AssertionError("the picture holds no such map")


def test_four_heads_the_grid_and_the_text(stage, tmp_path):
    choose(stage, locked=((0, 0), (1, 2), (3, 4), (5, 6)))
    four = saved(stage, "heads", tmp_path / "four.png")
    choose(stage, locked=((0, 0),))
    one = saved(stage, "heads", tmp_path / "one.png")
    assert four.shape[0] > 1.5 * one.shape[0] and four.shape[1] > 1.5 * one.shape[1]
    choose(stage, layer=2)
    layer = saved(stage, "grid", tmp_path / "layer.png")
    choose(stage, layer=None)
    grid = saved(stage, "grid", tmp_path / "grid.png")
    assert (
        grid.shape[0] > 6 * map_pictures.THUMBNAIL > layer.shape[0]
    )  # one line of heads, its scale below
    assert grid.shape[1] / grid.shape[0] == pytest.approx(map_pictures.WIDE, rel=0.5)
    choose(stage, order="induction")
    assert saved(stage, "grid", tmp_path / "ranked.png").shape != grid.shape
    text = saved(stage, "text", tmp_path / "text.png")
    assert (text != text[0, 0]).any(axis=2).mean() > 0.02
    assert stage._screen.maps.read_back["maps"] == 0


def test_the_held_token_and_row_are_marked(stage, tmp_path):
    palette = stage.program.interface.ui.theme.palette
    accent = np.array([palette.accent >> at & 255 for at in (16, 8, 0)])

    def marked(pixels):
        return int((np.abs(pixels[..., :3].astype(int) - accent).max(axis=2) < 4).sum())

    choose(stage, locked=((0, 0),), row=5)
    stage.program.do(SetXRay(XRay(shown=True, at=5)))
    assert marked(saved(stage, "heads", tmp_path / "row.png")) > 800
    stage.program.do(SetXRay(XRay(shown=True, at=5)))
    assert marked(saved(stage, "text", tmp_path / "text.png")) > 50


def test_an_encoders_text_is_a_picture_with_where_a_token_looks(stage, tmp_path):
    stage._engine.submit(LoadModel(BUNDLED))
    stage.driver.wait("the text", lambda s: s.encodes and ENCODED.answer(s) is not None)
    stage.driver.frames(3)
    plain = saved(stage, "text", tmp_path / "plain.png")
    stage.driver.click("encoding.token.3")
    stage.driver.wait("its look", lambda s: ROWS.answer(s) is not None)
    held = saved(stage, "text", tmp_path / "held.png")
    assert held.shape[0] > plain.shape[0], "the scale of colours stands above the tokens"
    strongest = np.array(colors.table("viridis", False)[255][:3])
    assert (held[..., :3] == strongest).all(axis=-1).sum() > 200
    assert not (plain[..., :3] == strongest).all(axis=-1).any()


def test_exports_that_fail_are_sentences(stage, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")

    def told(path, view="grid"):
        stage.program.state = replace(stage.program.state, notices=())
        stage.program.do(ExportAttention(view, "png", str(path)))
        stage.driver.wait("a notice", lambda s: s.notices)
        return stage.driver.state.notices[-1].text

    assert "cannot be made: there is a file where" in told(tmp_path / "file" / "x.png")
    assert "already" in told(tmp_path / "file")
    assert "No heads" in told(tmp_path / "x.png", "heads")
    monkeypatch.setattr("llm_lite.desktop.widgets.figure.MOST_PIXELS", 1000)
    assert "show fewer heads" in told(tmp_path / "x.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_the_panel_asks_for_a_path(stage, tmp_path):
    driver = stage.driver
    choose(stage, locked=((0, 0),))
    driver.click("tab.head")
    driver.click("save.heads.open")
    assert driver.shows("save.heads.path")
    stage.program.interface.ui.local(SavePaths).paths["heads"] = str(tmp_path / "mine.png")
    driver.frames(2)
    driver.click("save.heads.npz")
    sent = [c for c in stage._engine.commands if isinstance(c, ExportMaps)]
    assert [(c.path, c.heads) for c in sent] == [(str(tmp_path / "mine.npz"), ((0, 0),))]
    driver.click("save.heads.open")
    stage.program.interface.ui.local(SavePaths).paths["heads"] = str(tmp_path / "mine.png")
    driver.frames(2)
    driver.click("save.heads.png")
    driver.wait("the picture", lambda s: (tmp_path / "mine.png").exists())
    name = default_path(driver.state, "grid").name
    assert name.startswith("SmolLM2-135M-Instruct-grid-") and name.endswith(".png")
