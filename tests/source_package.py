"""A package in a source tree that can be installed without an index: its build backend is a file of its own."""

from pathlib import Path


def write_package(repo: Path, number: int) -> None:
    """Write the package `demo_pkg` with this version, which is also its number of seconds."""
    backend = repo / "backend.py"
    backend.write_text(
        "import zipfile, pathlib\n"
        "def get_requires_for_build_wheel(config=None): return []\n"
        "def build_wheel(directory, config=None, metadata=None):\n"
        f"    name, info = 'demo_pkg-{number}-py3-none-any.whl', 'demo_pkg-{number}.dist-info'\n"
        "    files = {'demo_pkg.py': pathlib.Path('demo_pkg.py').read_text(),\n"
        f"        info + '/METADATA': 'Metadata-Version: 2.1\\nName: demo-pkg\\nVersion: {number}\\n',\n"
        "        info + '/WHEEL': 'Wheel-Version: 1.0\\nGenerator: demo\\nRoot-Is-Purelib: true\\n'\n"
        "                         'Tag: py3-none-any\\n'}\n"
        "    record = ''.join(f'{n},,\\n' for n in [*files, info + '/RECORD'])\n"
        "    with zipfile.ZipFile(pathlib.Path(directory) / name, 'w') as archive:\n"
        "        for n, text in {**files, info + '/RECORD': record}.items():\n"
        "            archive.writestr(n, text)\n"
        "    return name\n"
    )
    (repo / "demo_pkg.py").write_text(f"SECONDS = {number}\n")
    (repo / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
