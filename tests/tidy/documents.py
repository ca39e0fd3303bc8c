# SPDX-License-Identifier: Apache-2.0
"""The house rules of documents and their pictures. tidy.py runs them; a finding is (path, line, rule, text)."""

import os
import re
from collections.abc import Iterator

Finding = tuple[str, int, str, str]

# The tables of folders, and the folders that each must have.
TABLES = {"README.md": r"\w+", "server/README.md": r"server/\w+", "storage/README.md": r"storage/\w+",
          "client/README.md": r"client/\w+", "tests/README.md": r"tests/\w+"}
README_LINES_MAX = 150
PICTURES = "deploy/site/pages/pictures/"
PICTURE_BYTES_MAX = 200_000


def room_tables(files: dict[str, str], folders: set[str]) -> Iterator[Finding]:
    for document, pattern in TABLES.items():
        expected = {folder for folder in folders if re.fullmatch(pattern, folder)}
        if document not in files:
            if expected:
                yield document, 1, "room table", "missing"
            continue
        rows = {}
        for number, line in enumerate(files[document].splitlines(), 1):
            match = re.match(r"\|\s*\[?`([\w/]+?)/?`", line)
            if match and (match[1].startswith(os.path.dirname(document) + "/") or "/" not in document):
                rows[match[1]] = number
        for folder in sorted(expected - set(rows)):
            yield document, 1, "room table", f"has no row for {folder}"
        for folder in sorted(set(rows) - expected):
            yield document, rows[folder], "room table", f"{folder} is not on disk"


def anchors(text: str) -> set[str]:
    """What a link may name behind # in a document."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(files: dict[str, str], folders: set[str]) -> Iterator[Finding]:
    """Links within the tree lead to something. Those in examples of code are none."""
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        prose = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
        prose = re.sub(r"`[^`\n]*`", "x", prose)
        for match in re.finditer(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"|^<!-- include (\S+)", prose, re.MULTILINE):
            link = match[1] or match[2] or match[3]
            number = prose.count("\n", 0, match.start()) + 1
            # The plots are made with the site.
            if re.match(r"[a-z]+:", link) or link.startswith("pictures/bench-"):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join("" if match[3] else os.path.dirname(path), name)) if name else path
            if target not in files and target not in folders:
                yield path, number, "links", f"{link}: there is no {target}"
            elif anchor and target in files and anchor not in anchors(files[target]):
                yield path, number, "links", f"{link}: {target} has no such heading"


def pictures(files: dict[str, str]) -> Iterator[Finding]:
    """Pictures are small and shown by a document. A file that is no text is "\\0" and its size."""
    documents = "".join(text for path, text in files.items() if path.endswith(".md"))
    for path, text in files.items():
        if not path.startswith(PICTURES):
            continue
        size = int(text[1:] or 0) if text.startswith("\0") else len(text)
        if size > PICTURE_BYTES_MAX:
            yield path, 1, "pictures", f"{size} bytes: at most {PICTURE_BYTES_MAX}"
        if os.path.basename(path) not in documents:
            yield path, 1, "pictures", "no document shows it"


def length(files: dict[str, str]) -> Iterator[Finding]:
    lines = files.get("README.md", "").count("\n")
    if lines > README_LINES_MAX:
        yield "README.md", lines, "length", f"{lines} lines, at most {README_LINES_MAX}: a reader begins here"


def findings(files: dict[str, str], folders: set[str]) -> Iterator[Finding]:
    yield from room_tables(files, folders)
    yield from links(files, folders)
    yield from pictures(files)
    yield from length(files)
