"""The pool as a data structure: drawn sequences of use against its bounds."""

from __future__ import annotations

import math

import anyio
import pytest

from svir_core.errors import ConfigError
from svir_core.http_message import HttpRequest, Origin
from svir_transport.h11.connection import Connection
from svir_transport.h11.pool import EARLY_CLOSE_SECONDS, QUIET_SECONDS, Lease, Pool

pytestmark = pytest.mark.anyio

REQUEST = HttpRequest("GET", "http", "h", 80, "/", (("host", "h"),))


class Quiet:
    """A channel with nothing behind it."""

    def __init__(self) -> None:
        self.sent = 0
        self.alive = True
        self.closed = False
        self.answers = [b"HTTP/1.1 204 No Content\r\n\r\n"]

    def receive_now(self) -> bytes | None:
        return self.answers[0]

    def send_now(self, data: memoryview) -> int:
        return len(data)

    def flush_now(self) -> bool:
        return True

    async def readable(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def writable(self) -> None:
        await anyio.lowlevel.checkpoint()

    def quiet(self) -> bool:
        return self.alive

    def close(self) -> None:
        self.closed = True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def origin(port: int) -> Origin:
    return Origin("http", "h", port)


async def used(connection: Connection) -> None:
    """A whole request and its answer."""
    connection.request_head(REQUEST)
    connection.request_sent()
    await connection.receive()
    connection.head()
    connection.next_event()
    assert connection.reusable


async def made(port: int) -> Connection:
    return Connection(origin(port), Quiet())


async def leased(pool: Pool, port: int = 80) -> tuple[Lease, Connection]:
    lease = await pool.lease()
    connection = await lease.take_idle(origin(port))
    if connection is None:
        connection = await lease.connect(lambda: made(port), math.inf)
        assert connection is not None
    await used(connection)
    return lease, connection


def closed(connection: Connection) -> bool:
    channel = connection.channel
    assert isinstance(channel, Quiet)
    return channel.closed


async def test_last_in_first_out_per_origin() -> None:
    pool = Pool(10, 10, 30.0)
    leases = [await leased(pool, port) for port in (80, 80, 81)]
    for lease, _ in leases:
        lease.keep()
    assert (pool.leased, pool.idle) == (0, 3)
    for port, place in ((80, 1), (80, 0), (81, 2)):
        lease, connection = await leased(pool, port)
        assert connection is leases[place][1]
        assert connection.used
        lease.drop()
    assert (pool.leased, pool.idle) == (0, 0)


class Closes(Quiet):
    """A peer that closes when it is watched: the end of a message and the close are two packets."""

    def quiet(self) -> bool:
        alive, self.alive = self.alive, False
        return alive


async def test_a_peer_that_closes_right_after_its_answer_is_noticed_before_the_next_request() -> None:
    clock = Clock()
    pool = Pool(10, 10, 30.0, clock)
    lease, connection = await leased(pool)
    connection.channel = Closes()
    lease.keep()
    clock.now += QUIET_SECONDS / 2
    _, another = await leased(pool)
    assert another is not connection
    assert closed(connection)
    assert pool.leased == 1


async def test_of_a_server_that_closed_early_no_connection_is_kept_any_more() -> None:
    clock = Clock()
    pool = Pool(10, 10, 30.0, clock)
    early, other = await leased(pool, 80), await leased(pool, 81)
    early[1].channel = Closes()
    for lease, _ in (early, other):
        lease.keep()
    later = await leased(pool, 80)
    for lease, _ in (later, await leased(pool, 81)):
        lease.keep()
    assert closed(later[1])
    assert not closed(other[1])
    assert (pool.leased, pool.idle) == (0, 1)


@pytest.mark.parametrize(("seconds", "kept"), [(EARLY_CLOSE_SECONDS, 1), (EARLY_CLOSE_SECONDS / 2, 0)])
async def test_a_close_long_after_the_answer_is_no_habit(seconds: float, kept: int) -> None:
    clock = Clock()
    pool = Pool(10, 10, 30.0, clock)
    lease, connection = await leased(pool)
    channel = connection.channel = Quiet()
    lease.keep()
    channel.alive = False
    clock.now += seconds
    lease, _ = await leased(pool)
    lease.keep()
    assert pool.idle == kept


async def test_a_connection_idle_for_longer_is_used_without_a_wait() -> None:
    clock = Clock()
    pool = Pool(10, 10, 30.0, clock)
    lease, connection = await leased(pool)
    channel = connection.channel = Closes()
    lease.keep()
    clock.now += QUIET_SECONDS
    _, again = await leased(pool)
    assert again is connection
    assert not channel.alive  # asked once, and not again


@pytest.mark.parametrize("error", [OSError, anyio.ClosedResourceError])
async def test_a_connection_that_breaks_while_it_is_watched_is_not_used(error: type[Exception]) -> None:
    class Breaks(Quiet):
        async def readable(self) -> None:
            raise error

    pool = Pool(10, 10, 30.0, Clock())
    lease, connection = await leased(pool)
    connection.channel = Breaks()
    lease.keep()
    _, another = await leased(pool)
    assert another is not connection


async def test_leaving_while_a_connection_is_watched_gives_its_slot_back() -> None:
    class Waits(Quiet):
        async def readable(self) -> None:
            await anyio.sleep_forever()

    pool = Pool(1, 1, 30.0, Clock())
    lease, connection = await leased(pool)
    connection.channel = Waits()
    lease.keep()
    lease = await pool.lease()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await lease.take_idle(origin(80))
    lease.drop()
    assert closed(connection)
    assert (pool.leased, pool.idle) == (0, 0)


async def test_expiry_by_the_clock() -> None:
    clock = Clock()
    pool = Pool(10, 10, 30.0, clock)
    first, second = await leased(pool), await leased(pool)
    first[0].keep()
    clock.now = 10.0
    second[0].keep()
    clock.now = 29.9
    lease, connection = await leased(pool)
    assert connection is second[1]
    lease.keep()
    clock.now = 30.0
    assert (await leased(pool))[1] is second[1]
    assert closed(first[1])
    assert pool.idle == 0


async def test_the_oldest_goes_when_there_are_too_many() -> None:
    clock = Clock()
    pool = Pool(10, 2, 30.0, clock)
    leases = [await leased(pool, port) for port in (80, 81, 82)]
    for lease, _ in leases:
        clock.now += 1
        lease.keep()
    assert [closed(connection) for _, connection in leases] == [True, False, False]


async def test_a_stale_one_is_closed_and_the_next_is_tried() -> None:
    pool = Pool(10, 10, 30.0)
    leases = [await leased(pool), await leased(pool)]
    for lease, _ in leases:
        lease.keep()
    channel = leases[1][1].channel
    assert isinstance(channel, Quiet)
    channel.alive = False
    assert (await leased(pool))[1] is leases[0][1]
    assert closed(leases[1][1])


async def test_a_lease_ends_once() -> None:
    pool = Pool(1, 1, 30.0)
    lease, connection = await leased(pool)
    lease.keep()
    lease.keep()
    lease.drop()
    assert not closed(connection)
    assert (pool.leased, pool.idle) == (0, 1)
    with anyio.fail_after(1):
        await pool.lease()


async def test_what_cannot_carry_another_request_is_closed() -> None:
    pool = Pool(1, 1, 30.0)
    lease = await pool.lease()
    connection = Connection(origin(80), Quiet())
    lease.hold(connection)
    lease.keep()
    assert closed(connection)
    assert (pool.leased, pool.idle) == (0, 0)


async def test_a_closed_pool_keeps_and_gives_nothing() -> None:
    pool = Pool(2, 2, 30.0)
    lease, connection = await leased(pool)
    other = await pool.lease()
    pool.close()
    lease.keep()
    assert closed(connection)
    with pytest.raises(ConfigError, match="closed"):
        await pool.lease()
    pool.drop_leases()
    late = Connection(origin(80), Quiet())
    with pytest.raises(ConfigError, match="closed"):
        other.hold(late)
    assert closed(late)
    assert (pool.leased, pool.idle) == (0, 0)


async def test_a_pool_that_another_thread_closes_while_a_connection_is_put_back_keeps_none() -> None:
    clock = Clock()
    pool = Pool(2, 2, 30.0, clock)
    lease, connection = await leased(pool)

    def closes() -> float:
        pool.close()
        return 0.0

    pool._clock = closes
    lease.keep()
    assert closed(connection)
    assert (pool.leased, pool.idle) == (0, 0)


async def test_a_pool_that_another_thread_closes_while_a_connection_is_looked_for_gives_none() -> None:
    class Closing(Quiet):
        def quiet(self) -> bool:
            pool.close()
            return False

    pool = Pool(2, 2, 30.0)
    leases = [await leased(pool), await leased(pool)]
    leases[1][1].channel = Closing()
    for lease, _ in leases:
        lease.keep()
    assert pool.take_idle(origin(80)) is None
    assert all(closed(connection) for _, connection in leases)
    assert pool.idle == 0


async def test_room_is_made_before_a_connection_and_not_after_it() -> None:
    pool = Pool(2, 2, 30.0)
    leases = [await leased(pool, port) for port in (80, 81)]
    for lease, _ in leases:
        lease.keep()
    lease = await pool.lease()
    assert await lease.take_idle(origin(82)) is None

    async def connect() -> Connection:
        assert [closed(connection) for _, connection in leases] == [True, False]
        return await made(82)

    assert await lease.connect(connect, math.inf) is not None
    assert (pool.leased, pool.idle) == (1, 1)
    lease.drop()
    pool.close()


async def test_dropping_a_lease_ends_its_connecting() -> None:
    pool = Pool(1, 1, 30.0)
    lease = await pool.lease()
    ended: list[str] = []

    async def connect() -> None:
        with pytest.raises(ConfigError, match="the transport is closed"):
            await lease.connect(never, math.inf)
        ended.append("connect")

    async def never() -> Connection:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(connect)
            await anyio.wait_all_tasks_blocked()
            pool.close()
            pool.drop_leases()
    assert ended == ["connect"]
    assert pool.leased == 0


async def test_connecting_ends_at_its_deadline() -> None:
    pool = Pool(1, 1, 30.0)
    lease = await pool.lease()

    async def never() -> Connection:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(5):
        assert await lease.connect(never, anyio.current_time()) is None
    assert pool.leased == 1
    lease.drop()
