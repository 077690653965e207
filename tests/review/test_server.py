"""Every address of the server, and every way in which it refuses: a real one, on a free port."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from messages import mentions
from recording_files import channel, write_edf
from review_nights import STRICT, TOKEN, asked, served, write_probabilities
from stageguard.errors import OutputError
from stageguard.formats.registry import formats
from stageguard.review.access import MOST_BODY_BYTES
from stageguard.review.review import ReviewSession
from stageguard.review.server import ReviewServer

N_EPOCHS = 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("review")
    write_probabilities(folder / "night.csv")
    seconds = N_EPOCHS * 30
    write_edf(folder / "night.edf", [channel(name, seconds, 16) for name in ("EEG C4-M1", "EOG E1-M2")])
    (folder / "cut.csv").write_text("W,N,R\n0.5,0.2\n")
    return folder


@pytest.fixture(scope="module")
def running(folder):
    nights = [asked(folder / "night.csv", edf=folder / "night.edf"), asked(folder / "cut.csv")]
    with served(ReviewSession(nights, "anna")) as pair:
        yield pair


@pytest.fixture
def client(running) -> httpx.Client:
    """The client, with the night as it was at first."""
    _, client = running
    while (state := client.get("/api/nights/0").json())["can_undo"]:
        act(client, {"do": "undo"}, state["revision"])
    return client


def act(client, action, revision=None, **more):
    if revision is None:
        revision = client.get("/api/nights/0/revision").json()["revision"]
    return client.post("/api/nights/0/actions", json={"revision": revision, "action": action} | more)


def array(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_the_page_and_its_files_are_served_with_strict_headers(client):
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    names = ["style.css", "main.js", "colours.css"]
    for answer in (page, *(client.get(f"/page/{name}") for name in names), client.get("/nothing")):
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
    assert client.get("/page/main.js").headers["content-type"].startswith("text/javascript")


def test_the_list_of_nights_tells_what_is_wrong_with_one(client):
    overview = client.get("/api/nights").json()
    first, second = overview["nights"]
    assert (first["name"], first["epochs"], first["error"], first["has_signals"]) == ("night", 80, None, True)
    assert second["error"].startswith("cut.csv:")
    assert "\n" not in second["error"]
    assert overview["profiles"][0] == STRICT
    assert client.get("/api/nights/1").status_code == 404


def test_the_state_of_a_night(client):
    state = client.get("/api/nights/0").json()
    assert (state["epochs"], state["epoch_seconds"]) == (N_EPOCHS, 30.0)
    assert [each["key"] for each in state["stages"]] == ["w", "s", "r"]
    assert len(array(state["stager"], np.int8)) == len(array(state["guard"], np.int8)) == N_EPOCHS
    assert array(state["probabilities"], np.uint8).reshape(N_EPOCHS, 3).sum(axis=1).tolist() == pytest.approx(
        [200] * N_EPOCHS, abs=2
    )
    assert (array(state["pinned"], np.int8) == -1).all()
    names = [each["name"] for each in state["formats"]]
    assert names[0] == "stageguard-tsv"
    assert {"edf-annotations", "yasa-json", "accusleepy-csv"} <= {*names}
    assert {"changes", "queue", "statistics", "indicators", "joint", "settings"} <= state.keys()
    json.dumps(state, allow_nan=False)


def test_an_action_is_answered_with_what_it_changed(client):
    answer = act(client, {"do": "set", "first": 11, "last": 13, "stage": 2, "why": "sawtooth"})
    assert answer.status_code == 200
    state = answer.json()
    assert array(state["pinned"], np.int8)[11:14].tolist() == [2] * 3
    assert array(state["guard"], np.int8)[11:14].tolist() == [2] * 3
    assert not {"stager", "probabilities", "changes", "queue"} & state.keys()
    explained = client.get("/api/nights/0/explain/12").json()
    assert explained["pin"] | {"when": ""} == {
        **{"stage": 2, "who": "anna", "when": "", "why": "sawtooth", "is_agreed": False},
    }
    assert mentions(explained["text"][0], 13, "R", "anna")
    queue = client.get("/api/nights/0/queue").json()
    assert queue["revision"] == state["revision"]
    assert all(not one["first"] <= 12 <= one["last"] for one in queue["queue"]["epochs"])


def test_an_action_on_an_older_revision_changes_nothing(client):
    revision = client.get("/api/nights/0/revision").json()["revision"]
    assert act(client, {"do": "set", "first": 20, "last": 22, "stage": 1}, revision).status_code == 200
    for old in (revision, -1, None, True, "x", 10**30):
        answer = client.post(
            "/api/nights/0/actions",
            json={"revision": old, "action": {"do": "set", "first": 4, "last": 4, "stage": 1}},
        )
        assert answer.status_code == 409
        assert answer.json()["state"]["revision"] == revision + 1


def test_a_conflict_comes_with_actions_that_resolve_it(client):
    act(client, {"do": "set", "first": 10, "last": 10, "stage": 0})
    act(client, {"do": "set", "first": 12, "last": 12, "stage": 0})
    answer = act(client, {"do": "set", "first": 11, "last": 11, "stage": 2})
    assert answer.status_code == 422
    conflict = answer.json()["conflict"]
    assert conflict["pins"] == [10, 11, 12]
    assert array(answer.json()["state"]["pinned"], np.int8)[11] == -1
    chosen = next(one for one in conflict["relax"] if one["label"].startswith("Take back"))
    solved = act(client, chosen["action"])
    assert solved.status_code == 200
    assert array(solved.json()["guard"], np.int8)[11] == 2


@pytest.mark.parametrize(
    "action",
    [
        None,
        [],
        {"do": "set", "first": 80, "last": 80, "stage": 0},
        {"do": "set", "first": 0, "last": 0, "stage": 3},
        {"do": "profile", "name": "/etc/passwd"},
        {"do": "profile", "name": "human-psg-5"},  # other stages
        {"do": "clock", "value": True},  # the profile has none
        {"do": "clear", "first": 0, "last": 5},
        {"do": "undo"},  # there is nothing left to undo
    ],
)
def test_a_wrong_action_is_one_line(client, action):
    answer = act(client, action)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"set"', b"\xff", b"[" * 5000])
def test_a_body_that_is_no_json_object_is_refused(client, body):
    answer = client.post("/api/nights/0/actions", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "the body is no JSON object."})


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_body_that_is_too_large_is_refused(client, in_pieces):
    content = b" " * (MOST_BODY_BYTES + 1)
    sent = iter([content[:100], content[100:]]) if in_pieces else content
    answer = client.post("/api/close", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_who_comes_from_elsewhere_is_refused(running, headers, status):
    server, client = running
    headers = {name: text.replace("{port}", str(server.port)) for name, text in headers.items()}
    with httpx.Client(base_url=str(client.base_url)) as stranger:
        assert stranger.get("/api/nights", headers=headers | {TOKEN: server.token}).status_code == status
        if status != 200:  # not even the page's files, which need no token
            assert stranger.get("/", headers=headers).status_code == status


DATA = (
    "/api/nights",
    "/api/nights/0",
    "/api/nights/0/queue",
    "/api/nights/0/signals?first=0&count=1",
    "/api/x",
)


def test_without_the_token_no_data_is_served(running):
    server, client = running
    near = (server.token[:-1], server.token + "x", server.token.swapcase(), "", "ü")
    with httpx.Client(base_url=str(client.base_url)) as stranger:
        for path in DATA:
            assert client.get(path).status_code in (200, 404)
            for headers in ({}, *({TOKEN: text.encode()} for text in near)):
                answer = stranger.get(path, headers=headers)
                assert answer.status_code == 403, path
                assert mentions(answer.json()["error"], "address", "that stageguard printed")
            assert stranger.get(f"{path}?token={server.token}").status_code == 403
            assert stranger.get(path, headers={"Cookie": f"token={server.token}"}).status_code == 403
            twice = [(TOKEN, server.token), (TOKEN, server.token)]
            assert stranger.get(path, headers=twice).status_code == 403
        assert stranger.post("/api/close", json={}).status_code == 403
        assert server.is_running


def test_the_token_is_in_no_cookie_and_in_no_address_that_is_sent(running):
    """A browser sends cookies to every port of a host, and an address without what follows #."""
    server, client = running
    assert server.url.partition("#")[2] == f"token={server.token}"
    with httpx.Client(base_url=str(client.base_url)) as stranger:
        answers = [stranger.get(path) for path in ("/", "/page/main.js", f"/?token={server.token}")]
    answers += [client.get(path) for path in ("/", *DATA)]
    for answer in answers:
        assert "set-cookie" not in answer.headers
        assert server.token not in answer.text
        assert server.token not in str(answer.headers)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, "/api/nights/0").status_code == 405


