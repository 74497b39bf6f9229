#!/usr/bin/env python3
"""Generates the C of the API schema: structs, descriptors and the registry of kinds.

    apigen.py --out DIR FILE.api...    writes DIR/LABEL_VERSION.{h,c}, DIR/kinds.{h,c}
    apigen.py --names FILE.api...      prints the names of the files that would be written, one a line

The language is described in api/README.md, the tables in src/api/types.h. Python 3, standard library only. The output
depends on nothing but the input files. Errors read FILE:LINE: what is wrong.
"""
import os
import re
import sys

SCALARS = {
    # type: (C type, enum, C vector or None, C map or None, Go type)
    "string": ("struct bh_str", "BH_T_STRING", "struct bh_str_vec", "struct bh_str_map", "string"),
    "bytes": ("struct bh_str", "BH_T_BYTES", "struct bh_str_vec", "struct bh_str_map", "[]uint8"),
    "raw": ("struct bh_str", "BH_T_RAW", "struct bh_str_vec", "struct bh_str_map", "interface {}"),
    "quantity": ("struct bh_str", "BH_T_QUANTITY", "struct bh_str_vec", "struct bh_str_map", "resource.Quantity"),
    "bool": ("bool", "BH_T_BOOL", "struct bh_bool_vec", "struct bh_bool_map", "bool"),
    "int32": ("int32_t", "BH_T_INT32", "struct bh_i32_vec", "struct bh_i32_map", "int32"),
    "int64": ("int64_t", "BH_T_INT64", "struct bh_i64_vec", "struct bh_i64_map", "int64"),
    "uint32": ("uint32_t", "BH_T_UINT32", "struct bh_u32_vec", None, "uint32"),
    "double": ("double", "BH_T_DOUBLE", "struct bh_double_vec", None, "float64"),
    "time": ("struct bh_time", "BH_T_TIME", "struct bh_time_vec", "struct bh_time_map", "string"),
    "microtime": ("struct bh_time", "BH_T_MICROTIME", "struct bh_time_vec", "struct bh_time_map", "string"),
    "intorstring": ("struct bh_intstr", "BH_T_INTORSTR", "struct bh_intstr_vec", None, "int32"),
}
MAP_ENTRY = {
    "struct bh_str_map": "struct bh_str_pair", "struct bh_bool_map": "struct bh_bool_entry",
    "struct bh_i32_map": "struct bh_i32_entry", "struct bh_i64_map": "struct bh_i64_entry",
    "struct bh_time_map": "struct bh_time_entry",
}
# Words that cannot name a member: keywords, and what C headers or gcc define as macros.
C_WORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true
false asm typeof linux unix errno""".split())
FORMATS = set("""dnslabel dnssubdomain dns1035label qualifiedname labelkey labelvalue cidentifier envvarname configmapkey
portname uuid ip cidr pathsegment name""".split())
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
SUB_VERBS = {"status": "get patch update", "scale": "get patch update", "ephemeralcontainers": "get patch update",
             "resize": "get patch update", "approval": "get patch update", "binding": "create", "eviction": "create",
             "token": "create", "log": "get", "exec": "get create", "attach": "get create", "portforward": "get create",
             "proxy": "get create", "finalize": "update"}
TOKEN = re.compile(r"[A-Z]{2,}s(?=[A-Z]|$)|[A-Z]+(?=[A-Z][a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


class Bad(Exception):
    pass


def snake(name):
    words = []
    for part in re.split(r"[^A-Za-z0-9]+", name):
        words += TOKEN.findall(part)
    s = "_".join(w.lower() for w in words)
    return s + "_" if s in C_WORDS else s


def cstr(s):
    out = []
    for b in s.encode():
        c = chr(b)
        if c in '"\\':
            out.append("\\" + c)
        elif 32 <= b < 127:
            out.append("\\?" if c == "?" else c)
        else:
            out.append("\\%03o" % b)
    return '"' + "".join(out) + '"'


def bstr(s):
    return "BH_S_INIT(%s)" % cstr(s)


def name_hash(s):
    """The same as bh_name_hash() in src/api/types.h."""
    b, m = s.encode(), 0xFFFFFFFF
    n = len(b)
    h = (n * 0x9E3779B1) & m
    if n >= 4:
        h ^= b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24
        h = (h * 0x85EBCA6B) & m
        h ^= b[n - 4] | b[n - 3] << 8 | b[n - 2] << 16 | b[n - 1] << 24
        h = ((h ^ (b[n // 2] << 7)) * 0xC2B2AE35) & m
    else:
        for c in b:
            h = ((h ^ c) * 0x01000193) & m
    return h ^ (h >> 15)


class Field:
    def __init__(self, line):
        self.line = line
        self.attrs = {}
        self.flags = set()
        self.doc = ""


class Message:
    def __init__(self, file, name, line):
        self.file, self.name, self.line = file, name, line
        self.fields, self.doc, self.bare, self.atomic = [], "", False, False
        self.is_list = False
        self.c = "bh_%s_%s" % (file.label, snake(name))


class Kind:
    def __init__(self, file, name, line):
        self.file, self.name, self.line = file, name, line
        self.scope, self.doc, self.resource, self.singular = "", "", "", ""
        self.message, self.hub, self.api_version = "", "", ""
        self.short, self.categories, self.subs, self.columns = [], [], [], []
        self.selectable, self.index, self.verbs = [], [], None
        self.unserved = False
        self.c = "bh_%s_%s_kind" % (file.label, snake(name))


class File:
    """One parsed .api file."""

    def __init__(self, path):
        self.path = path
        self.group = self.version = self.proto = self.label = self.short = ""
        self.imports, self.messages, self.kinds = {}, {}, {}

    def bad(self, line, text):
        raise Bad("%s:%d: %s" % (self.path, line, text))

    def parse(self):
        with open(self.path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        block = None
        for n, raw in enumerate(lines, 1):
            words = self.words(n, raw)
            if not words:
                continue
            if not self.proto:
                self.header(n, words)
            elif block is None:
                block = self.top(n, words)
            elif words == ["}"]:
                block = None
            elif isinstance(block, Message):
                self.field(n, block, words)
            else:
                self.kind_line(n, block, words, raw)
        if not self.proto:
            self.bad(1, "empty file")
        if block is not None:
            self.bad(len(lines), "block of line %d is not closed" % block.line)

    def words(self, n, raw):
        """Splits a line; a quoted word keeps a leading quote mark so that descriptions stand apart from attributes."""
        out, i = [], 0
        while i < len(raw):
            c = raw[i]
            if c in " \t\r":
                i += 1
            elif c == "#":
                break
            else:
                j, w = i, ""
                while j < len(raw) and raw[j] not in " \t\r":
                    if raw[j] == '"':
                        k = j + 1
                        while k < len(raw) and raw[k] != '"':
                            k += 2 if raw[k] == "\\" else 1
                        if k >= len(raw):
                            self.bad(n, "quote is not closed")
                        w += raw[j:k + 1]
                        j = k + 1
                    else:
                        w += raw[j]
                        j += 1
                out.append(w)
                i = j
        return out

    def header(self, n, w):
        if len(w) != 6 or w[0] != "group" or w[2] != "version" or w[4] != "proto":
            self.bad(n, "the first line must be: group GROUP version VERSION proto PACKAGE")
        self.group, self.version, self.proto = w[1], w[3], w[5]
        self.short = self.group.split(".")[0]
        self.label = snake_label(self.short) + "_" + self.version
        want = self.short + "_" + self.version + ".api"
        if os.path.basename(self.path) != want:
            self.bad(n, "the file of this group and version must be called " + want)
        if self.group == "core":
            self.group = ""
        parts = self.proto.split(".")
        self.openapi = ".".join([parts[1], parts[0]] + parts[2:]).replace("_", "-")

    def api_version(self):
        if self.short == "meta":
            return "v1"
        return self.group + "/" + self.version if self.group else self.version

    def top(self, n, w):
        if w[0] == "import" and len(w) == 2 and "/" in w[1]:
            label, version = w[1].split("/", 1)
            self.imports[label] = (version, n)
            return None
        if w[0] == "message" and len(w) >= 3 and w[-1] == "{" or w[0] == "message" and w[-1] in ("{}", "}"):
            if w[1] in self.messages:
                self.bad(n, "message %s is defined twice" % w[1])
            m = self.messages[w[1]] = Message(self, w[1], n)
            for a in w[2:]:
                if a.startswith('"'):
                    m.doc = unquote(a)
                elif a == "bare":
                    m.bare = True
                elif a == "struct=atomic":
                    m.atomic = True
                elif a not in ("{", "}", "{}"):
                    self.bad(n, "unknown word '%s' after message %s" % (a, w[1]))
            return m if w[-1] == "{" else None
        if w[0] == "kind" and len(w) >= 4 and w[-1] == "{":
            if w[1] in self.kinds:
                self.bad(n, "kind %s is defined twice" % w[1])
            k = self.kinds[w[1]] = Kind(self, w[1], n)
            for a in w[2:-1]:
                if a in ("namespaced", "cluster", "body"):
                    k.scope = a
                elif a == "unserved":
                    k.unserved = True
                elif a.startswith('"'):
                    k.doc = unquote(a)
                else:
                    self.bad(n, "unknown word '%s' after kind %s" % (a, w[1]))
            if not k.scope:
                self.bad(n, "kind %s must be namespaced, cluster or body" % w[1])
            return k
        self.bad(n, "expected import, message or kind, found '%s'" % w[0])

    def field(self, n, m, w):
        f = Field(n)
        if len(w) < 3 or not w[0].isdigit():
            self.bad(n, "a field reads: NUMBER name TYPE attributes…")
        f.num, f.json = int(w[0]), w[1]
        t = w[2]
        f.ptr = t.startswith("?")
        t = t[1:] if f.ptr else t
        f.shape = "BH_ONE"
        if t.startswith("[]"):
            f.shape, t = "BH_LIST", t[2:]
        elif t.startswith("map[string]"):
            f.shape, t = "BH_MAP", t[11:]
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)?", t):
            self.bad(n, "cannot read the type '%s'" % w[2])
        f.type = t
        for a in w[3:]:
            if a.startswith('"'):
                f.doc = unquote(a)
            elif "=" in a:
                key, v = a.split("=", 1)
                if key not in ("proto", "default", "enum", "min", "max", "maxlen", "maxitems", "format", "patch", "key",
                               "list", "keys", "map", "struct", "gate", "gotype", "keytype", "doc"):
                    self.bad(n, "unknown attribute '%s'" % key)
                f.attrs[key] = v
            elif a in ("always", "inline", "required", "immutable", "typed"):
                f.flags.add(a)
            else:
                self.bad(n, "unknown attribute '%s'" % a)
        f.member = snake(f.attrs.get("proto", f.json))
        for o in m.fields:
            if o.json == f.json or o.member == f.member:
                self.bad(n, "field %s of %s stands already on line %d" % (f.json, m.name, o.line))
            if f.num and o.num == f.num:
                self.bad(n, "number %d of %s is already %s (line %d)" % (f.num, m.name, o.json, o.line))
        if f.attrs.get("doc", "required") not in ("required", "optional"):
            self.bad(n, "doc=%s is neither required nor optional" % f.attrs["doc"])
        if "format" in f.attrs and f.attrs["format"] not in FORMATS:
            self.bad(n, "unknown format '%s'" % f.attrs["format"])
        for a in ("min", "max", "maxlen", "maxitems"):
            if a in f.attrs and not re.fullmatch(r"-?\d+", f.attrs[a]):
                self.bad(n, "%s must be an integer" % a)
        if f.attrs.get("list", "atomic") not in ("atomic", "set", "map"):
            self.bad(n, "list must be atomic, set or map")
        if f.attrs.get("list") == "map" and "keys" not in f.attrs:
            self.bad(n, "list=map needs keys=")
        m.fields.append(f)

    def kind_line(self, n, k, w, raw):
        key = w[0]
        if key in ("resource", "message", "singular", "hub"):
            if len(w) != 2:
                self.bad(n, "%s takes one word" % key)
            setattr(k, key, w[1])
        elif key == "apiversion" and len(w) == 2:
            k.api_version = w[1]
        elif key == "short":
            k.short += w[1:]
        elif key in ("categories", "category"):
            k.categories += w[1:]
        elif key == "selectable":
            k.selectable += w[1:]
        elif key == "index":
            k.index += w[1:]
        elif key == "verbs":
            k.verbs = w[1:]
            for v in k.verbs:
                if v not in VERBS:
                    self.bad(n, "unknown verb '%s'" % v)
        elif key == "subresource" and len(w) >= 2:
            s = {"name": w[1], "body": "", "verbs": SUB_VERBS.get(w[1], "get").split(), "unserved": False, "line": n}
            for a in w[2:]:
                if a.startswith("verbs="):
                    s["verbs"] = a[6:].split(",")
                elif a == "unserved":
                    s["unserved"] = True
                else:
                    s["body"] = a
            k.subs.append(s)
        elif key == "column":
            self.column(n, k, w)
        else:
            self.bad(n, "unknown line '%s' in kind %s" % (key, k.name))

    def column(self, n, k, w):
        if "=" not in w or len(w) < 4 or not w[1].startswith('"'):
            self.bad(n, 'a column reads: column "Name" TYPE … "description" = .path, or = func NAME')
        eq = w.index("=")
        c = {"name": unquote(w[1]), "type": w[2], "format": "", "priority": 0, "doc": "", "path": "", "func": ""}
        for a in w[3:eq]:
            if a.startswith('"'):
                c["doc"] = unquote(a)
            elif a.startswith("format="):
                c["format"] = a[7:]
            elif a.startswith("priority="):
                c["priority"] = int(a[9:])
            else:
                self.bad(n, "unknown word '%s' in a column" % a)
        rest = w[eq + 1:]
        if len(rest) == 2 and rest[0] == "func":
            c["func"] = rest[1]
        elif len(rest) == 1 and rest[0].startswith("."):
            c["path"] = rest[0]
        else:
            self.bad(n, "a column ends in = .path, or = func NAME")
        k.columns.append(c)


def snake_label(s):
    return re.sub(r"[^A-Za-z0-9]", "_", s)


def unquote(s):
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], s[1:-1]) if s.startswith('"') else s


class Schema:
    def __init__(self, paths):
        self.files = []
        for p in sorted(paths, key=os.path.basename):
            f = File(p)
            f.parse()
            self.files.append(f)
        self.by_label = {(f.short, f.version): f for f in self.files}
        self.gates = set()
        self.add_lists()
        for f in self.files:
            for m in f.messages.values():
                for x in m.fields:
                    self.resolve(f, m, x)
        for f in self.files:
            self.check_kinds(f)
        self.mark()

    def imported(self, f, label, line):
        if label == f.short and label not in f.imports:
            return f
        if label not in f.imports:
            f.bad(line, "%s is not imported" % label)
        version, at = f.imports[label]
        g = self.by_label.get((label, version))
        if g is None:
            f.bad(at, "import %s/%s: no file %s_%s.api was given (after adding one, configure the build again)" % (
                label, version, label, version))
        return g

    def resolve(self, f, m, x):
        x.msg = None
        if x.type in SCALARS:
            if x.shape == "BH_MAP" and SCALARS[x.type][3] is None:
                f.bad(x.line, "map[string]%s has no C type" % x.type)
            if "inline" in x.flags:
                f.bad(x.line, "only a message can be inline")
        elif "." in x.type:
            label, name = x.type.split(".")
            g = self.imported(f, label, x.line)
            x.msg = g.messages.get(name)
        else:
            x.msg = f.messages.get(x.type)
        if x.type not in SCALARS and x.msg is None:
            f.bad(x.line, "unknown type '%s'" % x.type)
        if "inline" in x.flags and (x.ptr or x.shape != "BH_ONE"):
            f.bad(x.line, "an inline field is an embedded message: no pointer, list or map")
        if x.ptr and x.shape != "BH_ONE":
            f.bad(x.line, "a list or map cannot be a pointer")
        if "gate" in x.attrs:
            self.gates.add(x.attrs["gate"])

    def add_lists(self):
        """Makes NAMEList for each kind with a resource that has none."""
        for f in self.files:
            for k in list(f.kinds.values()):
                if not k.message:
                    k.message = k.name
                if k.scope == "body" or not k.resource or (k.verbs is not None and "list" not in k.verbs):
                    continue
                name = k.name + "List"
                if name not in f.messages:
                    m = f.messages[name] = Message(f, name, k.line)
                    m.is_list = True
                    m.doc = "%s is a list of %s" % (name, k.name)
                    if f.short != "meta" and "meta" not in f.imports:
                        f.bad(k.line, "kind %s needs: import meta/v1" % k.name)
                    meta = "ListMeta" if f.short == "meta" else "meta.ListMeta"
                    self.plain(m, 1, "metadata", "BH_ONE", meta, k.line)
                    self.plain(m, 2, "items", "BH_LIST", k.message, k.line)
                else:
                    f.messages[name].is_list = True

    @staticmethod
    def plain(m, num, name, shape, t, line):
        x = Field(line)
        x.num, x.json, x.member, x.shape, x.type, x.ptr = num, name, name, shape, t, False
        x.flags.add("always")
        m.fields.append(x)

    def check_kinds(self, f):
        for k in f.kinds.values():
            k.msg = f.messages.get(k.message)
            if k.msg is None:
                f.bad(k.line, "kind %s: unknown message '%s'" % (k.name, k.message))
            k.list = f.messages.get(k.name + "List") if k.resource else None
            if k.list is not None and not k.list.is_list:
                k.list = None
            if k.scope != "body" and not k.resource:
                f.bad(k.line, "kind %s needs a resource line (or is a body)" % k.name)
            if k.verbs is None:
                k.verbs = [] if k.scope == "body" else list(VERBS)
            if not k.singular:
                k.singular = k.name.lower() if k.resource else ""
            if not k.api_version:
                k.api_version = f.api_version()
            k.group, _, k.version = k.api_version.rpartition("/")
            for s in k.subs:
                s["kind"] = None
                if not s["body"]:
                    continue
                parts = s["body"].split("/")
                if len(parts) == 1:
                    s["kind"] = f.kinds.get(parts[0])
                else:
                    g = "/".join(parts[:-2]) if len(parts) > 2 else ""
                    for o in self.files:
                        if o.group == g and o.version == parts[-2] and parts[-1] in o.kinds:
                            s["kind"] = o.kinds[parts[-1]]
                if s["kind"] is None:
                    f.bad(s["line"], "subresource %s: there is no kind %s" % (s["name"], s["body"]))
            # A selectable field is a path, or NAME=.path where its name is another.
            k.select_paths = [p.partition("=")[2].lstrip(".") or p for p in k.selectable]
            k.selectable = [p.partition("=")[0] for p in k.selectable]
            for p in k.select_paths:
                self.check_path(f, k, p, k.line)
            for c in k.columns:
                if c["path"]:
                    self.check_path(f, k, c["path"], k.line)
            for p in k.index:
                if p not in k.selectable:
                    f.bad(k.line, "kind %s: indexed field %s is not selectable" % (k.name, p))

    def check_path(self, f, k, path, line):
        m = k.msg
        plain = re.sub(r"\[[^\]]*\]", "", path).lstrip(".")
        for part in plain.split("."):
            if m is None:
                f.bad(line, "kind %s: no field %s" % (k.name, path))
            x = self.find(m, part)
            if x is None:
                f.bad(line, "kind %s: no field %s (%s has no %s)" % (k.name, path, m.name, part))
            m = x.msg

    def find(self, m, name):
        for x in m.fields:
            if "inline" in x.flags:
                y = self.find(x.msg, name)
                if y is not None:
                    return y
            elif x.json == name:
                return x
        return None

    def mark(self):
        """Which messages have defaults, gates or rules somewhere below."""
        every = [m for f in self.files for m in f.messages.values()]
        for m in every:
            m.marks = set()
            for x in m.fields:
                if "default" in x.attrs:
                    m.marks.add("BH_M_HAS_DEFAULTS")
                if "gate" in x.attrs:
                    m.marks.add("BH_M_HAS_GATES")
                if (x.flags & {"required", "immutable"} or x.attrs.keys() & {"enum", "min", "max", "maxlen", "maxitems",
                                                                             "format"}
                        or x.attrs.get("list") in ("set", "map")):
                    m.marks.add("BH_M_HAS_RULES")
        changed = True
        while changed:
            changed = False
            for m in every:
                for x in m.fields:
                    if x.msg and not x.msg.marks <= m.marks:
                        m.marks |= x.msg.marks
                        changed = True


# ---- output ----

def banner(f):
    return "/* GENERATED from api/%s by apigen.py, do not edit */\n" % os.path.basename(f.path)


def c_type(x):
    """C type of a field, and the type of an element (vector) or entry (map)."""
    if x.msg is None:
        c, _, vec, mp, _ = SCALARS[x.type]
        if x.shape == "BH_LIST":
            return vec, c
        if x.shape == "BH_MAP":
            return mp, MAP_ENTRY[mp]
        return c, c
    c = "struct " + x.msg.c
    if x.shape == "BH_LIST":
        return c + "_vec", c
    if x.shape == "BH_MAP":
        return c + "_map", c + "_entry"
    return (c + " *" if x.ptr else c), c


def has_flag(x):
    """A has_ member is needed where the value itself cannot say that it is absent."""
    return x.ptr and x.msg is None and x.type not in ("time", "microtime", "raw", "bytes")


def embedded(m):
    """Messages of the same file whose struct must be complete before m's."""
    out = []
    for x in m.fields:
        if x.msg and x.msg.file is m.file and x.shape == "BH_ONE" and not x.ptr:
            out.append(x.msg)
    return out


