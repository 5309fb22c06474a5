"""Which file and line set each value."""

from config.config_files import ConfigFiles
from paceline.config.explain import explain


def test_every_value_has_an_origin(files: ConfigFiles) -> None:
    loaded = files.load(
        """\
        entries:
          - {name: off, enabled: false}
          - name: a
            script: a.py
            timeout_s: 5
            tags: []
            args: ["5", ' x', --n]
        """,
        """\
        entries:
          - name: a
            timeout_s: ${T}
        sinks: [{name: s, token: "${TOKEN}"}]
        """,
        environ={"T": "7", "TOKEN": "hunter2"},
        sinks=["s", "t"],
    )
    rows = [(path, value, origin.rpartition("/")[2]) for path, value, origin in explain(loaded)]
    assert rows == [
        ("entries[1].name", "a", "a.yaml:3"),
        ("entries[1].script", "a.py", "a.yaml:4"),
        ("entries[1].timeout_s", "${T}", "b.yaml:3"),
        ("entries[1].tags", "[]", "a.yaml:6"),
        ("entries[1].args[0]", "'5'", "a.yaml:7"),
        ("entries[1].args[1]", "' x'", "a.yaml:7"),
        ("entries[1].args[2]", "--n", "a.yaml:7"),
        ("sinks[0].name", "s", "b.yaml:4"),
        ("sinks[0].type", "s", "b.yaml:4"),
        ("sinks[0].token", "${TOKEN}", "b.yaml:4"),
        ("sinks[1].name", "t", "command line"),
        ("sinks[1].type", "t", "command line"),
    ]
