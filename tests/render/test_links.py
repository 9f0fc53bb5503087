"""Every finding leads to its section of docs/rules.md."""

import re

from diag import settings
from diag.model.finding import Confidence, Finding, Severity
from diag.render import jsonfile, words
from diag.rules import load_rules

PAGE = (settings.ROOT / words.RULES_PAGE).read_text(encoding="utf-8")
ANCHORS = re.findall(r'^<a id="([^"]+)"></a>$', PAGE, re.M)


def test_every_rule_and_finding_has_its_anchor_once() -> None:
    assert len(ANCHORS) == len(set(ANCHORS))
    assert set(ANCHORS) == {rule.id for rule in load_rules()}
    assert {rule.finding for rule in load_rules()} <= set(ANCHORS)


def test_links_within_the_page_lead_somewhere() -> None:
    targets = re.findall(r"\]\(#([^)]+)\)", PAGE)
    assert len(targets) >= len(ANCHORS)
    assert set(targets) <= set(ANCHORS)


def test_a_finding_carries_its_link() -> None:
    finding = Finding("speed.loader_bound", Severity.HIGH, Confidence.HIGH, {}, (), ())
    assert jsonfile.finding_dict(finding)["link"] == "docs/rules.md#speed.loader_bound"


def test_the_image_holds_the_page() -> None:
    assert "!docs/rules.md" in (settings.ROOT / ".dockerignore").read_text().splitlines()
    assert "COPY docs/rules.md /tree/app/docs/" in (settings.ROOT / "Dockerfile").read_text()
