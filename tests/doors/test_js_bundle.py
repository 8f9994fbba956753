"""Modules are bundled into one file; what cannot be bundled is named."""

from __future__ import annotations

import pytest

from palaver.doors.http.js_bundle import BundleError, bundle, import_from_bundle, modules_of, without_comments

FILES = {
    "js/app.js": 'import { greet as hail } from "./greet.js";\n\nhail();\n',
    "js/greet.js": 'import { name } from "../vendor/a.js";\nexport const greet = () => name;\nexport async function go() {}\n',
    "vendor/a.js": 'import{b as c}from"./b.js";import{d}from"./b.js";const n=c+d;export{n as name};export{d}from"./b.js";',
    "vendor/b.js": "const b=1,d=2;export{b,d};",
    "js/places/far.js": 'import { greet } from "../greet.js";\nimport { near } from "./near.js";\n',
}


def test_each_stands_before_whoever_needs_it_and_only_once():
    whole = bundle(FILES, modules_of(FILES, "js/app.js"))
    places = [whole.index(f"// {name}\n") for name in ("vendor/b.js", "vendor/a.js", "js/greet.js", "js/app.js")]
    assert places == sorted(places)
    assert whole.count("// vendor/b.js\n") == 1
    assert "far.js" not in whole


def test_imports_and_exports_become_names():
    whole = bundle(FILES, modules_of(FILES, "js/app.js"))
    assert "const { greet: hail } = modules['js/greet.js'];" in whole
    assert "const { b: c } = modules['vendor/b.js'];const { d } = modules['vendor/b.js'];" in whole
    assert "return { d: modules['vendor/b.js'].d, name: n };" in whole
    assert "async function go() {}\n\nreturn { greet: greet, go: go };" in whole
    assert "import" not in whole
    assert whole.count("export") == 1


def test_a_module_apart_takes_from_the_joined_file_what_is_there():
    assert import_from_bundle(
        "js/places/far.js", FILES["js/places/far.js"], modules_of(FILES, "js/app.js"), "js/start.js"
    ) == (
        'import { modules } from "../start.js";\n'
        "const { greet } = modules['js/greet.js'];\n"
        'import { near } from "./near.js";\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        'import * as all from "./b.js";',
        'import "./b.js";',
        'import b from "./b.js";',
        "export let moving = 1;",
        "export default 1;",
        'import { a } from "./a.js";\nexport const b = a;',
    ],
)
def test_what_it_does_not_know_it_refuses(text: str):
    files = {"a.js": 'import { b } from "./b.js";\nexport const a = b;', "b.js": text}
    with pytest.raises(BundleError):
        bundle(files, modules_of(files, "a.js"))


def test_lines_that_have_only_a_comment_are_left_out():
    code = (
        "// @ts-check\n/** @type {number} */\nlet a = 1; // one\n/**\n * @typedef {object} B\n */\n"
        '  // two\nconst url = "http://a/b";\n'
    )
    assert without_comments(code) == 'let a = 1; // one\nconst url = "http://a/b";\n'
