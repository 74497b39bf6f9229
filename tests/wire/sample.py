#!/usr/bin/env python3
"""Chooses the sample that stands here: sample.py NAMES OUT FILE.jsonl… NAMES is what `replay.py --names` wrote.

Of each file an equal share, of each area in it (the second word of a name) in turn, small ones first.
"""
import collections, json, re, sys

SHARE, BYTES = 52, 9000


def main(names, out, *files):
    passed = {line.split()[0]: float(line.split()[1]) for line in open(names)}
    with open(out, "w") as f:
        for name in files:
            areas = collections.OrderedDict()
            for line in open(name):
                s = json.loads(line)
                if re.search(r'"\d+s"', line):
                    continue  # an age: it depends on how busy the machine is
                if s["name"] in passed and len(line) <= BYTES and passed[s["name"]] < 3:
                    areas.setdefault(s["name"].split("/")[1], []).append(line)
            left = SHARE
            for a in areas.values():
                a.sort(key=len, reverse=True)
            while left and any(areas.values()):
                for a in areas.values():
                    if a and left:
                        # Not only the smallest: every second one from the middle.
                        f.write(a.pop(len(a) // 2))
                        left -= 1


main(*sys.argv[1:])
