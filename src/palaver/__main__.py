"""`palaver` and `python -m palaver`.

Hooks and `palaver mcp` must start fast: they do not wait for the import of everything else.
"""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ["hook"]:
        from palaver.doors.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    if "mcp" in sys.argv[1:]:
        from palaver.doors.local import mcp_pipe

        flags = mcp_pipe.flags_of(sys.argv[1:])
        if flags is not None and mcp_pipe.run(flags):
            return
    from palaver.doors.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
