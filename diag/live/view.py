"""What a person sees of a living run: a block for a terminal, and plain lines for logs."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from diag.live.look import Look
from diag.live.seen import Event, Seen
from diag.messages import text
from diag.model.counters import Counters
from diag.model.evidence import StepStats
from diag.model.finding import Finding, Severity
from diag.render.console import COLORS
from diag.render.words import clean, duration, story

_BAR = 24
_MAX_FINDINGS = 8
_SCORES = ("mAP50", "mAP50-95", "mAP50(M)", "mAP50-95(M)", "mAP50(P)", "mAP50-95(P)", "accuracy_top1")
_GPU = (("util", "{:.0%}"), ("temperature_c", "{:.0f} °C"), ("power_w", "{:.0f} W"), ("sm_mhz", "{:.0f} MHz"))
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class View:
    """Makes lines of looks and events; `color` adds ANSI colours, no line is wider than `width` columns."""

    def __init__(self, *, lang: str, color: bool, width: int) -> None:
        self._lang, self._color, self._width = lang, color, max(40, width)

    def block(self, look: Look, seen: Mapping[str, Seen], *, looks: int, next_s: float) -> list[str]:
        """The whole view: how far, where a step's time goes, the newest figures, what was found and since when."""
        verdict = look.report.verdict
        word = self._paint(self._say("ui", verdict), verdict)
        lines = [f"{word}  {self._ending(look)}  {self._paint(clean(look.evidence.path), 'bold')}"]
        lines += ["", self._place(look)]
        if (steps := look.evidence.steps) is not None:
            lines += ["", *self._steps(steps)]
        if newest := self._newest(look):
            lines += ["", newest]
        if machine := self._machine(look.evidence.counters):
            lines.append(machine)
        lines += ["", *self._findings(look, seen, looks)]
        if look.state.living:
            lines += ["", self._paint(self._say("live", "next", seconds=round(next_s)), "dim")]
        return [self._cut(line) for line in lines]

    def event(self, event: Event) -> Iterator[str]:
        """An event as plain lines, with the time of day first."""
        clock = _clock(str(event["time"])) if "time" in event else ""
        match event["event"]:
            case "progress":
                yield f"{clock}  {self._progress(event)}"
            case "silent":
                yield f"{clock}  {self._say('live', 'silent', time=duration(event['quiet_s']))}"
            case "finding" | "changed" if event["explained"]:
                pass  # a symptom: its cause is told
            case "finding" | "changed":
                yield from self._told(clock, event)
            case "gone":
                yield f"{clock}  {event['id']}: {self._say('live', 'gone')}"
            case _:
                pass

    def _told(self, clock: str, event: Event) -> Iterator[str]:
        finding, first = event["finding"], event["first_seen"]
        severity = str(finding["severity"])
        if event["event"] == "finding":
            mark = self._say("live", "new")
        elif event["was"]:
            mark = self._say("live", "changed", severity=self._say("ui", severity), was=self._say("ui", event["was"]))
        else:
            mark = self._say("live", "back")
        since = "" if event["event"] == "finding" else f"  {self._since(first)}"
        tag = self._paint(f"{mark} {self._say('ui', severity)}", severity)
        yield f"{clock}  {tag}  {finding['title']}  ({finding['id']}){since}"
        for sentence in finding["advice"][:1]:
            yield f"{' ' * len(clock)}  → {sentence}"

    def _ending(self, look: Look) -> str:
        state = look.state
        if state.living:
            silent = self._say("live", "silent", time=duration(state.quiet_s)) if state.silent else ""
            return self._say("live", "running") + (f"; {self._paint(silent, 'medium')}" if silent else "")
        if state.cause is not None:
            return self._say("live", "ended", cause=clean(state.cause.kind))
        if state.why == "quiet":
            return self._say("live", "quiet", time=duration(state.quiet_s))
        return self._say("live", "over")

    def _place(self, look: Look) -> str:
        far = look.progress
        if far is None:
            stage = self._say("live", "stage", stage=look.stage) if look.stage else ""
            return "  ".join(filter(None, (stage, self._say("live", "waiting") if look.state.living else "")))
        within = far.batch / far.batches if far.batches else 1.0
        done = min(1.0, (far.epoch - 1 + within) / far.epochs) if far.epochs else 0.0
        bar = "█" * round(done * _BAR) + "░" * (_BAR - round(done * _BAR)) + f" {done:.0%}" if far.epochs else ""
        return "  ".join(
            filter(None, (self._where(vars(far)), bar, self._left(None if look.state.silent else look.eta_s)))
        )

    def _where(self, far: Mapping[str, Any]) -> str:
        place = self._say("live", "epoch" if far["epochs"] else "epoch_open", epoch=far["epoch"], epochs=far["epochs"])
        if far["batches"]:
            place += "  " + self._say("live", "batch", batch=far["batch"], batches=far["batches"])
        return place

    def _left(self, eta_s: float | None) -> str:
        return self._say("live", "eta", time=duration(max(10.0, eta_s))) if eta_s else ""

    def _progress(self, event: Event) -> str:
        parts = []
        if far := event["progress"]:
            parts += [self._where(far), self._left(event["eta_s"])]
        elif event["stage"]:
            parts.append(self._say("live", "stage", stage=event["stage"]))
        if event["step_s"] is not None:
            parts.append(self._say("live", "step", step=event["step_s"]))
            top = sorted(event["share"].items(), key=lambda item: -item[1])[:3]
            parts.append(", ".join(f"{self._say('stage', name)} {share:.0%}" for name, share in top))
        parts.append(_figures(event["metrics"]))
        return "  ".join(filter(None, parts)) or self._say("live", "waiting")

    def _steps(self, steps: StepStats) -> list[str]:
        lines = [self._say("live", "step", step=steps.step_s)]
        shares = [(stage, steps.share(stage)) for stage in steps.mean_s if steps.share(stage) >= 0.005]
        names = [self._say("stage", stage.value) for stage, _ in shares]
        width = max((_columns(name) for name in names), default=0)
        for name, (_, share) in zip(names, shares, strict=True):
            pad = " " * (width - _columns(name))
            lines.append(f"  {name}{pad}  {share:4.0%}  {self._paint('█' * max(1, round(share * _BAR)), 'info')}")
        return lines

    def _newest(self, look: Look) -> str:
        figures = _figures(look.metrics)
        return f"{self._say('live', 'newest')}  {figures}" if figures else ""

    def _machine(self, counters: Counters | None) -> str:
        if counters is None:
            return ""
        last = {name: series.last for name, series in counters.series.items()}
        parts = []
        if memory := last.get("rss_main_bytes", 0.0) + last.get("rss_workers_bytes", 0.0):
            parts.append(self._say("live", "memory", gib=memory / 2**30))
        if "cpu_tree_s_per_s" in last:
            parts.append(self._say("live", "cores", cores=last["cpu_tree_s_per_s"]))
        for gpu in counters.gpus:
            seen = [form.format(last[key]) for unit, form in _GPU if (key := f"gpu{gpu.index}_{unit}") in last]
            if seen:
                parts.append(self._say("live", "gpu", index=gpu.index, parts=" ".join(seen)))
        return f"{self._say('live', 'machine')}  {'  '.join(parts)}" if parts else ""

    def _findings(self, look: Look, seen: Mapping[str, Seen], looks: int) -> list[str]:
        explained = {id for finding in look.report.findings for id in finding.explains}
        order = [f.id for f in look.report.findings]
        known = [s for s in seen.values() if s.finding.id not in explained]
        shown = [s for s in known if s.finding.severity.rank >= Severity.LOW.rank]
        shown.sort(key=lambda s: (s.gone, order.index(s.finding.id) if s.finding.id in order else len(order)))
        if not shown:
            key = "none_yet" if look.state.living else "none"
            lines = [self._say("live", key, looks=looks)]
            return lines + (
                [self._paint("  " + self._say("live", "remarks", count=len(known)), "dim")] if known else []
            )
        lines = [self._paint(self._say("live", "found"), "bold")]
        for entry in shown[:_MAX_FINDINGS]:
            lines += self._entry(entry)
        if rest := len(known) - len(shown[:_MAX_FINDINGS]):
            lines.append(self._paint("  " + self._say("live", "remarks", count=rest), "dim"))
        return lines

    def _entry(self, entry: Seen) -> list[str]:
        finding: Finding = entry.finding
        told = story(finding, self._lang)
        since = self._since(entry.first())
        if entry.gone:
            return [self._paint(f"  ·  {told.title}  ({since}, {self._say('live', 'gone')})", "dim")]
        word = self._say("ui", finding.severity.value)
        lines = [f"  {self._paint(word + ' ' * (8 - _columns(word)), finding.severity.value)}  {told.title}"]
        lines.append(self._paint(f"            {finding.id} · {since}", "dim"))
        for advice in told.advice[:1]:
            lines.append(f"            → {advice.sentence} {self._paint(advice.change, 'change')}".rstrip())
        return lines

    def _since(self, first: Mapping[str, Any]) -> str:
        key = "first" if first["epoch"] is None else "first_epoch"
        return self._say("live", key, epoch=first["epoch"], time=_clock(str(first["time"])))

    def _say(self, section: str, key: str, **values: Any) -> str:
        return text(self._lang, section, key, values)

    def _paint(self, line: str, name: str) -> str:
        return f"\x1b[{COLORS[name]}m{line}\x1b[0m" if self._color and line else line

    def _cut(self, line: str) -> str:
        """At most `width` columns; a cut line loses its colours, which would else run on."""
        plain = _ANSI.sub("", line)
        if _columns(plain) <= self._width:
            return line
        while _columns(plain) > self._width - 1:
            plain = plain[:-1]
        return plain + "…"


def _figures(metrics: Mapping[str, float]) -> str:
    """Scores, losses and learning rate in a line."""
    scores = [f"{name} {metrics[name]:.3f}" for name in _SCORES if name in metrics]
    losses = [f"{name.removesuffix('_loss')} {value:.3f}" for name, value in metrics.items() if name.endswith("_loss")]
    lr = [f"lr {metrics['lr']:.2g}"] if "lr" in metrics else []
    return "  ".join((*scores, *losses, *lr))


def _clock(time: str) -> str:
    try:
        return datetime.fromisoformat(time).strftime("%H:%M:%S")
    except ValueError:
        return time


def _columns(cell: str) -> int:
    """Columns in a terminal: East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in cell)
