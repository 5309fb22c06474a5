"""Renders docs/metrics.md from the tables of known metrics: `python -m tools.reference.metrics > docs/metrics.md`."""

import sys
from collections.abc import Iterator

from paceline import metrics

_SAYING = """
## Saying it

A name that says what it is needs no word more. For others the script says it:

```python
from paceline import emit

emit.metric("frobs", 42, unit="frobs", direction="higher")
```

or the suite, for all entries or for one, by name or glob; it wins over the script:

```yaml
metrics:
  quality: {direction: higher, label: mean quality}
entries:
  - name: dedup
    script: dedup.py
    metrics: {leftover: {unit: documents, direction: lower}}
```

`label` is what reports call it. A session names the metrics of which nobody says which way is better, once at its end;
one that the suite names, with no direction, is not asked about.
""".splitlines()


def render() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "<!-- Made by `make reference`; do not edit. -->"
    yield ""
    yield from (metrics.__doc__ or "").strip().splitlines()
    yield from _SAYING
    yield from ("", "## Known by name", "", "| metric | unit | better | what it is |", "|---|---|---|---|")
    for name, rule in metrics.KNOWN.items():
        yield f"| `{name}` | {rule.unit or ''} | {rule.direction or ''} | {rule.note} |"
    yield from ("", "## Known by pattern", "")
    yield "The examples show what a pattern is for; units such as `docs/s` are made of the name."
    yield from ("", "| for example | unit | better | pattern |", "|---|---|---|---|")
    for rule in metrics.RULES:
        unit = metrics.describe(rule.note).unit or ""
        pattern = rule.pattern.replace("|", "\\|")
        yield f"| `{rule.note}` | {unit} | {rule.direction or ''} | `{pattern}` |"


if __name__ == "__main__":
    sys.stdout.write(render())
