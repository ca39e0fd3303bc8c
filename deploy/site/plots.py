# SPDX-License-Identifier: Apache-2.0
"""Draws tables of tests/bench/RESULTS.md as bars, one SVG for each column that a page shows."""

import os
import re
from collections.abc import Iterator

RESULTS = "tests/bench/RESULTS.md"
SECTION = "### All of them, with calls that share a stream"
# The picture, the first words of the table's head, the column, its title, and if less is better.
PLOTS = [("accept", "| | accept x1", "accept x64", "Accepted each second, 64 calls in flight", False),
         ("batches", "| | accept x1", "accept batches", "Accepted each second, in batches of 1,000", False),
         ("cancel", "| | accept x1", "cancel x64", "Cancelled each second, 64 calls in flight", False),
         ("burst", "| | accept x1", "burst", "Delivered and acked each second, all due at once", False),
         ("memory", "| | pending", "memory", "Bytes of memory for each pending message (less is better)", True),
         ("disk", "| | pending", "disk", "Bytes on disk for each pending message (less is better)", True)]
LEFT, WIDTH, ROW = 210, 420, 24


def table(text: str, head: str) -> tuple[list[str], list[list[str]]]:
    lines = text[text.index(head):].split("\n\n", 1)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return rows[0], rows[2:]


def bars(title: str, values: list[tuple[str, float]]) -> str:
    most = max(value for _, value in values)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {len(values) * ROW + 34}" '
           'font-family="system-ui, sans-serif" font-size="13">', f"<title>{title}</title>",
           f'<text x="4" y="18" font-weight="600" fill="#7d8590">{title}</text>']
    for number, (name, value) in enumerate(values):
        y = 32 + number * ROW
        colour = "#1f62c9" if name == "duetime" else "#8b95a3"
        out += [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end" fill="#7d8590">{name}</text>',
                f'<rect x="{LEFT}" y="{y}" width="{max(1, value / most * WIDTH):.1f}" height="17" rx="2" fill="{colour}"/>',
                f'<text x="{LEFT + value / most * WIDTH + 6:.1f}" y="{y + 13}" fill="#7d8590">{value:,.0f}</text>']
    return "\n".join([*out, "</svg>\n"])


def pictures(root: str) -> Iterator[tuple[str, str]]:
    with open(os.path.join(root, RESULTS), encoding="utf-8") as file:
        text = file.read()
    text = re.split(r"^###? ", text[text.index(SECTION) + 4:], maxsplit=1, flags=re.MULTILINE)[0]
    for name, head, column, title, less in PLOTS:
        heads, rows = table(text, head)
        at = heads.index(column)
        values = [(row[0], float(row[at].replace(",", ""))) for row in rows if row[at] != "-"]
        yield f"pictures/bench-{name}.svg", bars(title, sorted(values, key=lambda one: one[1] if less else -one[1]))
