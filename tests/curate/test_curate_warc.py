"""WARC files, whole and damaged, written here byte by byte."""

import gzip
import io
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.curate import BadRecord
from paceline.curate import warc as warc_module
from paceline.curate.crawl import cut_warc
from paceline.curate.warc import Damage, WarcRecord, parse_response, read_warc, record_places
from paceline.curate.writers import make_record, pack_record, text_records


def record(content: bytes, *, kind: str = "response", version: str = "WARC/1.0", extra: str = "") -> bytes:
    head = f"{version}\r\nWARC-Type: {kind}\r\n{extra}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content + b"\r\n\r\n"


def read(data: bytes, **options: int) -> list[WarcRecord | Damage]:
    return list(read_warc(io.BytesIO(data), **options))


def contents(data: bytes) -> list[bytes]:
    return [found.content for found in read(data) if isinstance(found, WarcRecord)]


CONTENTS = st.lists(st.one_of(st.binary(max_size=60), st.just(b"x\r\nWARC/1.0\r\n\r\n")), max_size=6)


@settings(max_examples=80, deadline=None)
@given(CONTENTS, st.integers(1, 40))
def test_records_come_back_however_they_are_packed_and_read(parts: list[bytes], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warc_module, "CHUNK_BYTES", chunk + 200)
        records = [record(part) for part in parts]
        assert contents(b"".join(records)) == parts
        assert contents(gzip.compress(b"".join(records))) == parts
        assert contents(b"".join(map(gzip.compress, records))) == parts


def test_headers_are_read_and_folded() -> None:
    (found,) = read(
        record(b"body", kind="warcinfo", extra="WARC-Target-URI: <http://a>\r\nNote: a\r\n  b\r\n")
    )
    assert isinstance(found, WarcRecord) and found.kind == "warcinfo"
    assert found.headers["warc-target-uri"] == "<http://a>" and found.headers["note"] == "a b"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3), st.data())
def test_a_damaged_member_costs_only_itself(which: int, data: st.DataObject) -> None:
    parts = [bytes([65 + number]) * 300 for number in range(4)]
    members = [gzip.compress(record(part), mtime=0) for part in parts]
    at = data.draw(st.integers(12, len(members[which]) - 9))
    broken = bytearray(members[which])
    broken[at : at + 4] = b"\xff\xff\xff\xff"
    members[which] = bytes(broken)
    found = read(b"".join(members))
    left = [item.content for item in found if isinstance(item, WarcRecord)]
    assert [part for number, part in enumerate(parts) if number != which] == [
        x for x in left if x != parts[which]
    ]
    assert any(isinstance(item, Damage) for item in found) or left == parts


def test_rubbish_between_records_is_passed_over_once() -> None:
    data = record(b"one") + b"rubbish " * 50 + b"\n" + record(b"two") + record(b"three")[:-9]
    assert contents(data) == [b"one", b"two"]
    reasons = [found.reason for found in read(data) if isinstance(found, Damage)]
    assert reasons == ["no record begins here", "the last record is cut off"]


def test_a_record_without_length_and_one_that_is_too_long() -> None:
    bad = b"WARC/1.0\r\nWARC-Type: response\r\n\r\nabc\r\n\r\n"
    found = read(bad + record(b"x" * 500) + record(b"fine"), max_record_bytes=100)
    assert [getattr(item, "reason", "") for item in found] == [
        "a record without Content-Length",
        "a record of more than 100 bytes was passed over",
        "",
    ]


@given(st.binary(max_size=300))
def test_anything_is_read_without_an_error(data: bytes) -> None:
    for content in (data, b"\x1f\x8b\x08" + data, b"WARC/1.0\r\n" + data, gzip.compress(data)):
        read(content)


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (b"", b"abc", b"abc"),
        (b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"Transfer-Encoding: chunked\r\n", b"<html>joined already", b"<html>joined already"),
        (b"Content-Encoding: gzip\r\n", gzip.compress(b"packed", mtime=0), b"packed"),
        (b"Content-Encoding: gzip\r\n", b"not packed", b"not packed"),
    ],
)
def test_bodies_lose_their_coding(head: bytes, body: bytes, expected: bytes) -> None:
    response = parse_response(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + head + b"\r\n" + body)
    assert (response.status, response.body, response.headers["content-type"]) == (200, expected, "text/html")


@given(st.binary(max_size=80))
def test_other_content_is_a_bad_record_or_a_response(content: bytes) -> None:
    for data in (content, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + content):
        try:
            parse_response(data)
        except BadRecord:
            assert data == content


def test_offsets_rise() -> None:
    data = b"junk\n" + record(b"a") + b"more junk\n" + record(b"b")
    offsets = [found.offset for found in read(data) if isinstance(found, Damage)]
    assert offsets == [0, data.index(b"more junk")] and all(left < right for left, right in pairwise(offsets))


