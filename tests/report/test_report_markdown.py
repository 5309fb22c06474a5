import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from paceline.model import Case, Check, Finding, Measurement, Plan, Record, Report, Requirement, Status
from paceline.record.directory import SessionDir
from paceline.report import markdown
from paceline.report.files import pieces
from report.reports import make_timed

HOSTILE = "<script>alert(1)</script> | `code` **bold** _x_ [link](http://x) ![i](y) & # ~~a~~ \\"


def write(directory: Path, *records: Record, **changes: Any) -> str:
    counts = {status: sum(record.status is status for record in records) for status in Status}
    plan = Plan(session="night", directory=directory)
    report = Report(**{"plan": plan, "records": records, "counts": counts, **changes})
    return b"".join(pieces(markdown.MarkdownWriter(report, SessionDir(directory)), report.records)).decode()


def render(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def test_the_table_has_status_time_metrics_and_requirements(tmp_path: Path) -> None:
    metrics = {"throughput": Measurement(value=1234.5, unit="docs/s", direction="higher")}
    checks = (
        Check(metric="throughput", kind="min_value", bound=2000, actual=1234.5, margin=-765.5, ok=False),
        Check(
            metric="gone",
            kind="max_value",
            bound=1,
            actual=None,
            margin=None,
            ok=False,
            reason="not measured",
        ),
        Check(metric="throughput", kind="max_value", bound=9000, actual=1234.5, margin=1.0, ok=True),
    )
    failed = make_timed(
        "slow", Status.REQUIREMENT_FAILED, metrics=metrics, requirements=checks, reason="too slow"
    )
    text = write(tmp_path, make_timed("good"), failed)
    assert text.startswith("# ❌ night\n\n1 passed, 1 requirement failed of 2 cases.\n")
    assert "| good | ✅ passed | 1.5 s |  |  |" in text
    row = next(line for line in text.splitlines() if line.startswith("| slow"))
    assert "❌ requirement failed" in row
    assert "throughput 1,230 docs/s" in row
    assert "❌ throughput ≥ 2,000 docs/s: got 1,230 docs/s" in row
    assert "❌ gone ≤ 1: not measured" in row
    assert "✅ throughput ≤ 9,000 docs/s: got 1,230 docs/s" in row


def test_failures_have_their_reason_and_last_lines(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    lines = [f"line {number}" for number in range(3000)]
    (tmp_path / "bench" / "stdouterr.log").write_text("\n".join([*lines, "```", "\x1b[31mboom\x1b[0m", ""]))
    text = write(tmp_path, make_timed(status=Status.FAILED, reason="exit code 3"))
    failures = text[text.index("## Failures") :]
    assert "### bench: failed\n\nexit code 3\n" in failures
    assert "````text\nline 2982\n" in failures
    assert failures.rstrip().endswith("line 2999\n```\nboom\n````")


def test_warnings_findings_and_environment_are_shown(tmp_path: Path) -> None:
    facts = {
        "hostname": "box",
        "cpu": {"model": "Fast", "count": 8},
        "memory_bytes": 1 << 34,
        "python": {"version": "3.11.7"},
        "git": {"revision": "abc123", "dirty": True},
        "gpus": [{"name": "G"}],
        "gpu_driver": "550",
    }
    (tmp_path / "environment.json").write_text(json.dumps(facts))
    finding = Finding(judge="j", case="bench", metric="t", verdict="better", message="10% faster")
    text = write(tmp_path, make_timed(warnings=("a child outlived",)), findings=(finding,))
    assert "- bench: a child outlived" in text
    assert "- **better**: bench, t: 10% faster" in text
    for row in (
        "| hostname | box |",
        "| cpu | 8 × Fast |",
        "| memory | 16 GiB |",
        "| git | abc123 with changes |",
    ):
        assert row in text
    assert "| gpus | G (driver 550) |" in text
    assert text.startswith("# ✅")


@pytest.mark.parametrize("content", ["", "{half", "[]", '{"cpu": 1, "gpus": [1], "git": []}'])
def test_a_broken_environment_file_is_not_fatal(tmp_path: Path, content: str) -> None:
    (tmp_path / "environment.json").write_text(content)
    assert "| bench |" in write(tmp_path, make_timed())


def test_why_a_session_is_unfinished_stands_on_top(tmp_path: Path) -> None:
    assert "**the disk is full**" in write(tmp_path, make_timed(), unfinished="the disk is full")


def test_what_never_began_is_listed(tmp_path: Path) -> None:
    plan = Plan(
        session="night",
        directory=tmp_path,
        cases=tuple(Case(name=name, entry=name, key=name) for name in ("bench", "later_one", "last")),
    )
    text = write(tmp_path, make_timed(), plan=plan, interrupted=True)
    assert "Interrupted: 1 passed, 2 not run of 3 cases.\n" in text
    assert text[text.index("## Not run") :].count("\n- ") == 2
    assert "\n- later_one\n- last\n" in text
    assert "## Not run" not in write(tmp_path, make_timed())


def test_a_requirement_is_shown_with_its_tolerance(tmp_path: Path) -> None:
    """A record that was read back does not hold its requirements; the plan does."""
    requirement = Requirement(metric="rows", kind="exact_value", bound=100, tolerance=0.05)
    case = Case(name="bench", entry="bench", key="bench", requirements=(requirement,))
    plan = Plan(session="night", directory=tmp_path, cases=(case,))
    check = Check(metric="rows", kind="exact_value", bound=100, actual=104, margin=0.01, ok=True)
    text = write(tmp_path, make_timed(requirements=(check,)), plan=plan)
    assert "✅ rows = 100 (tolerance 5 %): got 104" in text


def test_foreign_text_is_shown_as_it_is(tmp_path: Path) -> None:
    record = make_timed(HOSTILE, Status.FAILED, reason=HOSTILE, warnings=(HOSTILE,))
    html = render(write(tmp_path, record))
    assert not re.search("<(script|code|a|img|s|em)[ >]", html)
    assert len(re.findall("<td", html)) == 5
    for element in ("td", "p", "li"):
        assert any(HOSTILE in unescape(found) for found in re.findall(f"<{element}>(.*?)</{element}>", html))


@given(st.text(st.characters(), max_size=40))
def test_no_name_breaks_out_of_its_cell(name: str) -> None:
    html = render(write(Path("nowhere"), make_timed(name)))
    assert len(re.findall("<td", html)) == 5
    tags = set(re.findall("<(/?[a-zA-Z0-9]+)", html))
    assert tags <= {
        f"{slash}{tag}"
        for slash in ("", "/")
        for tag in ("h1", "p", "table", "thead", "tbody", "tr", "th", "td")
    }


def test_ordinary_names_are_not_littered_with_backslashes() -> None:
    assert markdown.escape("dedup_removal-v1.2 size=10") == "dedup_removal-v1.2 size=10"


def test_many_failures_are_counted_not_all_told(tmp_path: Path) -> None:
    records = [make_timed(f"c{number}", Status.FAILED) for number in range(130)]
    text = write(tmp_path, *records)
    assert text.count("\n### ") == 100
    assert text.count("| ❌ failed |") == 130
    assert "… and 30 more." in text


def unescape(html: str) -> str:
    return html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
