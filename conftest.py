"""pytest has imported the standard `cmd` (by way of pdb) before this folder is on the path: show it `cmd.worker`."""

import cmd
from pathlib import Path

cmd.__path__ = [str(Path(__file__).parent / "cmd")]
