"""`palaver` and `python -m palaver`."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ["hook"]:  # it must not wait for the import of everything else
        from palaver.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    from palaver.doors.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
