"""Objects read and written, and written only if nobody else did: on a real S3 server, in memory, in a directory."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from object_store import ObjectStore as Server
from object_store import moto_server, s3, s3_server
from paceline.errors import MissingExtra, PacelineError
from paceline.history.remote import fetch, put
from paceline.record.remote.object_store import Conflict, ObjectStore, StoreError, modified_s

__all__ = ["s3", "s3_server"]

STRANGE = "sort[n=10,k=ü] 100%+&=#?/logs/a b.txt"


@pytest.fixture(params=["s3", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address with nothing at it, in each kind of store that decides conditional writes."""
    return f"{request.getfixturevalue('s3')}/deep/er" if request.param == "s3" else f"file://{tmp_path}/store"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class TestConditionalWrites:
    def test_an_object_that_is_not_there(self, url: str, tmp_path: Path) -> None:
        assert fetch(f"{url}/benchmark.db", tmp_path / "copy") is None
        assert not (tmp_path / "copy").exists()

    def test_what_is_put_is_fetched_with_its_version(self, url: str, tmp_path: Path) -> None:
        first = put(written(tmp_path / "a", "one"), f"{url}/benchmark.db", if_version=None)
        assert fetch(f"{url}/benchmark.db", tmp_path / "copy") == first
        assert (tmp_path / "copy").read_text() == "one"
        second = put(written(tmp_path / "a", "two"), f"{url}/benchmark.db", if_version=first)
        assert second != first and fetch(f"{url}/benchmark.db", tmp_path / "copy") == second
        assert (tmp_path / "copy").read_text() == "two"

    def test_of_two_new_ones_the_first_stays(self, url: str, tmp_path: Path) -> None:
        put(written(tmp_path / "a", "one"), f"{url}/o", if_version=None)
        with pytest.raises(Conflict, match="somebody else"):
            put(written(tmp_path / "b", "two"), f"{url}/o", if_version=None)
        fetch(f"{url}/o", tmp_path / "copy")
        assert (tmp_path / "copy").read_text() == "one"

    def test_a_late_writer_is_refused(self, url: str, tmp_path: Path) -> None:
        read_by_both = put(written(tmp_path / "a", "one"), f"{url}/o", if_version=None)
        put(written(tmp_path / "a", "two"), f"{url}/o", if_version=read_by_both)
        with pytest.raises(Conflict):
            put(written(tmp_path / "b", "three"), f"{url}/o", if_version=read_by_both)
        fetch(f"{url}/o", tmp_path / "copy")
        assert (tmp_path / "copy").read_text() == "two"

    def test_over_an_object_that_is_gone(self, url: str, tmp_path: Path) -> None:
        version = put(written(tmp_path / "a", "one"), f"{url}/o", if_version=None)
        ObjectStore(url).remove("o")
        with pytest.raises(Conflict):
            put(tmp_path / "a", f"{url}/o", if_version=version)

    def test_writers_side_by_side_lose_nothing(self, url: str, tmp_path: Path) -> None:
        def add(writer: int) -> None:
            copy = tmp_path / f"copy-{writer}"
            for step in range(5):
                while True:
                    version = fetch(f"{url}/numbers", copy)
                    numbers = json.loads(copy.read_text()) if version else []
                    copy.write_text(json.dumps([*numbers, [writer, step]]))
                    try:
                        put(copy, f"{url}/numbers", if_version=version)
                    except Conflict:
                        continue
                    break

        threads = [threading.Thread(target=add, args=(writer,)) for writer in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fetch(f"{url}/numbers", tmp_path / "all")
        found = json.loads((tmp_path / "all").read_text())
        assert sorted(found) == [[writer, step] for writer in range(3) for step in range(5)]

    def test_a_plain_path_is_a_store_too(self, tmp_path: Path) -> None:
        target = tmp_path / "shared/benchmark.db"
        version = put(written(tmp_path / "a", "one"), str(target), if_version=None)
        assert target.read_text() == "one"
        assert fetch(str(target), tmp_path / "copy") == version

    def test_a_store_that_does_not_decide_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="not known"):
            put(written(tmp_path / "a", "one"), "http://127.0.0.1:9/x", if_version=None)


