"""The live server: this machine only, the same pages, and a session that runs."""

import json
import socket
from pathlib import Path

from playwright.sync_api import expect

from dashboard_browser import Watched
from dashboard_server import ask, serving
from dashboard_site import build_site, data, make_history
from stored_records import session
from workplace import Workplace


def test_it_answers_to_this_machine_only(place: Workplace) -> None:
    make_history(place.path / "benchmark.db", nights=3)
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
        assert ask(port, "/", "POST")[0] == 501
        assert ask(port, "/feed.xml")[0] == ask(port, "/badges/session.svg")[0] == 200
        listening = Path("/proc/net/tcp").read_text()
        assert f"0100007F:{port:04X}" in listening and f"00000000:{port:04X}" not in listening


def test_pages_are_those_of_the_static_site(place: Workplace) -> None:
    build_site(make_history(place.path / "benchmark.db", nights=3), place.path / "site")
    with serving(place) as port:
        for name in (f"session/{session(1).id}", "search"):
            served = place.path / "served" / "data" / f"{name}.js"
            served.parent.mkdir(parents=True, exist_ok=True)
            served.write_bytes(ask(port, f"/data/{name}.js")[2])
            assert data(place.path / "served", name) == data(place.path / "site", name)


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
        page.get_by_role("link", name="Overview").click()
        expect(page.locator("h2", has_text="Last session")).to_contain_text("now")
        running = json.loads(ask(port, "/live.json")[2])["running"]
        assert running == []
        page.goto("about:blank")  # or it would ask for news of a server that has gone


def test_a_port_that_is_taken_is_told(place: Workplace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = place.run("dashboard", "serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2 and "choose another with --port" in done.stderr
