"""Catalog lookup: finding id + key + values -> a sentence in the reader's language."""

import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from diag.errors import InputError

LOCALES = Path(__file__).parent / "locale"
LANGUAGES = ("en", "zh")
UNKNOWN = "?"
PLURAL = "one:"
"""`{count:one:box|boxes}` is `box` where count is 1, else `boxes`."""


@cache
def catalog(lang: str) -> Mapping[str, Mapping[str, str]]:
    """All sentences of a language: section (a finding id, `skip`, `ui`, `stage` ...) -> key -> text."""
    if lang not in LANGUAGES:
        raise InputError(f"--lang {lang}: unknown language; there are {', '.join(LANGUAGES)}")
    # the C parser reads a catalog ten times as quickly; a PyYAML without it has only the other
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: Mapping[str, Mapping[str, str]] = yaml.load((LOCALES / f"{lang}.yaml").read_text(encoding="utf-8"), loader)
    return data


def text(lang: str, section: str, key: str, values: Mapping[str, Any] | None = None) -> str:
    """One sentence. A missing one falls back to English, then to its own name, so that nothing is lost.

    `values["case"]` chooses a variant: `cause.killed` is preferred to `cause`.
    """
    values = values or {}
    case = values.get("case")
    for language in dict.fromkeys((lang, "en")):
        entries = catalog(language).get(section, {})
        template = entries.get(f"{key}.{case}") if case else None
        template = template or entries.get(key)
        if template is not None:
            return _Formatter().vformat(template, (), values)
    return f"{section} {key}".strip()


def has(lang: str, section: str, key: str) -> bool:
    """True if the language has this sentence."""
    return key in catalog(lang).get(section, {})


def placeholders(template: str) -> set[str]:
    """The names in braces of a template."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


class _Formatter(string.Formatter):
    """`str.format` by name for values that may be missing or of another type than the format wants."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        return kwargs.get(field_name), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return UNKNOWN
        if format_spec.startswith(PLURAL):
            one, _, many = format_spec.removeprefix(PLURAL).partition("|")
            return one if value == 1 else many
        try:
            return format(value, format_spec)
        except (ValueError, TypeError):
            return str(value)
