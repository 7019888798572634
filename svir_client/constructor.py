"""How clients are made: one constructor per wire API, each a few words more than ``of`` (30 section 2)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from svir_client.options import ClientOptions, KeyedOptions
from svir_core.errors import ConfigError
from svir_core.secret import Withheld
from svir_core.wire import openai_chat
from svir_core.wire.api import Api

if TYPE_CHECKING:
    from typing import Self, Unpack

URL_VARIABLE: Final = "SVIR_URL"
KEY_VARIABLE: Final = "SVIR_API_KEY"


Given = Withheld[tuple[str | None, KeyedOptions]]
"""A base URL and options, withheld."""


class Constructors(ABC):
    """The constructors of a client by the names of the wire APIs."""

    @classmethod
    @abstractmethod
    def _made(cls, api: Api, given: Given) -> Self:
        """A client of a server that speaks ``api``, at an address and with options that no traceback shows."""

    @classmethod
    def openai(cls, base_url: str | None, **options: Unpack[KeyedOptions]) -> Self:
        """A client of a server that speaks Chat Completions; options and errors are those of :meth:`of`.

        ``base_url`` is with or without ``/v1``; ``None`` only beside ``endpoint``.
        """
        given = Withheld((base_url, options))
        del base_url, options  # a traceback's locals show none of them
        if given.value[0] is None and given.value[1].get("endpoint") is None:
            raise ConfigError("a client needs a base URL, or the whole URL as endpoint")
        return cls._made(openai_chat.API, given)

    @classmethod
    def responses(cls, base_url: str | None = None, **options: Unpack[KeyedOptions]) -> Self:
        """A client of OpenAI Responses, by default where OpenAI hosts it. Options and errors: see :meth:`of`."""
        given = Withheld((base_url, options))
        del base_url, options  # a traceback's locals show none of them
        from svir_core.wire import openai_responses  # imported late, as the next two: most programs speak one API

        return cls._made(openai_responses.API, given)

    @classmethod
    def anthropic(
        cls,
        base_url: str | None = None,
        *,
        version: str = "2023-06-01",
        auth: str = "x-api-key",
        **options: Unpack[KeyedOptions],
    ) -> Self:
        """A client of Anthropic Messages, by default where Anthropic hosts it; the other options, and the errors, are
        those of :meth:`of`.

        Args:
            base_url: with or without ``/v1``.
            version: the ``anthropic-version`` header.
            auth: how the key is sent: "x-api-key", or "bearer".
        """
        given = Withheld((base_url, options))
        del base_url, options  # a traceback's locals show none of them
        from svir_core.wire import anthropic_messages

        api = anthropic_messages.AnthropicMessages(version=version, auth=auth)
        return cls._made(api, given)

    @classmethod
    def gemini(
        cls,
        base_url: str | None = None,
        *,
        version: str = "v1beta",
        parent: str = "models",
        auth: str = "x-goog-api-key",
        skip_signatures: bool = False,
        **options: Unpack[KeyedOptions],
    ) -> Self:
        """A client of Gemini, by default of Google's Developer API; the other options, and the errors, are those of
        :meth:`of`.

        Args:
            base_url: with or without a version at its end.
            version: the version of the API: "v1beta", "v1", on Vertex "v1beta1".
            parent: where the models are: "models", on Vertex "projects/P/locations/L/publishers/google/models".
            auth: how the key is sent: "x-goog-api-key", or "bearer", as an OAuth token is.
            skip_signatures: send a stand-in for the signatures that calls from another API do not have, as Gemini 3
                demands them.
        """
        given = Withheld((base_url, options))
        del base_url, options  # a traceback's locals show none of them
        from svir_core.wire import gemini

        api = gemini.Gemini(version=version, parent=parent, auth=auth, skip_signatures=skip_signatures)
        return cls._made(api, given)

    @classmethod
    def from_env(cls, **options: Unpack[ClientOptions]) -> Self:
        """:meth:`openai` with the base URL of ``SVIR_URL`` and, unless it is unset or empty, the key of
        ``SVIR_API_KEY``: the only thing here that reads the environment without being told a name.

        Raises ``ConfigError`` when ``SVIR_URL`` is unset or empty, and whatever :meth:`openai` raises.
        """
        if not os.environ.get(URL_VARIABLE):
            raise ConfigError(f"the environment variable {URL_VARIABLE} is not set")
        key_variable = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else None
        given = Withheld(options)
        del options  # a traceback's locals show none of them
        return cls.openai(os.environ[URL_VARIABLE], api_key_env=key_variable, **given.value)