def ordered(f):
    out, state = [], {}

    def visit(m, via):
        if state.get(m.name) == 2:
            return
        if state.get(m.name) == 1:
            f.bad(m.line, "message %s holds itself without ? or [] (through %s)" % (m.name, via))
        state[m.name] = 1
        for e in embedded(m):
            visit(e, m.name)
        state[m.name] = 2
        out.append(m)

    for m in f.messages.values():
        visit(m, m.name)
    return out


def emit_h(s, f):
    o = [banner(f)]
    guard = "BH_API_GEN_%s_H" % f.label.upper()
    o.append("#ifndef %s\n#define %s\n" % (guard, guard))
    o.append('#include "api/types.h"')
    for label in sorted(f.imports):
        version, line = f.imports[label]
        g = s.imported(f, label, line)
        if g is f:
            f.bad(line, "a file cannot import itself")
        o.append('#include "api/gen/%s.h"' % g.label)
    o.append("")
    for m in f.messages.values():
        o.append("struct %s;" % m.c)
    o.append("")
    for m in f.messages.values():
        o.append("struct %s_vec {\n    struct %s *p;\n    size_t n;\n};" % (m.c, m.c))
        o.append("struct %s_map {\n    struct %s_entry *p;\n    size_t n;\n};" % (m.c, m.c))
    o.append("")
    for m in ordered(f):
        if m.doc:
            o.append("/* %s */" % m.doc.replace("*/", "* /"))
        o.append("struct %s {" % m.c)
        for x in m.fields:
            c, _ = c_type(x)
            o.append("    %s%s%s;" % (c, "" if c.endswith("*") else " ", x.member))
            if has_flag(x):
                o.append("    bool has_%s;" % x.member.rstrip("_"))
        if not m.fields:
            o.append("    char empty_; /* the message has no fields, C needs one */")
        o.append("};")
        o.append("struct %s_entry {\n    struct bh_str key;\n    struct %s value;\n};" % (m.c, m.c))
    o.append("")
    for m in f.messages.values():
        o.append("extern const struct bh_type %s_type;" % m.c)
    for k in f.kinds.values():
        o.append("extern const struct bh_kind %s;" % k.c)
    o.append("\n#endif")
    return "\n".join(o) + "\n"


