"""Images of a user's own, made by tests of the host's static busybox: as archives, OCI layouts and root filesystems."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

APPLETS = ("sh", "cat", "mkdir", "chmod", "rm", "sha256sum", "sleep", "sync", "kill", "dd", "ls", "id", "env")
USERS = "root:x:0:0:root:/root:/bin/sh\nserver:x:1000:1000::/:/bin/sh\n"

Member = tarfile.TarInfo | tuple[str, bytes, int]


def entry(name: str, kind: bytes = tarfile.REGTYPE, **settings: Any) -> tarfile.TarInfo:
    """A member without content."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in settings.items():
        setattr(member, key, value)
    return member


def layer(members: Iterable[Member]) -> bytes:
    """A tar of members; of a file name, content and permissions."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content, mode = member
            archive.addfile(entry(name, size=len(content), mode=mode), io.BytesIO(content))
    return stream.getvalue()


def busybox() -> list[Member]:
    """What a machine needs, as alpine has it."""
    program = shutil.which("busybox")
    assert program, "apt-get install busybox-static"
    links: list[Member] = [entry(f"bin/{name}", tarfile.SYMTYPE, linkname="busybox") for name in APPLETS]
    return [("bin/busybox", Path(program).read_bytes(), 0o755), *links, ("etc/passwd", USERS.encode(), 0o644)]


def docker_archive(
    path: Path,
    layers: Sequence[bytes],
    config: Mapping[str, Any] | None = None,
    *,
    pack: Callable[[bytes], bytes] = bytes,
    **document: Any,
) -> Path:
    """As `docker save` writes one. `document` goes before what the configuration says otherwise."""
    whole = json.dumps(_configuration(layers, config, document)).encode()
    configuration = f"{hashlib.sha256(whole).hexdigest()}.json"
    listed = [{"Config": configuration, "RepoTags": ["own:1"], "Layers": [f"{i}.tar" for i in range(len(layers))]}]
    path.write_bytes(
        layer(
            [
                ("manifest.json", json.dumps(listed).encode(), 0o644),
                (configuration, whole, 0o644),
                *((f"{number}.tar", pack(one), 0o644) for number, one in enumerate(layers)),
            ]
        )
    )
    return path


def oci_layout(folder: Path, layers: Sequence[bytes], config: Mapping[str, Any] | None = None) -> Path:
    """A folder as the OCI's image layout has it, its layers compressed."""
    (folder / "blobs/sha256").mkdir(parents=True)

    def blob(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "config": blob(json.dumps(_configuration(layers, config, {})).encode()),
        "layers": [blob(gzip.compress(one, mtime=0)) for one in layers],
    }
    arms = {**blob(b"{}"), "platform": {"architecture": "arm64", "os": "linux"}}
    ours = {**blob(json.dumps(manifest).encode()), "platform": {"architecture": "amd64", "os": "linux"}}
    index = {"schemaVersion": 2, "manifests": [arms, ours]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def packed_folder(folder: Path, out: Path) -> Path:
    """A folder as one tar archive."""
    with tarfile.open(out, "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)
    return out


def _configuration(layers: Sequence[bytes], config: Mapping[str, Any] | None, over: Mapping[str, Any]) -> Any:
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    rootfs = {"type": "layers", "diff_ids": digests}
    return {"architecture": "amd64", "os": "linux", "config": config or {}, "rootfs": rootfs, **over}
