"""Colour maps: control colours joined in CIELAB and spaced so that lightness grows evenly.

Control colours: viridis, magma, inferno (S. van der Walt and N. Smith, 2015), cividis (J. Nunez,
C. Anderton and R. Renslow, 2018), blues (C. Brewer, ColorBrewer 2.0). CIELAB after CIE 15:2004
with the D65 white of sRGB (IEC 61966-2-1).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

ENTRIES = 256
FADE = 30  # first entries, which rise out of the paper
CONTROL = {
    "viridis": "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725",
    "magma": "000004 1d1147 51127c 822681 b63679 e65164 fb8861 fec287 fcfdbf",
    "inferno": "000004 210c4a 56106e 89226a bb3754 e35932 f98c0a f9c932 fcffa4",
    "cividis": "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 fee838",
    "blues": "f7fbff deebf7 c6dbef 9ecae1 6baed6 4292c6 2171b5 08519c 08306b",
}
NAMES = tuple(CONTROL)
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = _TO_XYZ.sum(axis=1)
Floats = NDArray[np.float64]


@cache
def table(name: str, light: bool = False) -> NDArray[np.uint8]:
    """Return uint8 [256, 4], RGBA, from the lowest value to the highest: from dark to light, and on
    light paper from light to dark, so that little is near the paper in both."""
    codes = CONTROL[name].split()
    lab = srgb_to_lab(np.array([list(bytes.fromhex(code)) for code in codes]) / 255.0)
    fine = np.linspace(0, len(codes) - 1, 4096)
    joined = np.stack([np.interp(fine, range(len(codes)), lab[:, i]) for i in range(3)], axis=1)
    lightness = joined[:, 0] if joined[0, 0] < joined[-1, 0] else -joined[:, 0]
    wanted = np.linspace(lightness[0], lightness[-1], ENTRIES)
    even = np.stack([np.interp(wanted, lightness, joined[:, i]) for i in range(3)], axis=1)
    rgba = np.full((ENTRIES, 4), 255, np.uint8)
    rgba[:, :3] = np.rint(lab_to_srgb(even) * 255)
    return rgba if (lab[0, 0] > lab[-1, 0]) == light else rgba[::-1].copy()


@cache
def faded(name: str, light: bool = False) -> NDArray[np.uint8]:
    """Return the colours of `table`, but the lowest value is the paper itself: transparent."""
    rgba = table(name, light).copy()
    rgba[:FADE, 3] = np.arange(FADE) * 255 // FADE
    return rgba


@cache
def stops(name: str, steps: int, light: bool = False, fades: bool = True) -> tuple[int, ...]:
    """Return the colours at the ends of `steps` equal pieces, as Dear ImGui packs them."""
    packed = (faded if fades else table)(name, light).view(np.uint32).reshape(-1)
    return tuple(int(packed[i * (ENTRIES - 1) // steps]) for i in range(steps + 1))


def srgb_to_lab(rgb: Floats) -> Floats:
    """Convert sRGB 0..1 [..., 3] to L*, a*, b*."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.moveaxis(_cube_root(linear @ _TO_XYZ.T / _WHITE), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def lab_to_srgb(lab: Floats) -> Floats:
    """Convert L*, a*, b* [..., 3] to sRGB, clipped to 0..1."""
    y = (lab[..., 0] + 16) / 116
    roots = np.stack([y + lab[..., 1] / 500, y, y - lab[..., 2] / 200], axis=-1)
    xyz = np.where(roots > 6 / 29, roots**3, 3 * (6 / 29) ** 2 * (roots - 4 / 29)) * _WHITE
    linear = np.clip(xyz @ np.linalg.inv(_TO_XYZ).T, 0.0, 1.0)
    rgb: Floats = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return rgb


def _cube_root(t: Floats) -> Floats:
    return np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
