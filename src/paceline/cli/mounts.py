"""`paceline mounts`: what of this machine a container must see to run a suite."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.inputs import masked_errors
from paceline.cli.output import write, write_bytes

if TYPE_CHECKING:
    from paceline.plan.mounts import Mount, Needs, Side

EPILOG = """\b
Examples:
  paceline mounts nightly.yaml                     what a container needs, for people
  paceline mounts --json nightly.yaml local.yaml --results-dir out
  paceline mounts --null nightly.yaml | xargs -0 printf '%s\\n'

\b
ARGUMENTS are those of 'paceline run' (or of --for); the files, --results-dir and --db among them
decide. Directories of 'paths' lie in the container at their container_path, all others where they
are here. tools/run.sh hands what --null prints to Docker or Podman. Only names of variables are
printed, never their values.
"""


@click.command("mounts", epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for a script.")
@click.option(
    "--null", "as_words", is_flag=True, help="Print words for 'docker run', each ended by a null byte."
)
@click.option("--make-dirs", is_flag=True, help="Make the directories that the run would make.")
@click.option(
    "--read-only",
    metavar="NAME",
    multiple=True,
    help="Mount this item of the suite's 'paths' to be read only. Repeatable.",
)
@click.option(
    "--for",
    "command_name",
    type=click.Choice(["run", "plan", "nightly"]),
    default="run",
    show_default=True,
    help="Whose arguments follow.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    *,
    as_json: bool,
    as_words: bool,
    make_dirs: bool,
    read_only: tuple[str, ...],
    command_name: str,
    arguments: tuple[str, ...],
) -> None:
    """Show the directories and variables that a container needs to run a suite."""
    options = _options_of(command_name, arguments)
    with masked_errors(options["configs"]):
        needs = _find_needs(options, read_only)
    if make_dirs:
        _make(Path(mount.source) for mount in needs.mounts if mount.is_made)
    if as_words:
        write_bytes(b"".join(os.fsencode(word) + b"\0" for word in engine_words(needs)))
    elif as_json:
        from paceline.record.codec import dump

        write_bytes(dump(_as_data(needs)) + b"\n")
    else:
        write("".join(f"{line}\n" for line in _lines(needs)))


def _make(directories: Iterable[Path]) -> None:
    """Root runs nothing as root: what it makes belongs to the image's user, who has to write there."""
    from paceline.plan.mounts import IMAGE_USER

    for directory in directories:
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                os.chown(directory, IMAGE_USER, IMAGE_USER)


def _options_of(name: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """What the command itself would make of its arguments."""
    from importlib import import_module

    from paceline.cli.inputs import default_configs

    target: click.Command = import_module(f"paceline.cli.{name}").command
    options = target.make_context(f"paceline {name}", list(arguments)).params
    return {**options, "configs": options["configs"] or default_configs()}


def _find_needs(options: dict[str, Any], read_only: tuple[str, ...]) -> "Needs":
    from dataclasses import replace

    from paceline.plan.mounts import Needs, Suite, find_mounts, read_sides, settle

    keys = ("configs", "datasets", "sinks", "results_dir")
    suite = Suite(**{key: options[key] for key in keys})
    here, there, variables = read_sides(suite, os.environ)
    mounts, left_out = find_mounts(suite, here, there, str(Path.cwd()))
    settings: dict[str, str] = {}
    if not options.get("no_history"):
        mounts += _database_mounts(options.get("db"), here, there, settings)
        variables = (*variables, *(["PACELINE_DB"] if "PACELINE_DB" in os.environ else []))
    known = [item.name for item in here.loaded.config.paths]
    for name in read_only:
        if name not in known:
            there_is = ", ".join(known) or "none"
            raise click.BadParameter(
                f"{name!r} is no item of 'paths'; it has {there_is}", param_hint="--read-only"
            )
    fixed = {f"paths: {name}" for name in read_only}
    mounts = [replace(one, is_writable=one.is_writable and one.why not in fixed) for one in mounts]
    return Needs(
        mounts=settle(mounts),
        variables=tuple(dict.fromkeys(variables)),
        settings=settings,
        workdir=str(Path.cwd()),
        left_out=tuple(left_out),
    )


def _database_mounts(
    db: str | None, here: "Side", there: "Side", settings: dict[str, str]
) -> Iterator["Mount"]:
    """The directory of a history in a file; where none is named, it is kept with the results, which stay."""
    from paceline.history.urls import DEFAULT, VARIABLE, find_url, parse_target
    from paceline.plan.mounts import Mount

    configured = [side.loaded.config.history for side in (here, there)]
    urls = [find_url(db, history.url if history else None) for history in configured]
    if urls[0] == DEFAULT and not here.directories.results_url:
        settings[VARIABLE] = str(there.directories.results_dir / DEFAULT)
        return
    source, target = (parse_target(url).path for url in urls)
    if source is not None and target is not None:
        why = "the history"
        yield Mount(
            source=str(source.parent), target=str(target.parent), why=why, is_writable=True, is_made=True
        )


def engine_words(needs: "Needs") -> Iterator[str]:
    """The arguments that Docker and Podman share; the values of variables stay in the environment."""
    for mount in needs.mounts:
        fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
        yield from ("--mount", _csv([*fields, *([] if mount.is_writable else ["readonly"])]))
    for name in needs.variables:
        yield from ("--env", name)
    for name, value in needs.settings.items():
        yield from ("--env", f"{name}={value}")
    yield from ("--workdir", needs.workdir)


def _csv(fields: list[str]) -> str:
    """One record, quoted where a path has a comma, a quote or a line's end: engines read `--mount` so."""
    quoted = (
        f'"{field.replace(chr(34), chr(34) * 2)}"' if set(field) & set(',"\r\n') else field
        for field in fields
    )
    return ",".join(quoted)


def _as_data(needs: "Needs") -> dict[str, Any]:
    return {
        "mounts": [
            {"source": one.source, "target": one.target, "writable": one.is_writable, "why": one.why}
            for one in needs.mounts
        ],
        "variables": list(needs.variables),
        "settings": dict(needs.settings),
        "workdir": needs.workdir,
        "left_out": list(needs.left_out),
    }


def _lines(needs: "Needs") -> Iterator[str]:
    from paceline.report.format import visible

    for mount in needs.mounts:
        there = "" if mount.source == mount.target else f" as {visible(mount.target)}"
        mode = "read-write" if mount.is_writable else "read-only"
        yield f"{mode:<10}  {visible(mount.source)}{there}  ({visible(mount.why)})"
    for name in needs.variables:
        yield f"variable    {visible(name)}"
    for name, value in needs.settings.items():
        yield f"set         {name}={visible(value)}"
    yield from (f"left out    {visible(line)}" for line in needs.left_out)
