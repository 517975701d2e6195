"""The server's door: names, origins, sizes, headers, and what can never be fetched."""

import json

import httpx
import pytest

from core.assets import STATIC
from core.settings import Secret
from tests.e2e.scripted import SCRIPTS, ScriptedTeam
from tests.web_suite import settings_in
from webapp.security import MAX_BODY, Door

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("guard")


@pytest.fixture(scope="module")
def app(folder):
    from core.store import open_store
    from webapp.app import create_app

    keys = {"OPENAI_API_KEY": Secret("sk-canary-canary-canary-1"), "TRINITY_KEY_MINE": Secret("canary-2")}
    settings = settings_in(folder, public_url="https://trinity.example", keys=keys)
    (settings.data_dir / ".env").write_text("OPENAI_API_KEY=sk-canary-canary-canary-1")
    return create_app(settings, open_store(settings.url), lambda pool, checkpoint: ScriptedTeam(SCRIPTS))


@pytest.fixture
async def client(app):
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        yield client


async def test_every_reply_carries_the_headers(client):
    for path in ("/healthz", "/", "/trinity/css/trinity.css", "/nothing", "/s/x", "/gradio_api/info"):
        reply = await client.get(path)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "connect-src 'self'" in policy and "object-src 'none'" in policy
        assert "frame-ancestors 'self'" in policy and "huggingface" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "SAMEORIGIN"
        assert reply.headers.get_list("content-security-policy") == [policy]


def test_on_a_space_hugging_face_may_frame_the_page(tmp_path):
    headers = dict(Door.of(settings_in(tmp_path, space_host="me-trinity.hf.space")).headers)
    assert b"frame-ancestors 'self' https://huggingface.co" in headers[b"content-security-policy"]
    assert b"x-frame-options" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:7860", 200),
        ("127.0.0.1:9999", 200),
        ("[::1]:7860", 200),
        ("trinity.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("user@localhost", 421),
        ("evil.example#localhost", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
async def test_only_our_own_names_are_answered(client, host, status):
    assert (await client.get("/healthz", headers={"host": host})).status_code == status


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://127.0.0.1:7860", True),
        ("https://trinity.example", True),
        ("http://127.0.0.1:3000", False),
        ("http://trinity.example", False),
        ("https://evil.example", False),
        ("https://127.0.0.1:7860.evil.example", False),
        ("null", False),
        ("", False),
        ("file://", False),
    ],
)
async def test_a_foreign_origin_is_refused_on_gradio_too(client, origin, allowed):
    headers = {} if origin is None else {"origin": origin}
    for path in ("/gradio_api/queue/join", "/gradio_api/run/predict", "/healthz", "/gradio_api/reset"):
        status = (await client.post(path, json={}, headers=headers)).status_code
        assert (status == 403) is not allowed, (path, status)


async def test_a_cross_site_request_without_an_origin_is_refused(client):
    reply = await client.post("/gradio_api/queue/join", json={}, headers={"sec-fetch-site": "cross-site"})
    assert reply.status_code == 403


async def test_sizes(client):
    big = {"content-length": str(MAX_BODY + 1)}
    assert (await client.post("/gradio_api/queue/join", content=b"", headers=big)).status_code == 413
    wrong = {"content-length": "many"}
    assert (await client.post("/gradio_api/queue/join", content=b"", headers=wrong)).status_code == 413

    async def chunks():
        for _ in range(MAX_BODY // 2**20 + 2):
            yield b"x" * 2**20

    assert (await client.post("/gradio_api/queue/join", content=chunks())).status_code >= 400


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/gradio_api/proxy=https://evil.example/",
        "/gradio_api/component_server",
        "/monitoring/x",
        "/docs",
        "/openapi.json",
        "/redoc",
        "/gradio_api/mcp/",
        "/gradio_api/dev/reload",
        "/gradio_api/deep_link",
        "/gradio_api/vibe-code",
        "/gradio_api/vibe-edit",
        "/login",
        "/login/",
        "/logout",
    ],
)
async def test_closed_paths(client, path):
    assert (await client.get(path)).status_code in (404, 405)
    assert (await client.post(path, json={})).status_code in (404, 405)


