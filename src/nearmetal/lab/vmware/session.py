"""A session with a vCenter or a host of ESXi, by pyVmomi, which waits for each answer: so each call is a thread's.

It is logged in again once when the server has forgotten it.
https://developer.broadcom.com/xapis/vsphere-web-services-api/latest/
"""

import asyncio
import atexit
import contextlib
import http.client
import ssl
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineLost, NearmetalError, ToolFailed, Unreachable
from nearmetal.lab.vmware.account import Account

CALL = LIMITS.command
"""Seconds that the server may take for an answer."""
TASK = 300.0
"""Seconds that a change of a machine may take."""
PAUSE = 0.25
"""Seconds between two looks at what goes on there."""

T = TypeVar("T")


class Session:
    """Safe to use from several tasks at once. HostCannot, Unreachable; MachineLost when it lets nobody in again."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._instance: Any = None
        self._logging_in = threading.Lock()
        atexit.register(self._log_out)

    async def ask(self, what: str, call: Callable[[Any], T]) -> T:
        """What a call gives that is handed the service instance; `what` it is to do, in words."""
        try:
            async with asyncio.timeout(2 * CALL):  # a call of several questions, of which each has its own limit
                return await asyncio.to_thread(self._called, what, call)
        except TimeoutError:
            raise Unreachable(f"it did not {what} within {2 * CALL:g} s", self._account.server) from None

    def _called(self, what: str, call: Callable[[Any], T]) -> T:
        from pyVmomi import vim, vmodl

        try:
            instance = self._logged_in(None)
            try:
                return call(instance)
            except vim.fault.NotAuthenticated:
                return call(self._logged_in(instance))
        except vim.fault.NotAuthenticated:
            raise MachineLost("it has ended our session, and a new one too", self._account.server) from None
        except vim.fault.InvalidLogin:
            remedy = f"compare user and the password in {self._account.password_env}"
            what = f"it does not let {self._account.user!r} in"
            raise HostCannot(what, self._account.server, remedy) from None
        except vmodl.MethodFault as fault:
            raise self._refused(what, fault) from None
        except ssl.SSLCertVerificationError as error:
            raise self._account.untrusted(error.verify_message) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from None
        except Exception as error:
            if not _is_pyvmomis(error):
                raise
            said = f"asked to {what}, it said what pyVmomi cannot read ({type(error).__name__}: {error})"
            raise ToolFailed(said, self._account.server, "is it a vSphere?") from None

    def _logged_in(self, expired: Any) -> Any:
        """The session, made anew where there is none but the expired one."""
        from pyVim import connect

        with self._logging_in:
            if self._instance is None or self._instance is expired:
                host, port = self._account.address
                self._instance = connect.SmartConnect(
                    host=host,
                    port=port,
                    user=self._account.user,
                    pwd=self._account.password(),
                    sslContext=self._account.trust(),
                    httpConnectionTimeout=CALL,
                )
            return self._instance

    def _log_out(self) -> None:
        if self._instance is not None:
            from pyVim import connect

            with contextlib.suppress(Exception):  # it may have ended long ago, and nothing depends on it
                connect.Disconnect(self._instance)

    def _refused(self, what: str, fault: Any) -> NearmetalError:
        from pyVmomi import vim

        server = self._account.server
        if isinstance(fault, vim.fault.NoPermission):
            lacking = f"{self._account.user!r} may not {what}: the privilege {fault.privilegeId} is lacking"
            return HostCannot(lacking, server, "have it added to a role of the user's")
        if isinstance(fault, vim.fault.ConcurrentAccess):
            changed = f"it does not {what}: somebody else changed the machine at that moment"
            return HostCannot(changed, server, "try again")
        said = fault.msg or getattr(fault, "reason", None) or type(fault).__name__
        return HostCannot(f"it does not {what}: {said}", server, "its own log and its tasks may say more")

    def _silent(self, error: Exception) -> Unreachable:
        self._instance = None  # whoever comes back knows nothing of it, and nobody waits for them at the end
        host, port = self._account.address
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(f"no vSphere answers there: {said}", f"{host}:{port}", "compare server with its address")

    async def done(self, what: str, begin: Callable[[Any], Any], limit: float = TASK) -> Any:
        """The result of a task that a call begins."""
        task = (await self.ask(what, begin))._GetMoId()
        return await self.ended(what, task, limit)

    async def ended(self, what: str, task: str, limit: float) -> Any:
        until = time.monotonic() + limit
        while True:
            info = await self.ask(what, lambda instance: _task(instance, task).info)
            if info.state == "success":
                return info.result
            if info.state == "error":
                raise self._refused(what, info.error)
            if time.monotonic() > until:
                raise HostCannot(f"it did not {what} within {limit:g} s", self._account.server, "look at its tasks")
            await asyncio.sleep(PAUSE)


def _task(instance: Any, reference: str) -> Any:
    from pyVmomi import vim

    return vim.Task(reference, instance._GetStub())


def _is_pyvmomis(error: Exception) -> bool:
    """Whether it was raised where answers are read: pyVmomi has no error of its own for one that it cannot."""
    *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
    return str(innermost.f_globals.get("__name__")).partition(".")[0] in ("pyVmomi", "pyVim", "xml", "pyexpat")
