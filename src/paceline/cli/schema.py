"""`paceline schema`: the formats, for editors and other programs."""

import click

from paceline.cli.output import write_json

EPILOG = """\b
Examples:
  paceline schema > paceline.schema.json             for an editor that checks YAML
  paceline schema record
  paceline schema report | python -m json.tool | less
"""


@click.command("schema", epilog=EPILOG)
@click.argument(
    "format_", metavar="[FORMAT]", default="config", type=click.Choice(["config", "plan", "record", "report"])
)
def command(format_: str) -> None:
    """Print the JSON Schema of a FORMAT: config (the default), plan, record or report.

    \b
    config   the YAML files that plan and run take
    plan     what 'paceline plan --json' prints
    record   record.json, one for each case of a session
    report   report.json, and what 'paceline run --json' prints
    """
    if format_ == "config":
        from paceline.config.evals import WholeConfig

        write_json(WholeConfig.model_json_schema())
    else:
        from paceline.record.schemas import json_schema

        write_json(json_schema(format_))