async def test_nothing_of_the_data_folder_or_the_machine_is_served(client, folder):
    data = folder / "data"
    secret = (data / ".env").read_text()
    for target in (data / ".env", data / "trinity.sqlite3", "/etc/passwd", "pyproject.toml", ".env"):
        for path in (
            f"/gradio_api/file={target}",
            f"/trinity/js/../../{target}",
            f"/trinity/css/%2e%2e/%2e%2e/{target}",
        ):
            reply = await client.get(path)
            assert reply.status_code in (403, 404), (path, reply.status_code)
            assert secret not in reply.text and "root:" not in reply.text
    assert (await client.get("/trinity/checkpoints/embedded.safetensors")).status_code == 404


async def test_health(client):
    reply = await client.get("/healthz")
    assert reply.json()["status"] == "ok" and reply.json()["team"] in ("loading", "ready")


async def test_share_pages_are_kept_out_of_search_engines_and_say_nothing_of_unknown_links(client):
    page, data = await client.get("/s/whatever"), await client.get("/s/whatever/data?lang=zh")
    for reply in (page, data):
        assert "noindex" in reply.headers["x-robots-tag"] and reply.headers["cache-control"] == "no-store"
    assert page.status_code == 200 and "whatever" not in page.text
    assert data.status_code == 404 and "链接无效" in data.json()["gone"]


async def test_strings_cannot_close_their_script(client):
    assert "<" not in (await client.get("/strings.js")).text


async def test_no_secret_is_in_what_the_page_is_made_of(client):
    for path in ("/", "/config", "/gradio_api/info", "/strings.js", "/healthz"):
        assert "canary" not in (await client.get(path)).text, path


@pytest.mark.parametrize("script", sorted((STATIC / "js").glob("*.js")), ids=lambda path: path.name)
def test_no_script_turns_a_string_into_markup_or_code(script):
    text = script.read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert way not in text, way
    assert "http://" not in text.replace("http://www.w3.org/", "") and "https://" not in text


@pytest.mark.parametrize("address", ["trinity.example.com", "//", "https://", "https:///path"])
def test_a_public_address_without_a_host_opens_no_door(tmp_path, address):
    door = Door.of(settings_in(tmp_path, public_url=address))
    assert door.hosts == {"localhost", "127.0.0.1", "::1"}
    assert door.refuse_host("") and door.refuse_host("[::1")
    assert not door.origins


@pytest.mark.parametrize("number", [9999, -1])
async def test_a_function_that_is_not_there_is_a_plain_404(client, capfd, caplog, number):
    for path in ("/gradio_api/queue/join", "/gradio_api/run/predict"):
        body = {"data": [], "fn_index": number, "session_hash": "s"}
        assert (await client.post(path, json=body)).status_code == 404
    assert "Traceback" not in capfd.readouterr().err + caplog.text


async def test_values_that_no_page_sends_are_answered_without_a_traceback(app, client, capfd):
    """Every event of the page over the wire, with nulls, lone surrogates, lists and numbers in every place."""
    from webapp.app import pages_of

    half = "\ud83d"
    async with app.router.lifespan_context(app):
        for number, fn in pages_of(app).fns.items():
            for value in (None, half, {"a": [half]}, 1e300):
                event = {"action": half, "id": value} if value != 1e300 else value
                body = {
                    "data": [value] * len(fn.inputs), "event_data": event, "fn_index": number,
                    "session_hash": f"s{number}",
                }  # fmt: skip
                if not fn.queue:
                    reply = await client.post("/gradio_api/run/predict", content=json.dumps(body), headers=JSON)
                    assert reply.status_code == 200
                    continue
                reply = await client.post("/gradio_api/queue/join", content=json.dumps(body), headers=JSON)
                assert reply.status_code == 200
                stream = await client.get(f"/gradio_api/queue/data?session_hash=s{number}")
                assert '"process_completed"' in stream.text and '"success":true' in stream.text, (
                    fn,
                    value,
                    stream.text,
                )
    assert "Traceback" not in capfd.readouterr().err