def field_flags(x):
    fl = []
    for word, flag in (("always", "BH_F_ALWAYS"), ("inline", "BH_F_INLINE"), ("required", "BH_F_REQUIRED"),
                       ("immutable", "BH_F_IMMUTABLE"), ("typed", "BH_F_TYPED")):
        if word in x.flags:
            fl.append(flag)
    if "doc" in x.attrs:
        fl.append("BH_F_DOC_" + x.attrs["doc"].upper())
    if x.ptr:
        fl.append("BH_F_PTR")
    if "min" in x.attrs:
        fl.append("BH_F_HAS_MIN")
    if "max" in x.attrs:
        fl.append("BH_F_HAS_MAX")
    for p in x.attrs.get("patch", "").split(","):
        if p:
            fl.append({"merge": "BH_F_PATCH_MERGE", "replace": "BH_F_PATCH_REPLACE",
                       "retainKeys": "BH_F_PATCH_RETAIN_KEYS"}[p])
    if x.attrs.get("map") == "atomic":
        fl.append("BH_F_ATOMIC_MAP")
    if x.attrs.get("struct") == "atomic":
        fl.append("BH_F_ATOMIC_STRUCT")
    if "granular" in (x.attrs.get("struct"), x.attrs.get("map")):
        fl.append("BH_F_GRANULAR")
    return " | ".join(fl) or "0"


