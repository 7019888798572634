"""What a store keeps: what was written is read, whole, exact, and by everybody."""

from __future__ import annotations

from typing import Final

from svir_client.session.record import SessionChange, SessionRecord
from svir_client.testing.contract.bench import expect
from svir_client.testing.store.bench import HEAD, SYSTEM, StoreBench, first, refusal, shown, texts
from svir_core.errors import StoreError

EXACT: Final = (
    '{"b":1,"a":1.0,"c":[1e2,0.10]}',
    r'{"text":"\u0000 \ud83d\ude00 \" \\ \n \/"}',
    '{"text":"\u00e4 a\u0308 \U0001f600 \u2028 \ufeff \x7f"}',
    '{"text":"%s ? :1 $1 \' -- ; {} <b>"}',
    '{ "blanks" : [ ] }',
)
"""JSON whose text a store may not change, though a JSON reader would: signatures are made over it, and the order of
keys is part of a prompt."""

NAMES: Final = (
    "a",
    "A",
    "a ",
    " a",
    "\u00e4",
    "a\u0308",
    "a/b",
    "../a",
    "a.b",
    "%",
    "_",
    "'",
    "a\nb",
    "1",
    "01",
    "x" * 300,
)
"""Ids that some database, file system or collation takes for one another."""


async def nothing_before_a_write(bench: StoreBench) -> None:
    """A session that was never written is ``None``, claimed or not, and has no id among ``ids()``."""
    id = bench.id()
    claim = await bench.claim(id)
    expect(await claim.read() is None, "the claim of a session that was never written reads one")
    await bench.expect_stored(id, None)
    await claim.release()
    await bench.expect_stored(id, None)
    expect(id not in await bench.store().ids(), "ids() has a session that was never written")


async def a_write_is_read(bench: StoreBench) -> None:
    """What was written is read: by the claim, by any store while the claim lasts, and by the next claim."""
    id, claim = await bench.begun("one", "two")
    expect(await claim.read() == SessionRecord(HEAD, texts("one", "two")), "the claim reads something else")
    await bench.expect_stored(id, HEAD, *texts("one", "two"))
    await claim.release()
    again = await (await bench.claim(id)).read()
    expect(again == SessionRecord(HEAD, texts("one", "two")), f"the next claim reads {shown(again)}")


async def texts_come_back_exactly(bench: StoreBench) -> None:
    """Head and messages are texts: not parsed, not normalised, not in another order of keys."""
    for text in EXACT:
        id = bench.id()
        await (await bench.claim(id)).write(SessionChange(0, (text,), text))
        stored = await bench.store().read(id)
        expect(stored == SessionRecord(text, (text,)), f"{text!r} came back as another text")


async def messages_are_added(bench: StoreBench) -> None:
    """``append`` comes behind the messages that stay, in its order."""
    id, claim = await bench.begun("one")
    await claim.write(SessionChange(1, texts("two", "three"), HEAD))
    await claim.write(SessionChange(3, texts("four"), HEAD))
    await bench.expect_stored(id, HEAD, *texts("one", "two", "three", "four"))


async def messages_are_dropped(bench: StoreBench) -> None:
    """Messages after the first ``keep`` go, with or without others in their place."""
    id, claim = await bench.begun("one", "two", "three")
    await claim.write(SessionChange(1, texts("other"), HEAD))
    await bench.expect_stored(id, HEAD, *texts("one", "other"))
    await claim.write(SessionChange(1, (), HEAD))
    await bench.expect_stored(id, HEAD, *texts("one"))
    await claim.write(SessionChange(0, (), HEAD))
    await bench.expect_stored(id, HEAD)


async def the_head_is_replaced(bench: StoreBench) -> None:
    """Every write replaces the head, though no message changes."""
    id, claim = await bench.begun("one")
    await claim.write(SessionChange(1, (), SYSTEM))
    await bench.expect_stored(id, SYSTEM, *texts("one"))


