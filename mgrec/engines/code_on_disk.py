"""Compiled code on disk: only files that this user stored, undamaged, are loaded."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from hashlib import blake2b, sha256
from pathlib import Path

logger = logging.getLogger("mgrec")
_DIGEST_BYTES = 32
_reasons: dict[str, str] = {}
"""Messages that were logged, by variable or folder."""


class CodeFolder:
    """A folder of compiled code that only this user may write.

    A user that writes such a file runs code as the user that loads it. Each user therefore has a
    separate folder of mode 0700, even in a parent that others may write. The environment variable
    `variable` names the parent, for messages.
    """

    def __init__(self, parent: str | Path, variable: str) -> None:
        self.path = Path(parent) / f"mgrec-{os.geteuid()}"
        self._variable = variable

    def load(self, name: str, key: str) -> bytes | None:
        """Return the code of a name and key; None if it is missing or damaged."""
        try:
            if not self._is_private():
                return None
            with open(self.path / name, "rb", opener=_open_without_waiting) as file:
                # Another process may have replaced the folder meanwhile.
                status = os.fstat(file.fileno())
                if not _is_private(status) or not stat.S_ISREG(status.st_mode):
                    return None
                content = file.read()
        except OSError:
            return None
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return code if digest == _digest(code, key) else None

    def store(self, name: str, key: str, code: bytes) -> None:
        """Store code, or log once that it cannot be written.

        The file appears atomically: other processes may load or store it at the same time.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private():
                _write(self.path / name, _digest(code, key) + code)
        except OSError as error:
            log_not_stored(self._variable, str(error))

    def _is_private(self) -> bool:
        """Return whether only this user can write to the folder; warn once if not."""
        if _is_private(self.path.lstat()):
            return True
        _log(
            logging.WARNING,
            str(self.path),
            f"{self.path} is not loaded from, since another user owns it or may write it: every "
            f"process compiles again. Remove it, or set {self._variable} to a folder of yours",
        )
        return False


def log_not_stored(variable: str, reason: str) -> None:
    """Log once that code is not stored; the environment variable `variable` sets the folder."""
    _log(
        logging.INFO,
        variable,
        f"compiled code is not kept on disk, and the next process compiles again ({reason}): set "
        f"{variable} to a folder that can be written",
    )


def reason_not_stored() -> str | None:
    """Return why this process does not store or load compiled code; None if it does."""
    return next(iter(_reasons.values()), None)


def _log(level: int, key: str, message: str) -> None:
    """Log the first message of a key."""
    if key not in _reasons:
        _reasons[key] = message
        logger.log(level, message)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; opening a pipe would wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _digest(code: bytes, key: str) -> bytes:
    """Return a checksum that differs for damaged code and for another key."""
    return blake2b(code, digest_size=_DIGEST_BYTES, key=sha256(key.encode()).digest()).digest()


def _write(path: Path, content: bytes) -> None:
    # The mode of a temporary file is 0600, whatever the umask.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            file.write(content)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