def go_type(x):
    if "gotype" in x.attrs:
        t = x.attrs["gotype"]
    elif x.msg is not None:
        t = x.msg.file.version + "." + x.msg.name
    else:
        t = SCALARS[x.type][4]
    if x.shape == "BH_LIST":
        return "[]" + t
    if x.shape == "BH_MAP" and x.type == "quantity" and "keytype" not in x.attrs:
        return "v1.ResourceList"
    if x.shape == "BH_MAP":
        return "map[%s]%s" % (x.attrs.get("keytype", "string"), t)
    return t


def emit_field(m, x):
    c, elem = c_type(x)
    st = "struct " + m.c
    d = [".json = %s" % bstr(x.msg.name if "inline" in x.flags else x.json)]
    if x.num:
        d.append(".num = %d" % x.num)
    d.append(".off = offsetof(%s, %s)" % (st, x.member))
    d.append(".off_has = %s" % ("offsetof(%s, has_%s)" % (st, x.member.rstrip("_")) if has_flag(x) else "UINT32_MAX"))
    d.append(".type = %s" % (SCALARS[x.type][1] if x.msg is None else "BH_T_MESSAGE"))
    if x.shape != "BH_ONE":
        d.append(".shape = %s" % x.shape)
    if "list" in x.attrs:
        d.append(".list_type = BH_LIST_%s" % x.attrs["list"].upper())
    d.append(".flags = %s" % field_flags(x))
    d.append(".elem_size = sizeof(%s)" % elem)
    if x.shape == "BH_MAP":
        d.append(".value_off = offsetof(%s, value)" % elem)
    if x.msg is not None:
        d.append(".msg = &%s_type" % x.msg.c)
    d.append(".go_type = %s" % bstr(go_type(x)))
    if "key" in x.attrs:
        d.append(".key = %s" % bstr(x.attrs["key"]))
    if "keys" in x.attrs:
        keys = x.attrs["keys"].split(",")
        d.append(".map_keys = (const struct bh_str[]){%s}, .n_map_keys = %d" % (
            ", ".join(bstr(k) for k in keys), len(keys)))
    if "maxlen" in x.attrs:
        d.append(".max_len = %s" % x.attrs["maxlen"])
    if "maxitems" in x.attrs:
        d.append(".max_items = %s" % x.attrs["maxitems"])
    if "enum" in x.attrs:
        e = unquote(x.attrs["enum"]).split(",")
        d.append(".enums = (const struct bh_str[]){%s}, .n_enums = %d" % (", ".join(bstr(k) for k in e), len(e)))
    for a in ("min", "max"):
        if a in x.attrs:
            d.append(".%s = INT64_C(%s)" % (a, x.attrs[a]))
    if "default" in x.attrs:
        d.append(".def = %s" % bstr(x.attrs["default"]))
    if "format" in x.attrs:
        d.append(".format = %s, .format_fn = bh_format_%s" % (bstr(x.attrs["format"]), x.attrs["format"]))
    if "gate" in x.attrs:
        d.append(".gate = %s" % bstr(x.attrs["gate"]))
    if x.doc:
        d.append(".doc = %s" % bstr(x.doc))
    return "    {" + ",\n     ".join(d) + "},"


