"""`python -m palaver` is the same as `palaver`."""

from palaver.doors.cli.main import main

main()
