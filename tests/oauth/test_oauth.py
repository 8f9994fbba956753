"""Applications connect with OAuth: the whole way, and everything that must not work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.conftest import ONE_ENGINE, Engine
from tests.helpers import Server, Thread, eventually, start_server, started_with, word
from tests.oauth.flow import LOCAL, Person, Program, bearer, mcp, parameters
from tests.trust.people import Key, files_below, make_workspace, with_app


@pytest.fixture(scope="module")
def ann(guarded: Server) -> Key:
    return Key(guarded, name="ann")


@pytest.fixture(scope="module")
def person(guarded: Server, ann: Key) -> Person:
    return Person(guarded, ann)


@pytest.fixture
def program(guarded: Server) -> Program:
    return Program(guarded, name=word("Scribe "))


# How clients find their way


def test_a_refused_request_leads_to_the_metadata(guarded: Server):
    with guarded.client() as api:
        refused = api.post("/mcp", json={})
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        address = f"{guarded.url}/.well-known/oauth-protected-resource/mcp"
        assert challenge == f'Bearer realm="palaver", resource_metadata="{address}", scope="read write"'
        resource = api.get(address).json()
        assert resource["resource"] == f"{guarded.url}/mcp"
        assert resource["authorization_servers"] == [guarded.url]
        assert resource["scopes_supported"] == ["read", "write"]
        server = api.get(f"{guarded.url}/.well-known/oauth-authorization-server").json()
        assert server["issuer"] == guarded.url
        assert server["code_challenge_methods_supported"] == ["S256"]
        assert server["client_id_metadata_document_supported"] is True
        for name in ("authorization", "token", "registration", "revocation"):
            assert server[f"{name}_endpoint"].startswith(guarded.url)
        wrong = api.post("/mcp", json={}, headers={"authorization": "Bearer pla_wrong"})
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]


def test_every_resource_has_metadata_and_nothing_else_has(guarded: Server):
    with guarded.client() as api:
        place = "/.well-known/oauth-protected-resource"
        assert api.get(place).json()["resource"] == guarded.url
        assert api.get(f"{place}/sse").json()["resource"] == f"{guarded.url}/sse"
        assert api.get(f"{place}/api").status_code == 404
        assert "oauth-protected-resource/sse" in api.get("/sse").headers["www-authenticate"]
        assert api.get("/.well-known/openid-configuration").status_code == 404


@ONE_ENGINE
def test_the_public_url_is_the_issuer(engine: Engine, tmp_path):
    env: dict[str, Any] = {"PALAVER_AUTH": "token", "PALAVER_PUBLIC_URL": "https://team.example/"}
    with start_server(tmp_path, **env) as server, server.client() as api:
        assert api.get("/.well-known/oauth-authorization-server").json()["issuer"] == "https://team.example"
        resource = api.get("/.well-known/oauth-protected-resource/mcp").json()
        assert resource["resource"] == "https://team.example/mcp"
        assert "https://team.example/.well-known/" in api.get("/mcp").headers["www-authenticate"]


@ONE_ENGINE
@pytest.mark.parametrize("env", [{}, {"PALAVER_AUTH": "token", "PALAVER_OAUTH": "off"}])
def test_a_server_without_oauth_says_that_there_is_none(engine: Engine, tmp_path, env: dict[str, Any]):
    with start_server(tmp_path, **env) as server, server.client() as api:
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/",
            "/mcp/.well-known/openid-configuration",
            "/register",
        ):
            for method in ("GET", "POST"):
                answer = api.request(method, path)
                assert (answer.status_code, "www-authenticate" in answer.headers) == (404, False)
        if env:
            assert api.post("/mcp", json={}).headers["www-authenticate"] == 'Bearer realm="palaver"'
            assert api.get("/authorize").status_code == 401
        else:
            assert api.get("/authorize").status_code == 404


# The whole way


def test_an_application_connects_and_works_for_the_person_who_let_it_in(
    guarded: Server, ann: Key, person: Person, program: Program
):
    shown = person.sees(program.page())
    assert shown == {
        "application": program.name,
        "publisher": None,
        "returns_to": "this computer",
        "scopes": [{"name": "read", "is_allowed": True}, {"name": "write", "is_allowed": True}],
        "is_whole_server": False,
    }
    answer = person.decides(program.page()).json()["redirect"]
    assert answer.startswith(LOCAL + "?")
    back = parameters(answer)
    assert (back["state"], back["iss"]) == ("some state", guarded.url)
    tokens = program.exchange(back["code"]).json()
    assert tokens["token_type"] == "Bearer"
    assert (tokens["expires_in"], tokens["scope"]) == (3600, "read write")
    thread = Thread(ann.api)
    posted = mcp(guarded, tokens["access_token"]).call("msg_post", thread_id=thread.id, content=word("hello "))
    assert "error" not in posted
    (message,) = [m for m in ann.api.get(f"{thread.path}/messages").json() if m["content"].startswith("hello")]
    assert message["author_name"] == f"{program.name} (ann)"
    (listed,) = [one for one in person.browser.get("/api/applications").json() if one["name"] == program.name]
    assert (listed["person"], listed["scopes"], listed["resource"]) == ("ann", ["read", "write"], "/mcp")
    assert listed["last_used_at"] is not None


def test_the_application_is_an_agent_and_does_not_see_what_is_for_people_only(
    guarded: Server, ann: Key, person: Person, program: Program
):
    thread = Thread(ann.api)
    secret = word("between us ")
    thread.post(secret, author=None, metadata={"visibility": "human_only"})
    access = program.connect(person)["access_token"]
    assert secret not in str(mcp(guarded, access).call("msg_list", thread_id=thread.id))


def test_a_reconnected_application_is_the_same_agent(guarded: Server, ann: Key, person: Person):
    name = word("Quill ")
    first = Program(guarded, name=name)
    first.connect(person)
    again = Program(guarded, name=name)
    again.connect(person)
    elsewhere = Program(guarded, "https://evil.example/callback", name=name)
    elsewhere.connect(person)
    agents = [one["agent"] for one in person.browser.get("/api/applications").json() if one["name"] == name]
    assert len(agents) == 3
    assert agents[0] == agents[1] != agents[2]


def test_the_token_is_for_the_resource_that_was_asked_for(guarded: Server, person: Person, program: Program):
    access = program.connect(person)["access_token"]
    with bearer(guarded, access) as api:
        assert api.get("/api/threads").status_code == 401
        assert api.get("/events").status_code == 401
    for resource in (None, f"{guarded.url}/sse", f"{guarded.url}/mcp/"):
        assert mcp(guarded, program.connect(person, resource=resource)["access_token"]).ask("tools/list")
    whole = program.connect(person, resource=guarded.url)["access_token"]
    with bearer(guarded, whole) as api:
        assert api.get("/api/threads").status_code == 200
        assert api.get("/api/tokens").status_code == 403


@pytest.mark.parametrize(
    "resource", ["https://other.example/mcp", "{}/api", "no address", "http://[", "{}.evil.example/mcp"]
)
def test_a_token_for_another_server_is_not_given(guarded: Server, program: Program, resource: str):
    answer = program.asks(resource=resource.format(guarded.url))
    assert answer.status_code == 302
    back = parameters(answer.headers["location"])
    assert answer.headers["location"].startswith(LOCAL)
    assert (back["error"], back["state"], back["iss"]) == ("invalid_target", "some state", guarded.url)
    refused = program.exchange("plc_any", resource=resource.format(guarded.url))
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")


# Scopes


def test_an_application_gets_what_the_person_chose_and_has(guarded: Server, person: Person, program: Program):
    assert program.connect(person, scopes=("read",))["scope"] == "read"
    page = program.page(scope="read write admin offline_access")
    shown = {one["name"]: one["is_allowed"] for one in person.sees(page)["scopes"]}
    assert shown == {"read": True, "write": True, "admin": False}
    code = parameters(person.decides(page, scopes=("read", "admin")).json()["redirect"])["code"]
    tokens = program.exchange(code).json()
    assert tokens["scope"] == "read"
    refused = mcp(guarded, tokens["access_token"]).answer("thread_create", topic=word())
    assert (refused.is_error, refused.value["error"]) == (True, "FORBIDDEN")
    assert person.decides(page, scopes=("admin",)).status_code == 400
    assert person.decides(page, scopes=()).status_code == 400


def test_an_application_gets_no_more_than_it_asked_for(person: Person, program: Program):
    assert program.connect(person, scope="read")["scope"] == "read"
    assert program.connect(person, scope=None)["scope"] == "read write"
    assert program.connect(person, scope="claudeai")["scope"] == "read write"


def test_a_refreshed_token_can_have_fewer_scopes_but_never_more(person: Person, program: Program):
    tokens = program.connect(person)
    less = program.refresh(tokens["refresh_token"], scope="read").json()
    assert less["scope"] == "read"
    more = program.refresh(less["refresh_token"], scope="read admin")
    assert more.json()["error"] == "invalid_scope"
    assert program.refresh(less["refresh_token"]).json()["scope"] == "read write"


# The person decides


def test_who_says_no_gives_nothing(guarded: Server, person: Person, program: Program):
    back = parameters(person.decides(program.page(), allow=False).json()["redirect"])
    assert (back["error"], back["state"], "code" in back) == ("access_denied", "some state", False)
    assert program.name not in person.browser.get("/api/applications").text


def test_consent_needs_a_login_of_a_person_and_the_csrf_token(
    guarded: Server, ann: Key, person: Person, program: Program
):
    page = program.page()
    given = {"query": page.partition("?")[2], "allow": True, "scopes": ["read"]}
    with guarded.client() as nobody:
        assert nobody.post("/api/oauth/consent", json=given).status_code == 401
    with guarded.client(cookies=person.browser.cookies) as forger:
        assert forger.post("/api/oauth/consent", json=given).status_code == 403
    foreign = {"origin": "https://evil.example"}
    assert person.browser.post("/api/oauth/consent", json=given, headers=foreign).status_code == 403
    agent = Key(guarded, kind="agent", name=word("robo"))
    assert agent.api.post("/api/oauth/consent", json=given).status_code == 403
    whole = program.connect(person, resource=guarded.url)["access_token"]
    with bearer(guarded, whole) as application:
        assert application.post("/api/oauth/consent", json=given).status_code == 403
        assert application.get("/api/applications").status_code == 403


def test_the_consent_page_trusts_nothing_in_its_address(person: Person, program: Program):
    page = program.page()
    for wrong in (
        page.replace(quote(LOCAL, safe=""), quote("https://evil.example/", safe="")),
        page.replace(program.client_id, "somebody"),
        page.replace(program.challenge, "short"),
        page.replace("response_type=code", "response_type=token"),
        page.replace(quote("/mcp", safe=""), quote("/api", safe="")),
        "?",
    ):
        assert wrong != page
        assert person.decides(wrong).status_code == 400


# Redirects


@pytest.mark.parametrize(
    "asked",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:4567/other",
        "http://127.0.0.1.evil.example:4567/callback",
        "http://127.0.0.1:4567/callback?more=1",
        "http://localhost:4567/callback",
        "https://127.0.0.1:4567/callback",
        "http://127.0.0.1@evil.example/callback",
        "http://127.0.0.1:4567/callback#part",
        "//evil.example/callback",
        "javascript:alert(1)",
        None,
    ],
)  # fmt: skip
def test_nobody_is_sent_to_an_address_that_is_not_registered(program: Program, asked: str | None):
    answer = program.asks(redirect_uri=asked)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    wrong_in_other_ways = program.asks(redirect_uri=asked, scope="none", response_type="token")
    assert (wrong_in_other_ways.status_code, "location" in wrong_in_other_ways.headers) == (400, False)


@pytest.mark.parametrize(
    "more", [{"response_type": "token"}, {"resource": "https://other.example"}, {"code_challenge": "x"}]
)
def test_nobody_is_sent_to_a_web_site_before_they_agreed(guarded: Server, more: dict[str, str]):
    """Everybody can register a site, so a redirect with an error would be an open one."""
    answer = Program(guarded, "https://evil.example/").asks(**more)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert answer.json()["error"] in ("invalid_request", "invalid_target", "unsupported_response_type")


def test_a_program_on_this_computer_may_listen_on_any_port(person: Person, program: Program):
    there = "http://127.0.0.1:50505/callback"
    code = program.code(person, redirect_uri=there)
    assert program.exchange(code, redirect_uri=there).status_code == 200


def test_a_site_must_use_its_registered_address(guarded: Server, person: Person):
    program = Program(guarded, "https://site.example:8443/callback?tenant=1")
    assert program.connect(person)
    assert program.asks(redirect_uri="https://site.example:9443/callback?tenant=1").status_code == 400
    assert person.sees(program.page())["returns_to"] == "site.example"


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["http://site.example/callback"],
        ["javascript:alert(1)"],
        ["data:text/html,x"],
        ["cursor://somewhere/callback"],
        ["https://a:b@site.example/"],
        ["https://site.example/#part"],
        ["http://127.0.0.1:99999/"],
        "https://site.example/",
        [7],
    ],
)  # fmt: skip
def test_only_https_and_this_computer_can_be_registered(program: Program, uris: object):
    answer = program.register(redirect_uris=uris)
    assert (answer.status_code, answer.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")) == (
        400,
        True,
    )


def test_a_registration_tells_what_the_client_really_gets(program: Program):
    answer = program.register(
        redirect_uris=["cursor://somewhere/callback", LOCAL],
        token_endpoint_auth_method="client_secret_post",
        client_name="a\u202eb\n" + "x" * 300,
        scope="read openid",
    )
    assert answer.status_code == 201
    got = answer.json()
    assert got["redirect_uris"] == [LOCAL]
    assert got["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in got
    assert got["scope"] == "read"
    assert got["client_name"].startswith("a b x")
    assert len(got["client_name"]) == 80


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\xff", b'{"redirect_uris": null}', b'{"a":' * 5000])
def test_a_bad_registration_is_refused(guarded: Server, body: bytes):
    with guarded.client() as api:
        assert api.post("/register", content=body).status_code == 400


def test_long_bodies_are_refused(guarded: Server, program: Program):
    assert program.register(client_name="x" * 100_000).status_code == 413
    assert program.exchange("x" * 100_000).status_code == 413


# Codes


def test_a_code_works_once_and_a_second_use_revokes_the_application(guarded: Server, person: Person, program: Program):
    code = program.code(person)
    tokens = program.exchange(code).json()
    assert mcp(guarded, tokens["access_token"]).ask("tools/list")
    again = program.exchange(code)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    with bearer(guarded, tokens["access_token"]) as api:
        assert api.post("/mcp", json={}).status_code == 401
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_code_is_worth_nothing_without_its_verifier_client_and_address(
    guarded: Server, person: Person, program: Program
):
    other = Program(guarded)
    code = program.code(person)
    for wrong in (
        program.exchange(code, code_verifier="x" * 43),
        program.exchange(code, code_verifier=program.challenge),
        program.exchange(code, code_verifier=None),
        program.exchange(code, redirect_uri="http://127.0.0.1:4568/callback"),
        program.exchange(code, client_id=other.client_id),
        program.exchange(code, client_id="nobody"),
        program.exchange(code, grant_type="password"),
        program.exchange("plc_" + "x" * 38),
    ):
        assert wrong.status_code in (400, 401)
        assert "access_token" not in wrong.text
    assert program.exchange(code, redirect_uri=None).status_code == 200  # OAuth 2.1 does not ask for it here


@pytest.mark.parametrize(
    "more", [{"code_challenge_method": "plain"}, {"code_challenge": None}, {"code_challenge": "x"}]
)
def test_there_is_no_way_without_pkce_s256(program: Program, more: dict[str, str | None]):
    back = parameters(program.asks(**more).headers["location"])
    assert back["error"] == "invalid_request"
    assert "code" not in back


def test_a_code_runs_out(engine: Engine, tmp_path):
    url = engine.fresh()
    before = "from datetime import timedelta; from palaver.store.admin import oauth; oauth.CODE_LASTS = timedelta(0)"
    with start_server(tmp_path, before=before, PALAVER_AUTH="token", PALAVER_DATABASE_URL=url) as server:
        program = Program(server)
        refused = program.exchange(program.code(Person(server, Key(server))))
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


# Refresh tokens


def test_refresh_tokens_rotate_and_a_second_use_revokes_the_application(
    guarded: Server, ann: Key, person: Person, program: Program
):
    first = program.connect(person)
    second = program.refresh(first["refresh_token"]).json()
    assert {first["access_token"], first["refresh_token"]}.isdisjoint({second["access_token"], second["refresh_token"]})
    assert mcp(guarded, second["access_token"]).ask("tools/list")
    stolen = program.refresh(first["refresh_token"])
    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    assert program.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    with bearer(guarded, second["access_token"]) as api:
        assert api.post("/mcp", json={}).status_code == 401
    trail = with_app(guarded, lambda app: app.audit_log(kind="token", limit=5))
    assert any(entry.facts.get("reason") == "its refresh token was used twice" for entry in trail)


def test_of_many_requests_with_one_refresh_token_at_most_one_succeeds(person: Person, program: Program):
    refresh = program.connect(person)["refresh_token"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: program.refresh(refresh), range(8)))
    assert sum(answer.status_code == 200 for answer in answers) == 1
    assert {answer.status_code for answer in answers} == {200, 400}


def test_of_many_requests_with_one_code_at_most_one_succeeds(person: Person, program: Program):
    code = program.code(person)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: program.exchange(code), range(8)))
    assert sum(answer.status_code == 200 for answer in answers) == 1


def test_a_refresh_token_is_for_its_client_only(guarded: Server, person: Person, program: Program):
    tokens = program.connect(person)
    other = Program(guarded)
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert program.refresh(tokens["access_token"]).json()["error"] == "invalid_grant"
    assert program.refresh(tokens["refresh_token"]).status_code == 200


def test_an_access_token_runs_out_and_closes_its_streams(engine: Engine, tmp_path):
    url = engine.fresh()
    before = (
        "from datetime import timedelta; from palaver.store.admin import oauth; "
        "oauth.ACCESS_LASTS, oauth.LEEWAY = timedelta(seconds=1), timedelta(seconds=8)"
    )
    with start_server(tmp_path, before=before, PALAVER_AUTH="token", PALAVER_DATABASE_URL=url) as server:
        program = Program(server)
        tokens = program.connect(Person(server, Key(server)), resource=server.url)
        with bearer(server, tokens["access_token"]) as api, api.stream("GET", "/events") as stream:
            assert stream.status_code == 200
            for _ in stream.iter_bytes():
                pass  # the server ends it
            assert api.get("/api/threads").status_code == 401
        renewed = program.refresh(tokens["refresh_token"]).json()
        with bearer(server, renewed["access_token"]) as api:
            assert api.get("/api/threads").status_code == 200


def test_an_access_token_is_accepted_a_little_longer_than_the_client_is_told(engine: Engine, tmp_path):
    """The client counts from when it got the token. Otherwise it would be refused in the time between."""
    before = "from datetime import timedelta; from palaver.store.admin import oauth; oauth.ACCESS_LASTS = timedelta(0)"
    with start_server(tmp_path, before=before, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        tokens = Program(server).connect(Person(server, Key(server)))
        assert tokens["expires_in"] == 0
        assert mcp(server, tokens["access_token"]).ask("tools/list")


# The end


def revoke(program: Program, secret: str, **more: str) -> httpx.Response:
    return program.api.post("/revoke", data={"token": secret, "client_id": program.client_id} | more)


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_an_application_gives_its_access_back(guarded: Server, person: Person, program: Program, kind: str):
    tokens = program.connect(person)
    other = Program(guarded)
    assert revoke(other, tokens[kind]).status_code == 200  # it says nothing about the tokens of others
    assert mcp(guarded, tokens["access_token"]).ask("tools/list")
    assert revoke(program, tokens[kind], token_type_hint=kind).status_code == 200
    with bearer(guarded, tokens["access_token"]) as api:
        assert api.post("/mcp", json={}).status_code == 401
    assert program.refresh(tokens["refresh_token"]).status_code == 400
    assert revoke(program, tokens[kind]).status_code == 200
    assert revoke(program, "nonsense", client_id="nobody").status_code == 401


def test_a_person_revokes_their_own_applications_and_an_admin_all_of_the_workspace(
    guarded: Server, person: Person, program: Program
):
    other = Person(guarded, Key(guarded, name=word("bob")))
    admin = Person(guarded, Key(guarded, name="root", scopes=("read", "write", "admin")))
    make_workspace(guarded, name := word("far"))
    stranger = Person(guarded, Key(guarded, name, name="ann", scopes=("read", "write", "admin")))
    tokens = program.connect(person, resource=guarded.url)
    (id,) = [one["id"] for one in person.browser.get("/api/applications").json() if one["name"] == program.name]
    for wrong in (other, stranger):
        assert program.name not in wrong.browser.get("/api/applications").text
        assert wrong.browser.delete(f"/api/applications/{id}").status_code == 404
    assert program.name in admin.browser.get("/api/applications").text
    with bearer(guarded, tokens["access_token"]) as api, api.stream("GET", "/events") as stream:
        assert stream.status_code == 200
        assert person.browser.delete(f"/api/applications/{id}").json() == {"revoked": id}
        for _ in stream.iter_bytes():
            pass  # the server ends it
        assert api.get("/api/threads").status_code == 401
    assert person.browser.delete(f"/api/applications/{id}").status_code == 404
    program.connect(person)
    (id,) = [one["id"] for one in admin.browser.get("/api/applications").json() if one["name"] == program.name]
    assert admin.browser.delete(f"/api/applications/{id}").status_code == 200


def test_an_application_ends_with_the_token_of_its_person(guarded: Server, program: Program):
    key = Key(guarded, name=word("cleo"))
    tokens = program.connect(Person(guarded, key))
    assert mcp(guarded, tokens["access_token"]).ask("tools/list")
    key.revoke()
    with bearer(guarded, tokens["access_token"]) as api:
        assert api.post("/mcp", json={}).status_code == 401
    assert program.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_an_application_ends_with_its_agent_and_comes_back_as_a_new_one(
    guarded: Server, person: Person, program: Program
):
    admin = Key(guarded, name="root", scopes=("read", "write", "admin"))
    tokens = program.connect(person)
    (old,) = [one for one in person.browser.get("/api/applications").json() if one["name"] == program.name]
    assert admin.api.delete(f"/api/agents/{old['agent_id']}").status_code == 200
    with bearer(guarded, tokens["access_token"]) as api:
        assert api.post("/mcp", json={}).status_code == 401
    assert mcp(guarded, program.connect(person)["access_token"]).ask("tools/list")
    (new,) = [one for one in person.browser.get("/api/applications").json() if one["name"] == program.name]
    assert new["agent_id"] != old["agent_id"]


def test_the_terminal_lists_and_revokes_applications(guarded: Server, person: Person, program: Program):
    tokens = program.connect(person)
    listed = started_with(guarded.env, "application", "list")
    (line,) = [line for line in listed.stdout.splitlines() if program.name in line]
    id = line.split()[0]
    assert "ann" in line
    done = started_with(guarded.env, "application", "revoke", id)
    assert done.returncode == 0, done.stderr
    with bearer(guarded, tokens["access_token"]) as api:
        eventually(lambda: api.post("/mcp", json={}).status_code == 401)
    assert started_with(guarded.env, "application", "revoke", id).returncode == 3


# What is stored


@ONE_ENGINE
def test_no_code_and_no_token_is_stored_in_clear(guarded: Server, engine: Engine, person: Person, program: Program):
    code = program.code(person)
    tokens = program.exchange(code).json()
    everything = b"".join(path.read_bytes() for path in files_below(guarded.home))
    for secret in (code, tokens["access_token"], tokens["refresh_token"]):
        assert secret.encode() not in everything


def test_when_clients_are_many_those_that_nobody_uses_are_forgotten_first_where_most_come_from(
    engine: Engine, tmp_path
):
    url = engine.fresh()
    before = "from palaver.store.admin import oauth; oauth.MOST_CLIENTS = 3"
    with start_server(tmp_path, before=before, PALAVER_AUTH="token", PALAVER_DATABASE_URL=url) as server:
        used = Program(server)
        person = Person(server, Key(server))
        used.connect(person)
        revoked = Program(server)
        secret = revoked.connect(person)["access_token"]
        assert revoke(revoked, secret).status_code == 200
        seen = Program(server)
        page = seen.page()
        assert person.sees(page)["application"] == "Scribe"
        elsewhere = Program(server, address="127.0.0.2")
        many = [Program(server) for _ in range(6)]
        known = [one.asks().status_code == 302 for one in many]
        assert known == [False, False, False, False, True, True]
        assert [one.asks().status_code for one in (elsewhere, used, revoked)] == [302] * 3
        assert person.decides(page).status_code == 200


@ONE_ENGINE
def test_one_address_cannot_close_registration_for_the_others(engine: Engine, tmp_path):
    before = "from palaver.doors.oauth import routes; routes.REGISTRATIONS_A_MINUTE = 2"
    with start_server(tmp_path, before=before, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        program = Program(server)
        assert program.register().status_code == 201
        refused = program.register()
        assert (refused.status_code, 0 < int(refused.headers["retry-after"]) <= 60) == (429, True)
        forwarded = program.api.post("/register", json={}, headers={"x-forwarded-for": "192.0.2.7"})
        assert forwarded.status_code == 429  # anybody can write this header
        assert Program(server, address="127.0.0.2").register().status_code == 201
        trusted = Key(server).headers
        given = {"client_name": "Scribe", "redirect_uris": [LOCAL]}
        answers = [program.api.post("/register", json=given, headers=trusted).status_code for _ in range(3)]
        assert answers == [201, 201, 429]
        assert program.api.post("/register", json=given, headers={"authorization": "Bearer no"}).status_code == 429


def registers_for(program: Program, forwarded: str) -> int:
    given = {"client_name": "Scribe", "redirect_uris": [LOCAL]}
    return program.api.post("/register", json=given, headers={"x-forwarded-for": forwarded}).status_code


@ONE_ENGINE
def test_behind_a_proxy_the_address_that_it_adds_is_counted(engine: Engine, tmp_path):
    before = "from palaver.doors.oauth import routes; routes.REGISTRATIONS_A_MINUTE = 1; routes.MOST_CALLERS = 5"
    env: dict[str, Any] = {"PALAVER_AUTH": "token", "PALAVER_PUBLIC_URL": "https://palaver.example"}
    with start_server(tmp_path, before=before, **env) as server:
        proxy = Program(server, client_id="none")
        assert registers_for(proxy, "192.0.2.7") == 201
        assert registers_for(proxy, "198.51.100.1, 192.0.2.7") == 429
        assert registers_for(proxy, "192.0.2.8:4711") == 201
        assert registers_for(proxy, "2001:db8::1") == 201
        assert registers_for(proxy, "[2001:db8::2]:80") == 429
        assert registers_for(proxy, "2001:db8:0:1::1") == 201
        assert registers_for(proxy, "no address") == 201
        assert registers_for(proxy, "neither") == 429
        assert registers_for(proxy, "192.0.2.9") == 201
        assert registers_for(proxy, "192.0.2.7") == 201  # five others came after it, so it was forgotten
