from __future__ import annotations

import copy
import pickle
import tomllib
import traceback
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.http_message import OWNED_HEADERS, Endpoint, HttpRequest, ResponseHead, caller_headers
from svir_core.secret import Secret
from svir_core.version import VERSION

KEY = "sk-very-secret"


def shown(value: Any) -> str:
    return f"{value!r} {value!s} {value} {[value]!r} {value:}"


# --- headers of callers --------------------------------------------------------------------------


def test_headers_are_taken_in_any_case_and_kept_in_lower_case_and_order() -> None:
    expected = (("x-trace", "1"), ("openai-organization", "org a"), ("accept-language", ""))
    assert caller_headers({"X-Trace": "1", "OpenAI-Organization": " org a\t", "accept-language": ""}) == expected
    assert caller_headers([("X-TRACE", "1"), ("openai-Organization", "org a"), ("Accept-Language", " ")]) == expected
    assert caller_headers(caller_headers(expected)) == expected
    assert caller_headers(()) == ()


@pytest.mark.parametrize("name", ["", " ", "a b", "a:", "a\n", "ü", "(a)", "a/b", "a\0", 5, None, b"a"])
def test_a_name_that_is_no_token_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="token"):
        caller_headers({name: "value"})


@pytest.mark.parametrize("value", ["a\rb", "a\nb", "a\0b", "ü", "a\n", "\x01", "\x7f", 5, None, b"a", ["a"]])
def test_a_value_that_could_break_out_is_refused_without_showing_it(value: Any) -> None:
    with pytest.raises(ConfigError, match="'x-name'") as caught:
        caller_headers({"X-Name": value})
    if isinstance(value, str):
        assert repr(value)[1:-1] not in str(caught.value).replace("value", "").replace("header", "")


@pytest.mark.parametrize("name", sorted(OWNED_HEADERS))
@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.title])
def test_svirs_own_headers_are_refused(name: str, spelling: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        caller_headers({spelling(name): "x"})


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(ConfigError, match="'x-a' is given twice"):
        caller_headers({"X-A": "1", "x-a": "2"})
    with pytest.raises(ConfigError, match="twice"):
        caller_headers([("x-a", "1"), ("x-a", "1")])


@pytest.mark.parametrize(
    "headers", [5, None, "ab", b"ab", ["ab"], [("a",)], [("a", "b", "c")], [5], [None], [{"a", "b"}]]
)
def test_headers_of_another_shape_are_refused(headers: Any) -> None:
    with pytest.raises(ConfigError, match="pairs"):
        caller_headers(headers)


@given(st.dictionaries(st.text(), st.text()) | st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3))))
def test_any_headers_are_clean_or_a_config_error(headers: Any) -> None:
    try:
        clean = caller_headers(headers)
    except ConfigError:
        return
    for name, value in clean:
        assert name == name.lower()
        assert name
        assert (name + value).isascii()
        assert not set(name + value) & set("\r\n\0")
        assert value == value.strip()


# --- endpoints and requests ----------------------------------------------------------------------


class FakeBody:
    length = 12


def post(endpoint: Endpoint, **options: Any) -> HttpRequest:
    body: Any = FakeBody()
    url = endpoint.for_requests("/v1/chat/completions")
    return endpoint.request("POST", url, "text/event-stream", body=body, **options)


def test_a_request_has_every_header_once() -> None:
    endpoint = Endpoint.parse("http://127.0.0.1:1234/v1", api_key=KEY, headers={"X-A": "1", "X-B": "2"})
    request = post(endpoint, key_headers=(("authorization", f"Bearer {KEY}"),), headers=(("x-b", "3"), ("x-c", "4")))
    assert (request.method, request.scheme, request.host, request.port) == ("POST", "http", "127.0.0.1", 1234)
    assert request.target == "/v1/chat/completions"
    assert request.headers == (
        ("host", "127.0.0.1:1234"),
        ("user-agent", f"svir/{VERSION}"),
        ("accept", "text/event-stream"),
        ("accept-encoding", "identity"),
        ("content-type", "application/json"),
        ("content-length", "12"),
        ("x-a", "1"),
        ("x-b", "3"),
        ("x-c", "4"),
        ("authorization", f"Bearer {KEY}"),
    )
    assert request.get("Content-Length") == "12"
    assert request.get("cookie") is None


def test_a_request_without_a_body_says_nothing_of_one() -> None:
    endpoint = Endpoint.parse("https://[2001:db8::1]/api/v1/")
    request = endpoint.request("GET", endpoint.at_base("/v1/models"), "application/json")
    assert request.target == "/api/v1/models"
    assert request.headers == (
        ("host", "[2001:db8::1]"),
        ("user-agent", f"svir/{VERSION}"),
        ("accept", "application/json"),
        ("accept-encoding", "identity"),
    )
    assert request.body is None


