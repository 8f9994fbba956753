"""All errors. Each class has a code, an HTTP status and an exit code.

PalaverError
├── Invalid              422  a field has the wrong type or format
│   └── Refused          400  the type is right, but the value is not acceptable
├── Unauthorized         401  no credential, or an invalid one
├── Forbidden            403  the credential does not allow this
├── NotFound             404  it does not exist, or the caller may not see it
│   └── DatabaseNotFound      there is no database to search
├── Conflict             409  the data has changed meanwhile
│   └── SeqMismatch           the thread has newer messages than the caller has read
├── TooLarge             413  the request is too large
├── TooMany              429  too many requests, with the time to wait
└── Unavailable          503  not available now
    ├── Damaged               a part of the data cannot be read
    └── Timeout               the database exceeded its time limit
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

T = TypeVar("T")

UNKNOWN_AGENT = (
    "The server does not know which agent you are. Call bus_connect, then repeat this call with the agent_id "
    "and token it returned. (People: add ?agent=NAME to the server's address.)"
)


class PalaverError(Exception):
    """An error whose message the caller can understand and act on."""

    code: ClassVar[str] = "ERROR"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    @property
    def error(self) -> str:
        """The `error` field of a tool result: a code, or the message itself."""
        return self.code

    def as_tool_result(self) -> dict[str, Any]:
        return {"error": self.error, **({"message": self.message} if self.error != self.message else {}), **self.facts}

    def as_text(self) -> str:
        """The answer of a tool that answers in text."""
        return f"Error: {self.message}"

    def as_detail(self) -> Any:
        """The `detail` field of a REST answer."""
        return {"error": self.error, "message": self.message, **self.facts} if self.facts else self.message

    @property
    def headers(self) -> dict[str, str]:
        return {}


class Invalid(PalaverError):
    code, status, exit_code = "INVALID", 422, 2

    @property
    def error(self) -> str:
        return self.message


class Refused(Invalid):
    code, status = "REFUSED", 400


class Unauthorized(PalaverError):
    code, status, exit_code = "UNAUTHORIZED", 401, 4

    def __init__(self, message: str = "A token is required: send 'Authorization: Bearer plv_…'.") -> None:
        super().__init__(message)

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": 'Bearer realm="palaver"'}


class Forbidden(PalaverError):
    code, status, exit_code = "FORBIDDEN", 403, 4


class NotFound(PalaverError):
    code, status, exit_code = "NOT_FOUND", 404, 3

    def __init__(self, kind: str, id: str | int, advice: str = "", of: str = "") -> None:
        """`of` is what the id belongs to, if not to the missing thing itself."""
        super().__init__(f"{kind.capitalize()} '{id}' not found.{' ' + advice if advice else ''}")
        self.kind, self.id, self.of = kind, id, of or kind

    @property
    def error(self) -> str:
        return f"{self.kind.upper()}_NOT_FOUND"

    def as_tool_result(self) -> dict[str, Any]:
        return {"error": self.error, f"{self.of}_id": self.id, "message": self.message}


def must_be_found(found: T | None, kind: str, id: str | int, advice: str = "") -> T:
    """What was looked for. Raises NotFound if it is None."""
    if found is None:
        raise NotFound(kind, id, advice)
    return found


class DatabaseNotFound(NotFound):
    """There is nothing to search: no database and no imported conversations."""

    def __init__(self, what: str, advice: str) -> None:
        PalaverError.__init__(self, f"Database not found: {what}. {advice}")
        self.kind, self.id, self.of = "database", what, "database"

    def as_text(self) -> str:
        return self.message


class Conflict(PalaverError):
    code, status = "CONFLICT", 409


class SeqMismatch(Conflict):
    code = "SEQ_MISMATCH"


class TooLarge(PalaverError):
    code, status = "TOO_LARGE", 413


class TooMany(PalaverError):
    code, status, exit_code = "RATE_LIMITED", 429, 5

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, retry_after=retry_after)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)}


class Unavailable(PalaverError):
    code, status, exit_code = "UNAVAILABLE", 503, 5


class Damaged(Unavailable):
    """The database found that its own data is damaged."""


class Timeout(Unavailable):
    code = "TIMEOUT"

    def __init__(self) -> None:
        super().__init__("Database operation timeout")


class NotFoundMessage(NotFound):
    """`NotFound` with a complete message, for example one from a server."""

    def __init__(self, message: str) -> None:
        PalaverError.__init__(self, message)


def error_of_status(status: int, message: str) -> PalaverError:
    """The error of a server's answer with this HTTP status."""
    if status in (429, 502, 503, 504):
        return Unavailable(message)
    kinds: dict[int, type[Refused | Unauthorized | Forbidden | NotFoundMessage | Invalid]] = {
        400: Refused, 401: Unauthorized, 403: Forbidden, 404: NotFoundMessage, 422: Invalid,
    }  # fmt: skip
    return kinds.get(status, PalaverError)(message)
