"""Folders and projects that are kept out of palaver: none of their sessions are recorded.

A folder is kept out, with everything below it, by a `.palaver-private` file in it, by `private = true` in the
`palaver.toml` of its project, or by the list of this machine: the setting `private`, and `private.txt` in PALAVER_HOME,
which `palaver privacy` edits. A `.palaver-private` file may come with a stranger's repository. All it can do is to keep
that repository out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from palaver.errors import Refused
from palaver.model.project_file import read_project_file
from palaver.model.projects import is_called, project_of, same_project

FILE = ".palaver-private"
LIST = "private.txt"


@dataclass(frozen=True, slots=True)
class PrivacyRules:
    """What is kept out on this machine. The list is read each time, so a change holds at once."""

    home: Path | None = None
    setting: tuple[str, ...] = ()
    is_here: bool = True
    """Whether the folders are on this machine. Otherwise only the list counts."""

    @property
    def listed(self) -> list[str]:
        """The entries of `private.txt`."""
        try:
            lines = (self.home / LIST).read_text("utf-8", "replace").splitlines() if self.home else []
        except OSError:
            return []
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def write(self, entries: list[str]) -> None:
        assert self.home is not None
        self.home.mkdir(parents=True, exist_ok=True)
        draft = self.home / f"{LIST}.{os.getpid()}"
        draft.write_text("".join(f"{entry}\n" for entry in entries), "utf-8")
        os.replace(draft, self.home / LIST)

    def why(self, place: str | None) -> str | None:
        """Why a folder or a project is kept out; None if it is not."""
        if not place:
            return None
        if self.is_here and os.path.isabs(place):
            for folder in dict.fromkeys(
                folder
                for path in (Path(os.path.normpath(place)), Path(os.path.realpath(place)))
                for folder in (path, *path.parents)
            ):  # as it is named, and as links lead to it
                if os.path.lexists(folder / FILE):
                    return str(folder / FILE)
            if read_project_file(place).is_private:
                return "'private = true' in palaver.toml"
        entries = [*self.setting, *self.listed]
        if not entries:
            return None
        project = project_of(place, is_here=self.is_here)
        return next((f"'{entry}' in the list" for entry in entries if self._covers(entry, place, project)), None)

    def _covers(self, entry: str, place: str, project: str) -> bool:
        folder = os.path.expanduser(entry)
        if not os.path.isabs(folder):
            return same_project(entry, project) or is_called(project, entry)
        wanted = {Path(folder), Path(os.path.realpath(folder))}
        found = {Path(place), Path(os.path.realpath(place))} if os.path.isabs(place) else set()
        if any(path == one or path in one.parents for path in wanted for one in found):
            return True
        # The root of a repository means the project, wherever else it is checked out.
        return os.path.exists(os.path.join(folder, ".git")) and same_project(project_of(folder), project)

    def must_record(self, place: str | None) -> None:
        """Raise an error if a folder or project is kept out."""
        if why := self.why(place):
            raise Refused(f"Nothing was recorded: this project is kept out of palaver by {why}. See 'palaver privacy'.")
