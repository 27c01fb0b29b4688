"""From the guard to a running child: fork, put everything in order, exec.

The guard is one small thread that holds no lock and runs no user code, so plain fork() is safe here and does what
posix_spawn can't: PR_SET_PDEATHSIG, limits, oom score. What fails before the exec comes back as text over a pipe that
the exec closes; end of file without text = the program runs.
"""

from __future__ import annotations

import os
import resource
import signal
from fcntl import F_DUPFD_CLOEXEC, fcntl

from reproq.executor import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Order = dict[str, Any]

# By this limit the guard knows whose process is whose: every descendant inherits it, and no cleaned environment and no
# new session takes it away. It concerns real-time scheduling only, where the lowest tag is three thousand years.
_TAG = resource.RLIMIT_RTTIME
_HIGHEST_TAG = 10**17
TEMPLATE_FD = 4
_LIMITS = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
_SETTABLE = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class LaunchError(Exception):
    """The text for start_failed."""


def inherited_environment() -> dict[str, str]:
    """As we were started with it: Python itself adds LC_CTYPE to os.environ in the C locale."""
    with open("/proc/self/environ", "rb") as file:
        entries = os.fsdecode(file.read()).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def tag_of(number: int) -> int:
    """The tag of the guard's n-th child."""
    hard = resource.getrlimit(_TAG)[1]
    return (_HIGHEST_TAG if hard == resource.RLIM_INFINITY else min(hard, _HIGHEST_TAG)) - number


def wear(tag: int) -> None:
    resource.setrlimit(_TAG, (tag, resource.getrlimit(_TAG)[1]))


def launch(order: Order, fds: list[int], inherited: dict[str, str], nice: int, tag: int) -> tuple[int, int]:
    """The child's pid and the pipe that tells how its exec went."""
    guard = os.getpid()
    environment = _environment(order, inherited)
    tell, told = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(tell, False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become_child(order, environment, fds, told, guard, nice, tag)
    except OSError as error:
        os.close(tell)
        raise LaunchError(f"can't fork for {order['argv'][0]!r}: {error.strerror}") from None
    finally:
        os.close(told)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid, tell


def _environment(order: Order, inherited: dict[str, str]) -> dict[str, str]:
    environment = dict(inherited)
    for name, value in (order.get("env") or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def _become_child(
    order: Order, environment: dict[str, str], fds: list[int], told: int, guard: int, nice: int, tag: int
) -> NoReturn:
    try:
        wear(tag)
        _order_descriptors(fds, told)
        _order_process(order, guard, nice)
        _order_limits(order)
        _order_identity(order, guard)
        _exec(order["argv"], environment)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may escape into the guard's code)
        text = str(error) if isinstance(error, LaunchError) else f"{type(error).__name__}: {error}"
        os.write(3, text.encode("utf-8", "backslashreplace")[:4000])
    finally:
        os._exit(127)


def _order_descriptors(fds: list[int], told: int) -> None:
    """Exactly 0, 1 and 2, 3 until the exec, and in a template one more. The guard's own 0, 1, 2 are open, so none of
    `fds` is one of them."""
    for target, source in enumerate(fds[:3]):
        os.dup2(source, target)
    control = [fcntl(fd, F_DUPFD_CLOEXEC, TEMPLATE_FD + 1) for fd in fds[3:]]
    os.dup2(told, 3, inheritable=False)
    for fd in control:
        os.dup2(fd, TEMPLATE_FD)
    os.closerange(4 + len(control), _highest_descriptor())


def _highest_descriptor() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return limit if 0 < limit < 1 << 20 else 1 << 20


def _order_process(order: Order, guard: int, nice: int) -> None:
    os.setsid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:  # it died before the line above
        os._exit(127)
    for number in _SETTABLE:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    _set_oom_score(order.get("oom"))
    if order.get("umask") is not None:
        os.umask(order["umask"])
    if order.get("cwd") is not None:
        _change_directory(order["cwd"])


def _set_oom_score(score: int | None) -> None:
    """Only after the guard's descriptors are closed: a dumpable process may be opened by its siblings."""
    if score is None:
        return
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else /proc/self belongs to root
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(score))
    except PermissionError:
        pass  # lowering it needs a privilege; the child runs all the same


def _change_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        raise LaunchError(f"can't enter the working directory {path!r}: {error.strerror}") from None


def _order_limits(order: Order) -> None:
    limits = {"core": 0, **(order.get("limits") or {})}
    for name, value in limits.items():
        if name not in _LIMITS:
            raise LaunchError(f"unknown limit {name!r}: known are {', '.join(sorted(_LIMITS))}")
        _set_limit(name, int(value), hard=name != "core" or order.get("uid") is not None)


def _order_identity(order: Order, guard: int) -> None:
    """Last: what it gives up here the steps before may need."""
    if not order.get("network", True):
        _leave_network()
    if order.get("uid") is not None:
        _become(int(order["uid"]))
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # another uid has cleared it
        if os.getppid() != guard:
            os._exit(127)
    if order.get("no_new_privs"):
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def _leave_network() -> None:
    try:
        kernel.leave_network()
    except OSError as error:
        raise LaunchError(
            f"can't give it a network of its own: {error.strerror}; it needs a worker that is root"
        ) from None


def _become(uid: int) -> None:
    """And the group of the same number: none of the worker's groups stays."""
    import warnings  # noqa: F401 - execvpe imports it, and the new user may not be able to read the standard library

    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise LaunchError(f"can't run as uid {uid}: {error.strerror}; it needs a worker that is root") from None


def _set_limit(name: str, value: int, *, hard: bool) -> None:
    """A developer may raise core's again, a user of its own may not: cores lie where others can read them."""
    highest = resource.getrlimit(_LIMITS[name])[1]
    try:
        resource.setrlimit(_LIMITS[name], (value, value if hard else highest))
    except (OSError, ValueError) as error:
        raise LaunchError(f"can't set the limit {name}={value} (hard limit {highest}): {error}") from None


def _exec(argv: list[str], environment: dict[str, str]) -> None:
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606
    except FileNotFoundError:
        raise LaunchError(_not_found(argv[0], environment)) from None
    except PermissionError:
        raise LaunchError(_not_permitted(argv[0], environment)) from None
    except OSError as error:
        hint = "; a script needs a #! line" if error.errno == 8 else ""
        raise LaunchError(f"can't start {argv[0]!r}: {error.strerror}{hint}") from None


def _not_permitted(program: str, environment: dict[str, str]) -> str:
    """A folder of PATH that may not be read looks the same as a program that may not be run."""
    if "/" not in program:
        return _not_found(program, environment) + ", or not executable"
    return f"can't start {program!r}: permission denied; is it executable (chmod +x)?"


def _not_found(program: str, environment: dict[str, str]) -> str:
    if "/" not in program:
        return f"can't start {program!r}: not found on PATH ({environment.get('PATH', 'PATH is unset')})"
    if os.access(program, os.F_OK):
        return f"can't start {program!r}: the interpreter that its #! line names doesn't exist"
    return f"can't start {program!r}: no such file (working directory: {os.getcwd()})"
