#!/usr/bin/env python3
"""Makes an OCI image archive from a static busybox: busybox-image.py OUT.tar [NAME [BUSYBOX]].

Standard library only. The same input gives the same bytes, so the image's id is stable.
"""
import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile


def add(tar, name, data=b"", mode=0o644, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def make_layer(busybox):
    buf = io.BytesIO()
    with tarfile.open(fileobj=buf, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for d, mode in (("bin", 0o755), ("etc", 0o755), ("home", 0o755), ("root", 0o700), ("tmp", 0o1777), ("var", 0o755)):
            add(tar, d, mode=mode, kind=tarfile.DIRTYPE)
        with open(busybox, "rb") as f:
            add(tar, "bin/busybox", f.read(), 0o755)
        applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
        for a in sorted(set(applets) - {"busybox"}):
            add(tar, "bin/" + a, kind=tarfile.SYMTYPE, mode=0o777, link="busybox")
        add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")
        add(tar, "etc/group", b"root:x:0:\nnobody:x:65534:\n")
    return buf.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def dump(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def main(argv):
    if len(argv) < 2 or argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    out, name = argv[1], argv[2] if len(argv) > 2 else "busybox:latest"
    layer = make_layer(argv[3] if len(argv) > 3 else "/bin/busybox")
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    config = dump({"architecture": arch, "os": "linux",
                   "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]},
                   "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}})
    manifest = dump({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                     "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config),
                                "size": len(config)},
                     "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(layer),
                                 "size": len(layer)}]})
    index = dump({"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(manifest), "size": len(manifest),
         "platform": {"architecture": arch, "os": "linux"},
         "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}}]})
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
        add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add(tar, "index.json", index)
        for blob in (layer, config, manifest):
            add(tar, "blobs/sha256/" + digest(blob)[7:], blob)
    print(out, name, digest(config))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
