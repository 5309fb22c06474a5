"""Planted secrets, on every sink there is: none is found in anything that a session leaves."""

import re
from pathlib import Path

import pytest

from hook_server import serving
from workplace import Workplace

SECRETS = {
    "HOOK_URL_TAIL": "tail-8f11aa03",
    "SIGNING_KEY": "sign-77be0c1d",
    "WANDB_API_KEY": "f00dfeedf00dfeedf00dfeedf00dfeed0badcafe",
    "MLFLOW_TRACKING_PASSWORD": "mlpw-5521cc90",
    "QUIET_ONE": "quiet-49d0e2b8",
}
LITERAL = "written-out-31ab77"
IN_FILE = "from-a-file-90aa41"

SINK = """
import os

class Talks:
    def __init__(self, options, context):
        self.context = context
        self.secrets = [options["token"], context.secret("FILED_SECRET"), *map(os.environ.get, options["names"])]
    def open(self, plan):
        for secret in self.secrets:
            print("using", secret, flush=True)
            self.context.say("uses " + secret)
    def record(self, record):
        raise RuntimeError("refused: " + " ".join(self.secrets))
"""


@pytest.mark.parametrize("is_down", [False, True])
def test_no_secret_of_any_sink_is_left_anywhere(suite: Workplace, is_down: bool) -> None:
    suite.write("talking.py", SINK)
    suite.write("filed", f"{IN_FILE}\n")
    with serving() as server:
        if is_down:
            server.answers = [(503, {})] * 100
        suite.write("suite.yaml", suite_text(server.server_address[1], is_down=is_down))
        environ = {
            **SECRETS,
            "FILED_SECRET_FILE": str(suite.path / "filed"),
            "PYTHONPATH": str(suite.path),
            "WANDB_MODE": "offline",
        }
        done = suite.run("run", "suite.yaml", "--session-name", "s", "--no-history", **environ)
        sent = suite.run("send", "s", **environ)
        plan = suite.run("plan", "suite.yaml", "--json", **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "sink talks: uses ***" in done.stdout
        assert "record failed: RuntimeError: refused: ***" in done.stdout
        assert bool(server.posted) is not is_down
        # The literal token is on no disk, so it is read from the suite again.
        assert "sink talks: 0 delivered, 1 still waiting (record failed: RuntimeError" in sent.stdout
    texts = {"run": done.stdout + done.stderr, "send": sent.stdout + sent.stderr, "plan": plan.stdout}
    given = {suite.path / name for name in ("suite.yaml", "filed")}
    for path in suite.path.rglob("*"):
        if path.is_file() and path not in given:
            texts[str(path)] = path.read_bytes().decode("latin-1")
    for where, text in texts.items():
        for secret in (*SECRETS.values(), LITERAL, IN_FILE):
            assert secret not in text, f"{secret} is in {where}"


def suite_text(port: int, *, is_down: bool) -> str:
    others = [
        "  - {type: files, name: files, directory: copies}",
        "  - {name: mlflow, tracking_uri: 'http://127.0.0.1:1/', wait_s: 0}",
        "  - {name: wandb, wait_s: 150, live: false}",
    ]
    return "\n".join(
        [
            "secrets: [QUIET_ONE]",
            "sinks:",
            f"  - {{type: webhook, name: hook, url: 'http://127.0.0.1:{port}/${{HOOK_URL_TAIL}}', "
            "secret_env: SIGNING_KEY, wait_s: 2}",
            f"  - {{type: 'talking:Talks', name: talks, token: {LITERAL}, names: [{', '.join(SECRETS)}]}}",
            *(others if not is_down else []),
            "entries: [{name: a, script: count.py}]",
        ]
    )


def test_the_kept_settings_name_variables_and_hold_no_values(suite: Workplace) -> None:
    suite.write(
        "suite.yaml",
        "sinks: [{type: webhook, name: hook, url: 'http://127.0.0.1:1/${HOOK_URL_TAIL}/$$x', wait_s: 0}]\n"
        "entries: [{name: a, script: count.py}]\n",
    )
    suite.run("run", "suite.yaml", "--session-name", "s", "--no-history", **SECRETS)
    kept = Path(suite.path / "results/s/.outbox/hook/spec.json").read_text()
    assert re.search(r'"url": "http://127.0.0.1:1/\$\{HOOK_URL_TAIL\}/\$\$x"', kept)
    told = suite.run("send", "s", HOOK_URL_TAIL="")
    assert told.returncode == 1
    assert "3 still waiting" in told.stdout
