"""The errors of a command, made from the answer of a server."""

from __future__ import annotations

from palaver.errors import Forbidden, Invalid, NotFound, PalaverError, Refused, Unauthorized, Unavailable


class NotFoundMessage(NotFound):
    """`NotFound` with a complete message, for example one from the server."""

    def __init__(self, message: str) -> None:
        PalaverError.__init__(self, message)


def error_of_status(status: int, message: str) -> PalaverError:
    """The error class for an HTTP status. It decides the exit code."""
    match status:
        case 400:
            return Refused(message)
        case 422:
            return Invalid(message)
        case 401:
            return Unauthorized(message)
        case 403:
            return Forbidden(message)
        case 404:
            return NotFoundMessage(message)
        case 429 | 502 | 503 | 504:
            return Unavailable(message)
        case _:
            return PalaverError(message)
