"""The plan as JSON stays a plan, whatever is a secret."""

import jsonschema
from hypothesis import example, given, settings

from paceline.cli.schema import json_schema
from paceline.plan import plan_json
from paceline.record.codec import dump, load
from paceline.record.masking import mask_plan
from paceline.record.redact import MASK, Redactor
from record.secret_words import OWN_WORDS, PLANTED, own_words, planted_plan, shape_of, unmarked

HARMLESS = "u-1"
# With the directory put in, which may hold a secret.
LOCATED = ("argv", "cwd")


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_a_plan_is_whole_when_our_words_are_secrets(words: list[str]) -> None:
    written = load(dump(plan_json(mask_plan(planted_plan(HARMLESS), Redactor(words)))))
    bare = load(dump(plan_json(planted_plan(HARMLESS))))
    jsonschema.validate(written, json_schema("plan"))
    assert shape_of(written) == shape_of(bare)
    for part in (written, bare):
        for case in (*part["cases"], *part["setups"]):
            assert all(case.pop(name) for name in LOCATED)
    assert written == bare


@settings(max_examples=25)
@given(own_words)
@example(OWN_WORDS)
def test_a_planted_secret_is_gone(words: list[str]) -> None:
    written = dump(plan_json(mask_plan(planted_plan(), Redactor([*words, PLANTED]))))
    assert PLANTED.encode() not in written
    jsonschema.validate(load(written), json_schema("plan"))


def test_every_text_of_a_user_is_masked() -> None:
    masked = plan_json(mask_plan(planted_plan(), Redactor([PLANTED])))
    assert unmarked(masked) == repr(plan_json(planted_plan(MASK)))
