"""Every broken transport, and the clauses that are meant to notice it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import pytest

from svir_client import Transport
from svir_transport.h11 import connection, roundtrip
from svir_transport.h11.channel import TcpChannel
from svir_transport.h11.pool import Pool
from tests.svir_client.testing.around import Around, Response
from tests.svir_client.testing.broken_open import (
    AddsALength,
    AddsUserAgent,
    AlwaysUnsent,
    AsksTheProxy,
    CollectsTheBody,
    ConnectClockForAll,
    CorruptsLargeBlocks,
    DropsAnEmptyBody,
    FitsTheBody,
    FollowsRedirects,
    ForgetsTheBody,
    ForgetsTheConnectClock,
    ForgetsTheIdleClock,
    HoldsResponses,
    IdleClockForAll,
    KeepsCookies,
    KeepsNone,
    LeavesForeignErrorsBehind,
    NeverClosesItself,
    NeverUnsent,
    OpenGivesWay,
    RaisesForeignErrors,
    RaisesForStatus,
    ReadsAhead,
    RepeatsRefusals,
    RepeatsWithoutAnAnswer,
    RoundsClocks,
    SendsTheFirstBody,
    ShowsThePort,
    ShowsTheTarget,
    SortsHeaders,
    TranslatesTheBodysError,
)
from tests.svir_client.testing.broken_response import (
    AcloseClosesEveryResponse,
    AcloseGivesWay,
    AcloseOnce,
    AcloseReadsOn,
    AddsBytes,
    AlwaysComplete,
    AnswersFromACache,
    CollectsTheResponse,
    CutOffWhenClosed,
    Decodes,
    DrainCloses,
    DrainGivesWay,
    DrainRaises,
    DrainsWithoutBounds,
    EndsAfterAFailure,
    EndsWhenClosed,
    JoinsHeaders,
    LosesBytes,
    ReadGivesWay,
    SwallowsFailures,
)


def _no_interim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(roundtrip, "INFORMATIONAL_RESPONSES", 0)


def _small_heads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connection, "HEAD_BYTES", 8 * 1024)


def _large_heads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connection, "HEAD_BYTES", 1 << 30)


def _never_probes(patch: pytest.MonkeyPatch) -> None:
    def always(channel: TcpChannel) -> bool:
        return True

    patch.setattr(TcpChannel, "quiet", always)


def _leaves_leases(patch: pytest.MonkeyPatch) -> None:
    def nothing(pool: Pool) -> None:
        pass

    patch.setattr(Pool, "drop_leases", nothing)


LEAKED: Final[list[socket.socket]] = []


def _leaks_sockets(patch: pytest.MonkeyPatch) -> None:
    def leak(channel: TcpChannel) -> None:
        LEAKED.append(channel._socket)

    patch.setattr(TcpChannel, "close", leak)


class Case(NamedTuple):
    """A broken transport, and every clause that is meant to notice."""

    name: str
    factory: Callable[[], Transport]
    clauses: tuple[str, ...]
    patch: Callable[[pytest.MonkeyPatch], None] | None = None


def _wrapped(kind: type[Around | Response], *clauses: str) -> Case:
    factory = kind if issubclass(kind, Around) else partial(Around, kind)
    return Case(kind.__name__, factory, clauses)


def _patched(patch: Callable[[pytest.MonkeyPatch], None], *clauses: str) -> Case:
    return Case(patch.__name__.strip("_"), Around, clauses, patch)


CASES: Final = (
    _wrapped(SortsHeaders, "request_is_sent_as_given"),
    _wrapped(AddsUserAgent, "nothing_is_added_to_a_request"),
    _wrapped(KeepsCookies, "nothing_is_kept_between_calls"),
    _wrapped(DropsAnEmptyBody, "body_of_no_bytes_is_sent"),
    _wrapped(CorruptsLargeBlocks, "large_body_is_sent_exactly"),
    _wrapped(CollectsTheBody, "body_is_sent_as_it_is_read", "body_is_not_read_ahead"),
    _wrapped(
        ForgetsTheBody,
        "body_is_closed_after_success",
        "body_is_closed_after_failure",
        "body_s_own_exception_passes",
        "cancelled_upload",
    ),
    _wrapped(TranslatesTheBodysError, "body_s_own_exception_passes"),
    _wrapped(FitsTheBody, "body_that_is_too_short", "body_that_is_too_long"),
    _wrapped(AddsALength, "body_and_length_that_contradict"),
    _wrapped(RaisesForStatus, "early_error_is_the_response", "refusals_are_not_repeated"),
    _wrapped(JoinsHeaders, "head_is_as_it_came"),
    _wrapped(
        LosesBytes,
        "body_of_a_length",
        "body_in_chunks",
        "body_that_ends_with_the_connection",
        "large_body_comes_exactly",
        "cut_body_of_a_length",
        "cut_body_in_chunks",
    ),
    _wrapped(AddsBytes, "body_of_no_bytes", "statuses_without_a_body"),
    _wrapped(CollectsTheResponse, "bytes_come_as_they_arrive"),
    _wrapped(Decodes, "body_is_not_decoded"),
    _wrapped(ReadsAhead, "head_comes_before_its_body"),
    _wrapped(FollowsRedirects, "redirects_are_not_followed"),
    _wrapped(RepeatsRefusals, "refusals_are_not_repeated"),
    _wrapped(RepeatsWithoutAnAnswer, "request_that_left_is_not_unsent"),
    _wrapped(AsksTheProxy, "environment_names_no_proxy"),
    _wrapped(ForgetsTheConnectClock, "connect_timeout_bounds_tcp", "connect_timeout_bounds_tls"),
    _wrapped(
        ForgetsTheIdleClock,
        "idle_timeout_bounds_the_head",
        "idle_timeout_bounds_each_read",
        "idle_timeout_bounds_a_write_without_progress",
    ),
    _wrapped(ConnectClockForAll, "connect_timeout_ends_with_the_connection"),
    _wrapped(IdleClockForAll, "idle_timeout_is_no_total", "idle_timeout_waits_for_the_body"),
    _wrapped(RoundsClocks, "endless_timeouts_are_taken"),
    _wrapped(
        NeverUnsent,
        "refused_connection_is_unsent",
        "unknown_name_is_unsent",
        "failed_tls_is_unsent",
        "connect_timeout_bounds_tcp",
        "refused_call_is_unsent",
    ),
    _wrapped(
        AlwaysUnsent,
        "request_that_left_is_not_unsent",
        "request_cut_off_is_not_unsent",
        "idle_timeout_bounds_the_head",
        "bytes_that_are_no_http",
    ),
    _wrapped(RaisesForeignErrors, "refused_connection_is_unsent", "bytes_that_are_no_http"),
    _wrapped(LeavesForeignErrorsBehind, "refused_connection_is_unsent", "bytes_that_are_no_http"),
    _wrapped(ShowsThePort, "refused_connection_is_unsent", "bytes_that_are_no_http"),
    _wrapped(ShowsTheTarget, "refused_connection_is_unsent", "bytes_that_are_no_http"),
    _wrapped(
        SwallowsFailures,
        "cut_body_of_a_length",
        "cut_body_in_chunks",
        "cut_body_never_ends_as_if_whole",
        "reset_inside_a_body",
        "broken_chunks",
        "closed_body_is_no_end",
        "closed_on_this_side_is_a_config_error",
    ),
    _wrapped(EndsAfterAFailure, "cut_body_never_ends_as_if_whole"),
    _wrapped(EndsWhenClosed, "closed_body_is_no_end", "closed_on_this_side_is_a_config_error"),
    _wrapped(CutOffWhenClosed, "closed_on_this_side_is_a_config_error"),
    _wrapped(AlwaysComplete, "bytes_come_as_they_arrive", "cut_body_of_a_length", "aclose_inside_a_body_closes"),
    _wrapped(KeepsNone, "connection_is_kept_after_a_whole_response", "drain_keeps_the_connection"),
    _wrapped(AcloseReadsOn, "aclose_inside_a_body_closes"),
    _wrapped(AcloseOnce, "aclose_is_idempotent"),
    _wrapped(AcloseGivesWay, "aclose_in_a_cancelled_scope_closes", "cancelled_aclose"),
    _wrapped(AcloseClosesEveryResponse, "responses_are_independent", "aclose_is_idempotent"),
    _wrapped(DrainCloses, "drain_keeps_the_connection"),
    _wrapped(DrainsWithoutBounds, "drain_gives_up_beyond_its_limit", "drain_gives_up_after_its_seconds"),
    _wrapped(DrainRaises, "drain_raises_nothing"),
    _wrapped(DrainGivesWay, "cancelled_drain"),
    _wrapped(ReadGivesWay, "cancelled_read"),
    _wrapped(OpenGivesWay, "cancelled_open", "cancelled_upload"),
    _wrapped(HoldsResponses, "dropped_response_gives_its_connection_up"),
    _wrapped(NeverClosesItself, "transport_aclose_closes_idle_connections"),
    _wrapped(SendsTheFirstBody, "concurrent_bodies_are_not_mixed"),
    _wrapped(AnswersFromACache, "concurrent_calls_get_their_own_answers"),
    _patched(_no_interim, "interim_responses_are_skipped"),
    _patched(_small_heads, "head_of_16_kib_is_read"),
    _patched(_large_heads, "head_of_more_than_256_kib_is_refused", "whole_head_of_more_than_256_kib_is_refused"),
    _patched(_never_probes, "connection_that_the_server_closed_is_not_used"),
    _patched(_leaves_leases, "transport_aclose_closes_connections_in_use"),
    _patched(
        _leaks_sockets,
        "connection_is_not_kept_when_the_server_says_so",
        "aclose_waits_for_nothing",
        "cancelled_wait_for_the_head",
        "cancelled_wait_for_the_body",
        "cancelled_task_of_asyncio",
    ),
)