def refs_of(m, base, via):
    """(JSON name, C descriptor of the field, base expression, via) for each field seen from m, own ones first."""
    own, deep = [], []
    for i, x in enumerate(m.fields):
        if "inline" in x.flags:
            b = base + ["offsetof(struct %s, %s)" % (m.c, x.member)]
            deep += refs_of(x.msg, b, via or i + 1)
        else:
            own.append((x.json, "&%s_fields[%d]" % (m.c, i), base, via))
    return own + deep


def emit_type(m):
    o = []
    n = len(m.fields)
    if n:
        o.append("const struct bh_field %s_fields[] = {" % m.c)
        o += [emit_field(m, x) for x in m.fields]
        o.append("};")
    nums = sorted((x.num, i) for i, x in enumerate(m.fields) if x.num)
    if nums:
        o.append("static const uint16_t %s_by_num[] = {%s};" % (m.c, ", ".join(str(i) for _, i in nums)))
    refs = refs_of(m, [], 0)
    if len(refs) > 256:
        m.file.bad(m.line, "message %s has more than 256 fields" % m.name)
    seen = {}
    for r in refs:
        if r[0] in seen:
            m.file.bad(m.line, "message %s: %s comes twice through inline fields" % (m.name, r[0]))
        seen[r[0]] = True
    if refs:
        o.append("static const struct bh_field_ref %s_refs[] = {" % m.c)
        for name, d, base, via in refs:
            o.append("    {%s, %s, %d, 0x%08xu}," % (d, " + ".join(base) or "0", via, name_hash(name)))
        o.append("};")
        size = 4
        while size < 2 * len(refs):
            size *= 2
        tab = [0] * size
        for i, r in enumerate(refs):
            h = name_hash(r[0]) & (size - 1)
            while tab[h]:
                h = (h + 1) & (size - 1)
            tab[h] = i + 1
        o.append("static const uint16_t %s_hash[] = {%s};" % (m.c, ", ".join(map(str, tab))))
    fl = sorted(m.marks)
    if m.bare:
        fl.append("BH_M_BARE")
    if m.atomic:
        fl.append("BH_M_ATOMIC")
    if any("inline" in x.flags for x in m.fields):
        fl.append("BH_M_HAS_INLINE")
    o.append("const struct bh_type %s_type = {" % m.c)
    o.append("    .name = %s, .go_name = %s," % (bstr(m.name), bstr(m.file.version + "." + m.name)))
    o.append("    .proto = %s," % bstr(m.file.proto))
    o.append("    .openapi = %s," % bstr(m.file.openapi + "." + m.name))
    if m.doc:
        o.append("    .doc = %s," % bstr(m.doc))
    o.append("    .size = sizeof(struct %s), .flags = %s," % (m.c, " | ".join(fl) or "0"))
    if n:
        o.append("    .fields = %s_fields, .n_fields = %d," % (m.c, n))
    if nums:
        o.append("    .by_num = %s_by_num, .n_by_num = %d," % (m.c, len(nums)))
    if refs:
        o.append("    .hash = %s_hash, .hash_mask = %d, .refs = %s_refs, .n_refs = %d," % (
            m.c, size - 1, m.c, len(refs)))
    o.append("};\n")
    return o


