#!/usr/bin/env python3
"""Replays recorded conversations (wire.py says what they are), several at a time, and compares strictly and with --drop at once.

    replay.py --server URL [--threads N] [--only REGEX] [--show] [--strict] [--names FILE] FILE.jsonl…

For each file a line: how many scenarios answer letter by letter; how many without texts and field ownership; how many differences
`deviations` states. Exit status 1 when one that is not stated differs even without texts; with --strict, also for texts. --names writes the names of those that pass
strictly, with the seconds each took. --show prints the first difference of each that fails.
"""
import concurrent.futures, json, os, re, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
DROP = {"managedFields", "message", "warning"}
# What changes something for everybody while it runs: alone, at the end. Discovery expects that nobody defines anything.
ALONE = re.compile(r"^(policy/priority/global-default|policy/storage/default-class|discovery/|machinery/discovery)|namespace-lifecycle")


def one(scenario, tokens):
    began = time.time()
    try:
        got = wire.Talk(scenario, tokens).run()
    except Exception as e:
        return ["%s: %s" % (type(e).__name__, e)], ["%s: %s" % (type(e).__name__, e)], time.time() - began
    both = []
    for drop in (set(), DROP):
        both.append(["step %d%s" % (i, d) for i, (s, g) in enumerate(zip(scenario["steps"], got)) if "answer" in s
                     for d in wire.differences(wire.without(s["answer"], drop), wire.without(g, drop))])
    return both[0], both[1], time.time() - began


def main(argv):
    opts, files, it = {"server": "", "threads": "6", "only": "", "names": "", "tokens": os.path.join(HERE, "tokens.csv")}, [], iter(argv)
    show = exact = False
    for a in it:
        if a == "--show":
            show = True
        elif a == "--strict":
            exact = True
        elif a.startswith("--"):
            opts[a[2:]] = next(it)
        else:
            files.append(a)
    wire.args["server"], wire.args["tokens"] = opts["server"], opts["tokens"]
    wire.args["deviations"] = os.path.join(HERE, "deviations")
    tokens, stated, bad = wire.tokens(), wire.stated(), 0
    names = open(opts["names"], "w") if opts["names"] else None
    for name in files:
        with open(name) as f:
            scenarios = [json.loads(line) for line in f]
        scenarios = [s for s in scenarios if re.search(opts["only"], s["name"])]
        together = [s for s in scenarios if not ALONE.search(s["name"])]
        alone = [s for s in scenarios if ALONE.search(s["name"])]
        count = {"strict": 0, "loose": 0, "stated": 0, "different": 0}

        def judge(s, result):
            nonlocal bad
            strict, loose, took = result
            if not strict:
                count["strict"] += 1
                if names:
                    names.write("%s %.2f\n" % (s["name"], took))
            if not loose:
                count["loose"] += 1
            if strict and s["name"] in stated:
                count["stated"] += 1
            elif loose or (exact and strict):
                count["different"] += 1
                bad += 1
            if (loose or (strict and (show or exact))) and s["name"] not in stated and (show or count["different"] <= 10):
                print("%s %s: %s" % ("DIFFERS" if loose else "differs in texts", s["name"], (loose or strict)[0][:300]))

        with concurrent.futures.ThreadPoolExecutor(int(opts["threads"])) as pool:
            for s, result in zip(together, pool.map(lambda s: one(s, tokens), together)):
                judge(s, result)
        for s in alone:
            judge(s, one(s, tokens))
        print("%-16s %4d scenarios: %4d the same, %4d without texts and field ownership, %d stated as deviations, %d different"
              % (os.path.basename(name), len(scenarios), count["strict"], count["loose"], count["stated"], count["different"]), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
