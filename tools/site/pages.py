"""A hook of mkdocs: files outside of docs/ become pages, and links between files stay what they are in a repository.

README.md is the front page, every script of examples/ is a page with its text. A link in any of these files names a
file, relative to the file that it is in, as a repository browser wants it; here it becomes a link to that file's page.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "examples/README.md": "examples/index.md",
    "tests/contract/README.md": "contract.md",
}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def page_of(path: str) -> str | None:
    """The page that a file of the repository becomes, if it becomes one."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in ("examples", "examples/"):
        return OUTSIDE["examples/README.md"]
    if path.startswith("examples/") and path.endswith(".py"):
        return path.removesuffix(".py") + ".md"
    return None


def file_of(page: str) -> str:
    """The file of the repository that a page was made of."""
    for path, target in OUTSIDE.items():
        if target == page:
            return path
    return page.removesuffix(".md") + ".py" if page.startswith("examples/") else f"docs/{page}"


def relink(markdown: str, page: str) -> str:
    """Links to files, made links to their pages. Code is left alone."""
    path = file_of(page)

    def to_page(link: re.Match[str]) -> str:
        target = page_of(posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1])))
        if target is None:
            return link[0]  # mkdocs will say that it leads nowhere
        return posixpath.relpath(target, posixpath.dirname(page) or ".") + (link[2] or "")

    pieces, end = [], 0
    for fence in _FENCE.finditer(markdown):
        pieces += [_LINK.sub(to_page, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, _LINK.sub(to_page, markdown[end:])])


def page_of_script(path: Path) -> str:
    """A script of examples/: what its docstring says, and its text."""
    text = path.read_text(encoding="utf-8")
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return f"# {path.stem.replace('_', ' ').capitalize()}\n\n{first}\n\n```python\n{text}```\n"


def on_files(files: Files, config: Any) -> Files:
    for path, page in OUTSIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if path == "LICENSE":
            text = f"# License\n\n```text\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    for script in sorted((ROOT / "examples").glob("*.py")):
        if not script.stem.startswith("_"):
            files.append(File.generated(config, f"examples/{script.stem}.md", content=page_of_script(script)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return relink(markdown, page.file.src_uri)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """A Chinese page says so: browsers choose glyphs, and screen readers a voice, by it."""
    return output.replace('<html lang="en"', '<html lang="zh-Hans"', 1) if page.url.startswith("zh/") else output