def words(v):
    return "(const struct bh_str[]){%s}" % ", ".join(bstr(w) for w in v)


def verb_bits(v):
    return " | ".join("BH_V_" + w.upper() for w in v) or "0"


def emit_kind(s, k):
    o = ["const struct bh_kind %s = {" % k.c]
    o.append("    .group = %s, .version = %s, .api_version = %s," % (bstr(k.group), bstr(k.version),
                                                                      bstr(k.api_version)))
    o.append("    .kind = %s, .list_kind = %s," % (bstr(k.name), bstr(k.name + "List")))
    o.append("    .resource = %s, .singular = %s," % (bstr(k.resource), bstr(k.singular)))
    for attr, member in ((k.short, "short_names"), (k.categories, "categories"), (k.selectable, "selectable"),
                         (k.index, "indexed")):
        if attr:
            o.append("    .%s = %s, .n_%s = %d," % (member, words(attr), member, len(attr)))
    if k.selectable:
        o.append("    .select_paths = %s," % words(k.select_paths))
    o.append("    .namespaced = %s, .unserved = %s," % ("true" if k.scope == "namespaced" else "false",
                                                         "true" if k.unserved else "false"))
    if k.subs:
        o.append("    .subs = (const struct bh_subresource[]){")
        for x in k.subs:
            o.append("        {.name = %s, .body = %s, .body_gvk = %s, .verbs = %s, .unserved = %s}," % (
                bstr(x["name"]), "&" + x["kind"].c if x["kind"] else "NULL", bstr(x["body"]), verb_bits(x["verbs"]),
                "true" if x["unserved"] else "false"))
        o.append("    }, .n_subs = %d," % len(k.subs))
    o.append("    .verbs = %s," % verb_bits(k.verbs))
    if k.columns:
        o.append("    .columns = (const struct bh_column[]){")
        for c in k.columns:
            o.append("        {.name = %s, .type = %s, .format = %s, .priority = %d, .path = %s, .func = %s,\n"
                     "         .doc = %s}," % (bstr(c["name"]), bstr(c["type"]), bstr(c["format"]), c["priority"],
                                               bstr(c["path"]), bstr(c["func"]), bstr(c["doc"])))
        o.append("    }, .n_columns = %d," % len(k.columns))
    o.append("    .hub = %s, .type = &%s_type," % (bstr(k.hub or k.version), k.msg.c))
    meta = next((x for x in k.msg.fields if x.json == "metadata" and x.msg and x.msg.name == "ObjectMeta"), None)
    o.append("    .meta_off = %s," % ("offsetof(struct %s, metadata)" % k.msg.c if meta else "UINT32_MAX"))
    if k.list is not None:
        o.append("    .list_type = &%s_type," % k.list.c)
        o.append("    .list_items_off = offsetof(struct %s, items), .list_meta_off = offsetof(struct %s, metadata)," % (
            k.list.c, k.list.c))
    o.append("    .doc = %s," % bstr(k.doc or k.msg.doc))
    o.append("};\n")
    return o