def test_a_form_of_another_site_cannot_post(client):
    answer = client.post("/api/close", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert client.get("/api/close").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        *("/page/../server.py", "/page/..%2fserver.py", "/page/%2e%2e/server.py", "/page//etc/passwd"),
        *("/page/..\\server.py", "/page/index.html%00.js", "/page/.", "/page/", "/nothing"),
        *("/api/nights/7", "/api/nights/-1", "/api/nights/x", "/api/nights/0/explain/80"),
        *("/api/nights/" + "9" * 5000, "/api/nights/0/explain/" + "9" * 5000),
    ],
)
def test_no_other_file_and_no_other_night_is_served(running, path):
    """Byte by byte as it is written: a client would tidy the path up."""
    server, _ = running
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
    token = f"{TOKEN}: {server.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
        plain.sendall((head + token).encode())
        answer = b"".join(iter(lambda: plain.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:100]
    assert b"root:" not in answer
    assert b"import " not in answer


def test_signals_of_some_epochs_and_the_spectrogram_of_all(client):
    sent = client.get("/api/nights/0/signals?first=78&count=8").content
    length = int.from_bytes(sent[:4], "little")
    answer = json.loads(sent[4 : 4 + length])
    assert [each["name"] for each in answer["channels"]] == ["EEG C4-M1", "EOG E1-M2"]
    samples = [each["samples"] for each in answer["channels"]]
    assert samples == [2 * 30 * 16] * 2  # no epoch beyond the last
    assert len(sent) == 4 + length + 4 * sum(samples)
    assert answer["seconds"] == [78 * 30.0, 80 * 30.0]
    picture = client.get("/api/nights/0/spectrogram?channel=EOG%20E1-M2").json()
    assert len(array(picture["values"], np.uint8)) == picture["columns"] * picture["rows"]
    assert (picture["columns"], picture["hz"], picture["channel"]) == (80, [0.5, 30.0], "EOG E1-M2")


LANES_REFUSED = (
    "",
    "C4",
    "[" * 5000,
    '{"plus": "none"}',
    '{"plus": "EEG C4-M1", "minus": "EEG C4-M1"}',
    '{"plus": "EEG C4-M1", "high_pass_hz": "x"}',
)


@pytest.mark.parametrize(
    "query",
    [
        *(
            "first=80&count=1",
            "first=0&count=0",
            "first=0&count=65",
            "first=-1&count=1",
            "count=1",
            "first=0",
        ),
        *("first=0&first=1&count=1", "first=0&count=1&columns=0", "first=0&count=1&columns=99999"),
        *("first=0&count=1&lane=" + quote(lane) for lane in LANES_REFUSED),
        "first=0&count=1" + "&lane=%7B%22plus%22:%22EOG%20E1-M2%22%7D" * 33,
    ],
)
def test_signals_that_are_not_there_are_one_line(client, query):
    answer = client.get(f"/api/nights/0/signals?{query}")
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}


