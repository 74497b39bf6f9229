"""Turns a binary file into a C header: embed.py IN OUT NAME."""
import sys

data = open(sys.argv[1], "rb").read()
rows = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
with open(sys.argv[2], "w") as out:
    out.write("/* GENERATED from pause.c by embed.py, do not edit */\n")
    out.write("static const unsigned char %s[] = {\n    %s};\n" % (sys.argv[3], ",\n    ".join(rows)))
