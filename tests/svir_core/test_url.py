from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.url import Url, is_loopback


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "target", "authority"),
    [
        ("https://api.example.com", "https", "api.example.com", 443, "/", "api.example.com"),
        ("HTTPS://API.Example.com:443/v1/", "https", "api.example.com", 443, "/v1/", "api.example.com"),
        ("https://my_service:8443/a%20b", "https", "my_service", 8443, "/a%20b", "my_service:8443"),
        ("https://example.com./x", "https", "example.com.", 443, "/x", "example.com."),
        ("https://xn--mnchen-3ya.de", "https", "xn--mnchen-3ya.de", 443, "/", "xn--mnchen-3ya.de"),
        ("http://localhost:1234", "http", "localhost", 1234, "/", "localhost:1234"),
        ("http://LOCALHOST", "http", "localhost", 80, "/", "localhost"),
        ("http://127.0.0.1:80/v1", "http", "127.0.0.1", 80, "/v1", "127.0.0.1"),
        ("http://127.255.0.3:8080", "http", "127.255.0.3", 8080, "/", "127.255.0.3:8080"),
        ("http://[::1]:8080/v1", "http", "::1", 8080, "/v1", "[::1]:8080"),
        ("http://[0:0:0:0:0:0:0:1]", "http", "::1", 80, "/", "[::1]"),
        ("https://[2001:DB8::1]", "https", "2001:db8::1", 443, "/", "[2001:db8::1]"),
        ("https://h:00443", "https", "h", 443, "/", "h"),
    ],
)
def test_what_a_url_means(text: str, scheme: str, host: str, port: int, target: str, authority: str) -> None:
    url = Url.parse(text)
    assert (url.scheme, url.host, url.port, url.target, url.authority) == (scheme, host, port, target, authority)


REFUSED: list[Any] = [
    None,
    5,
    b"https://h",
    "",
    "h",
    "h:1234",
    "localhost:1234/v1",
    "//h",
    "ftp://h",
    "ws://h",
    "httpx://h",
    "https:/h",
    "https:h",
    "https://",
    "https:///v1",
    "https://:443",
    "https://h:",
    "https://h:0",
    "https://h:65536",
    "https://h:999999",
    "https://h:+80",
    "https://h:80a",
    "https://h:\uff18\uff10",
    "https://user@h",
    "https://user:password@h",
    "https://@h",
    "https://h?",
    "https://h/v1?api-version=1",
    "https://h#",
    "https://h/v1#part",
    " https://h",
    "https://h ",
    "https://h\n",
    "https://h\r\nx: y",
    "https://h\t.com",
    "https://h\x00",
    "https://h\x7f",
    "https://h/a b",
    "https://münchen.de",
    "https://h/ü",
    "https://\uff45xample.com",
    "https://h\\@evil.com",
    "https://h%2ecom",
    "https://{resource}.example.com",
    "https://h/{deployment}",
    "https://h/%zz",
    "https://h/%4",
    "https://a..b",
    "https://.a",
    "https://-a.de",
    "https://a-.de",
    "https://" + "a" * 64,
    "https://" + ".".join(["a" * 60] * 5),
    "https://[::1",
    "https://::1",
    "https://[::1]x",
    "https://[::1]:x",
    "https://[::g]",
    "https://[]",
    "https://[127.0.0.1]",
    "https://[fe80::1%25eth0]",
    "https://[fe80::1%eth0]",
    "http://127.1",
    "http://2130706433",
    "http://0x7f.0.0.1",
    "http://0x7f000001",
    "http://127.0.0.01",
    "http://127.0.0.256",
    "http://127.0.0.1.",
    "https://example.0",
    "http://example.com",
    "http://192.168.0.1",
    "http://128.0.0.1",
    "http://0.0.0.0",
    "http://[::]",
    "http://[::2]",
    "http://[::ffff:127.0.0.1]",
    "http://localhost.",
    "http://localhost.evil.com",
    "http://my.localhost",
    "http://127.0.0.1.evil.com",
]


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_what_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Url.parse(text)
    error = caught.value
    assert str(error).startswith("the base URL ") or str(error).startswith("the base URL:")
    assert error.__cause__ is None
    assert error.__context__ is None
    if isinstance(text, str) and len(text) > 12:
        assert text not in str(error)
        assert "evil" not in str(error)
        assert "password" not in str(error).replace("user name or password", "")