def test_every_format_on_offer_is_exported_and_any_other_says_why_not(client, folder):
    offered = [form["name"] for form in client.get("/api/nights/0").json()["formats"]]
    for form in formats():
        if not form.does("write"):
            continue
        answer = client.post("/api/nights/0/export", json={"format": form.name})
        assert answer.status_code == (200 if form.name in offered else 400), form
        if answer.status_code == 200:
            assert Path(answer.json()["file"]).parent == folder
            assert Path(answer.json()["file"]).stat().st_size > 0
        else:
            expected = f"{form.title} cannot hold the stages W, N, R. Choose another format."
            assert answer.json()["error"] == expected
    assert "nsrr-xml" not in offered
    assert client.post("/api/nights/0/export", json={"format": 3}).status_code == 400


def test_a_fault_is_one_line_without_a_trace(running, client, monkeypatch):
    monkeypatch.setattr(ReviewSession, "overview", lambda self: 1 / 0)
    with httpx.Client(base_url=str(client.base_url), headers=client.headers) as other:
        answer = other.get("/api/nights")
    assert answer.status_code == 500
    assert answer.json() == {"error": "unexpected ZeroDivisionError: a fault of stageguard's."}


def test_a_port_that_is_taken_is_one_line(running, folder):
    server, _ = running
    with pytest.raises(OutputError, match=rf"^port {server.port} cannot be used"):
        ReviewServer(ReviewSession([], "anna"), server.port)


def test_the_server_ends_when_it_is_told_to(tmp_path):
    write_probabilities(tmp_path / "night.csv")
    with served(ReviewSession([asked(tmp_path / "night.csv")], "anna")) as (server, client):
        assert client.get("/api/nights/0").status_code == 200
        assert client.post("/api/close", json={}).json() == {"closed": True}
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)
    assert [path.name for path in tmp_path.iterdir()] == ["night.csv"]


def test_artefacts_are_the_quality_that_the_page_shows(client):
    state = act(client, {"do": "artefact", "first": 1, "last": 1, "value": True}).json()
    assert array(state["quality"], np.uint8)[:3].tolist() == [100, 0, 100]
    assert array(state["artefact"], np.int8)[:3].tolist() == [0, 1, 0]
    assert state["settings"]["can_choose"]
