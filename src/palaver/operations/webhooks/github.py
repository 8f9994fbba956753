"""What GitHub tells a webhook, as one short message."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

LONGEST = 500
"""Characters of a comment that are shown."""
FAILED = ("failure", "timed_out", "startup_failure", "action_required")
ABOUT = {"issues": "issue", "issue_comment": "comment", "pull_request_review": "review"}
"""The field with what an event is about, if it has another name than the event."""
DONE = {name: name for name in ("opened", "closed", "reopened", "approved")} | {
    "ready_for_review": "asks to review", "created": "commented on", "commented": "commented on",
    "changes_requested": "wants changes in",
}  # fmt: skip


def text_of(event: str, given: dict[str, Any]) -> str | None:
    """The message for an event. None: it needs none."""
    with suppress(KeyError, TypeError, AttributeError, ValueError):  # GitHub did not write this
        if said := _said(event, given.get("action"), given.get(ABOUT.get(event, event)), given):
            return f"{given['repository']['full_name']}: {said}"
    return None


def _said(event: str, action: str | None, about: Any, given: dict[str, Any]) -> str | None:
    who = given["sender"]["login"]
    match event:
        case "push" if commits := given["commits"]:  # else a branch or tag was made or deleted
            count = "1 commit" if len(commits) == 1 else f"{len(commits)} commits"
            line = commits[-1]["message"].strip().partition("\n")[0]
            return f"{who} pushed {count} to {given['ref'].removeprefix('refs/heads/')}: {line} {given['compare']}"
        case "pull_request" | "issues" | "issue_comment" | "pull_request_review":
            issue = given.get("pull_request") or given["issue"]
            kind = "pull request" if "pull_request" in given | issue else "issue"
            done = DONE[about["state"] if action == "submitted" else str(action)]
            text = (about["body"] or "").strip() if action in ("created", "submitted") else ""
            text = f"\n{text[:LONGEST]}…" if len(text) > LONGEST else text and f"\n{text}"
            done = "merged" if done == "closed" and about.get("merged") else done
            return f"{who} {done} {kind} #{issue['number']}: {issue['title']} {about['html_url']}{text}"
        case "check_run" | "workflow_run" if action == "completed" and about["conclusion"] in FAILED:
            where = about["head_sha"][:7] if event == "check_run" else about["head_branch"]
            return f"{about['name']} failed on {where} ({about['conclusion']}) {about['html_url']}"
        case "release" if action == "published":
            return f"{who} released {about['tag_name']} {about['html_url']}"
    return None
