#!/usr/bin/python3
"""Compares our decoding and preprocessing with Pillow and torchvision, on pictures made here.

usage: preprocess_test.py TL-PREPROCESS-DUMP
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from torchvision import transforms
from torchvision.transforms import InterpolationMode

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
FILTERS = {
    "nearest": InterpolationMode.NEAREST,
    "bilinear": InterpolationMode.BILINEAR,
    "bicubic": InterpolationMode.BICUBIC,
}


def pictures(folder):
    """Noise is the hardest content for a resampling filter, a gradient the easiest."""
    random = np.random.default_rng(1)
    made = {}

    def save(name, array, **options):
        made[name] = os.path.join(folder, name)
        Image.fromarray(array).save(made[name], **options)

    def noise(height, width, *rest):
        return random.integers(0, 256, (height, width, *rest), dtype=np.uint8)

    y, x = np.mgrid[0:333, 0:500]
    smooth = np.stack([x * 255 // 500, y * 255 // 333, (x + y) * 255 // 833], -1).astype(np.uint8)
    save("noise.png", noise(375, 500, 3))
    save("tall.png", noise(511, 130, 3))
    save("tiny.png", noise(19, 23, 3))
    save("large.png", noise(1201, 1600, 3))
    save("grey.png", noise(300, 301))
    save("alpha.png", noise(257, 300, 4))
    save("photo.jpg", smooth, quality=90)
    save("noise.jpg", noise(240, 321, 3), quality=95)
    save("grey.jpg", noise(290, 260), quality=90)
    save("progressive.jpg", smooth, quality=80, progressive=True)
    made["palette.png"] = os.path.join(folder, "palette.png")
    Image.fromarray(smooth).quantize(37).save(made["palette.png"])
    return made


def cases():
    """Our settings, and torchvision's transforms for the same."""
    for name, mode in FILTERS.items():
        for size, crop in ((256, 224), (64, 64), (97, 97), (300, 224)):
            yield (
                f"imagenet,resize={size},crop={crop},interpolation={name}",
                [transforms.Resize(size, mode), transforms.CenterCrop(crop)],
                (MEAN, STD),
            )
        yield (
            f"raw,resize=48x80,interpolation={name}",
            [transforms.Resize((48, 80), mode)],
            None,
        )
    yield "raw", [], None
    yield "raw,crop=401", [transforms.CenterCrop(401)], None
    yield (
        "raw,channels=1,resize=50,crop=33x50,mean=0.5,std=0.25",
        [transforms.Resize(50), transforms.CenterCrop((33, 50)), transforms.Grayscale()],
        ([0.5], [0.25]),
    )


def read_result(stream):
    shape = [int(n) for n in stream.readline().split()]
    if len(shape) != 3:
        sys.exit("tl-preprocess-dump stopped early")
    data = stream.read(4 * int(np.prod(shape)))
    return np.frombuffer(data, np.float32).reshape(shape)


def main():
    failures, worst_mean, worst = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        files = pictures(folder)
        jobs = [(*case, *file) for case in cases() for file in files.items()]
        lines = "".join(f"{settings}\t{path}\n" for settings, _, _, _, path in jobs)
        listing = os.path.join(folder, "jobs")
        with open(listing, "w") as file:
            file.write(lines)
        with open(listing) as stdin, subprocess.Popen(
            [sys.argv[1]], stdin=stdin, stdout=subprocess.PIPE
        ) as dump:
            for settings, steps, normal, name, path in jobs:
                ours = read_result(dump.stdout)
                chain = steps + [transforms.ToTensor()]
                scale = 255.0
                if normal:
                    chain.append(transforms.Normalize(*normal))
                    scale = 255.0 * np.array(normal[1]).reshape(-1, 1, 1)
                theirs = transforms.Compose(chain)(Image.open(path).convert("RGB")).numpy()
                what = f"{settings} of {name}"
                if ours.shape != theirs.shape:
                    failures.append(f"{what}: shape {ours.shape}, want {theirs.shape}")
                    continue
                levels = np.abs(ours.astype(np.float64) - theirs) * scale
                exact = "resize" not in settings or "nearest" in settings
                worst_mean, worst = max(worst_mean, levels.mean()), max(worst, levels.max())
                # Ours keeps weights in 16 bits, Pillow in 22: single pixels round to the neighbour.
                if levels.mean() > (1e-4 if exact else 0.1) or levels.max() > (1e-3 if exact else 2.01):
                    failures.append(f"{what}: {levels.mean():.4f} levels on average, {levels.max():.2f} at most")
        if dump.returncode != 0:
            failures.append(f"tl-preprocess-dump ended with {dump.returncode}")
    print(f"{len(jobs)} comparisons; worst: {worst_mean:.4f} levels on average, {worst:.2f} in one pixel")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
