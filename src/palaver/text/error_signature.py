"""The signature of an error: what two outputs of the same error have in common, on any machine and day.

Paths keep the name of their file. Numbers, times, ids, hashes, addresses and the hosts of URLs become `#`, and colours
are removed. Only the beginning and the end of an output are looked at, so an output may be of any length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from palaver.text.control_characters import without_control_characters

HEAD, TAIL = 4_000, 8_000
"""So many characters are looked at at the beginning and at the end of an output."""
LONGEST_LINE = 300
MOST_FRAMES = 2
FEW_WORDS = 3
"""A line with fewer telling words says too little: 'Error: command failed'."""

_STRONG = re.compile(
    r"^(?:E\s+)?(?:\w+\.)*\w*(?:Error|Exception|Exit|Warning|Interrupt|Fault)\b(?:\[\w+\])?:?(?:\s|$)"
    r"|\b(?:error|fatal|panic(?:ked)?|ERR!|E\d{3,4})\b(?:\[\w+\])?\s?:"
    r"|\berror (?:TS|CS|LNK|C)\d+\b|^ERR_\w+|^npm (?:ERR!|error) (?!code|errno|A complete log|path|cwd|syscall)\S"
    r"|: (?:command not found|No such file or directory|Permission denied|not found)$"
)
_WEAK = re.compile(
    r"\b(?:error|failed|failure|fatal|cannot|could not|can't|unable|denied|refused|missing|not found|no such|"
    r"no matching|invalid|undefined|unexpected|unknown|timed out|not installed|not allowed|unresolved|killed|"
    r"abort(?:ed|ing)|no required|not exist|doesn't exist|in use|already exists|exceeded|mismatch|no space left|"
    r"e[a-z]{3,12}(?=: )|out of date)\b",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"^\W*(?:exit code\b|process exited|command exited|wall time|found #|failed tests/|=+ |-+ |_+ |short test summary"
    r"|error: (?:could not compile|aborting due|recipe|process didn't exit|test failed)|make(?:\[#\])?: \*\*\*"
    r"|npm error (?:command|lifecycle)|npm err! (?:command|lifecycle|errno|code)|elifecycle|caused by:$|traceback \("
    r"|# (?:failed|errors?|problems?|warnings?)(?:$|,| in | \()|during handling|for more information about this error"
    r"|error:? (?:#|command failed)\W*$)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^(?:(?:Output|Stdout|Stderr|E): ?|E )\s*(?=\S)")
_EXIT = re.compile(r"\b(?:exit code|exited with(?: code)?|exit status)\s?:?\s?(-?\d{1,10})\b", re.IGNORECASE)
_FRAME = re.compile(
    r'^\s{0,40}(?:File "(?P<file>[^"\n]{1,300})", line \d+(?:, in (?P<name>\S{1,100}))?'
    r"|at (?P<caller>[\w$.<>]{1,100}) \((?P<place>[^()\n]{1,300}?)(?::\d+){1,2}\)|--> (?P<rust>[^\s:]{1,300}):\d)",
    re.MULTILINE,
)
_URL = re.compile(r"(?P<kind>[a-z][a-z0-9+.-]{1,15})://[^\s/'\"<>`)\]]{1,300}")
_PATH = re.compile(
    r"(?<![\w.…/\\#@-])(?!@)(?:[A-Za-z]:(?=[\\/])|~(?=[\\/]))?(?:[\w.@+#~-]{0,100}[\\/]){1,40}(?P<name>[\w.@+#-]{0,100})"
)
_ID = re.compile(
    r"(?<![\w#])(?:0x[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-z]{0,40}\d)[0-9a-f]{7,64})(?![\w])"
    r"|(?<![\w#])(?=(?:[A-Za-z]{0,20}\d){3})[A-Za-z0-9]{12,128}(?!\w)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<!\w)\d+(?:[.,:T/-]?\d+){0,12}(?:[nµm]?s|Z|[kKMG]i?B)?(?!\w)|(?<=_)\d+")
_PLACE = re.compile(
    r"^[^\s:()]{1,200}(?:\(\d+(?:,\d+)?\)|(?::\d+){1,2}):\s+(?=(?:fatal )?error)|^error: (?=\w+Error\b)"
)
_NO_COMMAND = re.compile(
    r"^(?:\S{0,100}sh: )?(?:line )?(?:#: )?(?P<name>\S{1,100}): (?:command )?not found$"
    r"|^(?:\S{0,100}sh: )?command not found: (?P<last>\S{1,100})$"
)
_MARKS = re.compile(r"#(?:[#.,:/-]*#)+")
_BLANKS = re.compile(r"\s+")
_TELLING = re.compile(r"[^\W\d_]{2,}")


def normalised(line: str) -> str:
    """The line without what differs from machine to machine and from run to run."""
    line = _BLANKS.sub(" ", without_control_characters(line[:LONGEST_LINE])).strip()
    line = _LABEL.sub("", line)
    line = line.replace("‘", "'").replace("’", "'").replace("`", "'").replace("“", '"').replace("”", '"')
    line = _PLACE.sub("", line)
    line = _URL.sub(r"\g<kind>:…", line)
    line = _PATH.sub(lambda found: f"…{found['name']}", line)
    for pattern in (_ID, _NUMBER, _MARKS):
        line = pattern.sub("#", line)
    if found := _NO_COMMAND.match(line):
        return f"{found['name'] or found['last']}: command not found"
    return line


class Frame(NamedTuple):
    file: str
    function: str


@dataclass(frozen=True, slots=True)
class ErrorSignature:
    """`line` is the decisive line of an error, normalised."""

    line: str
    frames: tuple[Frame, ...] = ()
    """The innermost functions, each with the name of its file."""
    exit_code: int | None = None

    @property
    def is_telling(self) -> bool:
        """Whether the line alone says which error it is."""
        return len(_TELLING.findall(self.line)) >= FEW_WORDS

    def matches(self, other: ErrorSignature) -> bool:
        """Whether both are the same error. Where the line says little, the functions and the exit code count, too."""
        if self.line != other.line or self.is_telling:
            return self.line == other.line
        codes = {self.exit_code, other.exit_code} - {None}
        return bool(self.frames) and self.frames == other.frames and len(codes) < 2


def decisive_part(text: str) -> str:
    """The beginning and the end of an output."""
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"


def signature_of(text: str) -> ErrorSignature | None:
    """The signature of an error; None if no line of the output tells an error."""
    part = without_control_characters(decisive_part(text).replace("\r\n", "\n").replace("\r", "\n"))
    codes = _EXIT.findall(part)
    strong = weak = ""
    for raw in part.split("\n"):
        line = raw[:LONGEST_LINE].strip()
        if len(line) < 4:
            continue
        is_strong = _STRONG.search(line) is not None
        if (is_strong or _WEAK.search(line)) and (found := normalised(line)) and not _SUMMARY.match(found):
            if is_strong:
                strong = found
            else:
                weak = found
    line = strong or weak
    if not line:
        return None
    frames = [_frame(found) for found in _FRAME.finditer(part)]
    # Python names the innermost function last, JavaScript first.
    innermost = frames[-MOST_FRAMES:] if 'File "' in part else frames[:MOST_FRAMES]
    return ErrorSignature(line, tuple(innermost), int(codes[-1]) if codes else None)


def _frame(found: re.Match[str]) -> Frame:
    place = found["file"] or found["place"] or found["rust"]
    return Frame(re.split(r"[\\/]", place)[-1], found["name"] or found["caller"] or "")
