"""Run a palaver command in a process of the fork server: `fork_client.py ADDRESS BEFORE ARGUMENTS…`.

Tests use it where a program has to be started by a command line. BEFORE is Python to run first. The forked process gets our streams, environment and
folder; we pass on signals and end as it ends. Only light modules are imported, because this is started often.
"""

import json
import os
import signal
import socket
import sys

connection = socket.socket(socket.AF_UNIX)
connection.connect("\0" + sys.argv[1])
socket.send_fds(connection, [b"!"], [0, 1, 2])
connection.sendall(json.dumps([sys.argv[3:], dict(os.environ), os.getcwd(), sys.argv[2]]).encode())
connection.shutdown(socket.SHUT_WR)
answers = connection.makefile("r")
pid = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
os.closerange(0, 3)  # otherwise a pipe would stay open after the forked process has closed it
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
