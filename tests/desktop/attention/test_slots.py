"""No plan of a frame can overflow what the frame is held in, whatever is asked of it."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.records import replace
from llm_lite.desktop.attention import colors, frame, upload, work
from llm_lite.desktop.attention import slot as attention_slot
from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.frame import SCORES_EACH, stride
from llm_lite.desktop.attention.kernels import ROWS
from llm_lite.desktop.attention.store import PANELS
from llm_lite.desktop.attention.surface import WORD
from llm_lite.desktop.attention.work import FrameJobs, Planner
from llm_lite.desktop.widgets.head_maps import ColorScale
from tests.desktop.attention_rig import Rig, assert_thumbnails, thumbnails
from tests.desktop.engine.attention import RandomSource

CONTEXT = 150
ROW_BYTES = 2 * 16 * 4  # of two heads' keys, or queries


def cells_of(draw, most):
    """Cells of any windows, with some of their rows to do."""
    found = []
    for index in range(draw(st.integers(0, most))):
        cell = Cell(draw(st.integers(0, 2)), 0, index, 0, 64, 64, shift=draw(st.integers(0, 6)))
        cell.row = draw(st.integers(0, 200))
        for length in sorted(draw(st.lists(st.integers(1, 5000), max_size=3))):
            cell.grow(length)
            if draw(st.booleans()):
                cell.take(draw(st.integers(1, 40)), range(10_000))
        found.append(cell)
    return found


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_plan_is_more_than_the_frame_has_room_for(data):
    """Nor is a row lost or done twice."""
    draw = data.draw
    windows = draw(st.lists(st.sampled_from([0, 7, 512]), min_size=3, max_size=3))
    layers = [AttentionLayer("q", "k", 4, 2, 64, 0.1, w, "f32", 8192) for w in windows]
    groups = [cells_of(draw, most) for most in (5, 9, 9)]
    held = range(draw(st.integers(0, 300)), 10_000)
    planner, pairs = Planner(), draw(st.sampled_from([1.0, 1e5, 1e9]))
    for _ in range(draw(st.integers(1, 3))):
        before = {id(c): rows_to_do(c, held) for group in groups for c in group}
        jobs = FrameJobs(draw(st.integers(0, 40)), draw(st.integers(0, 200)))
        there = draw(st.sets(st.integers(0, 2), min_size=1))
        planner.plan(
            *groups, layers, lambda _: held, pairs, jobs, lambda layer, *_, on=there: layer in on
        )
        assert len(jobs.jobs) <= jobs.most_jobs
        assert sum(job.count for job in jobs.jobs) == jobs.rows <= jobs.most_rows
        assert all(1 <= job.count <= ROWS for job in jobs.jobs)
        done = {key: set() for key in before}
        for job in jobs.jobs:
            rows = set(range(job.first, job.first + job.count))
            assert not rows & done[id(job.cell)], "done twice"
            done[id(job.cell)] |= rows
        for cell in (c for group in groups for c in group):
            assert done[id(cell)] | rows_to_do(cell, held) == before[id(cell)]


def rows_to_do(cell, held):
    return {row for first, last in cell.todo for row in range(first, last)} & set(held)


def test_a_job_too_many_is_refused():
    cell = Cell(0, 0, 0, 0, 64, 64)
    layer = AttentionLayer("q", "k", 4, 2, 64, 0.1, 0, "f32", 8192)
    jobs = FrameJobs(2, 7)
    jobs.add(cell, 0, 4, layer)
    with pytest.raises(ValueError, match="expected at most 3 rows in this frame, got 4"):
        jobs.add(cell, 4, 4, layer)
    jobs.add(cell, 4, 3, layer)
    assert not jobs.room


@pytest.fixture
def rig(scene, device):
    """make(patch, **options) -> Rig; a property closes its own, example by example."""
    return lambda patch, **options: Rig(scene, device, RandomSource(**options), patch)


@pytest.mark.vulkan
def test_many_pictures_at_once_while_maps_are_shown(rig, monkeypatch):
    """Four heads to a file, four on the screen and the grid fill a frame to its last job, whatever
    the rows of each leave of a visit."""
    monkeypatch.setattr(work, "FIRST_RATE", 1e12)  # time for everything
    one = rig(monkeypatch, layers=8, heads=6, kv_heads=2, context=1024)
    one.source.grow(1001)
    counts = []

    def paint(maps, draw_list):
        thumbnails(maps, draw_list)
        maps.picture("hover", 0, 0, range(880, 1001), range(880, 1001), 128)
        for place in range(4):
            maps.picture(f"head.0.{place}", 0, place, range(1001), range(1001), 500)
            maps.picture(f"figure.{place}", 1, place, range(1001), range(1001), 2048)
        recorder = maps._recorder
        counts.append(int((recorder._slots[0].jobs.rows[:, 2] > 0).sum()) if recorder else 0)

    try:
        for _ in range(4):
            one.frame(paint)
        assert max(counts) == attention_slot.MOST_JOBS, "the frame was full"
    finally:
        one.close()


pictures = st.tuples(  # name, head, side
    st.integers(0, 14), st.integers(0, 1), st.sampled_from([60, 128, 300])
)
frames = st.lists(
    st.fixed_dictionaries(
        {
            "deed": st.sampled_from(["grow", "grow", "cut", "anew", "look", "drop", "rest"]),
            "amount": st.integers(1, 60),
            "pictures": st.lists(pictures, max_size=5),
            "grid": st.booleans(),
            "scores": st.booleans(),
            "busy": st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
)
models = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 3),
        "window": st.sampled_from([0, 20]),
        "ring": st.sampled_from([None, 70]),
    }
)
limits = st.fixed_dictionaries(
    {
        "jobs": st.integers(1, 30),
        "scratch": st.integers(1, 20),  # rows
        "staging": st.one_of(st.integers(1, 90), st.just(2000)),  # rows
        "cache": st.integers(1, 3),  # layers
        "idle": st.sampled_from([0.05, 1.0, 200.0]),  # milliseconds
    }
)


def squeeze(patch, sizes):
    """Slots so small that every limit is met."""
    patch.setattr(attention_slot, "MOST_JOBS", sizes["jobs"])
    patch.setattr(frame, "SCRATCH_BYTES", sizes["scratch"] * stride(CONTEXT) * WORD)
    patch.setattr(upload, "STAGING_BYTES", sizes["staging"] * ROW_BYTES)
    patch.setattr(upload, "CACHE_BYTES", sizes["cache"] * 2 * CONTEXT * ROW_BYTES)
    patch.setattr(work, "SOFTWARE_IDLE_MS", sizes["idle"])


@pytest.mark.vulkan
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(models, limits, frames)
def test_no_frame_overflows_a_slot(scene_once, device, model, sizes, deeds):
    """Random conversations, views, looks and limits; in the end the maps are those of NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        source = RandomSource(**model, heads=2, kv_heads=2, context=CONTEXT)
        one = Rig(lambda *_: scene_once, device, source, patch)
        squeeze(patch, sizes)
        try:
            for deed in deeds:
                act(one, deed["deed"], deed["amount"])
                look_at(one, deed)
            patch.setattr(upload, "CACHE_BYTES", 1 << 30)  # else layers take turns
            finish(one)
        finally:
            one.close()


