"""Wrappings of YAML files."""

import json
import re

import yaml

from tests.wrappings.base import Files, Wrapping, each_text, is_yaml


def _load(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _comments(text: str) -> str:
    lines = [line + ("  # mine" if re.search(r":\s*[\w.-]+$", line) else "") for line in text.split("\n")]
    return "# exported by hand\n---\n" + "\n".join(lines)


def _flow(text: str) -> str:
    made = _load(text)
    return yaml.safe_dump(made, default_flow_style=True, width=10_000, sort_keys=False) if made else text


def _json(text: str) -> str:
    made = _load(text)
    return json.dumps(made, indent=2, default=str) if made else text


def _anchors(text: str) -> str:
    return re.sub(r"(?m)^(epochs|batch|nc|imgsz): *(\d+)$", r"\1: &\1 \2", text)


def _tabs(text: str) -> str:
    return re.sub(r"(?m)^(\w+): +", r"\1:\t", text)


def _twice(text: str) -> str:
    found = re.search(r"(?m)^\w+:[^\n]*\S$", text)
    return text.rstrip("\n") + "\n" + found[0] + "\n" if found and "{" not in found[0] else text


def _json_files(files: Files) -> Files:
    return {
        (n.rsplit(".", 1)[0] + ".json" if is_yaml(n, d) else n): _json(d.decode("utf-8", "replace")).encode()
        if is_yaml(n, d)
        else d
        for n, d in files.items()
    }


def _quoted(text: str) -> str:
    return re.sub(r"(?m)^(\w+): ([\d.]+|true|false)$", r"'\1': \2", text)


YAMLS = (
    Wrapping("yaml.comments", each_text(is_yaml, _comments)),
    Wrapping("yaml.anchors", each_text(is_yaml, _anchors)),
    Wrapping("yaml.flow", each_text(is_yaml, _flow)),
    Wrapping("yaml.tabs", each_text(is_yaml, _tabs)),
    Wrapping("yaml.twice", each_text(is_yaml, _twice)),
    Wrapping("yaml.json_inside", each_text(is_yaml, _json)),
    Wrapping("yaml.json_file", _json_files),
    Wrapping("yaml.quoted_keys", each_text(is_yaml, _quoted)),
    Wrapping("yaml.bom_crlf", each_text(is_yaml, lambda t: "\ufeff" + t.replace("\r", "").replace("\n", "\r\n"))),
    Wrapping("yaml.indented", each_text(is_yaml, lambda t: "\n".join("  " + x for x in t.split("\n")))),
    Wrapping("yaml.txt", lambda f: {n + ".txt" if is_yaml(n, d) else n: d for n, d in f.items()}),
)
