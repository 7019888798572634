"""Slots: in order, and none lost, whoever is cancelled when, in whatever event loop."""

from __future__ import annotations

import contextlib
import random
import threading

import anyio
import anyio.lowlevel
import pytest

from svir_client.slot import Slots
from tests.svir_client.chat import SECONDS

pytestmark = pytest.mark.anyio


async def free(slots: Slots) -> int:
    """How many can be taken at once."""
    taken = 0
    with anyio.move_on_after(0):
        while True:
            with slots._lock:
                if not slots._free:
                    break
            await slots.acquire()
            taken += 1
    for _ in range(taken):
        slots.release()
    return slots._free


async def test_in_the_order_asked() -> None:
    slots = Slots(1)
    order: list[int] = []

    async def one(number: int) -> None:
        await slots.acquire()
        order.append(number)
        slots.release()

    with anyio.fail_after(SECONDS):
        await slots.acquire()
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
                await anyio.wait_all_tasks_blocked()
            slots.release()
            await slots.acquire()  # behind all of them
            assert order == list(range(20))
            slots.release()
    assert slots._free == 1


async def test_a_slot_goes_to_who_waits_and_not_to_who_asks_just_then() -> None:
    slots = Slots(1)
    got: list[str] = []

    async def taking(name: str) -> None:
        await slots.acquire()
        got.append(name)

    with anyio.fail_after(SECONDS):
        await slots.acquire()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(taking, "first")
            await anyio.wait_all_tasks_blocked()
            slots.release()
            tasks.start_soon(taking, "second")
            await anyio.wait_all_tasks_blocked()
            assert got == ["first"]
            slots.release()
    assert got == ["first", "second"]


async def test_cancelled_as_it_is_given_a_slot() -> None:
    slots = Slots(1)
    with anyio.fail_after(SECONDS):
        await slots.acquire()
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def waiting() -> None:
                with scope:
                    await slots.acquire()
                    slots.release()

            tasks.start_soon(waiting)
            await anyio.wait_all_tasks_blocked()
            slots.release()
            scope.cancel()
        assert slots._free == 1
        assert not slots._waiting


async def test_cancelled_before_it_asks() -> None:
    slots = Slots(1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await slots.acquire()
    assert scope.cancelled_caught
    assert slots._free == 1


@pytest.mark.parametrize("seed", range(5))
async def test_random_cancellations_lose_none(seed: int) -> None:
    numbers = random.Random(seed)
    slots = Slots(3)
    held = most = 0

    async def one() -> None:
        nonlocal held, most
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await slots.acquire()
            held += 1
            most = max(most, held)
            try:
                for _ in range(numbers.randrange(4)):
                    await anyio.lowlevel.checkpoint()
            finally:
                held -= 1
                slots.release()

    scopes: list[anyio.CancelScope] = []
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            for _ in range(300):
                tasks.start_soon(one)
                if numbers.random() < 0.5:
                    await anyio.lowlevel.checkpoint()
                if scopes and numbers.random() < 0.5:
                    numbers.choice(scopes).cancel()
    assert (slots._free, len(slots._waiting), most) == (3, 0, 3)


def test_across_event_loops_and_threads() -> None:
    slots = Slots(2)
    lock = threading.Lock()
    held: list[int] = []
    most: list[int] = []

    async def one() -> None:
        await slots.acquire()
        with lock:
            held.append(1)
            most.append(len(held))
        await anyio.lowlevel.checkpoint()
        with lock:
            held.pop()
        slots.release()

    async def many() -> None:
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(one)

    threads = [
        threading.Thread(target=anyio.run, args=(many,), kwargs={"backend": name}) for name in ("asyncio", "trio")
    ]
    for thread in threads * 1:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert (len(most), max(most), slots._free) == (100, 2, 2)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_task_whose_event_loop_is_over_takes_no_slot(backend: str) -> None:
    """A coroutine that was left behind cannot be woken: the slot goes to the next one."""
    slots = Slots(1)

    async def left_behind() -> None:
        await slots.acquire()
        waiting = slots.acquire()
        with contextlib.suppress(StopIteration):
            waiting.send(None)
        left.append(waiting)

    left: list[object] = []
    anyio.run(left_behind, backend=backend)
    slots.release()
    assert (slots._free, len(slots._waiting)) == (1, 0)


async def test_a_slot_that_is_given_back_while_the_lock_is_held_is_handed_on_after_it() -> None:
    """As a garbage collection does it, which may begin anywhere."""
    slots = Slots(2)
    with anyio.fail_after(SECONDS):
        await slots.acquire()
        with slots._lock:
            slots.release()
            assert slots._free == 1
        await slots.acquire()
    assert slots._free == 1
