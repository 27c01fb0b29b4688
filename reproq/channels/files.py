"""Messages as files in a folder, for development and tests. A key that is there already isn't written again."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproq.channels.contract import Provider, one_line, unavailable
from reproq.channels.messages import plain_key, read_email, read_sms
from reproq.channels.mime import rendered


class _Folder(Provider):
    name = "file"
    resolves_by = "resend"

    def __init__(self, folder: str, sender: str | None) -> None:
        self._folder = Path(folder)
        self.sender = sender

    def close(self) -> None:
        pass

    def _keep(self, name: str, content: bytes) -> dict[str, Any]:
        try:
            self._write(self._folder / name, content)
        except OSError as problem:
            raise unavailable(one_line(f"can't write {self._folder / name}: {problem.strerror}")) from None
        return {"provider": self.name, "provider_message_id": name}

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=".", suffix=".part", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            with contextlib.suppress(FileExistsError):
                os.link(scratch, path)  # all of it or nothing, and never over another
        finally:
            os.unlink(scratch)


class EmailFolder(_Folder):
    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        return self._keep(f"{plain_key(key)}.eml", rendered(read_email(message, self.sender), key))


class SmsFolder(_Folder):
    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        sms = read_sms(message, self.sender)
        content = json.dumps({"to": sms.to, "from": sms.sender, "body": sms.body}, ensure_ascii=False, indent=2)
        return self._keep(f"{plain_key(key)}.sms.json", content.encode() + b"\n")
