"""Starts the strata command and looks at what it leaves behind."""

import os
import pathlib
import select
import subprocess
import time


class Strata:
    """The strata command at `path`."""

    def __init__(self, path):
        self.path = str(pathlib.Path(path).resolve())

    def run(self, *arguments, timeout=60, **options):
        """Runs to the end; returns the CompletedProcess with text output."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run([self.path, *map(str, arguments)], stdin=subprocess.DEVNULL,
                              text=True, timeout=timeout, check=False, **options)

    def start(self, *arguments, **options):
        """Starts it; returns the Popen with text output."""
        return subprocess.Popen([self.path, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def processes_with(variable):
    """Process numbers whose environment holds `variable` ("NAME=value")."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if variable.encode() in environment:
            found.append(int(entry.name))
    return found


def wait_until(condition, seconds=20):
    """Waits until `condition()` is true; returns whether it became so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        select.select([], [], [], 0.02)
    return condition()
