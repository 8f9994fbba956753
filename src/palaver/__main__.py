"""`python -m palaver` is the same as `palaver`."""

from palaver.doors.cli import main

main()
