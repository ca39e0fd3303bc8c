# SPDX-License-Identifier: Apache-2.0
"""What mkdocs runs while it builds the site: includes, links that leave the site, and pages that are made from other files.

A page includes what another file of the repository says, so that nothing is copied:

    <!-- include deploy/RUNBOOK.md -->                   all of it but the title
    <!-- include client/README.md ## Which calls are repeated -->    the text of a section
    <!-- include client/go/README.md block go 1 -->      the first block of code in this language
"""

import os
import re
import sys

from mkdocs.structure.files import File

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGES = os.path.join(HERE, "pages")
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import api  # noqa: E402 pylint: disable=wrong-import-position
import plots  # noqa: E402 pylint: disable=wrong-import-position

# The pages that show a document of the repository: links to the document lead there.
PAGE_OF = {"deploy/RUNBOOK.md": "operations.md", "deploy/METRICS.md": "metrics.md", "CHANGELOG.md": "changes.md",
           "proto/FIRST_CLIENT.md": "languages/any.md", "deploy/cell/README.md": "cells.md"}
INCLUDE = re.compile(r"^<!-- include (\S+?)(?: (##.*?)| block (\w+) (\d+))? -->$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def section(text: str, heading: str) -> str:
    level = len(heading.split()[0])
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"no section {heading}"
    return found[1]


def block(text: str, language: str, number: int) -> str:
    found = re.findall(rf"^```{language}\n.*?^```$", text, re.DOTALL | re.MULTILINE)
    assert len(found) >= number, f"no block {number} of {language}"
    return found[number - 1]


def rebased(text: str, folder: str, page: str, source: str) -> str:
    """The links of a text from `folder`, as the page needs them: to a page of the site, or to the source of the repository."""
    def target(match: re.Match[str]) -> str:
        link, anchor = match[2].partition("#")[::2]
        if re.match(r"[a-z]+:", link) or not link:
            return match[0]
        path = os.path.normpath(os.path.join(folder, link))
        if path in PAGE_OF or path.startswith("deploy/site/pages/"):
            found = PAGE_OF.get(path, os.path.relpath(path, "deploy/site/pages"))
            link = os.path.relpath(found, os.path.dirname(page) or ".")
        else:
            link = source + path
        return match[1] + link + (f"#{anchor}" if anchor else "") + match[3]
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(LINK.sub(target, part) if number % 2 == 0 else part for number, part in enumerate(parts))


def included(markdown: str, page: str, source: str) -> str:
    def text_of(match: re.Match[str]) -> str:
        path, heading, language, number = match.groups()
        text = read(path)
        if heading:
            text = section(text, heading)
        elif language:
            return block(text, language, int(number))
        else:
            text = text.partition("\n")[2]
        return rebased(text.strip(), os.path.dirname(path), page, source)
    folder = os.path.join("deploy/site/pages", os.path.dirname(page))
    # What a page says itself first: included texts have links of their own places.
    return INCLUDE.sub(text_of, rebased(markdown, folder, page, source))


def on_page_markdown(markdown, page, config, files):  # pylint: disable=unused-argument
    return included(markdown, page.file.src_uri, config["extra"]["source"])


def on_files(files, config):
    for name, content in [*api.pages(ROOT), *plots.pictures(ROOT)]:
        files.append(File.generated(config, name, content=content))
    return files
