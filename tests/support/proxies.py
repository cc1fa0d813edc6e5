"""Workers behind proxies, which lose messages between them as a network does."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress

from clusters import two_workers
from distributed import Worker

HOST = "127.0.0.1"


class Proxy:
    """Passes on what comes to a port of its own to a worker, and back.

    Attributes
    ----------
    connections : dict, port of the end that connected -> writers to both ends
    lost : set of int
        The connections that end instead of passing on their next bytes.
    """

    def __init__(self):
        self.connections, self.lost, self.target = {}, set(), 0

    async def start(self):
        self.server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        port = writer.get_extra_info("peername")[1]
        far_reader, far_writer = await asyncio.open_connection(HOST, self.target)
        self.connections[port] = writer, far_writer
        with suppress(asyncio.CancelledError):  # The event loop ends.
            await asyncio.gather(
                self._pass_on(port, reader, far_writer), self._pass_on(port, far_reader, writer)
            )
        del self.connections[port]

    async def _pass_on(self, port, reader, writer):
        with suppress(OSError):
            while (data := await reader.read(1 << 16)) and port not in self.lost:
                writer.write(data)
        for end in self.connections[port]:
            end.transport.abort()


def port_of(address):
    return int(address.rpartition(":")[2])


@contextmanager
def workers_behind_proxies():
    """Yield a client of two workers, and a function that loses the next message between them.

    It marks the connections that the workers have opened to each other, and returns their number.
    """
    workers, proxies = [], [Proxy(), Proxy()]

    async def start(scheduler):
        for proxy in proxies:
            await proxy.start()
            address = f"tcp://{HOST}:{proxy.port}"
            workers.append(await Worker(scheduler, host=HOST, contact_address=address, nthreads=1))
            proxy.target = port_of(workers[-1].listen_address)

    async def lose():
        pools = [worker.rpc for worker in workers]
        comms = [c for pool in pools for some in pool.available.values() for c in some]
        ports = {port_of(comm.local_address) for comm in comms}
        for proxy in proxies:
            proxy.lost |= ports & proxy.connections.keys()
        return sum(len(ports & proxy.connections.keys()) for proxy in proxies)

    async def close():
        for worker in workers:
            await worker.close()
        for proxy in proxies:
            proxy.server.close()

    with two_workers(n_workers=0, processes=False, protocol="tcp") as client:
        client.sync(start, client.scheduler.address)
        try:
            yield client, lambda: client.sync(lose)
        finally:
            client.sync(close)
