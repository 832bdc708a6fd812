"""Handles as nearmetal 0.1 wrote them: ledgers and machines that are up outlive the version that made them. Pure."""

from collections.abc import Mapping
from typing import Any

_STAYED = frozenset({"ssh", "vagrant", "vmware"})
"""Kinds of that version whose machines all stayed; of libvirt's, those that name a domain of the user's did."""


def upgrade_handle(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A handle's document as `Handle` reads it now; one that is not old comes back as it is.

    In an old one all that is a field now, but for its kind, name and site, is a key of `data`.
    """
    if "role" in document:
        return document
    data = dict(document["data"])
    stays = document["kind"] in _STAYED or "domain" in data or data.pop("borrowed", False)
    upgraded = {**document, "data": data, "stays": stays}
    for name in ("role", "port", "shared"):
        if value := data.pop(name, None):
            upgraded[name] = value
    brings_kernel, has_logins = data.pop("brings_kernel", False), data.pop("logins", False)
    if "ssh_port" in data and (brings_kernel or has_logins):
        upgraded["login"] = {"ssh_port": data["ssh_port"]}
    upgraded["image"] = {
        "name": data.pop("image", None) or "",
        "brings_kernel": brings_kernel,
        "snapshot": data.pop("snapshot", None),
        "storage_driver": data.pop("storage_driver", None),
        "storage_driver_asked": data.pop("storage_driver_asked", None),
    }
    if all(data.get(name) for name in ("accel", "cpu_model", "disk")):
        upgraded["hardware"] = {
            "accel": data.pop("accel"),
            "cpu_model": data.pop("cpu_model"),
            "disk": {**data.pop("disk"), "folder": data.get("folder", "")},
            "quota": data.pop("quota", None),
            "pinned": data.pop("pinned", {}),
        }
    if "first" in data:
        upgraded["life"] = data.pop("first")
    elif "hardware" in upgraded:
        upgraded["life"] = data.get("group")
    return upgraded
