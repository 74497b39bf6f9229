#!/usr/bin/env python3
"""Makes an OCI archive from Debian's busybox-static: demo-image.py OUT.tar [REFERENCE]. Standard library only."""
import gzip, hashlib, io, json, subprocess, sys, tarfile

BUSYBOX = "/bin/busybox"


def add(tar, name, data=None, mode=0o755, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname = mode, kind, link
    info.size = len(data) if data else 0
    tar.addfile(info, io.BytesIO(data) if data else None)


def layer():
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for d in ("bin", "etc", "tmp", "root", "var", "var/run"):
            add(tar, d, mode=0o1777 if d == "tmp" else 0o755, kind=tarfile.DIRTYPE)
        add(tar, "bin/busybox", open(BUSYBOX, "rb").read())
        for applet in subprocess.check_output([BUSYBOX, "--list"], text=True).split():
            if applet != "busybox":
                add(tar, "bin/" + applet, mode=0o777, kind=tarfile.SYMTYPE, link="busybox")
        add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", 0o644)
        add(tar, "etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)
    return raw.getvalue()


def blob(out, data):
    digest = hashlib.sha256(data).hexdigest()
    add(out, "blobs/sha256/" + digest, data, 0o644)
    return {"digest": "sha256:" + digest, "size": len(data)}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    reference = sys.argv[2] if len(sys.argv) == 3 else "localhost/bulkhead-demo:1"
    plain = layer()
    config = {"architecture": "amd64", "os": "linux",
              "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]},
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]}}
    with tarfile.open(sys.argv[1], "w") as out:
        add(out, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', 0o644)
        lay = blob(out, gzip.compress(plain, mtime=0))
        cfg = blob(out, json.dumps(config).encode())
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": dict(cfg, mediaType="application/vnd.oci.image.config.v1+json"),
                    "layers": [dict(lay, mediaType="application/vnd.oci.image.layer.v1.tar+gzip")]}
        man = blob(out, json.dumps(manifest).encode())
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                 "manifests": [dict(man, mediaType="application/vnd.oci.image.manifest.v1+json",
                                    annotations={"org.opencontainers.image.ref.name": reference,
                                                 "io.containerd.image.name": reference})]}
        add(out, "index.json", json.dumps(index).encode(), 0o644)


main()
