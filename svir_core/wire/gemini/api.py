"""Gemini as one object: its paths, its headers, its encoder and its decoder (00 section 4)."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs

from svir_core.check import instance_of
from svir_core.errors import ConfigError
from svir_core.json_text import sanitize
from svir_core.quirk import NONE
from svir_core.request import Request
from svir_core.slow_json import loosely
from svir_core.wire.api import Alternative, Clock, CodecOptions, Compat, Model, ModelPage
from svir_core.wire.document import model_listing, token_count
from svir_core.wire.gemini.decode import Decoder
from svir_core.wire.gemini.encode import Encoder, optional_fields
from svir_core.wire.gemini.server_half import ServerHalf
from svir_core.wire.gemini.table import API_NAME
from svir_core.wire.json_value import is_object

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements
    from svir_core.secret import Secret

DEVELOPER: Final = "models"
"""Where the Developer API has its models. Anything else is Vertex: a project's, or a publisher's."""

KEPT: Final = ("models/", "tunedModels/")
"""What a model's name may begin with on the Developer API, and keeps."""

PUBLISHERS: Final = "publishers/"

PAGE: Final = 1000
"""The most models that one page holds."""

AUTH: Final[Mapping[str, tuple[str, str]]] = {
    "x-goog-api-key": ("x-goog-api-key", ""),
    "bearer": ("authorization", "Bearer "),
}
"""How the key is sent: the header, and what stands before the key."""

NEXT: Final = "nextPageToken"

_VERSION: Final = re.compile(r"[A-Za-z0-9]+")
_PARENT: Final = re.compile(r"[A-Za-z0-9._~-]+(?:/[A-Za-z0-9._~-]+)*")


