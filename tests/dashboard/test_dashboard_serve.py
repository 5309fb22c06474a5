"""The live server: this machine only, the same pages, and a session that runs."""

import json
import re
import socket
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from dashboard_browser import Watched
from dashboard_server import ask, serving
from dashboard_site import build_site, data, make_history
from paceline.history import open_store
from stored_records import session
from workplace import Workplace


def test_it_answers_to_this_machine_only(place: Workplace) -> None:
    make_history(place.path / "results/benchmark.db", nights=3)
    with serving(place) as port:
        status, headers, body = ask(port, "/")
        assert status == 200 and b'data-live="1"' in body
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        for host in (
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            f"evil.example:{port}",
            "",
        ):
            assert ask(port, "/", Host=host)[0] == 403, host
            assert ask(port, "/data/overview.js", Host=host)[0] == 403, host
        for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"[::1]:{port}"):
            assert ask(port, "/", Host=host)[0] == 200, host
        for path in (
            "/../../etc/passwd",
            "/data/../benchmark.db",
            "/benchmark.db",
            "/data/case/zz.js",
            "/data/case/00.js",
            "/data/source/99.js/",
        ):
            assert ask(port, path)[0] == 404, path
        assert ask(port, "/", "POST")[0] == 405
        assert ask(port, "/feed.xml")[0] == ask(port, "/badges/session.svg")[0] == 200
        listening = Path("/proc/net/tcp").read_text()
        assert f"0100007F:{port:04X}" in listening and f"00000000:{port:04X}" not in listening


def test_pages_are_those_of_the_static_site(place: Workplace) -> None:
    build_site(make_history(place.path / "results/benchmark.db", nights=3), place.path / "site")
    with serving(place) as port:
        for name in (f"session/{session(1).id}", "search"):
            served = place.path / "served" / "data" / f"{name}.js"
            served.parent.mkdir(parents=True, exist_ok=True)
            served.write_bytes(ask(port, f"/data/{name}.js")[2])
            assert data(place.path / "served", name) == data(place.path / "site", name)


def test_a_page_of_the_server_may_answer_a_finding_and_nobody_else(
    place: Workplace, watched: Watched
) -> None:
    make_history(place.path / "results/benchmark.db")
    with serving(place) as port:
        found = re.search(rb'data-token="([\w-]{20,})"', ask(port, "/")[2])
        assert found
        token, origin = found[1].decode(), f"http://localhost:{port}"
        usual = {"Host": f"localhost:{port}", "Origin": origin, "X-Paceline-Token": token}
        usual["Content-Type"] = "application/json"
        with open_store(place.path / "results/benchmark.db") as store:
            (worse,) = [one for one in store.findings() if one.fails]

        def say(told: Any, **headers: str) -> tuple[int, bytes]:
            body = told if isinstance(told, bytes) else json.dumps(told).encode()
            status, _, answer = ask(port, "/verdict", "POST", body, **{**usual, **headers})
            return status, answer

        right = {"id": worse.incident, "state": "acknowledged", "why": "we look"}
        for status, told, headers in (
            (403, right, {"X-Paceline-Token": "x" * len(token)}),
            (403, right, {"X-Paceline-Token": ""}),
            (403, right, {"Origin": "http://evil.example"}),
            (403, right, {"Origin": "null"}),
            (403, right, {"Host": "evil.example", "Origin": "http://evil.example"}),
            (400, right, {"Content-Type": "text/plain"}),
            (400, b"{", {}),
            (400, [right], {}),
            (400, {**right, "state": "gone"}, {}),
            (400, {**right, "who": "them"}, {}),
            (400, {**right, "why": 7}, {}),
            (413, b" " * 20_000, {}),
            (409, {**right, "id": "nope"}, {}),
            (409, {**right, "state": "expected", "why": " "}, {}),
        ):
            assert say(told, **headers)[0] == status, (told, headers)
        assert ask(port, "/verdict", "GET")[0] == 404
        page = watched.open(f"{origin}/")
        page.get_by_role("button", name=f"Answer {worse.incident}").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Why").fill("it's ours")
        expect(dialog.locator("code")).to_contain_text(
            f"paceline verdict {worse.incident} acknowledged --why"
        )
        dialog.get_by_role("button", name="Store it").click()
        expect(page.locator("[data-total=open]")).to_contain_text("0")
        with open_store(place.path / "results/benchmark.db") as store:
            said = store.finding(worse.id).said
        assert said and (said.state, said.why) == ("acknowledged", "it's ours")
        page.goto("about:blank")


SUITE = """
entries:
  - {name: first, command: [sh, -c, "echo one; echo two"]}
  - name: second
    command: [sh, -c, "echo waiting; until [ -e %s/go ]; do sleep 0.1; done; echo gone"]
"""


def test_a_running_session_updates_itself(place: Workplace, watched: Watched) -> None:
    place.write("paceline.yaml", SUITE % place.path)
    with serving(place) as port:
        page = watched.open(f"http://localhost:{port}/")
        expect(page.locator("h1")).to_have_text("No results yet")
        run = place.start("run", "--session-name", "now")
        expect(page.locator("a.running")).to_contain_text("now is running: 1 of 2 cases done")
        page.locator("a.running").click()
        expect(page.locator("tbody")).to_contain_text("first")
        expect(page.locator(".waiting")).to_contain_text("second")
        expect(page.locator(".waiting")).to_contain_text("running since")
        page.get_by_role("button", name="first").click()
        expect(page.locator("pre.log")).to_contain_text("two")
        (place.path / "go").touch()
        assert run.wait(120) == 0
        expect(page.locator(".waiting")).to_have_count(0)
        expect(page.locator(".counts")).to_contain_text("passed 2")
        page.get_by_role("link", name="Inbox").click()
        expect(page.locator("summary", has_text="Last session")).to_contain_text("now")
        running = json.loads(ask(port, "/live.json")[2])["running"]
        assert running == []
        page.goto("about:blank")  # or it would ask for news of a server that has gone


def test_a_port_that_is_taken_is_told(place: Workplace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = place.run("dashboard", "serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2 and "choose another with --port" in done.stderr
