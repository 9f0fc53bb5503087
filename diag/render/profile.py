"""The operator profile as rows of two small tables."""

from diag.messages import text
from diag.model.profile import Profile

OPERATOR_COLUMNS = ("operator", "calls", "self_cpu", "self_device", "share", "flops")
LAYER_COLUMNS = ("layer", "forward", "backward", "share", "flops", "parameters")


def operator_rows(profile: Profile, *, top: int = 12) -> list[tuple[str, ...]]:
    """The operators with the most time of their own: on the GPU where there is one, else on the CPU."""
    gpu = profile.device_s > 0
    whole = (profile.device_s if gpu else profile.cpu_s) or 1.0
    operators = sorted(profile.operators, key=lambda o: -(o.self_device_s if gpu else o.self_cpu_s))[:top]
    return [
        (
            o.name[:48],
            f"{o.calls:.0f}",
            _ms(o.self_cpu_s),
            _ms(o.self_device_s) if gpu else "-",
            f"{(o.self_device_s if gpu else o.self_cpu_s) / whole:.1%}",
            _flops(o.flops),
        )
        for o in operators
    ]


def layer_rows(profile: Profile, *, top: int = 12) -> list[tuple[str, ...]]:
    """The layers with the most forward and backward time, largest first."""
    gpu = profile.device_s > 0
    times = {
        layer.index: (layer.forward_device_s, layer.backward_device_s) if gpu else (layer.forward_s, layer.backward_s)
        for layer in profile.layers
    }
    whole = sum(map(sum, times.values())) or 1.0
    layers = sorted(profile.layers, key=lambda layer: -sum(times[layer.index]))[:top]
    return [
        (
            f"{layer.index} {layer.type[:30]}",
            _ms(times[layer.index][0]),
            _ms(times[layer.index][1]),
            f"{sum(times[layer.index]) / whole:.1%}",
            _flops(layer.flops),
            f"{layer.parameters:,}",
        )
        for layer in layers
    ]


def profile_note(profile: Profile, lang: str) -> str:
    """Over how many steps, how long, and where the trace is."""
    peak = profile.peak_memory_bytes
    values = {
        "steps": profile.steps,
        "step_ms": profile.step_s * 1e3,
        "device": profile.device,
        "batch": profile.batch,
        "gflops": profile.flops / 1e9,
        "peak_gib": None if peak is None else peak / 2**30,
        "trace": f"profile/{profile.trace}",
    }
    return text(lang, "profile", "note", values)


def columns(names: tuple[str, ...], lang: str) -> list[str]:
    """Column titles."""
    return [text(lang, "profile", name) for name in names]


def table(header: list[str], rows: list[tuple[str, ...]]) -> str:
    """Plain text with aligned columns, the first to the left."""
    cells = [header, *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    return "\n".join(lines) + "\n"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _flops(flops: float) -> str:
    return f"{flops / 1e9:.2f} G" if flops else "-"