def _version(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    instance_of(str)(instance, attribute, value)
    if not _VERSION.fullmatch(value):
        raise ConfigError("Gemini.version is a segment of a path, such as 'v1beta' or 'v1'")


def _parent(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    instance_of(str)(instance, attribute, value)
    if not _PARENT.fullmatch(value) or {".", ".."}.intersection(value.split("/")):
        raise ConfigError("Gemini.parent is 'models', or 'projects/P/locations/L/publishers/google/models'")


def _auth(_instance: object, _attribute: attrs.Attribute[str], value: str) -> None:
    if value not in AUTH:
        raise ConfigError("Gemini.auth is one of 'x-goog-api-key', 'bearer'")


@attrs.frozen
class Gemini:
    """The API as the exchange and the client see it; holds no state. See ``wire.api.Api``.

    Attributes:
        version: of the API: "v1beta" has preview models and fields, "v1" has not; Vertex has "v1beta1" and "v1".
        parent: where the models are: "models" on the Developer API, "projects/P/locations/L/publishers/google/models"
            on Vertex.
        auth: how the key is sent: "x-goog-api-key", or "bearer" (``authorization``), as an OAuth token is.
        skip_signatures: see ``Encoder``.
    """

    version: str = attrs.field(default="v1beta", kw_only=True, validator=_version)
    parent: str = attrs.field(default=DEVELOPER, kw_only=True, validator=_parent)
    auth: str = attrs.field(default="x-goog-api-key", kw_only=True, validator=_auth)
    skip_signatures: bool = attrs.field(default=False, kw_only=True, validator=instance_of(bool))
    name: str = attrs.field(default=API_NAME, init=False)
    base_url: str = attrs.field(default="https://generativelanguage.googleapis.com", init=False)
    versions: tuple[str, ...] = attrs.field(default=("/v1beta1", "/v1alpha", "/v1beta", "/v1"), init=False)
    matches_by_id: bool = attrs.field(default=False, init=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), init=False)
    server: ServerHalf = attrs.field(factory=ServerHalf, init=False)

    # --- paths -----------------------------------------------------------------------------------

    def path(self, request: Request) -> str:
        """The path of the model's streamed answers. ``ConfigError`` for a model that no path can name."""
        return f"/{self.version}/{self._resource(request.model)}:streamGenerateContent?alt=sse"

    def models_path(self, after: str | None = None) -> str:
        """A page of the listing, the one that the token ``after`` asks for."""
        page = f"/{self.version}/{self._listing}?pageSize={PAGE}"
        return page if after is None else f"{page}&pageToken={quote(sanitize(after), safe='')}"

    def count_path(self, request: Request) -> str:
        """The path that counts tokens for the model. ``ConfigError`` for a model that no path can name."""
        return f"/{self.version}/{self._resource(request.model)}:countTokens"

    @property
    def _listing(self) -> str:
        """Where models are listed: on Vertex what a publisher has, which belongs to no project."""
        return self.parent[max(0, self.parent.find(PUBLISHERS)) :]

    def _resource(self, model: str) -> str:
        """The model as a path, percent-encoded."""
        return "/".join(quote(name, safe="") for name in self._names(model))

    def _names(self, model: str) -> list[str]:
        """The model as the names of a path. One that is a path itself is kept; on Vertex ``pub/model`` is the model of
        another publisher."""
        model = sanitize(model)
        names = model.split("/")
        if {"", ".", ".."}.intersection(names):
            raise ConfigError("Request.model is empty, or a path that leads elsewhere")
        if self.parent == DEVELOPER:
            return names if model.startswith(KEPT) else [DEVELOPER, model]
        if names[0] == "projects":
            return names
        project = self.parent[: max(0, self.parent.find(PUBLISHERS))].split("/")[:-1]
        if names[0] == PUBLISHERS[:-1]:
            return [*project, *names]
        if len(names) == 2 and names[0] != DEVELOPER:
            return [*project, PUBLISHERS[:-1], names[0], DEVELOPER, names[1]]
        return [*self.parent.split("/"), *(names[1:] if names[0] == DEVELOPER else names)]

    # --- what goes with a request ----------------------------------------------------------------

    def key_headers(self, key: Secret) -> tuple[tuple[str, str], ...]:
        """``x-goog-api-key: KEY`` or ``authorization: Bearer KEY``."""
        name, before = AUTH[self.auth]
        return ((name, before + key.reveal()),)

    def optional_fields(self, request: Request) -> frozenset[str]:
        """``thinkingConfig``, where the request asks for an effort."""
        return optional_fields(request)

    def alternatives(self, request: Request) -> tuple[Alternative, ...]:
        """None: nothing goes by another name."""
        return ()

    def _encoder(self, options: CodecOptions, compat: Compat) -> Encoder:
        return Encoder(
            context_tokens=options.context_tokens,
            image_tokens=options.image_tokens,
            omit=compat.omit,
            skip_signatures=self.skip_signatures,
        )

    def encode(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body of ``request``; raises as ``Encoder.encode`` does."""
        return self._encoder(options, compat).encode(request, measured)

    def encode_count(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body that asks for the tokens of ``request``; raises as ``Encoder.encode_count`` does."""
        model = "/".join(self._names(request.model)) if self.parent == DEVELOPER else None
        return self._encoder(options, compat).encode_count(request, measured, model=model)

    # --- what comes back -------------------------------------------------------------------------

    def decoder(self, options: CodecOptions, clock: Clock) -> Decoder:
        """A decoder for one answer. ``think`` plays no part: thoughts are parts of their own here.

        Raises ``ConfigError`` for quirks, which are of Chat Completions.
        """
        if options.quirks != NONE:
            raise ConfigError("quirks repair Chat Completions; Gemini has none")
        return Decoder(mode=options.mode, limits=options.limits, clock=clock, extra=options.extra)

    def models(self, document: bytes) -> ModelPage:
        """A page of ``{"models": [{"name", "displayName"?}], "nextPageToken"?}``, of Vertex ``publisherModels``; the
        ids are names without the place where they stand. Raises as ``wire.document`` does."""
        page = loosely(document.removeprefix(BOM_UTF8))
        if is_object(page) and page.keys() <= {NEXT}:
            models: tuple[Model, ...] = ()  # an empty list is left out, as every default
        else:
            entries = "publisherModels" if is_object(page) and "publisherModels" in page else DEVELOPER
            page, models = model_listing(document, entries=entries, model_id="name", name="displayName")
        after = page.get(NEXT)
        named = tuple(Model(self._id(model.id), model.name) for model in models)
        return ModelPage(named, after if isinstance(after, str) and after else None)

    def _id(self, name: str) -> str:
        return name.removeprefix(f"{self._listing}/").removeprefix(f"{DEVELOPER}/")

    def count(self, document: bytes) -> int:
        """The tokens of ``{"totalTokens"}``. Raises as ``wire.document`` does."""
        return token_count(document, "totalTokens")


API: Final = Gemini()
