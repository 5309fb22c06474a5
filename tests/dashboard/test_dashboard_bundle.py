"""The bundle in the package is what its sources give."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
STATIC = ROOT / "src" / "paceline" / "dashboard" / "static"


def test_the_bundle_was_built_from_these_sources() -> None:
    names = [*FRONTEND.glob("src/**/*.ts"), *FRONTEND.glob("src/**/*.tsx"), *FRONTEND.glob("src/**/*.css")]
    files = {str(path.relative_to(FRONTEND)): path for path in names}
    files |= {name: FRONTEND / name for name in ("package-lock.json", "vite.config.js", "public/early.js")}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name].read_bytes())
    told = (STATIC / "sources.sha256").read_text().strip()
    assert digest.hexdigest() == told, "the sources have changed since: 'make dashboard' builds the bundle"


def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    if shutil.which("node") is None or not (FRONTEND / "node_modules").is_dir():
        pytest.skip("needs Node and what 'make dashboard' installs in frontend/")
    command = ["node", "node_modules/vite/bin/vite.js", "build", "--outDir", str(tmp_path), "--emptyOutDir"]
    before = (STATIC / "sources.sha256").read_text()
    subprocess.run(command, cwd=FRONTEND, check=True, capture_output=True)
    assert (STATIC / "sources.sha256").read_text() == before
    for name in ("app.js", "app.css", "early.js"):
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), name


def test_the_bundle_asks_nothing_of_the_outside_and_evaluates_nothing() -> None:
    script = (STATIC / "app.js").read_text()
    assert "eval(" not in script and "new Function" not in script
    addresses = set(re.findall(r"https?://[\w./-]+", script))
    assert {address.split("/")[2] for address in addresses} <= {"www.w3.org"}, "names of XML, no addresses"
    # Preact has it for those who ask for it by a long name, which we do not.
    ours = [path for path in FRONTEND.glob("src/**/*.ts*") if "InnerHTML" in path.read_text()]
    assert not ours and not [
        path for path in FRONTEND.glob("src/**/*.ts*") if "innerHTML" in path.read_text()
    ]
