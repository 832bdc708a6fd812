"""Who may see the dashboard: whoever has its token. Around everything that is served, and before any of it runs."""

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""What a browser may call this server, with any port: it may have come through a tunnel. A page elsewhere that has
made its name lead here still calls it by that name."""

_READING = ("GET", "HEAD")
"""Methods that change nothing."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_POLICY = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">{head}'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
    "<title>nearmetal dashboard</title></head><body><h1>{title}</h1><p>{text}</p></body></html>"
)


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Access:
    """Lets through what carries the token as a cookie. By the query it is taken once, and a cookie given for it."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"nearmetal-{port}"
        """Ports of one host share their cookies: two dashboards must not take each other's."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._answer_instead(scope)
        await (answer or self._app)(scope, receive, _with_headers(send))

    def _answer_instead(self, scope: Scope) -> HTMLResponse | None:
        """What is answered in place of the page; None where the page may be seen."""
        headers = Headers(scope=scope)
        if not _is_ours(headers.get("host", "")):
            return _refuse_access(
                "This is not my name", "Open the address that <code>nearmetal dashboard</code> printed."
            )
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if given is not None:
            if self._is_token(given[0]):
                return self._redirect_without_token(scope["path"])
            return _refuse_access(
                "This token is not mine",
                "It may be an earlier dashboard's. Open the address that <code>nearmetal dashboard</code> printed "
                "last.",
            )
        if self._is_token(self._of_cookie(headers.get("cookie", ""))):
            if scope["method"] in _READING or _is_own_page(headers):
                return None
            return _refuse_access("Another page asks", "Only the dashboard's own pages can ask a run for anything.")
        return _refuse_access(
            "Who are you?",
            "Open the whole address that <code>nearmetal dashboard</code> printed, with its <code>?token=</code>. "
            "A dashboard that was started anew has a new one.",
        )

    def _redirect_without_token(self, path: str) -> HTMLResponse:
        """Goes on to the same page without the token, which is then not in the browser's history. A page and no
        redirection, which leaves out a cookie that other sites' links must not carry."""
        onward = f'<meta http-equiv="refresh" content="0;url={quote("/" + path.lstrip("/"))}">'
        response = HTMLResponse(_PAGE.format(head=onward, title="nearmetal dashboard", text="One moment."))
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return response

    def _of_cookie(self, header: str) -> str:
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


def _is_ours(host: str) -> bool:
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = port, ""
    return name.lower() in _HOSTS and (not port or port.isdecimal())


def _is_own_page(headers: Headers) -> bool:
    """Whether a page of this server asks. Other ports of this host are the same site, and get the cookie."""
    return headers.get("origin", "") == f"http://{headers.get('host', '')}"


def _refuse_access(title: str, text: str) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(head="", title=title, text=text), status_code=403)


def _with_headers(send: Send) -> Send:
    """Each answer forbids what it does not need; one that brings its own policy keeps it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [(name.lower(), value) for name, value in message.get("headers", [])]
            has_policy = any(name == b"content-security-policy" for name, _ in given)
            policy = [] if has_policy else [(b"content-security-policy", _POLICY)]
            message = {**message, "headers": [*given, *_HEADERS, *policy]}
        await send(message)

    return send_with_headers
