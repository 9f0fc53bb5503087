"""The catalogs of both languages say the same things with the same numbers."""

import pytest

from diag import messages
from diag.errors import InputError
from diag.rules import load_rules

EN, ZH = messages.catalog("en"), messages.catalog("zh")


def test_both_languages_have_the_same_sentences() -> None:
    assert {s: sorted(t) for s, t in EN.items()} == {s: sorted(t) for s, t in ZH.items()}


@pytest.mark.parametrize("section", EN)
def test_both_languages_use_the_same_numbers(section: str) -> None:
    en = {key: messages.placeholders(text) for key, text in EN[section].items()}
    assert en == {key: messages.placeholders(text) for key, text in ZH[section].items()}


def test_there_is_a_section_for_every_rule_and_no_other() -> None:
    sections = {name for name in EN if "." in name}
    assert sections == {rule.id for rule in load_rules()}
    for rule in load_rules():
        assert {"title", "cause"} <= set(EN[rule.id])


def test_a_missing_or_odd_value_leaves_a_readable_sentence() -> None:
    said = messages.text("en", "speed.val_dominates", "title", {"share": None})
    assert said == "Validation takes ? of the time in batches"
    assert "many" in messages.text("en", "speed.val_dominates", "title", {"share": "many"})
    assert messages.text("en", "no.such", "title") == "no.such title"


def test_unknown_language_is_an_input_error() -> None:
    with pytest.raises(InputError, match="en, zh"):
        messages.catalog("xx")


@pytest.mark.parametrize(
    ("count", "said"), [(1, "1 box hangs"), (2, "2 boxes hang"), (0, "0 boxes hang"), (None, "? boxes")]
)
def test_one_and_many_are_said_rightly(count: int | None, said: str) -> None:
    assert messages.text("en", "data.box_over_border", "title", {"count": count}).startswith(
        said.removesuffix(" boxes")
    )
