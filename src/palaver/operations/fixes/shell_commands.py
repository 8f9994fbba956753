"""Shell commands in sessions: which ones are the same, which only look, and which mean the same in every project."""

from __future__ import annotations

import re

MOST_PARTS = 20
LONGEST = 200
"""A longer command is not told."""

LOOKING = """
ls ll cat head tail less grep rg ag find fd tree pwd cd echo printf which whereis type file stat wc awk du df ps top env
printenv date whoami uname id sleep true test [ diff sort jq man lsof ss netstat ping dig nc history clear read return
exit set for do done if then else fi while # wait free nproc
"""
"""Programs that only look."""
LOOKING_WITH = {
    "git": "status log diff show branch remote blame grep rev-parse ls-files describe reflog add commit push",
    "pip": "list show freeze index check",
    "uv": "tree version",
    "npm": "ls list view outdated why",
    "pnpm": "ls list why",
    "yarn": "list why info",
    "cargo": "tree metadata search",
    "docker": "ps logs images inspect info version",
    "docker compose": "ps logs config",
    "kubectl": "get describe logs",
    "systemctl": "status list-units",
    "brew": "list info search",
    "apt": "list search show policy",
    "apt-cache": "search show policy",
    "sed": "-n",
}
"""Programs that only look when one of these words follows."""
SET_UP_WITH = {
    "uv": "sync lock venv python tool",
    "pip": "install",
    "pipx": "install",
    "poetry": "install lock",
    "pdm": "install",
    "conda": "install",
    "npm": "ci install i rebuild",
    "pnpm": "install i add rebuild",
    "yarn": "install add",
    "bun": "install add",
    "corepack": "enable prepare",
    "playwright": "install install-deps",
    "rustup": "update target component toolchain default",
    "cargo": "fetch update clean install generate-lockfile",
    "go": "mod clean install get",
    "bundle": "install",
    "gem": "install",
    "composer": "install update",
    "mix": "deps.get",
    "apt": "install update",
    "apt-get": "install update",
    "apk": "add",
    "dnf": "install",
    "yum": "install",
    "brew": "install services link",
    "docker compose": "up pull build down restart",
    "docker": "start pull",
    "colima": "start",
    "systemctl": "start restart",
    "git": "submodule lfs fetch pull config",
    "pre-commit": "install clean",
    "alembic": "upgrade",
    "prisma": "generate migrate db",
    "nvm": "install use",
    "mise": "install",
    "asdf": "install",
    "dotnet": "restore",
    "flutter": "pub",
    "pod": "install",
    "gradle": "--stop",
}
"""Programs that set up tools and services when one of these words follows. They mean the same in every project."""

_SEPARATORS = re.compile(r"&&|\|\||;|\n")
_WRAPPED = re.compile(r"""^(?:\S{0,40}/)?(?:ba|z|da)?sh -l?c (?P<quote>['"])(?P<inner>.*)(?P=quote)$""", re.DOTALL)
_SHORTENED = re.compile(
    r"\s*\|\s*(?:tail|head|grep|rg|less|cat|tee|sed|awk|sort|uniq|wc|cut)\b.*$"
    r"|\s*\d?>>?\s*(?:&\d|/dev/null)|\s*</dev/null",
    re.DOTALL,
)
_BEFORE = re.compile(r"^(?:(?:[A-Za-z_]\w{0,60}=\S*|sudo|env|time|nohup|command|exec|timeout\s+[\d.]+[smh]?)\s+)+")
_STARTER = re.compile(r"^(?:npx (?:-y |--yes )?|uvx |uv (?:run )?(?=pip\b|playwright\b|alembic\b)|python3? -m )")
_NO_CHANGE = re.compile(r"^\S+ (?:--version|--help|-[vVh]|version|help)$|^curl (?!.*(?:\| ?(?:ba)?sh| -[oO]))")
_OF_PROJECT = re.compile(r"[/\\$@=:~*<>|`(){}\[\]'\"]|\.(?!\d)\w|(?:^|\s)\.{1,2}(?:\s|$)")
"""Signs of files, addresses and values, which belong to one project."""
_KNOWN_SIGN = re.compile(
    r"@types/(?=\w)|(?<=\w)(?:==|>=|~=)(?=\d)|\[[a-z0-9,_-]{1,60}\](?=\s|$)|(?<=[\w-])@(?=\d|latest\b)|^mix deps\.get"
)


def parts_of(command: str) -> list[str]:
    """The commands of a line, each without the folder it is run in and without what only shortens its output."""
    found = _WRAPPED.match(command.strip())
    line, here, _ = (found["inner"] if found else command).partition("<<")
    if here:
        line = line.replace("\n", ";") + " <<"  # what follows is the text of a file
    parts = []
    for part in _SEPARATORS.split(line)[:MOST_PARTS]:
        short = _BEFORE.sub("", " ".join(_SHORTENED.sub("", part).split()))
        if short and not short.startswith(("cd ", "source ", ". ", "export ", "set -")):
            parts.append(short)
    return parts


def core_of(part: str) -> str:
    """What makes two runs the same: the words without options."""
    return " ".join(word for word in part.split() if not word.startswith("-")).removeprefix("npx ")


def is_looking(part: str) -> bool:
    """Whether a command changes nothing that an error could depend on."""
    if ">" in part or "<<" in part:
        return False
    return part.partition(" ")[0] in LOOKING.split() or bool(_NO_CHANGE.match(part)) or _has_word(part, LOOKING_WITH)


def is_set_up(part: str) -> bool:
    """Whether a command sets up tools or services."""
    return _has_word(part, SET_UP_WITH)


def is_general(part: str) -> bool:
    """Whether a command means the same in every project, and names nothing of this one."""
    return is_set_up(part) and not _OF_PROJECT.search(_KNOWN_SIGN.sub("", part))


def _has_word(part: str, known: dict[str, str]) -> bool:
    """Whether a program has one of its words after it."""
    words = _STARTER.sub("", part).replace("docker-compose", "docker compose").replace("pip3", "pip").split()
    if words == ["yarn"]:
        words.append("install")
    if " ".join(words[:2]) in known:
        words[:2] = [" ".join(words[:2])]
    return len(words) > 1 and words[1] in known.get(words[0], "").split()