@pytest.fixture
def scene_once(scene):
    return scene(64, 64)


def act(one, deed, amount):
    source = one.source
    if deed == "grow":
        source.grow(min(amount, CONTEXT - source.length))
    elif deed == "cut":
        source.cut(max(0, source.length - amount))
    elif deed == "anew":
        source.cut(0)
        source.epoch += 1
        source.grow(amount)
    elif deed == "look":
        one.maps.use(ColorScale(exclude_first=amount % 2 == 0, high=1 / amount))
    elif deed == "drop":
        one.maps.drop(f"map.{amount % 15}")


def look_at(one, deed):
    def paint(maps, draw_list):
        if maps.problem:
            return
        window = range(maps.length)
        if deed["grid"]:
            thumbnails(maps, draw_list)
        for name, head, side in deed["pictures"]:
            maps.picture(f"map.{name}", 0, head, window, window, side)
        if deed["scores"]:
            maps.scores(of_all=True)

    checked_frame(one, paint, busy=deed["busy"])


def checked_frame(one, paint, *, busy=False):
    """A frame, after which every number that its kernels read lies in its buffer."""
    one.scene.loop.wait()
    recorder = one.maps._recorder
    for slot in recorder._slots if recorder else ():
        slot.jobs.rows[:] = 0
    one.frame(paint, busy=busy)
    if recorder is None:  # the first frame of a model
        return
    for slot in recorder._slots:
        check_jobs(one.maps, slot.jobs.rows[slot.jobs.rows[:, 2] > 0])
    check_slots(one.maps, recorder)


def check_jobs(maps, jobs):
    recorder, cells = maps._recorder, maps._store.cells
    _, first, count, scratch = jobs.T.astype(int)
    assert (jobs[:, 0] < cells).all() and (count <= ROWS).all()
    assert (first + count <= maps.length).all()
    taken = [row for at, n in zip(scratch, count, strict=True) for row in range(at, at + n)]
    room = recorder._scratch.size // (WORD * stride(max(2, maps.length)))
    assert len(set(taken)) == len(taken) and max(taken, default=0) < room