def test_a_write_whose_answer_was_lost_is_no_conflict(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that hears nothing sends again, and is refused because of its own first write."""
    store = ObjectStore(s3)
    call = store._fs.call_s3

    def call_twice(method: str, **options: object) -> object:
        if method == "put_object":
            call(method, **options)
        return call(method, **options)

    monkeypatch.setattr(store._fs, "call_s3", call_twice)
    version = store.write_if("o", b"mine", None)
    assert store.version("o") == version
    assert store.write_if("o", b"mine again", version) == store.version("o")


def test_a_large_file_goes_in_one_conditional_write(s3: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 80_000
    (tmp_path / "large").write_bytes(data)
    version = put(tmp_path / "large", f"{s3}/large", if_version=None)
    with pytest.raises(Conflict):
        put(tmp_path / "large", f"{s3}/large", if_version=None)
    assert fetch(f"{s3}/large", tmp_path / "copy") == version
    assert (tmp_path / "copy").read_bytes() == data


class TestObjects:
    def test_names_are_taken_as_they_are(self, url: str, tmp_path: Path) -> None:
        store = ObjectStore(url)
        store.send(written(tmp_path / "a", "text"), STRANGE)
        assert store.read(STRANGE) == b"text"
        assert list(store.find()) == [STRANGE] == list(store.find(STRANGE.partition("/")[0]))
        assert store.find(STRANGE.partition("/")[0][:4]) == {}
        store.receive(STRANGE, tmp_path, "deep/copy")
        assert (tmp_path / "deep/copy").read_text() == "text"
        assert store.children() == [STRANGE.partition("/")[0]]
        store.remove(STRANGE)
        store.remove("never there")
        assert store.read(STRANGE) is None and store.find() == {}

    def test_nothing_at_an_address(self, url: str, tmp_path: Path) -> None:
        store = ObjectStore(url)
        assert (store.read("a"), store.find(), store.children(), store.head("a")) == (None, {}, [], None)
        with pytest.raises(FileNotFoundError):
            store.receive("a", tmp_path, "a")
        assert list(tmp_path.glob(".tmp-*")) == []

    def test_many_at_once(self, url: str) -> None:
        store = ObjectStore(url)
        names = [f"many/{number}" for number in range(40)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: store.write(name, name.encode()), names))
            found = list(pool.map(store.read, [*names, "gone"]))
        assert found == [*(name.encode() for name in names), None] and set(store.find()) == set(names)

    def test_how_old_an_object_is(self, url: str) -> None:
        """By the store's own clock, of which S3 tells whole seconds."""
        store = ObjectStore(url)
        store.write("a", b"")
        head = store.head("a")
        assert head is not None and -1 <= head[1] < 100
        assert abs(modified_s(store.find()["a"]) - time.time()) < 100

    def test_a_file_in_parts_is_told_as_it_goes(self, s3: str, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(bytes(20 << 20))
        told: list[int] = []
        ObjectStore(s3).send(tmp_path / "a", "a", lambda: told.append(1))
        assert len(told) >= 3 and ObjectStore(s3).find()["a"]["size"] == 20 << 20


def test_a_server_of_ones_own() -> None:
    with moto_server() as endpoint:
        assert endpoint.startswith("http://127.0.0.1:")


class TestFaults:
    def test_a_bucket_that_is_not_there(self, s3: str, tmp_path: Path) -> None:
        store = ObjectStore("s3://no-such-bucket/results")
        for action in (store.find, store.children, lambda: store.write("a", b""), lambda: store.read("a")):
            with pytest.raises(StoreError, match="the bucket does not exist"):
                action()
        with pytest.raises(StoreError, match="does not exist"):
            put(written(tmp_path / "a", ""), "s3://no-such-bucket/a", if_version=None)

    def test_a_server_that_is_down_is_one_line(self, s3: str, s3_server: Server) -> None:
        store = ObjectStore(s3)
        store.write("a", b"kept")
        s3_server.take_down()
        for action in (lambda: store.read("a"), store.find, lambda: store.write_if("a", b"", None)):
            with pytest.raises(StoreError) as caught:
                action()
            assert "\n" not in str(caught.value) and str(caught.value).startswith("s3://bench")
        s3_server.bring_up()
        assert store.read("a") == b"kept"

    def test_no_credentials(self, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
        with pytest.raises(StoreError, match="credentials"):
            ObjectStore(s3).write("a", b"")

    @pytest.mark.parametrize("package", ["fsspec", "s3fs"])
    def test_a_missing_extra(self, package: str) -> None:
        program = f"""
import sys
sys.modules["{package}"] = None
from paceline.record.remote.object_store import ObjectStore
try:
    ObjectStore("s3://bench/results")
except Exception as error:
    print(type(error).__name__, error)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        expected = MissingExtra("s3://bench/results", "s3")
        assert done.stdout.strip() == f"MissingExtra {expected}"
        assert str(expected).endswith("needs the s3 extra: pip install 'paceline[s3]'")

    def test_an_unknown_kind_of_store(self) -> None:
        with pytest.raises(PacelineError, match="nosuch://x"):
            ObjectStore("nosuch://x")

    def test_no_name(self, tmp_path: Path) -> None:
        with pytest.raises(PacelineError, match="names no object"):
            fetch("s3://bench", tmp_path / "a")
