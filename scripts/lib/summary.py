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


plan, extraction, carried, untrained = map(load, ("plan.json", "extract.json", "carried.json", "untrained.json"))
leaderboard = load("runs/leaderboard.json")
records = carried["records"]
training, validation = sum(records["training"]), sum(records["validation"])

print(f"  {plan['model']['path']}, cut at {extraction['cut']}, {extraction['inputs']} pictures:")
sent = extraction["bytes_written"] / extraction["records"]
print(f"    extraction   {extraction['records'] / extraction['seconds']:7.0f} pictures/s, {sent:.0f} bytes each")
for stage in extraction["stages"]:
    print(f"      {stage['name']:<10} {100 * stage['busy']:6.0f} % busy")
print(f"    training     {carried['records_per_second']:7.0f} records/s")
print(f"  trained on {training} labels, judged by {validation} other pictures:")
print(f"    pretrained on classes 0 to 4   {100 * carried['validation']['accuracy']:5.1f} % right")
print(f"    untrained                      {100 * untrained['validation']['accuracy']:5.1f} %")
best = leaderboard["candidates"][0]
print(f"    best of {len(leaderboard['candidates'])} candidates           {100 * best['validation']['accuracy']:5.1f} %   ({best['name']})")