@pytest.mark.parametrize("host", ["example.com", "192.168.0.1", "[::2]", "my_service:11434", "localhost."])
def test_plain_http_to_another_machine_must_be_asked_for(host: str) -> None:
    assert Url.parse(f"http://{host}", allow_http=True).scheme == "http"
    with pytest.raises(ConfigError, match="allow_http"):
        Url.parse(f"http://{host}")
    assert Url.parse(f"https://{host}").scheme == "https"


@pytest.mark.parametrize("path", ["", "/", "//", "/v1", "/v1/", "/v1//"])
def test_a_base_is_the_same_with_or_without_v1_and_slashes(path: str) -> None:
    url = Url.parse("https://h" + path).as_base().below("/v1/models")
    assert url.target == "/v1/models"


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/api", "/api"),
        ("/api/v1", "/api"),
        ("/api//v1/", "/api"),
        ("/v1/v1", "/v1"),
        ("/v1beta", "/v1beta"),
        ("/xv1", "/xv1"),
        ("/v1/openai", "/v1/openai"),
    ],
)
def test_a_base_below_a_path(path: str, base: str) -> None:
    assert Url.parse("https://h" + path).as_base().path == base


def test_a_query_only_where_it_is_allowed() -> None:
    url = Url.parse("https://h/d/chat/completions?api-version=2024-10-21&x=%20", query=True)
    assert url.target == "/d/chat/completions?api-version=2024-10-21&x=%20"
    assert Url.parse("https://h?x=1", query=True).target == "/?x=1"
    for text in ("https://h?x#y", "https://u@h?x", "https://h?{x}", "https://h?x y"):
        with pytest.raises(ConfigError, match=r"^the endpoint URL"):
            Url.parse(text, what="the endpoint URL", query=True)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chat/completions/", "/api/v1/responses", "/v1/messages"])
def test_the_path_of_requests_is_no_base(path: str) -> None:
    with pytest.raises(ConfigError, match="give what stands before /v1"):
        Url.parse(f"https://h{path}").as_base()


@pytest.mark.parametrize("path", ["/chat", "/messages-api", "/completions"])
def test_a_path_like_those_of_requests_is_a_base(path: str) -> None:
    assert Url.parse(f"https://h{path}").as_base().path == path


def test_a_url_is_a_value_that_shows_nothing() -> None:
    url = Url.parse("https://secret.example/path")
    assert url == Url.parse("HTTPS://SECRET.example:443/path")
    assert hash(url) == hash(Url.parse("https://secret.example/path"))
    assert url != Url.parse("https://secret.example/Path")
    assert str(url) == repr(url) == f"{url}" == "Url(<withheld>)"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.9.9.9", True), ("::1", True), ("::2", False), ("128.0.0.1", False), ("a.b", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


PIECES = st.sampled_from(
    [
        *"https://[]:@?#%.\\ \t\n-_0127xvé\0",
        "localhost",
        "127.0.0.1",
        "::1",
        "/v1",
        "https://",
        "http://",
        "xn--",
        "%2e",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join), st.lists(PIECES).map(lambda p: "https://" + "".join(p))))
def test_any_text_is_a_url_or_a_config_error(text: str) -> None:
    try:
        url = Url.parse(text, allow_http=True, query=True)
    except ConfigError:
        return
    assert url.scheme in ("http", "https")
    assert 0 < url.port < 65536
    assert url.host == url.host.lower()
    assert url.target.startswith("/")
    assert url.target.isascii()
    assert not set(url.target + url.authority) & set(" \r\n\t\0@#\\")
    again = Url.parse(f"{url.scheme}://{url.authority}{url.target}", allow_http=True, query=True)
    assert (again.host, again.port, again.target) == (url.host, url.port, url.target)
