"""The agent of a guest and what speaks to it: the real one, on loopback."""

import asyncio
import contextlib
import gc
import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.errors import BadInput, MachineLost, NotProvisioned, ToolFailed
from nearmetal.lab import probe
from nearmetal.lab.remote import agent
from tests.agent_server import agent_machine, agent_process, agent_serving, needs_probe
from tests.ports import free_port
from tests.unit.test_remote import gone, written

pytestmark = needs_probe


async def test_who_does_not_know_the_secret_gets_nothing(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        stranger = agent_machine(replace(endpoint, secret=b"a guess"))
        with pytest.raises(MachineLost):
            await stranger.exec(["touch", str(tmp_path / "touched")])
        assert not (tmp_path / "touched").exists()
        assert (await agent_machine(endpoint).exec(["true"])).status == 0


async def test_a_guest_that_does_not_know_it_is_asked_nothing(tmp_path: Path) -> None:
    """Somebody else's program may have taken the port of a guest that is gone."""
    heard = bytearray()

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"schema":"agent.v1","nonce":"bm9uY2U=","boot_id":"b","arch":"a"}\n')
        heard.extend(await reader.readline())
        writer.write(b'{"proof":"AAAA"}\n')
        heard.extend(await reader.read())
        writer.close()

    async with await asyncio.start_server(pretend, "127.0.0.1", 0) as impostor:
        endpoint = agent.AgentEndpoint("127.0.0.1", impostor.sockets[0].getsockname()[1], b"secret")
        with pytest.raises(MachineLost):
            await agent_machine(endpoint).exec(["echo", "confidential"])
        with pytest.raises(NotProvisioned, match="does not know"):
            await agent_machine(endpoint).connect()
    assert b"proof" in heard
    assert b"confidential" not in heard


async def test_another_server_is_no_agent(tmp_path: Path) -> None:
    async def ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(ssh, "127.0.0.1", 0) as server:
        endpoint = agent.AgentEndpoint("127.0.0.1", server.sockets[0].getsockname()[1], b"secret")
        with pytest.raises(NotProvisioned, match="no agent"):
            await agent_machine(endpoint).connect()


async def test_an_agent_that_is_gone_is_a_lost_machine(tmp_path: Path) -> None:
    async with agent_process(tmp_path) as (process, endpoint):
        machine = agent_machine(endpoint)
        await machine.connect()
        process.kill()
        await process.wait()
        with pytest.raises(MachineLost):
            await machine.exec(["true"])
    with pytest.raises(MachineLost):
        await agent_machine(replace(endpoint, port=free_port())).exec(["true"])


