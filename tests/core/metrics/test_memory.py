from core.metrics import memory


def test_available_memory_is_plausible():
    found = memory.available_bytes()
    assert found is not None and 1 << 20 < found < 1 << 50