def check_slots(maps, recorder):
    store, uploads = maps._store, maps._uploads
    slot, heads = recorder._slot, len(store.heads)
    assert slot.cells.capacity == store.cells == heads + PANELS
    assert len(list(store.surfaces())) <= 1 + PANELS
    for surface in store.surfaces():
        assert len(surface.cells) <= store.cells
        for cell in surface.cells:
            assert cell.index < store.cells
            assert (cell.origin + cell.width * cell.height) * WORD <= surface.values.size
    assert heads * recorder._scored * SCORES_EACH <= recorder._row_scores.size
    assert maps.length * WORD <= recorder.tokens.size
    shown = set(map(id, store.surfaces()))
    assert all(id(surface) in shown for surface in maps._requests.pictures.values())
    assert uploads._used <= uploads._staging[0].size and not uploads.staged
    assert uploads.nbytes <= max(upload.CACHE_BYTES, 2 * CONTEXT * ROW_BYTES)


def finish(one):
    """All that is left to do is done, and right."""
    if one.source.length < 2:
        one.source.grow(30)
    for _ in range(3000):
        checked_frame(one, thumbnails)
        if not one.maps.pending:
            break
    assert not one.maps.pending, "the maps were never complete"
    one.scene.loop.wait()
    if one.source.ring_rows == CONTEXT:  # else rows are lost, and those next to them are pooled
        assert_thumbnails(one, 1e-4, exclude=one.maps._scale.exclude_first)


@pytest.mark.vulkan
def test_everything_is_coloured_at_once(rig, monkeypatch):
    """More large maps than pieces were kept for: another look colours every pixel of them."""
    one = rig(monkeypatch, layers=1, heads=2, context=64)
    one.source.grow(40)

    def paint(maps, draw_list):
        thumbnails(maps, draw_list)
        for name in range(PANELS):
            maps.picture(f"map.{name}", 0, name % 2, range(40), range(40), 2048)

    try:
        one.until_complete(paint)
        one.maps.use(ColorScale(high=1e-9))
        one.frame(paint)
        one.scene.loop.wait()
        largest = colors.faded("viridis").view(np.uint32)[-1]
        for surface in one.maps._requests.pictures.values():
            last_row = surface.colors.download(39 * 2048 * WORD, 40 * WORD).view(np.uint32)
            assert (last_row == largest).all(), "the old colours are still there"
    finally:
        one.close()


@pytest.mark.vulkan
def test_keys_that_take_several_frames_to_copy(rig, monkeypatch):
    """A frame that only copies, and draws nothing, is recorded too."""
    monkeypatch.setattr(upload, "STAGING_BYTES", 30 * 32 * 4)  # rows of keys
    one = rig(monkeypatch, layers=1, heads=4, kv_heads=2, context=400)
    one.source.grow(350)
    try:
        one.until_complete(thumbnails, most=400)
        assert_thumbnails(one, 2e-5)
    finally:
        one.close()


@pytest.mark.vulkan
def test_a_layer_larger_than_the_budget_of_copies(rig, monkeypatch):
    """It is kept while it is filled, frame by frame, and goes when another one is."""
    monkeypatch.setattr(upload, "STAGING_BYTES", 30 * 32 * 4)
    monkeypatch.setattr(upload, "CACHE_BYTES", 1000)
    one = rig(monkeypatch, layers=2, heads=4, kv_heads=2, context=100)
    one.source.grow(90)
    try:
        one.until_complete(thumbnails, most=400)
        assert_thumbnails(one, 2e-5)
        one.frame(lambda maps, draw_list: None)
        assert len(one.maps._uploads._copies) == 1
    finally:
        one.close()


@pytest.mark.vulkan
def test_a_large_map_that_gives_up_its_place(rig, monkeypatch):
    """One more than are kept: the oldest is asked for no longer, and nothing is planned for it."""
    one = rig(monkeypatch, layers=1, heads=2, context=64)
    one.source.grow(40)

    def paint(maps, draw_list):
        for name in range(PANELS + 1):
            maps.picture(f"map.{name}", 0, name % 2, range(40), range(40), 128)

    try:
        one.frame(paint)
        for _ in range(3):
            one.frame(paint)
        assert list(one.maps._requests.pictures) == [f"map.{n}" for n in range(1, PANELS + 1)]
    finally:
        one.close()


@pytest.mark.vulkan
def test_more_than_the_device_can_bind_is_a_sentence(rig, monkeypatch, device):
    small = replace(device.info, max_storage_buffer_range=1 << 20)
    monkeypatch.setattr(device, "info", small)
    one = rig(monkeypatch, layers=1, heads=2, context=64)
    one.source.grow(40)
    try:
        one.frame(lambda maps, draw_list: None)
        assert "binds at most 1048576: choose a smaller context" in one.maps.problem
    finally:
        one.close()