async def a_session_may_be_empty(bench: StoreBench) -> None:
    """A session that was written without messages is there."""
    id = bench.id()
    await (await bench.claim(id)).write(SessionChange(0, (), SYSTEM))
    await bench.expect_stored(id, SYSTEM)
    expect(id in await bench.store().ids(), "ids() has it not")


async def more_than_is_stored_cannot_stay(bench: StoreBench) -> None:
    """A change that keeps more messages than there are is a ``StoreError``, and changes nothing."""
    id, claim = await bench.begun("one")
    await refusal(StoreError, lambda: claim.write(SessionChange(2, texts("three"), SYSTEM)), "keeping 2 of 1")
    await bench.expect_stored(id, HEAD, *texts("one"))
    none = bench.id()
    other = await bench.claim(none)
    await refusal(StoreError, lambda: other.write(SessionChange(1, (), SYSTEM)), "keeping 1 of none")
    await bench.expect_stored(none, None)


async def a_change_made_twice_is_made_once(bench: StoreBench) -> None:
    """Whoever does not know whether a write was made makes it again."""
    id, claim = await bench.begun("one", "two")
    for _ in range(2):
        await claim.write(SessionChange(1, texts("three", "four"), SYSTEM))
    await bench.expect_stored(id, SYSTEM, *texts("one", "three", "four"))


async def a_long_session(bench: StoreBench) -> None:
    """A session of a thousand messages, and a message of a megabyte, come back whole and in order."""
    words = [str(number) for number in range(1000)]
    id, claim = await bench.begun(*words)
    await claim.write(SessionChange(1000, texts("x" * 1_000_000), HEAD))
    await bench.expect_stored(id, HEAD, *texts(*words, "x" * 1_000_000))


async def ids_are_told_apart(bench: StoreBench) -> None:
    """Every id is another session: in any case, with blanks, slashes and accents, and of 300 characters."""
    ids = bench.ids(*NAMES)
    claims = [await bench.claim(id) for id in ids]
    for number, claim in enumerate(claims):
        await claim.write(SessionChange(0, (str(number),), HEAD))
    for number, id in enumerate(ids):
        await bench.expect_stored(id, HEAD, str(number))


async def ids_are_listed(bench: StoreBench) -> None:
    """``ids()`` has every id that was written, as it was given, once, sorted by code point."""
    ids = bench.ids(*NAMES)
    for id in ids:
        await (await bench.claim(id)).write(first())
    listed = await bench.store().ids()
    expect(set(ids) <= set(listed), f"{len(set(ids) - set(listed))} of {len(ids)} ids are missing")
    expect(list(listed) == sorted(set(listed)), "they are not sorted, or one is there twice")


async def what_is_deleted_is_gone(bench: StoreBench) -> None:
    """``delete`` says whether there was one; a session that begins anew has nothing of the old one."""
    id, claim = await bench.begun("one", "two")
    await claim.release()
    expect(await bench.store().delete(id) is True, "delete() of a session that is there did not give True")
    await bench.expect_stored(id, None)
    expect(id not in await bench.store().ids(), "ids() has a session that was deleted")
    expect(await bench.store().delete(id) is False, "delete() of a session that is not there did not give False")
    again = await bench.claim(id)
    expect(await again.read() is None, "a claim reads a session that was deleted")
    await again.write(first("new"))
    await bench.expect_stored(id, HEAD, *texts("new"))


CLAUSES: Final = (
    nothing_before_a_write,
    a_write_is_read,
    texts_come_back_exactly,
    messages_are_added,
    messages_are_dropped,
    the_head_is_replaced,
    a_session_may_be_empty,
    more_than_is_stored_cannot_stay,
    a_change_made_twice_is_made_once,
    a_long_session,
    ids_are_told_apart,
    ids_are_listed,
    what_is_deleted_is_gone,
)