def test_a_caller_may_say_who_asks() -> None:
    endpoint = Endpoint.parse("https://h", headers={"User-Agent": "app/1"})
    assert post(endpoint).get("user-agent") == "app/1"
    assert [name for name, _ in post(endpoint).headers].count("user-agent") == 1


def test_a_whole_url_takes_requests_and_the_base_lists_models() -> None:
    url = "https://r.openai.example/openai/deployments/d/chat/completions?api-version=2024-10-21"
    endpoint = Endpoint.parse("https://other.example:8443/base/v1", url=url)
    assert post(endpoint).target == "/openai/deployments/d/chat/completions?api-version=2024-10-21"
    assert post(endpoint).get("host") == "r.openai.example"
    assert (endpoint.scheme, endpoint.host, endpoint.port) == ("https", "r.openai.example", 443)
    assert endpoint.base_path == "/base"
    models = endpoint.at_base("/v1/models")
    assert (models.host, models.port, models.target) == ("other.example", 8443, "/base/v1/models")


def test_a_whole_url_alone_lists_no_models() -> None:
    endpoint = Endpoint.parse(None, url="https://h/x/v1/")
    assert post(endpoint).target == "/x/v1/"
    assert endpoint.base_path == ""
    with pytest.raises(ConfigError, match="nothing else of the server"):
        endpoint.at_base("/v1/models")
    for broken in (lambda: Endpoint.parse(None), lambda: Endpoint(None).host):
        with pytest.raises(ConfigError, match="base URL, or the whole URL"):
            broken()


