"""The way into a machine of Vagrant's: who is asked, whose key is shown, which key is expected."""

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address

from pydantic import ValidationError

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, ToolFailed
from nearmetal.lab.ssh.login import describe_error, log_in
from nearmetal.lab.ssh.login_shell import ask_shell
from nearmetal.lab.ssh_library import asyncssh
from nearmetal.lab.vagrant.output import VagrantLogin
from nearmetal.model import HostSpec

Address = IPv4Address | IPv6Address


def find_problem(login: VagrantLogin, data: Address | None) -> HostCannot | None:
    """What speaks against measuring a machine that is reached so; None when nothing does. Pure."""
    if login.by_command:
        what = "it is reached by a ProxyCommand, and nothing says how its address is"
        return HostCannot(what, remedy='use kind = "ssh", with jump')
    if data is None and _is_loopback(login.host):
        what = f"it is reached by a port of this host ({login.host}:{login.port}), so nothing else of it can be"
        remedy = 'give it a private_network in the Vagrantfile, and name its address there: data = "192.168.56.10"'
        return HostCannot(what, remedy=remedy)
    return None


async def find_way(login: VagrantLogin, data: Address | None) -> HostSpec:
    """How one logs in from now on. The host key that is shown now is the only one that is accepted later.

    HostCannot when nothing answers, or none of the keys is accepted.
    """
    shown = await _shown(login)
    refused: HostCannot | None = None
    for key in login.keys or (None,):
        chosen = _spec(login, data, key, shown)
        try:
            (await log_in(chosen, chosen.ssh)).abort()
            return chosen
        except HostCannot as error:
            refused = error
    assert refused
    raise refused


async def read_boot_id(way: HostSpec) -> str:
    """Which boot of the machine one logs in to. HostCannot when that cannot be known."""
    connection = await log_in(way, way.ssh)
    try:
        async with asyncio.timeout(LIMITS.command):
            out, err = await ask_shell(connection, "cat /proc/sys/kernel/random/boot_id")
    except (asyncssh.Error, OSError, TimeoutError, ToolFailed) as error:
        raise HostCannot(f"it does not say which boot it is in: {describe_error(error)}", way.ssh) from None
    finally:
        connection.abort()
    found = out.strip()
    if not found:
        raise HostCannot(f"it does not say which boot it is in: {err.strip()}", way.ssh)
    return found


def _spec(login: VagrantLogin, data: Address | None, key: str | None, host_key: str) -> HostSpec:
    host = f"[{login.host}]" if ":" in login.host else login.host
    given = {"ssh": f"{login.user}@{host}:{login.port}", "key": key, "host_key": host_key, "trunk": data}
    try:
        return HostSpec.model_validate(given)
    except ValidationError:
        raise ToolFailed(f"this is no way to log in: {given['ssh']!r}") from None


async def _shown(login: VagrantLogin) -> str:
    where = f"{login.host}:{login.port}"
    try:
        async with asyncio.timeout(LIMITS.command):
            key = await asyncssh.get_server_host_key(login.host, login.port, config=None)
    except (asyncssh.Error, OSError, TimeoutError) as error:
        raise HostCannot(f"nothing answers by SSH: {describe_error(error)}", where, "see: vagrant ssh") from None
    if key is None:
        raise HostCannot("it shows no host key", where, "see: vagrant ssh")
    return key.export_public_key().decode().strip()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
