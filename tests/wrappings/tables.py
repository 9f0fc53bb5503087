"""Wrappings of tables: dialects, units, column names of other tools, exports of trackers."""

import csv
import datetime
import io
import json
import re
from collections.abc import Callable

from tests.wrappings.base import Files, Wrapping, each_text, is_results, is_table
from tests.wrappings.columns import NAMES

Rows = list[list[str]]
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def _rows(text: str) -> Rows:
    return [[c.strip() for c in row] for row in csv.reader(text.splitlines()) if row]


def _text(rows: Rows, **dialect: object) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", **dialect).writerows(rows)  # type: ignore[arg-type]
    return out.getvalue()


def _on(kind: Callable[[str, bytes], bool], how: Callable[[Rows], Rows], **dialect: object) -> Callable[[Files], Files]:
    return each_text(kind, lambda t: _text(how(_rows(t)), **dialect))


def is_telemetry(name: str, data: bytes) -> bool:
    """A table that is no results.csv."""
    return is_table(name, data) and not is_results(name, data)


def _cells(how: Callable[[str], str]) -> Callable[[Rows], Rows]:
    return lambda rows: [rows[0], *([how(c) if _NUMBER.fullmatch(c) else c for c in r] for r in rows[1:])]


def _padded(text: str) -> str:
    return "".join(",".join(f"{c:>23}" for c in row) + "\n" for row in _rows(text))


def _markdown(text: str) -> str:
    rows = _rows(text)
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"


def _aligned(text: str) -> str:
    """As pandas prints a frame."""
    rows = [["", *_rows(text)[0]], *([str(i), *row] for i, row in enumerate(_rows(text)[1:]))]
    wide = [max(len(r[i]) if i < len(r) else 0 for r in rows) + 2 for i in range(len(rows[0]))]
    return "".join("".join(f"{c:>{w}}" for c, w in zip(r, wide, strict=False)) + "\n" for r in rows)


def _box(text: str) -> str:
    rows = _rows(text)
    rule = "+" + "-----+" * len(rows[0])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule]) + "\n"


def _reorder(rows: Rows) -> Rows:
    width = len(rows[0])
    if any(len(r) != width for r in rows):
        return rows
    order = [0, *range(width - 1, 0, -1)]
    return [[r[i] for i in order] for r in rows]


def _column(rows: Rows, name: str, new: str, how: Callable[[float], str]) -> None:
    if name in rows[0]:
        at = rows[0].index(name)
        rows[0][at] = new
        for row in rows[1:]:
            if at < len(row) and _NUMBER.fullmatch(row[at]):
                row[at] = how(float(row[at]))


def _renamed(names: dict[str, tuple[str, Callable[[float], str]]]) -> Callable[[Rows], Rows]:
    def how(rows: Rows) -> Rows:
        for name, (new, change) in names.items():
            _column(rows, name, new, change)
        return rows

    return how


def _stamped(rows: Rows) -> Rows:
    start = datetime.datetime(2024, 5, 1, 12, 0, 0)
    _column(rows, "t_s", "timestamp", lambda v: f"{start + datetime.timedelta(seconds=v):%Y-%m-%d %H:%M:%S}")
    return rows


def _epoch_seconds(rows: Rows) -> Rows:
    _column(rows, "t_s", "timestamp", lambda v: f"{1714550400 + v:.3f}")
    return rows


def _regular(rows: Rows) -> bool:
    """Full rows with a number as their epoch."""
    return all(len(r) == len(rows[0]) for r in rows) and all(_NUMBER.fullmatch(r[0]) for r in rows[1:])


def _per_tag(files: Files) -> Files:
    """TensorBoard: one CSV a chart."""
    made: Files = {}
    for n, d in files.items():
        rows = _rows(d.decode("utf-8", "replace"))
        if not is_results(n, d) or rows[0][0] != "epoch" or not _regular(rows):
            made[n] = d
            continue
        for i, column in enumerate(rows[0][1:], 1):
            chart = [["Wall time", "Step", "Value"]]
            chart += [[f"{1714550400 + 60 * float(r[0]):.6f}", r[0], r[i]] for r in rows[1:]]
            made[f"run-.-tag-{column.replace('/', '_')}.csv"] = _text(chart).encode()
    return made


