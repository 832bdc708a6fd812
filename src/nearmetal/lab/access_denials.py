"""What a security module of the kernel, SELinux or AppArmor, forbade while something was tried: its rule, by name."""

import contextlib
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearmetal.errors import NearmetalError
from nearmetal.model import Site

# With auditd the kernel's own log has none of them.
_LOG = """
date +%s
{ dmesg; tail -c 262144 /var/log/audit/audit.log; } 2>/dev/null |
    grep -aE 'avc: +denied|apparmor="DENIED"' | tail -n 100
"""
_WHEN = re.compile(r"audit\((\d+\.\d+):\d+\)")
_SELINUX = re.compile(
    r'avc: +denied +\{ (?P<what>[^}]*?) *\} for .*?comm="(?P<who>[^"]*)"(?:.*?(?:path|name)="(?P<path>[^"]*)")?'
    r".* scontext=\w+:\w+:(?P<source>\w+)\S* tcontext=\w+:\w+:(?P<target>\w+)\S* tclass=(?P<kind>\w+)"
)
_FIELD = re.compile(r'(\w+)="([^"]*)"')
_TOLD = 2
"""The last ones of as many as there were."""
_SELINUX_REMEDY = (
    "allow it: ausearch -m avc -ts recent | audit2allow -M nearmetal; semodule -i nearmetal.pp; "
    "or for the time of the run: setenforce 0"
)
_APPARMOR_REMEDY = "allow it in /etc/apparmor.d/local/, or for the time of the run: aa-complain PROFILE"


@asynccontextmanager
async def naming_denials(site: Site) -> AsyncIterator[None]:
    """If an error of ours leaves the block, it says what was forbidden meanwhile on the site, and how to allow it.

    Nothing where nothing was, or the user may not read the kernel's log.
    """
    began = time.monotonic()
    try:
        yield
    except NearmetalError as error:
        with contextlib.suppress(NearmetalError):
            log = (await site.exec(["sh", "-c", _LOG])).text
            told, remedy = describe_denials(log, time.monotonic() - began)
            if told:
                error.what, error.remedy = f"{error.what}; meanwhile {told}", remedy
        raise


def describe_denials(log: str, lasted: float) -> tuple[str, str]:
    """What was forbidden in the last `lasted` seconds, and the remedy; both empty if nothing was. Pure.

    The log begins with the time at which it was read, in seconds since 1970.
    """
    now, _, lines = log.partition("\n")
    found: dict[str, str] = {}
    for line in lines.splitlines():
        when = _WHEN.search(line)
        if when and "permissive=1" not in line and float(when[1]) >= float(now) - lasted:
            found |= _describe_denial(line)
    told = list(found)[-_TOLD:]
    return "; ".join(told), found[told[-1]] if told else ""


def _describe_denial(line: str) -> dict[str, str]:
    """A sentence with the rule that would allow it, and the remedy."""
    if given := _SELINUX.search(line):
        what = f"SELinux denied {given['who']} {given['what']}{' of ' + given['path'] if given['path'] else ''}"
        rule = f"allow {given['source']} {given['target']}:{given['kind']} {{ {given['what']} }};"
        return {f"{what} (its rule would be: {rule})": _SELINUX_REMEDY}
    fields = dict(_FIELD.findall(line))
    if "apparmor" not in fields:
        return {}
    profile, path = fields.get("profile", "?"), fields.get("name", "")
    what = f"AppArmor denied {profile} {fields.get('operation', '?')}{' of ' + path if path else ''}"
    rule = f"{path} {fields['denied_mask']}," if path and "denied_mask" in fields else fields.get("capname", "")
    told = f" (its rule would be: {rule})" if rule else ""
    return {f"{what}{told}": _APPARMOR_REMEDY.replace("PROFILE", profile)}
