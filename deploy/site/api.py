# SPDX-License-Identifier: Apache-2.0
"""Makes the pages of the API from the comments of the protos."""

import os
import re
from collections.abc import Iterator

FOLDER = "proto/duetime/v1"
# Calls first, then what they carry.
ORDER = ["messages", "schedule", "lifecycle", "subscribe", "recurrence", "message", "admin", "topic", "subscription", "forecast",
         "operation", "access", "backup", "test_clock", "failure", "call"]


def escaped(text: str) -> str:
    """Text whose marks mean themselves, but for what is between backquotes."""
    parts = text.split("`")
    return "`".join(re.sub(r"([<>*|\[\]])", r"\\\1", part) if number % 2 == 0 else part for number, part in enumerate(parts))


def prose(comment: list[str]) -> str:
    """A comment as Markdown: its paragraphs, and indented lines (tables, formulas) as they are."""
    out: list[str] = []
    for line in comment:
        kind = "code" if line.startswith("  ") else "text" if line else "gap"
        if kind == "code":
            if not out or not out[-1].startswith("    "):
                out.append("")
            out.append("  " + line)
        else:
            if kind == "text" and out and out[-1].startswith("    "):
                out.append("")
            out.append(escaped(line) if kind == "text" else "")
    return "\n".join(out).strip("\n")


def cell(comment: list[str]) -> str:
    return escaped(" ".join(line.strip() for line in comment if line))


def tokens(text: str) -> Iterator[tuple[list[str], str]]:
    """The statements of a proto, each with the comment above it."""
    comment: list[str] = []
    statement = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("//") and not statement:
            comment.append(stripped[2:].removeprefix(" "))
            continue
        if not stripped:
            if not statement:
                comment = []
            continue
        statement = f"{statement} {stripped}".strip()
        if stripped.split("//")[0].rstrip().endswith(("{", ";", "}")):
            yield comment, re.sub(r"\s*//.*$", "", statement)
            comment, statement = [], ""


class Entity:
    """A message, an enum or a service, while it is read."""

    def __init__(self, name: str, comment: list[str]):
        self.name, self.comment = name, comment
        self.rows: list[str] = []
        self.head = ""
        self.oneof = ""
        self.within: list[str] = []

    def text(self, level: int) -> str:
        rows = "\n".join([self.head, *self.rows])
        table = f'<div class="fields" markdown>\n\n{rows}\n\n</div>' if self.rows else ""
        return "\n\n".join(part for part in [f"{'#' * level} {self.name}", prose(self.comment), table, *self.within] if part)


def page(name: str, text: str) -> str:
    head, body = text.split("syntax =", 1)
    about = [line[2:].removeprefix(" ") for line in head.splitlines() if line.startswith("//")][1:]
    top = Entity(f"{name}.proto", about)
    # The open braces: an entity, or the one around a oneof or the options of a call.
    stack = [top]
    for comment, statement in tokens(body):
        now = stack[-1]
        if match := re.match(r"(message|enum|service) (\w+) \{", statement):
            prefix = "" if now is top else now.name + "."
            stack.append(Entity(prefix + match[2], comment))
        elif match := re.match(r"rpc (\w+)\((.*?)\) returns \((.*?)\)", statement):
            now.within.append(f"### {match[1]}\n\n`{match[2]}` → `{match[3]}`\n\n{prose(comment)}")
        elif match := re.match(r"oneof (\w+)", statement):
            now.oneof = match[1]
            if comment:
                now.rows.append(f"| *{match[1]}* | oneof | {cell(comment)} |")
        elif match := re.match(r"((?:repeated |optional )?(?:map<.*?>|[\w.]+)) (\w+) = \d+", statement):
            if not statement.startswith("option ") and now is not top:
                now.head = "| field | type | |\n|---|---|---|"
                kind = match[1].replace("google.protobuf.", "")
                choice = f", one of `{now.oneof}`" if now.oneof else ""
                now.rows.append(f"| `{match[2]}` | `{kind}`{choice} | {cell(comment)} |")
        elif (match := re.match(r"(\w+) = \d+", statement)) and now is not top:
            now.head = "| value | |\n|---|---|"
            now.rows.append(f"| `{match[1]}` | {cell(comment)} |")
        depth = statement.count("{") - statement.count("}")
        if depth > 0 and stack[-1] is now:
            stack.append(now)
        if depth < 0 or (depth == 0 and stack[-1] is not now):
            done = stack.pop()
            done.oneof = ""
            if done is not stack[-1]:
                stack[-1].within.append(done.text(min(4, len(set(map(id, stack))) + 1)))
    made = top.text(1) + "\n"
    for word in re.findall(r"^ *(?:message|enum|service|rpc) (\w+)", body, re.MULTILINE):
        assert re.search(rf"^#+ (?:\w+\.)*{word}$", made, re.MULTILINE), f"{name}.proto: {word} is missing"
    return made


def pages(root: str) -> Iterator[tuple[str, str]]:
    assert {f"{name}.proto" for name in ORDER} == set(os.listdir(os.path.join(root, FOLDER))), "a proto without a page"
    for name in ORDER:
        with open(os.path.join(root, FOLDER, f"{name}.proto"), encoding="utf-8") as file:
            yield f"api/{name}.md", page(name, file.read())
