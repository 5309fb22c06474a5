"""`docker run` by means of Buildah, as far as tools/run.sh uses it: a program to be named by `--engine`.

Buildah runs commands in containers that are kept; this makes one from the image, runs the entry point in it, and
removes it. Limits and an init are not to be had in its chroot isolation, so these options are taken and have no effect.
"""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

IGNORED = ("--rm", "--init", "--shm-size=")


def translate(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of `docker run` as those of `buildah run`, and the words from the image's name on."""
    options: list[str] = []
    rest = list(words)
    while rest[0].startswith("-"):
        option = rest.pop(0)
        if option.startswith(IGNORED):
            continue
        if option == "--mount":
            options += ["--volume", volume(rest.pop(0))]
        elif option in ("--env", "--workdir"):
            options += list(setting(option, rest.pop(0)))
        else:
            raise SystemExit(f"buildah_engine: {option} is not translated")
    return options, rest


def volume(mount: str) -> str:
    (fields,) = csv.reader(io.StringIO(mount, newline=""))
    values = dict(field.partition("=")[::2] for field in fields)
    return f"{values['source']}:{values['target']}{':ro' if 'readonly' in values else ''}"


def setting(option: str, value: str) -> Iterator[str]:
    if option == "--workdir":
        yield from ("--workingdir", value)
    elif "=" in value or value in os.environ:
        # A name alone is a variable of this process: Docker looks it up in the same way.
        yield from ("--env", value if "=" in value else f"{value}={os.environ[value]}")


def buildah(*words: str) -> str:
    return subprocess.run(["buildah", *words], check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    if sys.argv[1:2] != ["run"]:
        raise SystemExit("buildah_engine: only 'run' is known")
    options, (image, *arguments) = translate(sys.argv[2:])
    config = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    container = buildah("from", "--pull-never", image)
    try:
        command = [
            "buildah",
            "run",
            "--isolation",
            "chroot",
            *options,
            container,
            "--",
            *config["Entrypoint"],
        ]
        return subprocess.run([*command, *arguments], check=False).returncode
    finally:
        buildah("rm", container)


if __name__ == "__main__":
    sys.exit(main())
