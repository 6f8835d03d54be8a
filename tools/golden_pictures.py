#!/usr/bin/env python3
"""Makes the JPEG files of the program's tests, each beside a PNG with the points that Pillow reads from it:
crates/regard/tests/golden/pictures/*.jpg and *.png.

    golden_pictures.py

Needs Pillow. The pictures are smooth and of odd sizes; they differ in how a JPEG may store its points.
"""

import math
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).resolve().parents[1] / "crates/regard/tests/golden/pictures"
KINDS = {
    "full-colour": {"subsampling": 0},
    "halved-colour": {"subsampling": 2},
    "progressive": {"subsampling": 2, "progressive": True},
    "grey": {},
}


def point(x, y):
    wave = lambda period, phase: round(128 + 100 * math.sin(x / period + y / 9 + phase))
    return wave(5, 0), wave(7, 2), wave(11, 4)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    colour = Image.new("RGB", (29, 19))
    colour.putdata([point(x, y) for y in range(colour.height) for x in range(colour.width)])
    for name, settings in KINDS.items():
        picture = colour.convert("L") if name == "grey" else colour
        path = FOLDER / f"{name}.jpg"
        picture.save(path, quality=90, **settings)
        Image.open(path).save(path.with_suffix(".png"), optimize=True)


if __name__ == "__main__":
    main()
