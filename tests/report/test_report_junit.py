from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from paceline.model import Check, Measurement, Plan, Record, Report, Status
from paceline.record.directory import SessionDir
from paceline.report import files as junit
from paceline.report.files import pieces
from report.reports import make_timed

any_text = st.text(st.characters(), max_size=30)


def write(directory: Path, *records: Record, session: str = "s") -> ElementTree.Element:
    counts = {status: sum(record.status is status for record in records) for status in Status}
    report = Report(plan=Plan(session=session, directory=directory), records=records, counts=counts)
    return ElementTree.fromstring(
        b"".join(pieces(junit.JunitWriter(report, SessionDir(directory)), report.records))
    )


def test_every_status_has_its_element(tmp_path: Path) -> None:
    suites = write(tmp_path, *(make_timed(status.value, status, reason=f"why {status}") for status in Status))
    suite = suites[0]
    expected = {"tests": "8", "failures": "3", "errors": "3", "skipped": "1"}
    assert dict(suites.attrib) == expected
    assert dict(suite.attrib) == {"name": "s", **expected}
    found = {
        case.attrib["name"]: [(child.tag, child.attrib.get("message")) for child in case] for case in suite
    }
    assert found == {
        "passed": [],
        "failed": [("failure", "why failed")],
        "requirement_failed": [("failure", "why requirement_failed")],
        "timeout": [("failure", "why timeout")],
        "launch_error": [("error", "why launch_error")],
        "infra_error": [("error", "why infra_error")],
        "skipped": [("skipped", "why skipped")],
        "interrupted": [("error", "why interrupted")],
    }


def test_requirements_metrics_and_output_are_in_it(tmp_path: Path) -> None:
    check = Check(
        metric="t", kind="max_value", bound=1, actual=2, margin=-1.0, ok=False, reason="2 is above 1"
    )
    record = make_timed(
        status=Status.REQUIREMENT_FAILED,
        reason="one requirement",
        requirements=(check,),
        metrics={"t": Measurement(value=2)},
        exec_time_s=float("nan"),
    )
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "stdouterr.log").write_bytes(
        b"first\n\x1b[31mred\x1b[0m \x00 <tag> ]]>\n\xff last\n"
    )
    case = write(tmp_path, record)[0][0]
    assert case.attrib["time"] == "0.000000"
    assert [prop.attrib for prop in case.iter("property")] == [{"name": "t", "value": "2"}]
    assert case.findtext("failure") == "one requirement\nt: 2 is above 1"
    assert case.findtext("system-out") == "first\nred \ufffd <tag> ]]>\n\ufffd last"


def test_a_passed_case_needs_no_output(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "stdouterr.log").write_text("said")
    assert write(tmp_path, make_timed())[0][0].find("system-out") is None


@given(any_text, any_text, any_text)
def test_any_text_comes_back_from_the_xml(name: str, reason: str, session: str) -> None:
    record = make_timed(name, Status.FAILED, reason=reason)
    suites = write(Path("nowhere"), record, session=session)
    case = suites[0][0]
    assert suites[0].attrib["name"] == junit.printable(session)
    assert case.attrib["name"] == case.attrib["classname"] == junit.printable(name)
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == junit.printable(reason)
    assert (failure.text or "") == junit.printable(reason)


@given(st.binary(max_size=200))
def test_any_output_makes_xml(output: bytes) -> None:
    text = output.decode("utf-8", "replace")
    assert (ElementTree.fromstring(f"<a>{junit.xml_text(text)}</a>").text or "") == junit.printable(text)


def test_ordinary_characters_stay() -> None:
    assert junit.printable("größe\t日本\n🎉") == "größe\t日本\n🎉"
    assert junit.printable("\x00\x1b\ud800\ufffe") == "\ufffd" * 4
