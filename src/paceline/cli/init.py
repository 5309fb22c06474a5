"""`paceline init`: a suite to start from."""

from pathlib import Path

import click

from paceline.cli.output import write

EPILOG = """\b
Examples:
  paceline init                    into the current directory
  paceline init my_suite           into a new directory
  paceline init my_suite && cd my_suite && paceline run
"""


@click.command("init", epilog=EPILOG)
@click.argument("directory", default=".", metavar="[DIR]", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write paceline.yaml, with a comment for everything in it, and a benchmark script, into DIR.

    Files that exist are left alone: then nothing is written.
    """
    from paceline.config.starter import write_starter

    for path in write_starter(directory):
        write(f"wrote {path}\n")
    where = "" if directory == Path() else f"cd {directory} && "
    write(f"next: {where}paceline plan, then paceline run\n")
