#!/usr/bin/python3
"""Makes a folder of small pictures that a network can tell apart: each class has its own colour and
stripe direction, under noise.

usage: make_pictures.py FOLDER COUNT [CLASS...]      (COUNT of each class; PNG, 40x32 pixels)
"""

import os
import sys

import numpy
from PIL import Image

folder, count, *classes = sys.argv[1:]
for index, name in enumerate(classes or ["cat", "dog", "owl"]):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    y, x = numpy.mgrid[0:32, 0:40]
    stripes = numpy.sin((x * numpy.cos(index) + y * numpy.sin(index)) * (0.4 + 0.2 * index))
    for number in range(int(count)):
        random = numpy.random.default_rng([index, number])
        colour = 128 + 60 * numpy.cos(numpy.array([0, 2, 4]) + 1.7 * index) + random.normal(0, 10, 3)
        pixels = colour + 40 * stripes[..., None] + random.normal(0, 15, (32, 40, 3))
        Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(f"{folder}/{name}/{number:03}.png")
