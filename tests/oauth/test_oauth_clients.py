"""What OAuth clients say of themselves: metadata documents, names, and the addresses they are sent back to."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import ONE_ENGINE, Engine
from tests.helpers import Server, eventually, start_server, word
from tests.oauth.flow import LOCAL, Person, Program, mcp
from tests.trust.people import Key

from palaver.operations.admin import oauth_clients


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file


class Publisher:
    """A web site on this machine, over TLS, where clients describe themselves."""

    def __init__(self, certificate: Path) -> None:
        self.pages: dict[str, tuple[int, bytes, dict[str, str]]] = {}
        self.asked: list[str] = []
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked.append(self.path)
                status, body, headers = publisher.pages.get(self.path, (404, b"", {}))
                self.send_response(status)
                for name, value in ({"content-length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"

    def publishes(self, status: int = 200, body: bytes | None = None, **more: Any) -> str:
        """The address of a new document, which is also the id of its client."""
        path = f"/{word('client')}.json"
        url = f"https://{self.host}{path}"
        about = {"client_id": url, "client_name": "Published", "redirect_uris": [LOCAL]} | more
        self.pages[path] = (status, json.dumps(about).encode() if body is None else body, {})
        return url


@contextmanager
def serving(certificate: Path) -> Iterator[Publisher]:
    publisher = Publisher(certificate)
    thread = threading.Thread(target=publisher.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield publisher
    finally:
        publisher.server.shutdown()
        publisher.server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def publisher(certificate: Path) -> Iterator[Publisher]:
    with serving(certificate) as publisher:
        yield publisher


@pytest.fixture(scope="module")
def trusting(
    engine: Engine, publisher: Publisher, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that may read the publisher's site."""
    with start_server(
        tmp_path_factory.mktemp("trusting"),
        PALAVER_AUTH="token",
        PALAVER_DATABASE_URL=engine.fresh(),
        PALAVER_FETCH_HOSTS=publisher.host,
        SSL_CERT_FILE=certificate,
    ) as server:
        yield server


def test_a_client_with_a_document_needs_no_registration(trusting: Server, publisher: Publisher):
    url = publisher.publishes()
    program = Program(trusting, client_id=url)
    person = Person(trusting, Key(trusting))
    shown = person.sees(program.page())
    assert (shown["application"], shown["publisher"]) == ("Published", "127.0.0.1")
    access = program.connect(person)["access_token"]
    assert mcp(trusting, access).ask("tools/list")
    assert publisher.asked.count(urlsplit(url).path) == 1  # it is remembered for a while


@pytest.mark.parametrize(
    "publish",
    [
        lambda publisher: publisher.publishes(client_id="https://other.example/client.json"),
        lambda publisher: publisher.publishes(client_secret="x"),
        lambda publisher: publisher.publishes(token_endpoint_auth_method="client_secret_post"),
        lambda publisher: publisher.publishes(redirect_uris=[]),
        lambda publisher: publisher.publishes(redirect_uris=["http://site.example/"]),
        lambda publisher: publisher.publishes(404),
        lambda publisher: publisher.publishes(302),
        lambda publisher: publisher.publishes(body=b"[]"),
        lambda publisher: publisher.publishes(body=b"{"),
        lambda publisher: publisher.publishes(client_name="x" * 20_000),
        lambda publisher: f"https://{publisher.host}/",
        lambda publisher: f"https://{publisher.host}",
        lambda publisher: publisher.publishes().replace("https", "http"),
        lambda publisher: publisher.publishes() + "#part",
        lambda publisher: publisher.publishes().replace("https://", "https://a@"),
    ],
)  # fmt: skip
def test_a_document_that_is_not_good_makes_no_client(
    trusting: Server, publisher: Publisher, publish: Callable[[Publisher], str]
):
    answer = Program(trusting, client_id=publish(publisher)).asks()
    assert (answer.status_code, "location" in answer.headers) == (400, False)


def test_a_document_that_failed_is_not_read_again_at_once(trusting: Server, publisher: Publisher):
    url = publisher.publishes(404)
    for _ in range(3):
        answer = Program(trusting, client_id=url).asks()
        assert (answer.status_code, "could not read the metadata document" in answer.text) == (400, True)
    assert publisher.asked.count(urlsplit(url).path) == 1