def read_in_ranges(data: bytes, starts: list[int]) -> list[WarcRecord | Damage]:
    ends = [*starts[1:], None]
    return [
        found
        for begin, end in zip(starts, ends, strict=True)
        for found in read_warc(io.BytesIO(data), begin=begin, end=end)
    ]


@settings(max_examples=60, deadline=None)
@given(CONTENTS, st.integers(40, 400), st.integers(0, 300), st.data())
def test_ranges_of_a_packed_file_give_everything_once(
    parts: list[bytes], step: int, lead: int, data: st.DataObject
) -> None:
    members = [gzip.compress(record(part), mtime=0) for part in parts]
    if members and data.draw(st.booleans()):
        which = data.draw(st.integers(0, len(members) - 1))
        at = data.draw(st.integers(0, len(members[which]) - 1))
        members[which] = members[which][:at] + b"\xff\xff\xff" + members[which][at + 3 :]
    whole = b"".join(members)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warc_module, "LEAD_BYTES", lead)
        patch.setattr(warc_module, "CHUNK_BYTES", 1500)
        expected = read(whole)
        # A file whose first bytes are damaged is not known to be packed, and is not cut.
        if whole.startswith(b"\x1f\x8b\x08"):
            assert read_in_ranges(whole, list(range(0, len(whole), step))) == expected


def test_an_archive_inside_an_archive_is_not_taken_for_a_part_of_it() -> None:
    inner = b"".join(gzip.compress(record(b"inner" * 50), mtime=0) for _ in range(40))
    # Data that does not get smaller stands in a member as it is, and so it does here.
    members = [gzip.compress(record(content), 0) for content in (b"before", inner, b"after")]
    whole = b"".join(members)
    assert inner[:60] in whole
    for step in (500, 1000, 2000):
        found = read_in_ranges(whole, list(range(0, len(whole), step)))
        assert [item.content for item in found if isinstance(item, WarcRecord)] == [
            b"before",
            inner,
            b"after",
        ]


@settings(max_examples=60, deadline=None)
@given(CONTENTS, st.integers(1, 300))
def test_ranges_of_a_plain_file_begin_with_records(parts: list[bytes], step: int) -> None:
    whole = b"".join(map(record, parts))
    starts = [0, *record_places(io.BytesIO(whole), step)]
    assert all(whole[start:].startswith(b"WARC/") for start in starts[1:])
    assert read_in_ranges(whole, starts) == read(whole)
    damaged = whole + b"rubbish\n" + whole
    starts = [0, *record_places(io.BytesIO(damaged), step)]
    assert read_in_ranges(damaged, starts) == read(damaged)


def test_a_whole_file_in_one_member_belongs_to_the_first_range() -> None:
    whole = gzip.compress(b"".join(record(bytes([at]) * 50) for at in range(200)))
    assert read_in_ranges(whole, list(range(0, len(whole), 100))) == read(whole)


def test_large_files_are_cut_and_others_are_not(tmp_path: Path) -> None:
    records = [record(bytes([at]) * 100) for at in range(50)]
    packed, plain = tmp_path / "a.warc.gz", tmp_path / "b.warc"
    packed.write_bytes(b"".join(map(gzip.compress, records)))
    plain.write_bytes(b"".join(records))
    for path in (packed, plain):
        ranges = list(cut_warc(str(path), 1000))
        assert len(ranges) > 3
        assert sum(size for _, size in ranges) == path.stat().st_size
        assert len(list(cut_warc(str(path), 1_000_000))) == 1
    assert len(list(cut_warc("http://nowhere/a.warc.gz", 1000))) == 1


@given(st.lists(st.fixed_dictionaries({"text": st.text(), "url": st.text(), "date": st.text()}), max_size=4))
def test_what_is_written_is_read_back(documents: list[dict[str, str]]) -> None:
    found = read(b"".join(text_records(documents, "a.jsonl")))
    assert [item.content.decode() for item in found if isinstance(item, WarcRecord)] == [
        document["text"].encode("utf-8", "replace").decode() for document in documents
    ]
    assert len({item.headers["warc-record-id"] for item in found if isinstance(item, WarcRecord)}) == len(
        found
    )


def test_a_record_has_its_headers() -> None:
    identity = UUID(int=7)
    made = make_record(
        "request", b"GET", identity=identity, date="2026-01-01", url="http://a\r\nX: 1", WARC_IP="::1"
    )
    (found,) = read(pack_record(made))
    assert isinstance(found, WarcRecord) and found.content == b"GET"
    assert found.headers == {
        "warc-type": "request",
        "warc-record-id": f"<urn:uuid:{identity}>",
        "warc-date": "2026-01-01",
        "warc-target-uri": "http://a X: 1",
        "warc-ip": "::1",
        "content-length": "3",
    }