@pytest.mark.parametrize("url", ["http://example.com/x", "https://u@h/x", "https://h/x#y", "x", ""])
def test_the_whole_url_keeps_the_rules_too(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^the endpoint URL"):
        Endpoint.parse("https://h", url=url)


def test_an_endpoint_refuses_a_key_or_headers_that_are_wrong() -> None:
    wrong: Any
    for wrong in ("", "a b", 5, b"key"):
        with pytest.raises(ConfigError):
            Endpoint.parse("https://h", api_key=wrong)
    with pytest.raises(ConfigError, match="authorization"):
        Endpoint.parse("https://h", headers={"Authorization": "Bearer x"})
    assert Endpoint.parse("https://h", api_key=Secret(KEY)).key == Secret(KEY)


WHOLE: dict[str, Any] = {
    "method": "GET",
    "scheme": "https",
    "host": "private.example",
    "port": 443,
    "target": "/private?x=1",
    "headers": (("host", "private.example"), ("x-a", "private value"), ("x-b", "")),
}


NO_HTTP: list[tuple[str, Any]] = [
    *(("method", value) for value in ("", "GE T", "G\r\n", "\xe9", None)),
    *(("scheme", value) for value in ("", "HTTPS", "ftp", "ws", "http ", None, 5)),
    *(("host", f"private{value}") for value in ("/x", "@h", " ", "\n", "?", "#", "[", "]", "\\", "\xe9", "\x7f")),
    *(("host", value) for value in ("", None)),
    *(("port", value) for value in (0, -1, 65536, True, "443", None)),
    *(("target", value) for value in ("", "/private x", "/private\r\n", "/private\xe9", None)),
    *(("header's name", (("host", "h"), (value, "1"))) for value in ("", "X-A", "a b", "a:", "\xe9", None)),
    *(
        ("value of header 'x-a'", (("host", "h"), ("x-a", value)))
        for value in ("private\r\nb: 1", "private\n", "private\x00", "caf\xe9", " private", "private\t", None)
    ),
    *(("one host header", value) for value in ((), (("x", "1"),), (("host", "a"), ("host", "b")))),
    *(("headers are no tuple", value) for value in (None, 5, [("host", "h")], ("host",), (("host", "h", "x"),))),
]


@pytest.mark.parametrize(("field", "wrong"), NO_HTTP)
def test_a_request_that_is_no_http_is_none(field: str, wrong: Any) -> None:
    changes = {field: wrong} if field in WHOLE else {"headers": wrong}
    with pytest.raises(ConfigError, match=field) as caught:
        HttpRequest(**{**WHOLE, **changes})
    error = caught.value
    assert error.unsent
    assert error.__context__ is None
    told = str(error)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename != __file__:
            told += repr({name: value for name, value in frame.f_locals.items() if name != "self"})  # half made
    assert "private" not in told
    assert "caf" not in told


def test_a_request_that_is_http() -> None:
    request = HttpRequest(**WHOLE)
    assert request.origin == ("https", "private.example", 443)
    assert repr(request.origin) == "Origin(<withheld>)"
    assert attrs.asdict(request, recurse=False) == {**WHOLE, "body": None}
    assert attrs.evolve(request, host="::1", target="*").origin == ("https", "::1", 443)
    assert hash(request) == hash(HttpRequest(**WHOLE))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        request.port = 1  # type: ignore[misc] # what is refused


def test_nothing_private_is_shown() -> None:
    endpoint = Endpoint.parse("https://private.example/private", api_key=KEY, headers={"x-a": "private"})
    request = post(endpoint, key_headers=(("authorization", f"Bearer {KEY}"),))
    for value in (endpoint, request):
        assert "private" not in shown(value)
        assert KEY not in shown(value)
        assert "x-a: <withheld>" in repr(value)
    head = ResponseHead(200, [("Set-Cookie", "private")])
    assert shown(head).count("private") == 0
    assert "status=200" in repr(head)


def test_values_compare() -> None:
    def make() -> Endpoint:
        return Endpoint.parse("https://h/v1", headers={"x-a": "1"})

    endpoint = make()
    assert endpoint == make()
    assert hash(endpoint) == hash(make())
    assert attrs.evolve(endpoint, key=Secret(KEY)) == Endpoint.parse("https://h/v1", api_key=KEY, headers={"x-a": "1"})
    assert endpoint.request("GET", endpoint.at_base("/x"), "y") == make().request("GET", make().at_base("/x"), "y")
    head = ResponseHead(200, [("A", "b")])
    assert pickle.loads(pickle.dumps(head)) == copy.deepcopy(head) == head


# --- response heads ------------------------------------------------------------------------------


def test_a_head_takes_text_and_bytes_in_any_case() -> None:
    head = ResponseHead(200, [("Content-Type", " text/event-stream "), (b"X-B", b"\xe9"), ("x-b", "2")])
    assert head.headers == (("content-type", "text/event-stream"), ("x-b", "\xe9"), ("x-b", "2"))
    assert head.get("CONTENT-type") == "text/event-stream"
    assert head.get("x-b") == "\xe9, 2"
    assert head.get("x-c") is None
    assert ResponseHead(204).headers == ()


def test_a_head_takes_a_mapping_too() -> None:
    headers: Any = {"Content-Type": b"text/html"}
    assert ResponseHead(200, headers).headers == (("content-type", "text/html"),)


@pytest.mark.parametrize("headers", [None, 5, "ab", b"ab", ["ab"], [("a", "b", "c")], [("a", 1)], [(None, "b")]])
def test_received_headers_of_another_shape_are_refused(headers: Any) -> None:
    with pytest.raises(ConfigError, match="headers"):
        ResponseHead(200, headers)


@given(st.integers(100, 999), st.lists(st.tuples(st.binary() | st.text(), st.binary() | st.text())))
def test_any_received_headers_can_be_looked_at(status: int, headers: Any) -> None:
    head = ResponseHead(status, headers)
    for name, _ in head.headers:
        assert head.get(name) is not None


def test_the_version_is_the_distributions() -> None:
    root = Path(__file__).parents[2]
    for folder in ("svir_core", "svir_client", "svir_transport/h11"):
        project = tomllib.loads((root / folder / "pyproject.toml").read_text())["project"]
        assert project["version"] == VERSION


def test_nothing_that_may_hold_a_credential_is_pickled() -> None:
    endpoint = Endpoint.parse("https://h", headers={"x-a": KEY})
    for value in (endpoint, post(endpoint)):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(ConfigError, match=type(value).__name__) as caught:
                pickle.dumps([value], protocol)
            assert KEY not in str(caught.value)
        assert copy.copy(value) == copy.deepcopy([value])[0] == value


def test_checked_headers_are_a_tuple_that_shows_the_names_alone() -> None:
    headers = caller_headers({"X-A": KEY, "x-b": KEY})
    assert headers == (("x-a", KEY), ("x-b", KEY))
    assert shown(headers).count("x-a: <withheld>") == shown(headers).count("x-b: <withheld>") == 5
    assert KEY not in shown(headers)


@pytest.mark.parametrize("of_the_call", [False, True])
def test_a_header_that_the_key_would_replace_is_refused(of_the_call: bool) -> None:
    given = (("x-api-key", "mine"),)
    endpoint = Endpoint.parse("https://h", headers=() if of_the_call else given)
    with pytest.raises(ConfigError, match="'x-api-key' carries the key") as caught:
        post(endpoint, key_headers=(("x-api-key", KEY),), headers=given if of_the_call else ())
    assert "mine" not in str(caught.value)
