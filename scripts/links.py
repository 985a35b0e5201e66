#!/usr/bin/env python3
"""Relative links of the Markdown pages in a folder.

links.py check DIR                 fails if a link leads to no file in DIR
links.py adjust DIR [FROM=TO...]   replaces such links: by the file TO if the link is to FROM, otherwise by their text

Both take DIR as the root: a link that leads out of it is dangling. Code blocks are left alone.
"""

import os
import re
import sys

INLINE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
NAMED = re.compile(r"^\[([^\]]+)\]:[ \t]*(\S+)[ \t]*\n?", re.MULTILINE)
USED = re.compile(r"\[([^\[\]]+)\](?:\[([^\[\]]+)\])?(?![\[(:])")
FENCED = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)


def pages(root):
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def is_elsewhere(link):
    return link.startswith("#") or re.match(r"[a-z]+:", link) is not None


def target(root, page, link):
    """The path in root that a link leads to, or None if there is no such file."""
    path = os.path.normpath(os.path.join(os.path.dirname(page), link.split("#")[0]))
    inside = path == root or path.startswith(root + os.sep)
    return path if inside and os.path.exists(path) else None


def outside_code(text, change):
    """Applies a function to the parts of a page that are not code blocks."""
    parts, end = [], 0
    for block in FENCED.finditer(text):
        parts += [change(text[end : block.start()]), block.group()]
        end = block.end()
    return "".join(parts + [change(text[end:])])


def check(root):
    dangling, links = [], 0

    def look(page, text):
        nonlocal links
        found = [match.group(3) for match in INLINE.finditer(text)]
        found += [match.group(2) for match in NAMED.finditer(text)]
        for link in found:
            if not is_elsewhere(link):
                links += 1
                if target(root, page, link) is None:
                    dangling.append(f"{os.path.relpath(page, root)}: {link}")
        return text

    for page in pages(root):
        with open(page, encoding="utf-8") as file:
            outside_code(file.read(), lambda text: look(page, text))
    if dangling:
        sys.exit("error: links to files that are not there:\n    " + "\n    ".join(dangling))
    if links == 0:
        sys.exit(f"error: there are no links in {root}")
    print(f"{links} links have existing targets")


def adjust(root, renamed):
    def replacement(page, match):
        image, text, link = match.groups()
        if is_elsewhere(link) or target(root, page, link) is not None:
            return match.group()
        path = os.path.normpath(os.path.join(os.path.dirname(page), link.split("#")[0]))
        to = renamed.get(os.path.relpath(path, root))
        if to is None:
            return text
        return f"{image}[{text}]({os.path.relpath(os.path.join(root, to), os.path.dirname(page))})"

    for page in pages(root):
        with open(page, encoding="utf-8") as file:
            text = file.read()
        lost = set()

        def definition(match):
            if is_elsewhere(match.group(2)) or target(root, page, match.group(2)) is not None:
                return match.group()
            lost.add(match.group(1))
            return ""

        def use(match):
            return match.group(1) if (match.group(2) or match.group(1)) in lost else match.group()

        text = outside_code(text, lambda part: NAMED.sub(definition, part))
        text = outside_code(text, lambda part: USED.sub(use, INLINE.sub(lambda match: replacement(page, match), part)))
        with open(page, "w", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        check(os.path.abspath(sys.argv[2]))
    elif len(sys.argv) >= 3 and sys.argv[1] == "adjust":
        adjust(os.path.abspath(sys.argv[2]), dict(pair.split("=") for pair in sys.argv[3:]))
    else:
        sys.exit("usage: links.py check|adjust DIR [FROM=TO...]")
