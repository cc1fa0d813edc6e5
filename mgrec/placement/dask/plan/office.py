"""What a worker runs for plans: a door, where clients ask for solves and shares send summaries.

A thread waits at every line. That of a client solves what the client asks for, one solve after the
other; that of another worker puts what comes there into the inbox, where solves look for it.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from distributed.protocol.pickle import dumps, loads

from .inbox import Inbox, Mail, Solve
from .lines import TOKEN, Abandoned, Door, Line, Lost
from .messages import Share
from .operands import blocks_of
from .shares import Threads, solve_share

NAME = "mgrec-office"


async def open_office(dask_worker: Any) -> Door:
    """The door of a worker, which has an office from now on."""
    office = dask_worker.plugins.get(NAME)
    if office is None:
        office = dask_worker.plugins[NAME] = Office(dask_worker)
    return office.door


async def answer(solve: Solve, name: str, asked: Mapping[str, bytes], dask_worker: Any) -> bytes:
    """Solve what a client asks for that has no line to this worker."""
    office: Office = dask_worker.plugins[NAME]
    held: dict[str, Any] = {}
    given = solve, name, asked[dask_worker.address], held, None
    return await asyncio.get_running_loop().run_in_executor(office.others, office.answer, *given)


class Office:
    """The office of a worker; closed with it, since it is one of its plugins."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.inbox = Inbox()
        threads = max(1, worker.state.nthreads)
        self._pool = ThreadPoolExecutor(threads, "mgrec-plan")
        self._threads = Threads(threads, self._pool if threads > 1 else None)
        self.others = ThreadPoolExecutor(thread_name_prefix="mgrec-office")
        arguments = worker.security.get_listen_args("worker")
        is_encrypted = worker.address.startswith("tls://")
        self._context = arguments["ssl_context"] if is_encrypted else None
        self._calling = worker.security.get_connection_args("worker")["ssl_context"]
        host = "127.0.0.1" if worker.address.startswith("inproc://") else worker.ip
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family)
        place = self._socket.getsockname()[:2]
        self.door = Door(worker.address, place, secrets.token_bytes(TOKEN), is_encrypted)
        self._lines: dict[Door, Line] = {}
        self._connecting = threading.Lock()
        self._answering: set[Line] = set()
        threading.Thread(target=self._open, name="mgrec-door", daemon=True).start()

    def teardown(self, worker: Any) -> None:
        """Close the door and all lines."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for line in [*self._lines.values(), *self._answering]:
            line.close()
        for pool in (self._pool, self.others):
            pool.shutdown(wait=False)

    def _open(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(Lost):
            line = Line.answer(connection, self.door.token, self._context)
            self._answering.add(line)
            try:
                is_client, who = loads(line.read())
                (self._serve_client if is_client else self._serve_share)(line, who)
            finally:
                self._answering.discard(line)
                line.close()

    def _serve_client(self, line: Line, client: str) -> None:
        """Answer what a client asks; what it holds goes when the line ends."""
        held: dict[str, Any] = {}
        while True:
            number, name, message = loads(line.read())
            if message is None:
                held.pop(name, None)
            else:
                answered = self.answer((client, number), name, message, held, line)
                line.write(dumps((number, answered)))

    def _serve_share(self, line: Line, who: str) -> None:
        """Take what another worker sends."""
        try:
            while True:
                self.inbox.put(*loads(line.read()))
        finally:
            self.inbox.wake()

    def answer(
        self, solve: Solve, name: str, message: bytes, held: dict[str, Any], line: Line | None
    ) -> bytes:
        """What a solve gives to its client, or what it raised."""
        try:
            found = self._solve(solve, name, message, held, line)
            return dumps((True, found))
        except Exception as error:
            return _written(error)
        finally:
            self.inbox.end(solve)

    def _solve(
        self, solve: Solve, name: str, message: bytes, held: dict[str, Any], line: Line | None
    ) -> Any:
        request = loads(message)
        if isinstance(request, Share):
            held[name] = request, self._blocks(request.keys)
            return None
        share, blocks = held[request.plan] if request.plan else (request.share, None)
        if request.keys is not None or blocks is None:
            blocks = self._blocks(share.keys if request.keys is None else request.keys)
        mail = Mail(self, solve, share, line)
        try:
            mail.open()
            results, told = solve_share(request, name, share, blocks, mail, self._threads)
        except BaseException:
            mail.fail()
            raise
        if line is not None and line.has_ended():
            raise Abandoned
        self._keep(results)
        return told

    def _blocks(self, keys: Mapping[Any, Any]) -> Any:
        coroutine = blocks_of(self.worker, keys)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _keep(self, results: dict[Hashable, Any]) -> None:
        """Put results into the worker's memory.

        Nobody waits for it: the worker's loop does that before it turns to what comes later, and
        who asks for the results asks after the client has its answer.
        """
        self._loop.call_soon_threadsafe(self.worker.update_data, results)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self.worker.loop.asyncio_loop

    def line_to(self, door: Door) -> Line:
        """The line to another worker; it is made when it is first asked for."""
        with self._connecting:
            line = self._lines.get(door)
            if line is None or line.is_lost:
                line = self._lines[door] = Line.to(door, self._calling)
                line.write(dumps((False, self.door.worker)))
                threading.Thread(target=self._watch, args=(door, line), daemon=True).start()
            return line

    def _watch(self, door: Door, line: Line) -> None:
        """Wait for the end of a line on which nothing comes."""
        with suppress(Lost):
            line.read()
        self.inbox.wake()
        with self._connecting:
            if self._lines.get(door) is line:
                del self._lines[door]


def _written(error: Exception) -> bytes:
    """An error as its client gets it, also where it cannot be pickled."""
    try:
        written = dumps((False, error))
        loads(written)
    except Exception:
        return dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return written
