"""Make test sets of labelled questions about public technical texts, for `tools/learn_search.py` and `make eval`.

`tests/quality/public_sources.toml` names repositories with their licence and commit. The questions about their texts
are our own and lie beside it, in `public_questions.jsonl.gz`. Texts are not shipped. This tool reads them from clones
of the repositories in DIR (`DIR/owner+name/repo`, `DIR/owner+name` or `DIR/name`), and writes two files that
`tools/evaluate.py` reads: `public_learn.jsonl.gz` and `public_test.jsonl.gz`. Each source belongs to one of the two.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

QUALITY = Path(__file__).parent.parent / "tests" / "quality"
LONGEST = 4_000
"""Characters of a message. Longer parts of documents are cut."""
Message = dict[str, str]
Talk = dict[str, Any]

_TIME = r"\[?(?:20\d\d-\d\d-\d\d )?(\d\d?:\d\d)(?::\d\d)?(?: ?([AP])M)?\]?"
_SAID = re.compile(
    rf"^\W*?(?:{_TIME}\s+<\s*[@+•]?([^>\s]+)>"  # 19:01 <ann> … or [2018-01-01 7:01 PM] <ann> …
    r"|\*\*(?:\\?<[^>]*>\s*)?\\?<\s*[@+•]?([^>\s]+)>\*\*"  # **<ann>** …, or **<bridge> <ann>** …
    r"|\*\*\\?<[^>]*>\s*(?:\\?\[i2p-relay\\?\]\s*)?\\?[\[{][-@+]?([\w.\\-]+)\\?[\]}]\*\*"  # **<bridge> [ann]** …
    r"|\*\*@?([\w.-]{2,40}):\*\*"  # **ann:** …
    r"|[*-] +(?:_|\*\*)@?([\w.\\-]{2,40}?)(?:_?:_{1,2}|\*\*:|:\*\*))\s*(.*)$"  # * _ann:_ …
)
_SPEAKER = re.compile(
    r"^(?:[-*]\s+)?(?:\*\*)?([A-ZÀ-Þ][\w.'-]*(?: [A-ZÀ-Þ(][\w.')-]*){0,3}|[A-Z]{2,4})(?:\*\*)?:(?:\*\*)?\s+(.*)$", re.S
)
_HEADING = re.compile(r"^#{1,6}\s")


class Clone:
    """A repository at one commit."""

    def __init__(self, folder: Path, commit: str) -> None:
        self.folder, self.commit = folder, commit

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *words], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")

    def files(self, under: str, pattern: str) -> list[str]:
        names = self.git("ls-tree", "-r", "--name-only", self.commit, *([under] if under else [])).splitlines()
        wanted = re.compile(pattern)
        return sorted(name.strip('"') for name in names if wanted.search(name))

    def text(self, path: str) -> str:
        return self.git("show", f"{self.commit}:{path}")

    def changed(self, path: str) -> str:
        return self.git("log", "-1", "--format=%aI", self.commit, "--", path).strip()


def commits(clone: Clone, source: dict[str, Any]) -> Iterator[Talk]:
    """The messages of commits, a conversation for each month."""
    name, months = source["name"], defaultdict[str, list[Message]](list)
    limits = [f"--{key}={source[key]}" for key in ("since", "until") if key in source]
    log = clone.git("log", "--no-merges", "--reverse", *limits, "--format=%h%x1f%an%x1f%aI%x1f%B%x1e", source["commit"])
    for entry in log.split("\x1e"):
        if entry.count("\x1f") < 3:
            continue
        id, author, at, body = entry.strip("\n").split("\x1f", 3)
        body = "\n".join(
            line for line in body.strip().splitlines() if not re.match(r"(?i)(signed-off|co-authored)-by:", line)
        )
        months[at[:7]].append({"speaker": author, "text": f"{body.strip()[:LONGEST]}\n({id})", "at": at})
    for month, some in sorted(months.items()):
        yield talk(f"{name}-{month}", f"{name} commits {month}", some)


def documents(clone: Clone, source: dict[str, Any]) -> Iterator[Talk]:
    """Text files, a conversation for each file and a message for each paragraph; short ones are joined to the next."""
    for path in clone.files(source.get("under", ""), source.get("pattern", r"\.(md|rst|txt)$"))[
        : source.get("most", 400)
    ]:
        text = re.sub(r"^---\n.*?\n---\n", "", clone.text(path), flags=re.S)
        if source.get("bare"):
            text = re.sub(r"<!--.*?-->", "", text, flags=re.S)  # translations keep the English text in comments
        at = clone.changed(path)
        title = next((line.lstrip("# ").strip() for line in text.splitlines() if _HEADING.match(line)), Path(path).stem)
        short = path.removeprefix(source.get("under", "")).strip("/").replace("/", "_")
        some = [{"speaker": source.get("speaker", "docs"), "text": part, "at": at} for part in paragraphs(text)]
        if some:
            yield talk(f"{source['name']}-{short}", title, some)


def minutes(clone: Clone, source: dict[str, Any]) -> Iterator[Talk]:
    """Notes of meetings. A line such as "Ann: …" is said by Ann; all others by "minutes".

    Options: `speakers`, the only names that speak ("ann: …", "[ann] …", "@ann - …" or "Ann, …", in any case); `skip`, a
    pattern of messages to leave out; `split`, a pattern of the lines that begin a new meeting inside a file.
    """
    names = "|".join(re.escape(name) for name in source.get("speakers", ()))
    known = re.compile(
        rf"^(?:[-*]\s+)?(?:\*\*)?(?:\[@?({names})\]:?|@?({names})(?:(?:\*\*)?:| -+(?=\s)|,(?=\s(?-i:[a-z]))))"
        r"(?:\*\*)?\s+(.*)$",
        re.S | re.I,
    )
    for path in clone.files(source.get("under", ""), source.get("pattern", r"\.md$"))[: source.get("most", 400)]:
        whole, short = clone.text(path), path.removeprefix(source.get("under", "")).strip("/").replace("/", "_")
        for text in re.split(rf"(?m)^(?={source['split']})", whole) if "split" in source else [whole]:
            first = text.split("\n", 1)[0]
            at = (
                (day_of(first) if "split" in source else "")
                or day_of(path)
                or day_of((re.search(r"20\d\d-\d\d-\d\d", text) or [""])[0])
                or clone.changed(path)
            )
            id = f"{source['name']}-{short}" + (f"-{at[:10]}" if "split" in source else "")
            some = []
            for part in paragraphs(text, joined=bool(source.get("joined", True))):
                if "skip" in source and re.search(source["skip"], part):
                    continue
                speaker = "minutes"
                if names:
                    head = re.match(r"(?:#{1,6}\s.*\n)*", part)[0]
                    if said := known.match(part[len(head) :]):
                        speaker, part = said[1] or said[2], head + said[3]
                elif said := _SPEAKER.match(part):
                    speaker, part = said[1], said[2]
                some.append({"speaker": speaker, "text": part, "at": at})
            if some:
                yield talk(id, f"{source.get('title', source['name'])} {at[:10]}", some)


def day_of(text: str) -> str:
    """The first day that a text names, "" if none: 2018-12-05, 2018/12/05 or Dec 5, 2018."""
    if date := re.search(r"(20\d\d)[-_/]?(\d\d)[-_/]?(\d\d)", text):
        year, month, day = date[1], int(date[2]), int(date[3])
    elif date := re.search(
        r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? (\d\d?)(?:st|nd|rd|th)?,? (20\d\d)", text
    ):
        year, month, day = date[3], "JanFebMarAprMayJunJulAugSepOctNovDec".index(date[1]) // 3 + 1, int(date[2])
    else:
        return ""
    at = f"{year}-{month:02}-{day:02}T12:00:00+00:00"
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return ""
    return at


def chat(clone: Clone, source: dict[str, Any]) -> Iterator[Talk]:
    """Logs of chats in the notations of `_SAID`. A line without a speaker belongs to the message before."""
    for path in clone.files(source.get("under", ""), source["pattern"])[: source.get("most", 400)]:
        text = clone.text(path)
        date = re.search(r"(20\d\d)-?(\d\d)-?(\d\d)", Path(path).name) or re.search(r"(20\d\d)-(\d\d)-(\d\d)", text)
        day = f"{date[1]}-{date[2]}-{date[3]}" if date else clone.changed(path)[:10]
        some: list[Message] = []
        inside = False
        for line in text.splitlines():
            if said := _SAID.match(line):
                hour, minute = (int(part) for part in (said[1] or "12:00").split(":"))
                hour = hour % 12 + 12 * (said[2] == "P") if said[2] else hour
                speaker = next(one for one in said.groups()[2:-1] if one).replace("\\", "").strip()
                some.append(
                    {"speaker": speaker, "text": said.groups()[-1], "at": f"{day}T{hour:02}:{minute:02}:00+00:00"}
                )
                inside = True
            elif _HEADING.match(line):
                inside = False
            elif (
                inside
                and line.strip()
                and not re.match(r"\*{3} |\*\*\\?<[^>]*> \*|\s+\* .*@|\W*(\d\d?:\d\d|20\d\d-\d\d)", line)
            ):
                some[-1]["text"] += "\n" + line.rstrip()
        for one in some:
            one["text"] = re.sub(r"\\([_*<>\[\]#~`])", r"\1", one["text"]).strip()[:LONGEST]
            if one["text"].count("```") % 2:
                one["text"] = one["text"].removesuffix("```").strip()
        some = [one for one in some if one["text"]]
        short = path.removeprefix(source.get("under", "")).strip("/").replace("/", "_")
        if some:
            yield talk(f"{source['name']}-{short}", f"{source.get('title', source['name'])} {day}", some)


READERS = {"chat": chat, "commits": commits, "documents": documents, "minutes": minutes}


def paragraphs(text: str, *, joined: bool = True) -> Iterator[str]:
    """The paragraphs of a text, headings with the one that follows. Short ones are joined if wanted."""
    parts, inside = [""], False
    for line in text.splitlines():
        inside ^= line.lstrip().startswith("```")
        is_item = not joined and bool(re.match(r"\s*[-*] ", line)) and not inside
        if (not line.strip() and not inside) or is_item:
            parts.append("")
        if line.strip():
            parts[-1] += line.rstrip() + "\n"
    waiting = ""
    for part in parts:
        if not part.strip():
            continue
        waiting += part
        if _HEADING.match(part.splitlines()[-1]) or (joined and len(waiting) < 60):
            continue
        yield waiting.strip()[:LONGEST]
        waiting = ""
    if waiting.strip():
        yield waiting.strip()[:LONGEST]


def talk(id: str, title: str, some: list[Message]) -> Talk:
    return {"id": id, "title": title, "messages": [{"id": str(n), **one} for n, one in enumerate(some, 1)]}


def clone_of(folder: Path, source: dict[str, Any]) -> Clone:
    owner, name = source["repository"].split("/")
    for path in (folder / f"{owner}+{name}" / "repo", folder / f"{owner}+{name}", folder / name):
        if path.is_dir():
            return Clone(path, source["commit"])
    raise SystemExit(f"No clone of {source['repository']} is in {folder}.")


def talks_of(folder: Path, source: dict[str, Any]) -> list[Talk]:
    return list(READERS[source["kind"]](clone_of(folder, source), source))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, metavar="DIR")
    parser.add_argument("--sources", type=Path, default=QUALITY / "public_sources.toml")
    parser.add_argument("--questions", type=Path, default=QUALITY / "public_questions.jsonl.gz")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--show", metavar="SOURCE", help="print the talks of one source instead, a message a line")
    given = parser.parse_args()
    sources = tomllib.loads(given.sources.read_text("utf-8"))["source"]
    if given.show:
        for one in talks_of(given.clones, next(one for one in sources if one["name"] == given.show)):
            print(f"\n# {one['id']} · {one['title']}")
            for message in one["messages"]:
                print(
                    f"{message['id']} [{message['at'][:10]} {message['speaker']}] "
                    + message["text"].replace("\n", " ⏎ ")[:700]
                )
        return
    asked = defaultdict[str, list[dict[str, Any]]](list)
    for line in gzip.decompress(given.questions.read_bytes()).decode().splitlines():
        entry = json.loads(line)
        asked[entry.pop("source")].append(entry)
    for part in ("learn", "test"):
        some = [one for one in sources if one["part"] == part]
        talks = [each for one in some for each in talks_of(given.clones, one)]
        known = {f"{one['id']}/{message['id']}" for one in talks for message in one["messages"]}
        questions = [entry for one in some for entry in asked[one["name"]]]
        lost = [entry for entry in questions if not known.issuperset(entry["evidence"])]
        world = {"id": part, "conversations": talks, "questions": [one for one in questions if one not in lost]}
        with gzip.open(given.out / f"public_{part}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(json.dumps(world, ensure_ascii=False) + "\n")
        print(
            f"{part}: {len(some)} sources, {len(known)} messages, {len(world['questions'])} questions, "
            f"{len(lost)} without their evidence"
        )


if __name__ == "__main__":
    main()
