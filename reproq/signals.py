"""Which signals ask a worker to stop."""

import signal


def stopping() -> list[signal.Signals]:
    """SIGHUP is what a closing terminal sends; under nohup it is ignored, and stays so."""
    asked = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*asked, signal.SIGHUP]