def test_the_server_reads_no_document_in_its_own_network(guarded: Server, publisher: Publisher):
    asked = len(publisher.asked)
    for url in (publisher.publishes(), "https://localhost/x", "https://169.254.169.254/x", "https://[::1]/x"):
        assert Program(guarded, client_id=url).asks().status_code == 400
    assert len(publisher.asked) == asked


def test_a_server_without_the_internet_takes_registered_clients_only(
    engine: Engine, publisher: Publisher, certificate: Path, tmp_path: Path
):
    """A client that reads that documents are supported may not try to register."""
    url = publisher.publishes()
    with start_server(
        tmp_path,
        PALAVER_AUTH="token",
        PALAVER_OAUTH="registration",
        PALAVER_DATABASE_URL=engine.fresh(),
        PALAVER_FETCH_HOSTS=publisher.host,
        SSL_CERT_FILE=certificate,
    ) as server:
        program = Program(server)
        about = program.api.get("/.well-known/oauth-authorization-server").json()
        assert about["client_id_metadata_document_supported"] is False
        assert Program(server, client_id=url).asks().status_code == 400
        assert urlsplit(url).path not in publisher.asked
        assert program.connect(Person(server, Key(server)))


@ONE_ENGINE
def test_slow_documents_of_one_caller_do_not_keep_the_others_waiting(
    engine: Engine, publisher: Publisher, certificate: Path, tmp_path: Path
):
    with socket.create_server(("127.0.0.1", 0)) as slow:  # it accepts, and then says nothing
        host = f"127.0.0.1:{slow.getsockname()[1]}"
        env: dict[str, Any] = {
            "PALAVER_AUTH": "token",
            "PALAVER_FETCH_HOSTS": f"{publisher.host},{host}",
            "SSL_CERT_FILE": certificate,
        }
        before = "from palaver.operations.admin import oauth_clients; oauth_clients.SECONDS = 600"
        with start_server(tmp_path, before=before, **env) as server, ThreadPoolExecutor(6) as threads:
            asking = [
                threads.submit(Program(server, client_id=f"https://{host}/{number}.json").asks) for number in range(6)
            ]
            held = [slow.accept()[0] for _ in range(2)]
            eventually(lambda: sum(one.done() for one in asking) == 4)
            other = Program(server, client_id=publisher.publishes(), address="127.0.0.2")
            assert other.asks().status_code == 302
            for connection in held:
                connection.close()
            assert [one.result().status_code for one in asking] == [400] * 6


def test_only_who_asks_makes_the_server_read_a_document(trusting: Server, publisher: Publisher):
    """The token endpoint knows a client already, or refuses it."""
    url = publisher.publishes()
    assert Program(trusting, client_id=url).exchange("plc_x").status_code == 401
    assert urlsplit(url).path not in publisher.asked


# Redirect addresses

HOSTS = st.sampled_from(["127.0.0.1", "localhost", "[::1]", "evil.example", "127.0.0.1.evil.example", "127.1", ""])
REST = st.text("/:@?#\\.%09azAZ[]\t\n €", max_size=12)
URIS = st.builds(
    lambda scheme, user, host, rest: f"{scheme}:{user}{host}{rest}",
    st.sampled_from(["http", "https", "HTTP", "javascript", "data", "file", "x"]),
    st.sampled_from(["//", "/", "", "//a@", "//a:b@", "\\\\"]),
    HOSTS,
    REST,
)


@given(URIS)
def test_whatever_is_accepted_is_https_or_this_computer(uri: str):
    if oauth_clients.is_redirect_uri(uri):
        parts = urlsplit(uri)
        assert parts.scheme == "https" or parts.hostname in ("127.0.0.1", "localhost", "::1")
        assert parts.username is None
        assert not set("\\\t\n #") & set(uri)


@given(URIS, URIS)
def test_whatever_fits_has_the_host_that_was_registered(registered: str, asked: str):
    if oauth_clients.is_redirect_uri(registered) and oauth_clients.fits_redirect_uri(registered, asked):
        one, other = urlsplit(registered), urlsplit(asked)
        assert (one.scheme, one.hostname, one.query) == (other.scheme, other.hostname, other.query)


@given(st.text())
def test_a_name_is_one_short_line_that_can_be_printed(name: str):
    shown = oauth_clients.display_name(name)
    assert len(shown) <= oauth_clients.LONGEST_NAME
    assert shown.isprintable()
    assert shown == shown.strip()
