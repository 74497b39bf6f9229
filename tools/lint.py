#!/usr/bin/env python3
"""Rules that a compiler does not check: layers, banned calls, lone headers, READMEs. Prints each offence, exits 1 on any.

    tools/lint.py [--headers BUILD]    with --headers each header is also compiled alone (needs the generated headers in BUILD)
"""
import os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYERS = ["base", "data", "net", "api", "cel", "store", "apiserver", "client", "dra", "scheduler", "controllers",
          "runtime", "kubelet", "driver", "cli", "ui"]
ROLES = {"apiserver", "scheduler", "controllers", "kubelet", "driver"}
MAY_MEET = {("client", "apiserver")}  # the in-process client enters the server's handler chain
BANNED = ["strcpy", "strcat", "strncpy", "strncat", "sprintf", "vsprintf", "strtok", "gets", "atoi", "atol", "strtol",
          "sscanf", "alloca", "system", "popen", "gettimeofday", "rand", "localtime", "strerror", "signal", "usleep",
          "htonl", "htons", "ntohl", "ntohs"]
HEAP = ["malloc", "calloc", "realloc", "free"]
VENDOR = re.compile(r"\b(uv_|nghttp2_|sqlite3_|wslay_|SSL_|X509|EVP_|archive_|CURL|curl_|yaml_)")


def strip(text):
    """Code without comments, strings and character constants; line numbers stay."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def main():
    bad = []
    headers = []
    for top, _, files in os.walk(os.path.join(ROOT, "src")):
        rel = os.path.relpath(top, os.path.join(ROOT, "src"))
        layer = rel.split("/")[0]
        if any(f.endswith(".c") for f in files) and rel != "." and "README.md" not in files:
            bad.append("src/%s: no README.md" % rel)
        for f in sorted(files):
            if not f.endswith((".c", ".h")):
                continue
            path = os.path.join("src", rel, f) if rel != "." else "src/" + f
            text = open(os.path.join(top, f), encoding="utf-8").read()
            code = strip(text)
            if f.endswith(".h"):
                headers.append(path)
            n_lines = text.count("\n")
            if f.endswith(".c") and n_lines > 1200:
                bad.append("%s: %d lines; a file is one thing" % (path, n_lines))
            for i, line in enumerate(text.split("\n"), 1):
                m = re.match(r'\s*#include "([a-z_]+)/', line)
                if m and layer in LAYERS and m.group(1) in LAYERS:
                    other = m.group(1)
                    if LAYERS.index(other) > LAYERS.index(layer) and other != layer:
                        bad.append("%s:%d: %s may not include %s (a higher layer)" % (path, i, layer, other))
                    elif (other != layer and other in ROLES and layer in ROLES | {"client"} and (layer, other) not in MAY_MEET
                          and not (other == "apiserver" and f.endswith(("_test.c", "_test.h", "_bench.c")))):
                        bad.append("%s:%d: %s may not include %s (roles meet through the client)" % (path, i, layer, other))
            for i, line in enumerate(code.split("\n"), 1):
                for w in re.findall(r"\b([a-z_0-9]+)\s*\(", line):
                    if w in BANNED and not re.search(r"[.>]\s*%s\s*\(" % w, line):
                        bad.append("%s:%d: %s is banned" % (path, i, w))
                    if w in HEAP and layer != "base" and not re.search(r"[.>]\s*%s\s*\(" % w, line):
                        bad.append("%s:%d: bare %s outside base (use bh_malloc, bh_free)" % (path, i, w))
                if f.endswith(".h") and not f.endswith("_int.h") and VENDOR.search(line):
                    bad.append("%s:%d: a vendor's type in a public header" % (path, i))
    if len(sys.argv) > 2 and sys.argv[1] == "--headers":
        inc = ["-I" + os.path.join(ROOT, "src"), "-I" + sys.argv[2], "-I" + os.path.join(sys.argv[2], "src"), "-D_GNU_SOURCE"]
        for h in headers:
            r = subprocess.run(["gcc", "-std=gnu11", "-fsyntax-only", "-x", "c", *inc, os.path.join(ROOT, h)],
                               capture_output=True, text=True)
            if r.returncode:
                bad.append("%s: does not compile alone: %s" % (h, r.stderr.split("\n")[0]))
    for b in bad:
        print(b)
    sys.exit(1 if bad else 0)


main()
