"""A server that repeats what a call was sent with: its words are kept in the session, and the secrets are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from svir_client import AsyncClient, SqliteStore, generate
from svir_client.testing import MockServer, Reply
from svir_core import AuthenticationError
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import APIS

pytestmark = pytest.mark.anyio

KEY, VALUE = "sk-never-to-be-stored-1", "header-never-to-be-stored-2"
SECRETS = (KEY, VALUE)
REFUSED = Reply.document(
    {"error": {"message": f"Incorrect API key provided: {KEY} (x-api-key-of-account: {VALUE})"}}, 401
)


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("rollback", [False, True])
async def test_what_a_server_repeats_of_a_call_is_not_on_the_disk(name: str, rollback: bool, tmp_path: Path) -> None:
    connect: Callable[..., AsyncClient] = APIS[name][1]
    store = SqliteStore(tmp_path / "sessions.db")
    with anyio.fail_after(SECONDS):
        async with (
            MockServer(REFUSED) as server,
            connect(server.origin, api_key=KEY) as client,
            store.session("alice") as session,
        ):
            with pytest.raises(AuthenticationError) as caught:
                await generate(
                    client, session, "hi", model="m", headers={"x-api-key-of-account": VALUE}, rollback=rollback
                )
            document = session.dumps().decode()
        assert ("x-api-key-of-account", VALUE) in server.requests[0].headers
        on_disk = written(tmp_path)
        loaded = await store.load("alice")
    assert not any(secret in document for secret in SECRETS)
    assert not any(secret.encode() in on_disk for secret in SECRETS)
    said = caught.value.server_message()
    assert said is not None
    assert said.startswith("Incorrect API key provided: ")
    if not rollback:
        assert b"Incorrect API key provided: " in on_disk
        assert loaded is not None
        assert loaded.suspended is not None
        assert loaded.suspended.error is not None
        assert loaded.suspended.error.server_message() == said


def written(folder: Path) -> bytes:
    """All files of the store, which nobody has open: who reads one takes the locks of its process from it."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
