#!/usr/bin/python3
"""Prints what scripts/quickstart measured.

usage: summary.py FOLDER
"""

import json
import os
import sys

folder = sys.argv[1]


def load(name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


pretrained, extraction, carried, untrained, leaderboard = map(
    load, ("pretrained.json", "extract.json", "carried.json", "untrained.json", "runs/leaderboard.json"))  # fmt: skip
with open(os.path.join(folder, "carried/metrics.jsonl"), encoding="utf-8") as file:
    epochs = [line for line in map(json.loads, file) if line["event"] == "epoch"]
training = sum(carried["records"]["training"])
judging = sum(carried["records"]["validation"])
busy = sum(line["stages"]["frozen"] + line["stages"]["train"] for line in epochs)


def accuracy(document):
    return f"{100 * document['validation']['accuracy']:5.1f} %"


print(f"  Throughput, cut at {extraction['cut']}")
for stage in extraction["stages"]:
    print(f"    {stage['name']:<28}{extraction['records'] / max(stage['seconds'], 1e-9):10.0f} records/s a thread")
rate = (training + judging) * len(epochs) / busy
print(f"    {'train and validate':<28}{rate:10.0f} records/s")
print(f"    {'tl-extract in all':<28}{extraction['records'] / extraction['seconds']:10.0f} records/s,"
      f" {extraction['bytes_written'] / extraction['records']:.0f} bytes each")  # fmt: skip
print(f"    tl-train was done {carried['seconds']:.1f} s after it began; alone, extraction takes"
      f" {extraction['seconds']:.1f} s and training {busy:.1f} s")  # fmt: skip
print(f"\n  Right answers, {training} labels to learn from, {judging} other pictures to be judged by")
print(f"    {'network trained on classes 0-4, new head':<46}{accuracy(carried)}")
print(f"    {'untrained network, same head':<46}{accuracy(untrained)}")
best = leaderboard["candidates"][0]
print(f"    {'best of tl-select: ' + best['name'].partition('/')[2]:<46}{accuracy(best)}")
print(f"    (on its own classes 0-4 the pretrained network has {accuracy(pretrained).strip()})")
