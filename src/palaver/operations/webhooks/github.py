"""What GitHub tells a webhook, as one short message."""

from __future__ import annotations

from typing import Any

LONGEST = 500
"""Characters of a comment that are shown."""
FAILED = ("failure", "timed_out", "startup_failure", "action_required")
DONE = {"opened": "opened", "closed": "closed", "reopened": "reopened", "ready_for_review": "asks to review"}
SAYS = {
    "push": "{sender[login]} pushed {count} to {ref}: {line} {compare}",
    "pull_request": "{sender[login]} {done} pull request #{about[number]}: {about[title]} {about[html_url]}",
    "issues": "{sender[login]} {done} issue #{issue[number]}: {issue[title]} {issue[html_url]}",
    "issue_comment": "{sender[login]} commented on #{issue[number]} {issue[title]} {comment[html_url]}\n{text}",
    "check_run": "{about[name]} failed on {about[head_sha]:.7} ({about[conclusion]}) {about[html_url]}",
    "workflow_run": "{about[name]} failed on {about[head_branch]} ({about[conclusion]}) {about[html_url]}",
    "release": "{sender[login]} released {about[tag_name]} {about[html_url]}",
}
"""The message of each event that has one."""


def text_of(event: str, given: dict[str, Any]) -> str | None:
    """The message for an event. None: it needs none."""
    try:
        action, about = given.get("action"), given.get(event) or {}
        done = "merged" if about.get("merged") and action == "closed" else DONE.get(action or "")
        match event:
            case "push":
                is_told = bool(commits := given["commits"])  # else a branch or tag was made or deleted
                count = "1 commit" if len(commits) == 1 else f"{len(commits)} commits"
                line = commits[-1]["message"].strip().partition("\n")[0] if commits else ""
                given = given | {"count": count, "line": line, "ref": given["ref"].removeprefix("refs/heads/")}
            case "pull_request" | "issues":
                is_told = done is not None
            case "issue_comment":
                is_told, text = action == "created", given["comment"]["body"].strip()
                given = given | {"text": text if len(text) <= LONGEST else f"{text[:LONGEST]}…"}
            case "check_run" | "workflow_run":
                is_told = action == "completed" and about["conclusion"] in FAILED
            case _:
                is_told = event == "release" and action == "published"
        told = given | {"about": about, "done": done}
        return f"{given['repository']['full_name']}: {SAYS[event].format_map(told)}" if is_told else None
    except (KeyError, TypeError, AttributeError, ValueError):  # GitHub did not write this
        return None