def _wandb_charts(files: Files) -> Files:
    """W&B: one CSV a chart, each value with its extremes."""
    made: Files = {}
    for n, d in files.items():
        rows = _rows(d.decode("utf-8", "replace"))
        if not is_results(n, d) or rows[0][0] != "epoch" or not _regular(rows):
            made[n] = d
            continue
        for i, column in enumerate(rows[0][1:], 1):
            name = f"glad-sun-7 - {column}"
            chart = [["Step", name, f"{name}__MIN", f"{name}__MAX"], *([r[0], r[i], r[i], r[i]] for r in rows[1:])]
            stamp = f"2024-05-01T12_{i:02d}_00.000+02_00"
            made[f"wandb_export_{stamp}.csv"] = _text(chart, quoting=csv.QUOTE_ALL).encode()
    return made


def _wandb_history(rows: Rows) -> Rows:
    """W&B: `run.history()` as a frame, in the order of the alphabet."""
    if any(len(r) != len(rows[0]) for r in rows):
        return rows
    order = sorted(range(1, len(rows[0])), key=lambda i: rows[0][i])
    head = ["", "_step", "_runtime", "_timestamp", *(rows[0][i] for i in order), "epoch"]
    body = [
        [str(k), r[0], str(60 * k), str(1714550400 + 60 * k), *(r[i] for i in order), r[0]]
        for k, r in enumerate(rows[1:])
    ]
    return [head, *body]


def _long(key: str, value: str, step: str, rename: Callable[[str], str]) -> Callable[[Rows], Rows]:
    """MLflow and others: a row for each value."""

    def how(rows: Rows) -> Rows:
        if rows[0][0] != "epoch" or any(len(r) != len(rows[0]) for r in rows):
            return rows
        made = [[key, value, step, "timestamp"]]
        for i, column in enumerate(rows[0][1:], 1):
            made += [[rename(column), r[i], r[0], str(1714550400000 + 60000 * k)] for k, r in enumerate(rows[1:])]
        return made

    return how


def _records(text: str) -> str:
    rows = _rows(text)
    return json.dumps([{c: _json(v) for c, v in zip(rows[0], r, strict=False)} for r in rows[1:]], indent=1)


def _record_lines(text: str) -> str:
    rows = _rows(text)
    return "".join(json.dumps({c: _json(v) for c, v in zip(rows[0], r, strict=False)}) + "\n" for r in rows[1:])


def _json(cell: str) -> object:
    return float(cell) if _NUMBER.fullmatch(cell) else None if cell in {"", "nan"} else cell


def _suffix(kind: Callable[[str, bytes], bool], how: Callable[[str], str], end: str) -> Callable[[Files], Files]:
    def change(files: Files) -> Files:
        return {
            (n.rsplit(".", 1)[0] + end if kind(n, d) else n): how(d.decode("utf-8", "replace")).encode()
            if kind(n, d)
            else d
            for n, d in files.items()
        }

    return change


def _sparse_sar(text: str) -> str:
    """`sar -u`: text with an iowait column."""
    rows = _rows(text)
    if "iowait_pct" not in rows[0] or "cpu_util_pct" not in rows[0]:
        return text
    wait, busy = rows[0].index("iowait_pct"), rows[0].index("cpu_util_pct")
    lines = ["Linux 6.8.0-45-generic (gpu-01) \t05/01/2024 \t_x86_64_\t(16 CPU)", ""]
    lines.append("12:00:00 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle")
    for k, r in enumerate(rows[1:]):
        idle = max(0.0, 100 - float(r[busy]) - float(r[wait]))
        lines.append(
            f"12:{k // 12 % 60:02d}:{k % 12 * 5:02d} PM     all {float(r[busy]):9.2f}      0.00      0.00 "
            f"{float(r[wait]):9.2f}      0.00 {idle:9.2f}"
        )
    return "\n".join(lines) + "\n"


def _dmon(text: str) -> str:
    """`nvidia-smi dmon -s pum`: text with two header lines that begin with #."""
    rows = _rows(text)
    if "gpu_util_pct" not in rows[0]:
        return text
    util = rows[0].index("gpu_util_pct")
    power = rows[0].index("power_w") if "power_w" in rows[0] else None
    mem = rows[0].index("gpu_mem_mib") if "gpu_mem_mib" in rows[0] else None
    lines = [
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec     fb   bar1",
        "# Idx      W      C      C      %      %      %      %     MB     MB",
    ]
    for r in rows[1:]:
        watt = f"{float(r[power]):.0f}" if power is not None else "-"
        fb = r[mem] if mem is not None else "-"
        lines.append(f"    0 {watt:>6}      -      - {r[util]:>6}      -      -      - {fb:>6}      -")
    return "\n".join(lines) + "\n"