def inline_files(f):
    """Files whose field tables are named from f, because a message of f has an inline message of theirs."""
    out = set()

    def walk(m):
        for x in m.fields:
            if "inline" in x.flags:
                if x.msg.file is not f:
                    out.add(x.msg.file)
                walk(x.msg)

    for m in f.messages.values():
        walk(m)
    return out


def emit_c(s, f):
    o = [banner(f), '#include "api/gen/%s.h"\n' % f.label, '#include "api/doc_flags.h"', '#include "api/formats.h"']
    others = set()
    for k in f.kinds.values():
        for x in k.subs:
            if x["kind"] and x["kind"].file is not f:
                others.add(x["kind"].file.label)
    for label in sorted(others):
        o.append('#include "api/gen/%s.h"' % label)
    o.append("")
    for g in [f] + sorted(inline_files(f), key=lambda g: g.label):
        for m in g.messages.values():
            if m.fields:
                o.append("extern const struct bh_field %s_fields[];" % m.c)
    o.append("")
    for m in ordered(f):
        o += emit_type(m)
    for k in f.kinds.values():
        o += emit_kind(s, k)
    return "\n".join(o) + "\n"


def emit_registry(s):
    kinds = [k for f in s.files for k in f.kinds.values()]
    h = ["/* GENERATED from the schema by apigen.py, do not edit */\n",
         "#ifndef BH_API_GEN_KINDS_H\n#define BH_API_GEN_KINDS_H\n"]
    for f in s.files:
        h.append('#include "api/gen/%s.h"' % f.label)
    h.append("\n#endif")
    o = ["/* GENERATED from the schema by apigen.py, do not edit */\n", '#include "api/gen/kinds.h"\n',
         '#include "api/registry.h"\n']
    o.append("static const struct bh_kind *const kinds[] = {")
    o += ["    &%s," % k.c for k in kinds]
    if not kinds:
        o.append("    NULL,")
    o.append("};\n")

    def table(name, key, pick):
        size = 16
        chosen = [(i, key(k)) for i, k in enumerate(kinds) if pick(k)]
        while size < 2 * len(chosen):
            size *= 2
        tab = [0] * size
        for i, w in chosen:
            at = name_hash(w) & (size - 1)
            while tab[at]:
                at = (at + 1) & (size - 1)
            tab[at] = i + 1
        o.append("static const uint16_t %s[] = {%s};\n" % (name, ", ".join(map(str, tab))))
        return size - 1

    rmask = table("by_resource", lambda k: k.resource, lambda k: k.resource)
    kmask = table("by_kind", lambda k: k.name, lambda k: True)
    gates = sorted(s.gates)
    o.append("static const struct bh_str gates[] = {")
    o += ["    %s," % bstr(g) for g in gates] or ["    {NULL, 0},"]
    o.append("};\n")
    o.append("const struct bh_registry bh_registry = {")
    o.append("    .kinds = kinds, .n_kinds = %d," % len(kinds))
    o.append("    .by_resource = by_resource, .resource_mask = %d," % rmask)
    o.append("    .by_kind = by_kind, .kind_mask = %d," % kmask)
    o.append("    .gates = gates, .n_gates = %d," % len(gates))
    o.append("};")
    return "\n".join(h) + "\n", "\n".join(o) + "\n"


def names(paths):
    out = []
    for p in sorted(paths, key=os.path.basename):
        base = snake_label(os.path.basename(p)[:-4])
        out += [base + ".h", base + ".c"]
    return out + ["kinds.h", "kinds.c"]


def main(argv):
    if len(argv) >= 2 and argv[1] == "--names":
        print("\n".join(names(argv[2:])))
        return 0
    if len(argv) < 3 or argv[1] != "--out":
        print(__doc__, file=sys.stderr)
        return 2
    out = argv[2]
    try:
        s = Schema(argv[3:])
        files = {}
        for f in s.files:
            files[f.label + ".h"] = emit_h(s, f)
            files[f.label + ".c"] = emit_c(s, f)
        files["kinds.h"], files["kinds.c"] = emit_registry(s)
    except Bad as e:
        print(e, file=sys.stderr)
        return 1
    os.makedirs(out, exist_ok=True)
    for name in sorted(files):
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.write(files[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