async def test_a_program_ends_with_the_connection_that_asked_for_it(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        run = {
            "argv": ["sh", "-c", f"echo $$ >{tmp_path}/pid; sleep 300 & wait"],
            "env": [["PATH", os.environ["PATH"]]],
        }
        _, writer = await machine.asked({"run": run})
        group = await written(tmp_path / "pid")
        writer.transport.abort()
        assert await gone(group)


async def test_what_another_boot_answers_is_for_nobody_here(tmp_path: Path) -> None:
    """A guest that restarts by itself has lost all that was set and started in it."""
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        await machine.connect()
        running = await machine.spawn(["sleep", "300"])
        machine.boot_id = "as it was before"
        with pytest.raises(MachineLost, match="booted anew"):
            await machine.exec(["true"])
        machine.abort()
        with pytest.raises(MachineLost):
            await running.wait(10)


async def test_what_is_running_ends_with_the_connection(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        running = await machine.spawn(["sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 300"])
        pid = await written(tmp_path / "pid")
        await machine.close()
        assert await gone(pid)
        with pytest.raises(MachineLost):
            await running.wait(10)


async def test_a_word_that_is_no_text_is_refused(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        with pytest.raises(BadInput, match="UTF-8"):
            await agent_machine(endpoint).exec(["ls", "caf\udce9"])
        status, _, said = await asked(endpoint, tmp_path / "secret", "ls", os.fsdecode(b"caf\xe9"))
        assert status == 125 and b"UTF-8" in said


async def test_a_request_that_cannot_be_understood_is_told(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        reader, writer = await agent_machine(endpoint).asked({"halt": {}})
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"!")
    assert b"no request" in answer


# ── `ask`, by hand ────────────────────────────────────────────────────────────────────────────────────────────────


def asking(endpoint: agent.AgentEndpoint, secret: Path, *argv: str) -> list[str]:
    path = f"PATH={os.environ['PATH']}"
    return [str(probe.path()), "ask", "--at", endpoint.where, "--secret", str(secret), "--env", path, "--", *argv]


async def asked(
    endpoint: agent.AgentEndpoint, secret: Path, *argv: str, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *asking(endpoint, secret, *argv),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(stdin), 60)
    assert process.returncode is not None
    return process.returncode, stdout, stderr


async def test_what_is_asked_by_hand_has_its_own_streams_and_status(tmp_path: Path) -> None:
    content = os.urandom(2**22)
    async with agent_serving(tmp_path) as endpoint:
        secret = tmp_path / "secret"
        assert await asked(endpoint, secret, "cat", stdin=content) == (0, content, b"")
        assert await asked(endpoint, secret, "sh", "-c", "echo no >&2; exit 7") == (7, b"", b"no\n")
        assert (await asked(endpoint, secret, "no-such-program"))[0] == 127
        assert (await asked(endpoint, secret, "sh", "-c", "kill -9 $$"))[0] == 137
        assert (await asked(endpoint, secret, "env"))[1] == f"PATH={os.environ['PATH']}\n".encode()


async def test_what_cannot_be_asked_is_told(tmp_path: Path) -> None:
    (tmp_path / "another").write_bytes(b"a guess")
    async with agent_serving(tmp_path) as endpoint:
        assert (await asked(endpoint, tmp_path / "another", "true"))[0] == 125
        status, _, said = await asked(endpoint, tmp_path / "no-such-file", "true")
        assert status == 125 and b"no-such-file" in said
        nobody = replace(endpoint, port=free_port())
        status, _, said = await asked(nobody, tmp_path / "secret", "true")
        assert status == 125 and b"nobody answers" in said


async def test_what_was_asked_ends_with_who_asked(tmp_path: Path) -> None:
    async with agent_serving(tmp_path) as endpoint:
        script = f"echo begun; echo $$ >{tmp_path}/pid; sleep 300 & wait"
        process = await asyncio.create_subprocess_exec(
            *asking(endpoint, tmp_path / "secret", "sh", "-c", script), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"begun\n", "what it says comes before it has ended"
        pid = await written(tmp_path / "pid")
        process.kill()
        await process.wait()
        assert await gone(pid)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_rubbish_harms_nobody(rubbish: list[bytes]) -> None:
    async def throw(folder: Path) -> None:
        async with agent_serving(folder) as endpoint:
            for piece in rubbish:
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
                writer.write(piece)
                writer.write_eof()
                with contextlib.suppress(OSError):
                    await reader.read()
                writer.close()
            assert (await agent_machine(endpoint).exec(["true"])).status == 0

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(throw(Path(folder)))


async def test_a_program_that_nobody_waits_for_is_read_to_its_end_in_silence(tmp_path: Path) -> None:
    """As when a machine is lost, whose programs go on: asyncio would complain of readers that are thrown away."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        await machine.spawn(["sleep", "2"])
        await asyncio.sleep(0.1)
        del machine
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []


async def test_who_closes_a_machine_leaves_nothing_that_reads(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with agent_serving(tmp_path) as endpoint:
        machine = agent_machine(endpoint)
        running = await machine.spawn(["sleep", "300"])
        await machine.start(["cat"], None, bytes(1 << 24))
        await machine.close()
        assert asyncio.all_tasks() == before
        with pytest.raises(MachineLost):
            await running.wait(0)


async def test_files_are_read_again_on_the_connection_of_the_first_time(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n\xe4\n")
    os.mkfifo(tmp_path / "fifo")
    paths = [str(tmp_path / name) for name in ("text", "fifo", "nowhere")] + ["/proc/uptime"]
    async with agent_process(tmp_path) as (process, endpoint):
        machine = agent_machine(endpoint)
        for _ in range(2):
            read = await machine.read_files(paths)
            assert set(read.texts) == {paths[0], "/proc/uptime"} and read.texts[paths[0]] == "a\n\xe4\n"
            assert read.asked <= read.answered and read.least_ns <= 0 <= read.most_ns, "it is one clock"
            assert len(children(process.pid)) == 1
        (serving,) = children(process.pid)
        os.kill(serving, signal.SIGKILL)
        assert await machine.read_files(["/nowhere"]), "its connection may end, and another is made"
        await machine.close()
        (tmp_path / "text").write_bytes(bytes(1 << 20))
        with pytest.raises(ToolFailed, match="more than"):
            await machine.read_files(paths)
        machine.boot_id = "as it was before"
        with pytest.raises(MachineLost, match="booted anew"):
            await machine.read_files(paths)
        process.kill()
        await process.wait()
        with pytest.raises(MachineLost):
            await agent_machine(endpoint).read_files(paths)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
