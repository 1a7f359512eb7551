"""The tour's way through the kernel study: on this device and in C++, and a form looked at."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.desktop.tour.input_driver import InputDriver

LIMIT = 300.0  # seconds
PLACES = (("vulkan", 2), ("cpu", 3))  # and the form whose lines are in the picture


def look_at_kernels(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """The panel `performance` is shown, at its top."""
    for backend, form in PLACES:
        scroll_to(driver, f"kernels.{backend}")
        driver.click(f"kernels.{backend}")
        driver.click("kernels.measure")
        driver.wait("the kernels", lambda s: s.quantization.work is None, LIMIT)
        scroll_to(driver, f"kernels.form.{form}")
        driver.click(f"kernels.form.{form}")
        scroll_to(driver, f"kernels.{backend}")
        driver.leave()
        picture(f"{name}-{backend}")
        scroll_to(driver, "kernels.code")
        driver.leave()
        picture(f"{name}-{backend}-code")
    driver.point("view.performance")


def scroll_to(driver: InputDriver, name: str) -> None:
    """In the panel `performance`, until the top of a part is a bit below the upper edge."""
    x0, y0, x1, _ = driver.rect("view.performance")
    for _ in range(40):
        driver.point_at((x0 + x1) / 2, y0 + 40)
        below = driver.rect(name)[1] - y0 if driver.shows(name) else 1000.0
        if 0 <= below < 120:
            return
        driver.wheel(-1.0 if below > 0 else 1.0)
