"""HTML to text. Broken markup is accepted, and the time is linear in the length of the page."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

LONGEST_ATTRIBUTES = 4096
MAIN_ENOUGH = 200
"""The text of <main> or <article> is used alone if it has this many characters."""

_NAME = re.compile(r"/?[A-Za-z][^\s/>]{0,50}")
_END = re.compile(r"""[^"'>]*+(?:"[^"]*+"[^"'>]*+|'[^']*+'[^"'>]*+)*+>""")
_ATTRIBUTE = re.compile(r"""([A-Za-z:_-]{1,50})\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*(?:["']\s*)?([A-Za-z0-9_-]{2,20})|<\?xml[^>]{0,100}encoding=["']([A-Za-z0-9_-]{2,20})""",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|iso-8859-\d\d?|latin-?1|windows-125\d|us-ascii|shift_jis|sjis|euc-jp|iso-2022-jp|gbk|gb2312|gb18030|big5|euc-kr|koi8-[ru]|macintosh",
    re.IGNORECASE,
)

# Elements whose content is not markup.
_RAW = {"script", "style", "title", "textarea", "xmp"}
# fmt: off
_UNSEEN = {
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "head", "nav", "footer", "aside",
    "menu", "button", "select", "textarea", "dialog",
}
_BLOCKS = {
    "address", "article", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "legend", "li", "main",
    "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
}
# fmt: on
_CLOSE = {"li", "tr", "dd", "dt"}  # blocks with no blank line between them


class HtmlToken(NamedTuple):
    """A tag (`p`, `/p`) with its attributes as text, or a text without a name."""

    name: str
    text: str


@dataclass
class HtmlPage:
    title: str = ""
    heading: str = ""
    text: str = ""
    about: dict[str, str] = field(default_factory=dict)
    """The meta tags by name, in lower case."""


def charset_of(head: bytes) -> str:
    """The encoding that a page declares, if it is known here; else an empty string."""
    found = _CHARSET.search(head[:4096])
    name = (found[1] or found[2]).decode() if found else ""
    return {"macintosh": "mac-roman", "sjis": "shift_jis"}.get(name.lower(), name) if _KNOWN.fullmatch(name) else ""


def read_page(markup: str) -> HtmlPage:
    """The title, heading, meta tags and paragraphs of a page, without navigation and scripts."""
    writer = _Writer()
    for token in tokens(markup):
        writer.take(token)
    writer.end_block()
    page = writer.page
    main = [block for block in writer.blocks if block.is_main]
    for blocks in (main, writer.blocks, writer.unseen):
        parts: list[str] = []
        for n, block in enumerate(blocks):
            if n:
                parts.append("\n" if block.is_close and blocks[n - 1].is_close else "\n\n")
            parts.append(block.text)
        page.text = "".join(parts)
        if len(page.text) >= (MAIN_ENOUGH if blocks is main else 1):
            break
    return page


def tokens(markup: str) -> Iterator[HtmlToken]:
    at = 0
    while (start := markup.find("<", at)) >= 0:
        if start > at:
            yield HtmlToken("", unescape(markup[at:start]))
        if markup.startswith("<!--", start):
            at = markup.find("-->", start + 4) + 3
            if at < 3:
                return
        elif markup.startswith("<![CDATA[", start):
            at = markup.find("]]>", start) + 3
            if at < 3:
                return
            yield HtmlToken("", markup[start + 9 : at - 3])
        elif markup[start + 1 : start + 2] in ("!", "?"):
            at = markup.find(">", start) + 1
            if at < 1:
                return
        elif name := _NAME.match(markup, start + 1):
            # If a quote is not closed nearby, the tag ends at its first bracket.
            end = _END.match(markup, name.end(), name.end() + LONGEST_ATTRIBUTES)
            at = end.end() if end else markup.find(">", name.end()) + 1
            if at < 1:
                return
            tag = name[0].lower()
            yield HtmlToken(tag, markup[name.end() : at - 1])
            if tag in _RAW and not markup.startswith("/>", at - 2):
                close = re.compile(rf"</{tag}", re.IGNORECASE).search(markup, at)
                if close is None:
                    return
                yield HtmlToken(
                    "",
                    markup[at : close.start()] if tag in ("script", "style") else unescape(markup[at : close.start()]),
                )
                at = close.start()
        else:
            yield HtmlToken("", "<")
            at = start + 1
    yield HtmlToken("", unescape(markup[at:]))


def unescape(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


class _Block(NamedTuple):
    text: str
    is_main: bool
    is_close: bool


class _Writer:
    """Builds the text of a page from its tokens."""

    def __init__(self) -> None:
        self.page = HtmlPage()
        self.blocks: list[_Block] = []
        self.unseen: list[_Block] = []
        """The text of navigation and the like, used if the page has no other."""
        self._open: Counter[str] = Counter()
        self._hidden = 0
        self._parts: list[str] = []
        self._is_close = False

    def take(self, token: HtmlToken) -> None:
        if token.name.startswith("/"):
            tag = token.name[1:]
            if tag in _BLOCKS or tag in _UNSEEN:
                said = self.end_block()
                if tag == "h1" and not self.page.heading:
                    self.page.heading = said.strip()
            if self._open[tag] > 0:
                self._open[tag] -= 1
                self._hidden -= tag in _UNSEEN
        elif token.name:
            self._start_tag(token.name, token.text)
        elif self._open["title"] and not self._open["svg"]:
            self.page.title = self.page.title or token.text.strip()
        elif not (self._open["script"] or self._open["style"]):
            self._parts.append(token.text if self._open["pre"] else re.sub(r"[ \t\r\n\f]+", " ", token.text))

    def _start_tag(self, tag: str, attributes: str) -> None:
        if tag == "meta":
            pairs = _ATTRIBUTE.findall(attributes[:LONGEST_ATTRIBUTES])
            found = {name.lower(): unescape(a or b or c) for name, a, b, c in pairs}
            key = found.get("name") or found.get("property") or found.get("itemprop")
            if key and found.get("content"):
                self.page.about.setdefault(key.lower(), found["content"])
        elif tag == "br":
            self._parts.append("\n")
        elif tag in ("td", "th"):
            self._parts.append("\t")
        elif tag in _BLOCKS or tag in _UNSEEN:
            self.end_block()
            self._is_close = tag in _CLOSE
            self._parts += ["- "] if tag == "li" else []
        if not attributes.endswith("/") or tag not in _UNSEEN | {"title"}:
            self._open[tag] += 1
            self._hidden += tag in _UNSEEN

    def end_block(self) -> str:
        text = "".join(self._parts)
        if not self._open["pre"]:
            text = "\n".join(line.strip(" ") for line in re.sub(" {2,}", " ", text).split("\n"))
        text = text.strip("\n").removeprefix("\t").strip("\n")
        if text.strip().strip(" \t\n-"):  # other control characters are blanks too
            block = _Block(text.rstrip(), bool(self._open["main"] or self._open["article"]), self._is_close)
            (self.unseen if self._hidden else self.blocks).append(block)
        self._parts, self._is_close = [], False
        return text
