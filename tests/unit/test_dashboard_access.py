"""Nothing is served to whoever lacks the token, or calls the server by a name that is not its own."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from nearmetal.dashboard.access import Access, new_token

TOKEN = "t0ken"
OURS = "127.0.0.1:8000"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("what is inside")(scope, receive, send)


def asked(
    path: str = "/",
    query: str = "",
    host: str | None = OURS,
    cookie: str = "",
    method: str = "GET",
    origin: str | None = None,
) -> Answer:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"cookie", cookie.encode("latin-1"))] if cookie else []
    if host is not None:
        headers.append((b"host", host.encode()))
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
    asyncio.run(Access(inside, TOKEN, 8000)(scope, receive, send))
    head, *rest = sent
    return Answer(
        head["status"],
        {name.decode(): value.decode() for name, value in head["headers"]},
        b"".join(part.get("body", b"") for part in rest).decode(),
    )


def test_the_token_is_taken_once_and_a_cookie_given_for_it() -> None:
    welcome = asked("/runs/1", f"token={TOKEN}")
    assert welcome.status == 200
    assert "what is inside" not in welcome.text
    assert 'content="0;url=/runs/1"' in welcome.text, "goes on without the token"
    assert '<link rel="icon" href="data:,">' in welcome.text, "or the browser asks for an icon that is none"
    cookie, *words = [word.strip() for word in welcome.headers["set-cookie"].split(";")]
    assert cookie == f"nearmetal-8000={TOKEN}"
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(words)
    assert asked(cookie=cookie).text == "what is inside"
    assert asked(cookie=f"other=1; {cookie}").text == "what is inside"


@pytest.mark.parametrize(
    ("query", "cookie"),
    [
        ("", ""),
        ("token=", ""),
        ("token=t0ke", ""),
        ("token=t0ken0", ""),
        ("token=%C3%A9", ""),
        ("", "nearmetal-8000=t0ke"),
        ("", "nearmetal-8001=t0ken"),
        ("", "nearmetal-8000="),
        ("", "\xe9;=;nearmetal-8000"),
        ("token=wrong", "nearmetal-8000=t0ken"),
    ],
)
def test_without_the_token_a_page_says_what_to_do(query: str, cookie: str) -> None:
    refused = asked(query=query, cookie=cookie)
    assert refused.status == 403
    assert "what is inside" not in refused.text
    assert "nearmetal dashboard" in refused.text
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1", "127.0.0.1:65535", "[::1]:80", "[::1]"])
def test_what_a_tunnels_end_is_called_is_ours(host: str) -> None:
    assert asked(host=host, cookie=f"nearmetal-8000={TOKEN}").status == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.",
        "127.0.0.1:x",
        "10.0.0.1",
        ":1",
    ],
)
def test_another_name_is_refused_whatever_it_carries(host: str | None) -> None:
    assert asked(host=host, cookie=f"nearmetal-8000={TOKEN}").status == 403
    refused = asked(host=host, query=f"token={TOKEN}")
    assert refused.status == 403
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (f"http://{OURS}", 200),
        (None, 403),
        ("", 403),
        ("null", 403),
        (f"https://{OURS}", 403),
        ("http://127.0.0.1:8001", 403),
        ("http://localhost:8000", 403),
        ("http://evil.example", 403),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_only_its_own_page_can_ask_for_a_change(method: str, origin: str | None, status: int) -> None:
    """Another port of this host is the same site to a browser, and gets the cookie; its origin is another."""
    cookie = f"nearmetal-8000={TOKEN}"
    assert asked(method=method, cookie=cookie, origin=origin).status == status
    assert asked(method=method, origin=origin).status == 403, "without the token"


def test_going_on_leads_nowhere_else() -> None:
    for path in ("//evil.example/", '/"><script>', "/\\evil.example"):
        onward = asked(path, f"token={TOKEN}").text.partition('content="0;url=')[2].partition('"')[0]
        assert onward.startswith("/")
        assert not onward.startswith(("//", "/\\"))
        assert onward.isascii() and not set(onward) & set("<\\'")


def test_every_answer_forbids_what_it_does_not_need() -> None:
    for answer in (asked(), asked(query=f"token={TOKEN}"), asked(cookie=f"nearmetal-8000={TOKEN}")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) >= 32 for token in tokens)
