"""The audit of a data set as one self-contained HTML page: findings with pictures, tables, histograms."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from diag.messages import text
from diag.model.audit import Place
from diag.model.evidence import Dataset
from diag.model.finding import Finding
from diag.render.words import clean, story

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h2{margin-top:2em;border-bottom:1px solid #ddd}section{margin:1.5em 0}table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #eee}td:first-child,th:first-child{text-align:left}
.tag{padding:.1em .5em;border-radius:4px;color:#fff;background:#777;font-size:85%}
.critical{background:#b00020}.high{background:#d84315}.medium{background:#b26a00}
.tiles{display:flex;flex-wrap:wrap;gap:10px}figure{margin:0;width:240px;font-size:12px;overflow-wrap:anywhere}
img{max-width:240px;max-height:240px;background:#eee}.none{width:240px;height:60px;background:#eee;display:block}
.legend{font-size:12px;margin:.3em 0}.row{color:#ff1744}.clash{color:#00c853}.seen{color:#2979ff}
code{background:#f4f4f4;padding:0 .3em}.bar{fill:#4a78b5}text{font:11px sans-serif}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#333}code{background:#2a2a2a}text{fill:#ddd}}
"""


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Even if a name in a data set got around the escaping, nothing would run or be loaded."""


def page(
    dataset: Dataset,
    findings: Sequence[Finding],
    pictures: Mapping[str, Sequence[tuple[Place, str]]],
    histograms: Mapping[str, tuple[Sequence[str], Sequence[int]]],
    *,
    lang: str = "en",
) -> str:
    """The whole document; every text from the data set is escaped, and nothing is loaded from elsewhere."""
    title = _said(lang, "page")
    parts = [
        f'<!doctype html><html lang="{lang}"><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<style>{STYLE}</style><h1>{title}</h1><p><code>{_safe(dataset.yaml)}</code></p>",
        _splits(dataset, lang),
        f"<h2>{_said(lang, 'findings')}</h2>",
        *(_finding(f, pictures.get(f.id.removeprefix("data."), ()), lang) for f in findings),
        *([] if findings else [f"<p>{_said(lang, 'nothing')}</p>"]),
        f"<h2>{_said(lang, 'classes')}</h2>",
        _classes(dataset, lang),
    ]
    for name, (labels, counts) in histograms.items():
        parts += [f"<h2>{_said(lang, name)}</h2>", _bars(labels, counts)]
    return "\n".join(parts) + "\n</html>\n"


def _said(lang: str, key: str) -> str:
    return escape(text(lang, "datapage", key))


def _safe(value: object) -> str:
    return escape(clean(value))


def _splits(dataset: Dataset, lang: str) -> str:
    heads = ("images", "labelled", "background", "missing_labels", "instances")
    rows = [f"<tr><th></th>{''.join(f'<th>{_said(lang, h)}</th>' for h in heads)}</tr>"]
    for name, counts in dataset.splits.items():
        rows.append(f"<tr><td>{_safe(name)}</td>{''.join(f'<td>{getattr(counts, h)}</td>' for h in heads)}</tr>")
    dropped = int(dataset.measures.get("dropped_images", 0))
    note = escape(text(lang, "datapage", "dropped", {"count": dropped})) if dropped else ""
    return f"<table>{''.join(rows)}</table><p>{note}</p>"


def _finding(finding: Finding, pictures: Sequence[tuple[Place, str]], lang: str) -> str:
    told = story(finding, lang, escape=escape)
    severity = escape(text(lang, "ui", finding.severity.value))
    tiles = "".join(_tile(place, address) for place, address in pictures)
    advice = "".join(f"<li>{_code(a.sentence)}</li>" for a in told.advice)
    rows = any(place.line or place.box for place, _ in pictures)
    colours = {
        "row": rows,
        "clash": any(p.line and ":" in p.other for p, _ in pictures),
        "seen": any(p.box for p, _ in pictures),
    }
    legend = f'<p class="legend">{_legend([k for k, used in colours.items() if used], lang)}</p>' if rows else ""
    return (
        f'<section><h3><span class="tag {finding.severity.value}">{severity}</span> {told.title} '
        f"<small><code>{escape(finding.id)}</code></small></h3><p>{_code(told.cause)}</p><ul>{advice}</ul>"
        f'{legend}<div class="tiles">{tiles}</div></section>'
    )


def _code(html: str) -> str:
    """Words in backticks as code; the sentence is escaped already."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html)


def _legend(colours: Sequence[str], lang: str) -> str:
    """What the colours of the frames mean."""
    return " ".join(f'<span class="{key}">&#9632;</span> {_said(lang, key)}' for key in colours)


def _tile(place: Place, address: str) -> str:
    where = _safe(place.file).replace("/", "/<wbr>") + (f":{place.line}" if place.line else "")
    image = f'<img alt="" src="{address}">' if address else '<span class="none"></span>'
    note = " ".join(_safe(v) for v in (place.kind, place.value, place.other) if v)
    return f"<figure>{image}<figcaption><code>{where}</code> {note}</figcaption></figure>"


def _classes(dataset: Dataset, lang: str) -> str:
    splits = list(dataset.split_classes)
    head = "".join(f"<th>{_safe(s)}</th>" for s in splits)
    rows = [f"<tr><th>{_said(lang, 'class')}</th>{head}<th>{_said(lang, 'all')}</th></tr>"]
    for i, total in list(dataset.class_counts.items())[:1000]:
        cells = "".join(f"<td>{dataset.split_classes[s].get(i, 0)}</td>" for s in splits)
        rows.append(f"<tr><td>{i} {_safe(dataset.names.get(i, '?'))}</td>{cells}<td>{total}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def _bars(labels: Sequence[str], counts: Sequence[int]) -> str:
    most = max(counts, default=0) or 1
    rows = []
    for k, (label, count) in enumerate(zip(labels, counts, strict=True)):
        y, width = 20 * k, 400 * count / most
        rows.append(
            f'<text x="0" y="{y + 13}">{escape(label)}</text>'
            f'<rect class="bar" x="90" y="{y + 2}" width="{width:.1f}" height="14"/>'
            f'<text x="{95 + width:.1f}" y="{y + 13}">{count}</text>'
        )
    return f'<svg width="600" height="{20 * len(counts)}" role="img">{"".join(rows)}</svg>'
