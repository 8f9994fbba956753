"""Several JavaScript modules as one file, so that a browser asks once and not thirty times.

This is not a JavaScript reader: it knows the few forms of `import` and `export` the console's files use, and says so
when it meets another one. Each module becomes a function that returns what it exports. What is not joined is `rewired`:
it takes from the joined file what it would have imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import dirname, join, normpath, relpath

IMPORT = re.compile(r'(?:^|(?<=;))\s*import\s*\{([^}]*)\}\s*from\s*"([^"]+)";?', re.MULTILINE)
PASSED_ON = re.compile(r'export\s*\{([^}]*)\}\s*from\s*"([^"]+)";?')
LISTED = re.compile(r"export\s*\{([^}]*)\};?")
DECLARED = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
ANOTHER = re.compile(r"^\s*(?:import\s*[\"*\w]|export\b)", re.MULTILINE)


class NotJoinable(Exception):
    """A form of import or export that is not known here, or modules that need each other."""


def joined(files: Mapping[str, str], first: str) -> str:
    """`first` and all it imports, each before whoever needs it; `modules` holds what they export, by path."""
    order = _needed(files, first)
    parts = [f"// {name}\nmodules[{name!r}] = (() => {{\n{_as_function(name, files[name])}}})();\n" for name in order]
    return "export const modules = {};\n" + "".join(parts)


def rewired(name: str, text: str, files: Mapping[str, str], first: str, together: str) -> str:
    """A module apart, which takes from the file `together` what is joined there with `first`."""
    shared = _needed(files, first)

    def taken(found: re.Match[str]) -> str:
        path = _path(name, found[2])
        return f"const {{ {_renamed(found[1])} }} = modules[{path!r}];" if path in shared else found[0]

    return f'import {{ modules }} from "{relpath(together, dirname(name))}";\n{IMPORT.sub(taken, text)}'


def _needed(files: Mapping[str, str], first: str) -> dict[str, None]:
    """`first` and all it imports, each once and after what it imports itself."""
    found: dict[str, None] = {}

    def visit(name: str, above: list[str]) -> None:
        if name in above:
            raise NotJoinable(f"{name} needs itself, by way of {above[-1]}.")
        if name in found:
            return
        for pattern in (IMPORT, PASSED_ON):
            for one in pattern.finditer(files[name]):
                visit(_path(name, one[2]), [*above, name])
        found[name] = None

    visit(first, [])
    return found


def _as_function(name: str, text: str) -> str:
    exports: dict[str, str] = {}

    def imported(found: re.Match[str]) -> str:
        return f"const {{ {_renamed(found[1])} }} = modules[{_path(name, found[2])!r}];"

    def passed_on(found: re.Match[str]) -> str:
        exports.update({new: f"modules[{_path(name, found[2])!r}].{old}" for old, new in _names(found[1])})
        return ""

    def listed(found: re.Match[str]) -> str:
        exports.update({new: old for old, new in _names(found[1])})
        return ""

    def declared(found: re.Match[str]) -> str:
        exports[found[2]] = found[2]
        return f"{found[1]} {found[2]}"

    text = PASSED_ON.sub(passed_on, IMPORT.sub(imported, text))
    text = DECLARED.sub(declared, LISTED.sub(listed, text))
    if another := ANOTHER.search(text):
        raise NotJoinable(f"{name}: {text[another.start() : another.start() + 60]!r}")
    given = ", ".join(f"{new}: {old}" for new, old in exports.items())
    return f"{text}\nreturn {{ {given} }};\n"


def _path(name: str, target: str) -> str:
    return normpath(join(dirname(name), target))


def _names(listed: str) -> list[tuple[str, str]]:
    """`a, b as c` → (a, a), (b, c)."""
    pairs = [one.split(" as ") for one in map(str.strip, listed.split(",")) if one]
    return [(pair[0].strip(), pair[-1].strip()) for pair in pairs]


def _renamed(listed: str) -> str:
    return ", ".join(old if old == new else f"{old}: {new}" for old, new in _names(listed))
