"""Numbers as people read them in a check's line."""


def bytes_text(count: float) -> str:
    """Bytes in the largest binary unit that keeps the number at 1 or more: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or abs(count) >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def number_text(value: float) -> str:
    """Three significant digits without an exponent: `0.5`, `12`, `1840`."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
