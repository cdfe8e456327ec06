"""A PostgreSQL server of a test's own, in a temporary folder, on a socket there."""

import os
import pathlib
import pwd
import signal
import subprocess
import tempfile
import time

from running_server import PATIENCE


def binaries():
    """Where Debian's packages put the newest server; None where there is none."""
    folders = [folder / "bin" for folder in pathlib.Path("/usr/lib/postgresql").glob("*")
               if (folder / "bin" / "initdb").exists()]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


def owner():
    """The server refuses to run as root: the user that it runs as instead."""
    try:
        return pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    except KeyError:
        return None


def missing():
    """Empty, or why there can be no server."""
    if binaries() is None:
        return "no PostgreSQL server is installed (package postgresql)"
    if os.geteuid() == 0 and owner() is None:
        return "there is no user postgres to run a server as"
    return ""


class PostgresServer:
    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="dovetail-pg-", ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self.temporary.name)
        self.process = None
        if owner() is not None:
            os.chown(self.folder, owner().pw_uid, owner().pw_gid)
        self.data = self.folder / "data"
        self.where = f"postgresql:///postgres?user=dovetail&host={self.folder}"
        self._begin("initdb", "-D", self.data, "-U", "dovetail", "-A", "trust", "-E", "UTF8",
                    "--no-locale", "--no-sync")
        if self.process.wait(PATIENCE) != 0:
            raise RuntimeError((self.folder / "log").read_text())
        self.start()

    def _begin(self, program, *arguments):
        user = owner()
        # When the test that started it ends, it ends at once, by the server's own word for that.
        as_owner = [] if user is None else [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                                            "--clear-groups"]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                ["setpriv", *as_owner, "--pdeathsig=QUIT", binaries() / program, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def start(self):
        self._begin("postgres", "-D", self.data, "-k", self.folder, "-c", "listen_addresses=",
                    "-c", "fsync=off")
        end = time.monotonic() + PATIENCE
        ready = [binaries() / "pg_isready", "-q", "-h", self.folder, "-d", "postgres"]
        while subprocess.run(ready, check=False).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)

    def stop(self):
        """At once, without a word to anyone, as a cut of power does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE)

    def close(self):
        self.stop()
        self.temporary.cleanup()

    def rows(self, query):
        """What a query gives, as lists of texts."""
        done = subprocess.run([binaries() / "psql", "-d", self.where, "-AtqXc", query],
                              check=True, capture_output=True, text=True)
        return [line.split("|") for line in done.stdout.splitlines()]
