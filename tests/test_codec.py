"""YAML that PyYAML itself stumbles over is an error of the file, with its place."""

import pytest

from diag.codec import parse_yaml
from diag.errors import InputError


@pytest.mark.parametrize(
    "text",
    [
        "a: _",
        "a: +_",
        "a: !!timestamp x",
        "a: !!int ''",
        "a: 0x",
        "a: !!float ''",
        "? [a]\n: 1",
        "a: !!bool maybe",
        "a: [1",
        "[" * 5000,
    ],
)
def test_no_value_gets_through_as_another_error(text: str) -> None:
    try:
        parse_yaml(text, "args.yaml")
    except InputError as error:
        assert str(error).startswith("args.yaml")


@pytest.mark.parametrize("text", ["a: !!int ''", "a: !!timestamp x", "a: [1"])
def test_the_error_says_that_it_is_no_yaml(text: str) -> None:
    with pytest.raises(InputError, match=r"args\.yaml.*not valid YAML: \S"):
        parse_yaml(text, "args.yaml")
