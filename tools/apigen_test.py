#!/usr/bin/env python3
"""Tests of apigen.py: golden output, determinism, and what it says of faulty schemas.

    apigen_test.py [--write]     --write makes the golden files anew (look at the difference before committing it)
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(os.path.dirname(HERE), "tests", "golden", "gen")
APIGEN = os.path.join(HERE, "apigen.py")
INPUTS = [os.path.join(GOLDEN, n) for n in ("meta_v1.api", "shop_v1.api")]
FIRST = "group a.b version v1 proto x.a.v1\n"

# (schema, what the error must end in)
FAULTS = [
    ("", "1: empty file"),
    ("message A {\n}\n", "1: the first line must be: group GROUP version VERSION proto PACKAGE"),
    ("group b version v1 proto x\n", "1: the file of this group and version must be called b_v1.api"),
    (FIRST + "message A {\n", "block of line 2 is not closed"),
    (FIRST + "message A {\n}\nmessage A {\n}\n", "4: message A is defined twice"),
    (FIRST + "message A {\n1 x string\n1 y string\n}\n", "4: number 1 of A is already x (line 3)"),
    (FIRST + "message A {\n1 x string\n2 x string\n}\n", "4: field x of A stands already on line 3"),
    (FIRST + "message A {\n1 x strin\n}\n", "3: unknown type 'strin'"),
    (FIRST + "message A {\n1 x core.Pod\n}\n", "3: core is not imported"),
    (FIRST + "import core/v1\nmessage A {\n1 x core.Pod\n}\n",
     "2: import core/v1: no file core_v1.api was given (after adding one, configure the build again)"),
    (FIRST + "message A {\n1 x string colour=red\n}\n", "3: unknown attribute 'colour'"),
    (FIRST + "message A {\n1 x string format=nonsense\n}\n", "3: unknown format 'nonsense'"),
    (FIRST + "message A {\n1 x []A list=map\n}\n", "3: list=map needs keys="),
    (FIRST + "message A {\n1 x string max=many\n}\n", "3: max must be an integer"),
    (FIRST + "message A {\n1 x A\n}\n", "2: message A holds itself without ? or [] (through A)"),
    (FIRST + "message A {\n1 x string \"open\n}\n", "3: quote is not closed"),
    (FIRST + "message A {\nx string\n}\n", "3: a field reads: NUMBER name TYPE attributes…"),
    (FIRST + "message A {\n1 x string inline\n}\n", "3: only a message can be inline"),
    (FIRST + "kind A cluster {\nresource as\n}\nmessage A {\n}\n", "2: kind A needs: import meta/v1"),
    (FIRST + "kind A body {\nmessage B\n}\n", "2: kind A: unknown message 'B'"),
    (FIRST + "kind A {\n}\n", "2: expected import, message or kind, found 'kind'"),
    (FIRST + "message A {\n}\nkind A body {\nselectable spec.x\n}\n", "4: kind A: no field spec.x (A has no spec)"),
    (FIRST + "message A {\n}\nkind A body {\nsubresource scale B\n}\n", "5: subresource scale: there is no kind B"),
    (FIRST + "message A {\n}\nkind A body {\ncolumn \"X\" string\n}\n",
     '5: a column reads: column "Name" TYPE … "description" = .path, or = func NAME'),
]


def generate(inputs, out):
    return subprocess.run([sys.executable, APIGEN, "--out", out] + inputs, capture_output=True, text=True)


def files(folder):
    out = {}
    for n in sorted(os.listdir(folder)):
        with open(os.path.join(folder, n), encoding="utf-8") as f:
            out[n] = f.read()
    return out


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        for out, inputs in ((a, INPUTS), (b, INPUTS[::-1])):
            r = generate(inputs, out)
            if r.returncode != 0:
                print("the sample is refused: " + r.stderr)
                return 1
        got = files(a)
        if got != files(b):
            print("the order of the files matters")
            failed += 1
        if "--write" in sys.argv:
            for n, text in got.items():
                with open(os.path.join(GOLDEN, n + ".golden"), "w", encoding="utf-8") as f:
                    f.write(text)
        for n, text in got.items():
            with open(os.path.join(GOLDEN, n + ".golden"), encoding="utf-8") as f:
                if f.read() != text:
                    print("%s is not as the golden file has it (apigen_test.py --write)" % n)
                    failed += 1
    for schema, want in FAULTS:
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "a_v1.api")
            with open(path, "w", encoding="utf-8") as f:
                f.write(schema)
            r = generate([path], os.path.join(d, "out"))
            said = r.stderr.strip()
            if r.returncode != 1 or not said.startswith(path + ":") or not said.endswith(want):
                print("%r\n  says   %s\n  wanted …%s" % (schema, said, want))
                failed += 1
    print("apigen: %d faults checked, %d failed" % (len(FAULTS), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