def _beside(how: Callable[[str], str], name: str) -> Callable[[Files], Files]:
    """The tool's text stands beside the other columns, which another tool wrote."""

    def change(files: Files) -> Files:
        made: Files = {}
        for n, d in files.items():
            text = d.decode("utf-8", "replace")
            told = how(text) if is_telemetry(n, d) else text
            made[n] = d
            if told != text:
                drop = (
                    {"iowait_pct", "cpu_util_pct"}
                    if name.startswith("sar")
                    else {"gpu_util_pct", "power_w", "gpu_mem_mib"}
                )
                rows = _rows(text)
                keep = [i for i, c in enumerate(rows[0]) if c not in drop]
                made[n] = _text([[r[i] for i in keep if i < len(r)] for r in rows]).encode()
                made[name] = told.encode()
        return made

    return change


TABLES = (
    Wrapping(
        "table.semicolon_comma",
        each_text(is_table, lambda t: _text(_cells(lambda c: c.replace(".", ","))(_rows(t)), delimiter=";")),
    ),
    Wrapping("table.semicolon", _on(is_table, lambda r: r, delimiter=";")),
    Wrapping("table.tab", _on(is_table, lambda r: r, delimiter="\t")),
    Wrapping("table.pipe", _on(is_table, lambda r: r, delimiter="|")),
    Wrapping("table.padded", each_text(is_table, _padded)),
    Wrapping("table.markdown", each_text(is_table, _markdown)),
    Wrapping("table.box", each_text(is_table, _box)),
    Wrapping("table.frame", each_text(is_results, _aligned)),
    Wrapping("table.quoted", _on(is_table, lambda r: r, quoting=csv.QUOTE_ALL)),
    Wrapping("table.bom", each_text(is_table, lambda t: "\ufeff" + t)),
    Wrapping("table.crlf", each_text(is_table, lambda t: t.replace("\r", "").replace("\n", "\r\n"))),
    Wrapping(
        "table.utf16",
        lambda f: {
            n: b"\xff\xfe" + d.decode("utf-8", "replace").encode("utf-16-le") if is_table(n, d) else d
            for n, d in f.items()
        },
    ),
    Wrapping("table.index", _on(is_table, lambda r: [["", *r[0]], *([str(i), *x] for i, x in enumerate(r[1:]))])),
    Wrapping(
        "table.unnamed_index",
        _on(is_table, lambda r: [["Unnamed: 0", *r[0]], *([str(i), *x] for i, x in enumerate(r[1:]))]),
    ),
    Wrapping("table.scientific", _on(is_table, _cells(lambda c: f"{float(c):.8e}"))),
    Wrapping(
        "table.float_epochs",
        _on(
            is_results,
            lambda r: [r[0], *([f"{float(x[0]):.1f}" if _NUMBER.fullmatch(x[0]) else x[0], *x[1:]] for x in r[1:])],
        ),
    ),
    Wrapping("table.reordered", _on(is_table, _reorder)),
    Wrapping("table.upper_names", _on(is_telemetry, lambda r: [[c.upper() for c in r[0]], *r[1:]])),
    Wrapping("table.title_line", each_text(is_table, lambda t: "sep=,\n" + t)),
    Wrapping("table.comment_line", each_text(is_table, lambda t: "# recorded on 2024-05-01\n" + t)),
    Wrapping("table.stamps", _on(is_telemetry, _stamped)),
    Wrapping("table.epoch_seconds", _on(is_telemetry, _epoch_seconds)),
    *(Wrapping(f"names.{n}", _on(is_telemetry, _renamed(v))) for n, v in NAMES.items()),
    Wrapping("export.tensorboard", _per_tag),
    Wrapping("export.wandb_charts", _wandb_charts),
    Wrapping("export.wandb_history", _on(is_results, _wandb_history)),
    Wrapping("export.mlflow_long", _on(is_results, _long("key", "value", "step", lambda c: re.sub(r"[()]", "", c)))),
    Wrapping("export.comet_long", _on(is_results, _long("metricName", "metricValue", "step", lambda c: c))),
    Wrapping("export.json_records", _suffix(is_table, _records, ".json")),
    Wrapping("export.json_lines", _suffix(is_table, _record_lines, ".jsonl")),
    Wrapping("export.sar", _beside(_sparse_sar, "sar.txt")),
    Wrapping("export.dmon", _beside(_dmon, "dmon.txt")),
)
