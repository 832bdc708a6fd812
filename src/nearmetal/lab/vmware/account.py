"""How one gets into a vCenter or a host of ESXi: who it is, and who we are. The password is never among it."""

import hashlib
import ssl
from dataclasses import dataclass

from nearmetal.config import LIMITS
from nearmetal.errors import BadInput, HostCannot
from nearmetal.system import files
from nearmetal.system.held_secrets import take_secret

PORT = 443

_LARGEST_CA = 16 * 2**20
"""Bytes; all authorities that a browser knows take a few hundred thousand."""


@dataclass(frozen=True)
class Account:
    server: str
    user: str
    password_env: str
    """The variable of the environment that has the password."""
    ca_file: str | None
    """Certificates of authorities, in PEM, in place of the system's."""
    thumbprint: str | None
    """SHA-256 of the only certificate that is accepted."""
    insecure: bool
    """Any certificate is."""

    @property
    def address(self) -> tuple[str, int]:
        """BadInput when the server is none."""
        host, separator, port = self.server.rpartition(":")
        if not separator or port.endswith("]"):
            host, port = self.server, str(PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            remedy = 'write server = "vcenter.example.org", or with ":8443"'
            raise BadInput(f"{self.server!r} is no server", remedy=remedy)
        return host.strip("[]"), int(port)

    def password(self) -> str:
        """HostCannot when there is none."""
        found = take_secret(self.password_env)
        if not found:
            what = f"the password of {self.user} is not known: the environment has no {self.password_env}"
            raise HostCannot(what, self.server, f"read -rs {self.password_env}; export {self.password_env}")
        return found

    def trust(self) -> ssl.SSLContext:
        """What the server has to show. BadInput, HostCannot; asks the server where a thumbprint is given."""
        if self.thumbprint:
            return self._pinned(self.thumbprint)
        try:
            if self.ca_file is not None:
                files.refuse_irregular(self.ca_file, _LARGEST_CA)
            context = ssl.create_default_context(cafile=self.ca_file)
        except FileNotFoundError:
            raise BadInput("there is no such file", str(self.ca_file), "name a file of certificates in PEM") from None
        except ssl.SSLError:
            raise BadInput("this file has no certificates in PEM", str(self.ca_file), "name one that has") from None
        except OSError as error:
            raise BadInput(f"it cannot be read: {error.strerror}", str(self.ca_file), "name a file in PEM") from None
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _pinned(self, thumbprint: str) -> ssl.SSLContext:
        """One certificate is the authority, whatever name is in it: pyVmomi's own way stops asking after the first
        connection."""
        shown = self._shown()
        if _plain(thumbprint) != _plain(fingerprint(shown)):
            what = f"it shows another certificate than the one you know, with the thumbprint {fingerprint(shown)}"
            remedy = "compare it with the one on the server itself before you change thumbprint"
            raise HostCannot(what, self.server, remedy)
        context = ssl.create_default_context(cadata=shown)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def _shown(self) -> str:
        """The certificate that the server shows, in PEM. OSError."""
        return ssl.get_server_certificate(self.address, timeout=LIMITS.command)

    def untrusted(self, why: str) -> HostCannot:
        """For a certificate that is not accepted."""
        try:
            known = f"its thumbprint is {fingerprint(self._shown())}"
        except OSError:
            known = "it shows none"
        remedy = 'compare that with the server\'s own and set thumbprint = "…", or name its authority: ca_file = "…"'
        return HostCannot(f"its certificate is not trusted: {why}; {known}", self.server, remedy)


def fingerprint(certificate: str) -> str:
    """SHA-256 of a certificate in PEM, as it is usually shown."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).digest().hex(":").upper()


def _plain(thumbprint: str) -> str:
    return thumbprint.replace(":", "").lower()
