"""Bundle the console's JavaScript modules into one file, so that a browser makes one request instead of thirty.

This is not a JavaScript parser. It knows the forms of `import` and `export` that the console uses, and refuses others.
Each module becomes a function that returns its exports. Modules outside the bundle import from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from posixpath import dirname, join, normpath, relpath

IMPORT = re.compile(r'(?:^|(?<=;))\s*import\s*\{([^}]*)\}\s*from\s*"([^"]+)";?', re.MULTILINE)
REEXPORT = re.compile(r'export\s*\{([^}]*)\}\s*from\s*"([^"]+)";?')
EXPORT_LIST = re.compile(r"export\s*\{([^}]*)\};?")
EXPORT_DECLARATION = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
COMMENT_LINES = re.compile(r"^[ \t]*(?://.*|/\*\*.*\*/[ \t]*)\n|^[ \t]*/\*\*\n(?:[ \t]*\*.*\n)+", re.MULTILINE)
OTHER_FORM = re.compile(r"^\s*(?:import\s*[\"*\w]|export\b)", re.MULTILINE)


class BundleError(Exception):
    """An unknown form of import or export, or modules that import each other."""


def without_comments(text: str) -> str:
    """The code without lines that have only a comment: a browser need not load them."""
    return COMMENT_LINES.sub("", text)


def bundle(files: Mapping[str, str], names: Collection[str]) -> str:
    """These modules, in order. `modules` has their exports by path."""
    parts = [f"// {name}\nmodules[{name!r}] = (() => {{\n{_as_function(name, files[name])}}})();\n" for name in names]
    return "export const modules = {};\n" + "".join(parts)


def import_from_bundle(name: str, text: str, bundled: Collection[str], bundle: str) -> str:
    """A module outside the bundle, changed to import bundled modules from the file `bundle`."""

    def replace(found: re.Match[str]) -> str:
        path = _path(name, found[2])
        return f"const {{ {_renamed(found[1])} }} = modules[{path!r}];" if path in bundled else found[0]

    return f'import {{ modules }} from "{relpath(bundle, dirname(name))}";\n{IMPORT.sub(replace, text)}'


def modules_of(files: Mapping[str, str], entry: str) -> dict[str, None]:
    """`entry` and all modules it imports, each after its own imports."""
    found: dict[str, None] = {}

    def visit(name: str, above: list[str]) -> None:
        if name in above:
            raise BundleError(f"{name} imports itself, through {above[-1]}.")
        if name in found:
            return
        for pattern in (IMPORT, REEXPORT):
            for one in pattern.finditer(files[name]):
                visit(_path(name, one[2]), [*above, name])
        found[name] = None

    visit(entry, [])
    return found


def _as_function(name: str, text: str) -> str:
    exports: dict[str, str] = {}

    def on_import(found: re.Match[str]) -> str:
        return f"const {{ {_renamed(found[1])} }} = modules[{_path(name, found[2])!r}];"

    def on_reexport(found: re.Match[str]) -> str:
        exports.update({new: f"modules[{_path(name, found[2])!r}].{old}" for old, new in _names(found[1])})
        return ""

    def on_list(found: re.Match[str]) -> str:
        exports.update({new: old for old, new in _names(found[1])})
        return ""

    def on_declaration(found: re.Match[str]) -> str:
        exports[found[2]] = found[2]
        return f"{found[1]} {found[2]}"

    text = REEXPORT.sub(on_reexport, IMPORT.sub(on_import, text))
    text = EXPORT_DECLARATION.sub(on_declaration, EXPORT_LIST.sub(on_list, text))
    if other := OTHER_FORM.search(text):
        raise BundleError(f"{name}: {text[other.start() : other.start() + 60]!r}")
    returned = ", ".join(f"{new}: {old}" for new, old in exports.items())
    return f"{text}\nreturn {{ {returned} }};\n"


def _path(name: str, target: str) -> str:
    return normpath(join(dirname(name), target))


def _names(listed: str) -> list[tuple[str, str]]:
    """`a, b as c` → (a, a), (b, c)."""
    pairs = [one.split(" as ") for one in map(str.strip, listed.split(",")) if one]
    return [(pair[0].strip(), pair[-1].strip()) for pair in pairs]


def _renamed(listed: str) -> str:
    return ", ".join(old if old == new else f"{old}: {new}" for old, new in _names(listed))
