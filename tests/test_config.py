from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from reproq.config import CommandPool, Settings, SettingsError, child_environ, load, secrets, withheld

DSN = "postgresql://ann:canary-secret@localhost:5432/shop"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(environ: dict[str, str] | None = None, file: Path | None = None, **flags: object) -> Settings:
    return load({"database_url": DSN} | flags, environ or {}, file)


def refusal(environ: dict[str, str] | None = None, file: Path | None = None, **flags: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(environ, file, **flags)
    line = str(caught.value)
    assert "\n" not in line
    assert "canary" not in line
    return line


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return path


def test_a_worker_needs_nothing_but_a_database() -> None:
    got = settings()
    assert (got.lease_s, got.heartbeat_s, got.poll_interval_s, got.drain_timeout_s, got.kill_grace_s) == (
        30,
        10,
        1,
        30,
        5,
    )
    assert (got.queues, got.prefixes, got.app, got.system_processes, got.worker_timeout_s) == ((), (), (), 2, 90)
    assert 1 <= got.processes <= len(os.sched_getaffinity(0))
    assert got.database_url == DSN


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = toml(tmp_path, 'lease = "40s"\ndrain_timeout = 7\npoll-interval = "250ms"\nqueues = ["slow"]')
    environ = {"REPROQ_LEASE": "50s", "REPROQ_DRAIN_TIMEOUT": "8", "WORKER_ID": "anna"}
    got = settings(environ, file, lease_s="60s", queues=("fast", "slow"))
    assert (got.lease_s, got.drain_timeout_s, got.poll_interval_s) == (60, 8, 0.25)
    assert got.queues == ("fast", "slow")
    assert got.worker_id == "anna"


def test_the_file_of_the_working_directory_is_read_without_being_named(tmp_path: Path) -> None:
    (tmp_path / "reproq.toml").write_text(f'database_url = "{DSN}"\nprocesses = 3')
    assert load({}, {}).processes == 3


def test_a_file_of_the_working_directory_that_cant_be_read_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "reproq.toml").mkdir()
    with pytest.raises(SettingsError, match=r"can't read reproq.toml: Is a directory"):
        load({}, {})


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    assert settings({"REPROQ_CONFIG": str(toml(tmp_path, "recycle = 5"))}).recycle == 5


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("30s", 30),
        ("500ms", 0.5),
        ("2m", 120),
        ("1h", 3600),
        ("1m30s", 90),
        ("45", 45),
        (45, 45),
        (0.5, 0.5),
        ("1.5s", 1.5),
    ],
)
def test_durations(written: object, means: float) -> None:
    assert settings(poll_interval_s=written).poll_interval_s == means


@pytest.mark.parametrize(
    "written", ["soon", "-1s", "1 fortnight", "nan", "inf", "1e9", "", "30 s s", "٣s", "\0", True, [1]]
)
def test_a_bad_duration_is_refused_with_an_example(written: object) -> None:
    line = refusal(poll_interval_s=written)
    assert line.startswith("--poll-interval: ")
    assert "30s" in line or "out of range" in line


def test_the_refusal_names_where_the_value_stood(tmp_path: Path) -> None:
    assert refusal({"REPROQ_LEASE": "x"}).startswith("REPROQ_LEASE: 'x'")
    assert refusal(file=toml(tmp_path, 'lease = "x"')).startswith(f"{tmp_path}/own.toml: lease: 'x'")


@pytest.mark.parametrize(
    ("written", "means"),
    [("64MiB", 64 * 2**20), ("1GB", 10**9), ("2g", 2**31), ("1048576", 2**20), ("none", None), (0, None)],
)
def test_sizes(written: object, means: int | None) -> None:
    assert settings(max_memory=written).max_memory == means


@pytest.mark.parametrize("written", ["much", "1 MiB MiB", "-1MiB", "1", "9999999TiB"])
def test_a_bad_size_is_refused(written: str) -> None:
    assert refusal(max_memory=written).startswith("--max-memory: ")


def test_three_heartbeats_must_fit_into_a_lease() -> None:
    line = refusal(lease_s="20s", heartbeat_s="7s")
    assert "heartbeat 7s" in line
    assert "lease 20s" in line


def test_the_heartbeat_follows_a_short_lease_when_it_is_not_set() -> None:
    got = settings(lease_s="6s")
    assert (got.heartbeat_s, got.worker_timeout_s) == (2, 18)


def test_a_worker_time_out_below_the_lease_is_refused() -> None:
    assert "WORKER_TIMEOUT 10s" in refusal({"WORKER_TIMEOUT": "10s"})


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    assert refusal({"REPROQ_QUEUE": "a"}).endswith("REPROQ_QUEUE; did you mean REPROQ_QUEUES?")
    assert refusal({"REPROQ_TYPE_PREFIXES": "a"}).endswith("did you mean WORKER_TYPE_PREFIXES?")


def test_variables_of_other_parts_and_of_kubernetes_service_links_are_not_unknown() -> None:
    settings(
        {
            "REPROQ_SMTP_URL_FILE": "/x",  # no provider is chosen, so nobody reads it
            "REPROQ_TICKET_KEY": "k",
            "REPROQ_TEST_PG": "15",
            "REPROQ_SERVICE_HOST": "10.0.0.1",
            "REPROQ_PORT_5432_TCP_ADDR": "10.0.0.1",
            "REPROQ_GATEWAY_PORT": "tcp://x",
            "REPROQ": "not ours either",
        }
    )


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    assert "unknown key 'lese' in" in refusal(file=toml(tmp_path, 'lese = "3s"'))
    assert refusal(file=toml(tmp_path, 'lese = "3s"')).endswith("did you mean lease?")


@pytest.mark.parametrize("content", ["lease =", "a" * 5 + "[" * 3, "x = " + "[" * 5000, "\x00"])
def test_a_broken_file_is_one_clear_line(tmp_path: Path, content: str) -> None:
    assert "own.toml" in refusal(file=toml(tmp_path, content))


def test_a_file_that_is_missing_a_folder_or_not_text_is_one_clear_line(tmp_path: Path) -> None:
    assert "no file nowhere.toml" in refusal(file=Path("nowhere.toml"))
    assert "directory" in refusal(file=tmp_path).lower()
    (tmp_path / "own.toml").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refusal(file=tmp_path / "own.toml")


def test_no_database_says_the_three_ways_to_name_one() -> None:
    with pytest.raises(SettingsError, match=r"--database-url .* REPROQ_DATABASE_URL.* --embedded"):
        load({}, {"DATABASE_URL": "  "})


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://ann:canary@h/db",
        "postgresql://ann:canary/pa@h:5432/db",
        "postgresql://ann:ca#nary@h:54x2/db",
        "postgresql://h:99999/db",
        "postgresql://h:0/db",
        "host=h canary-lonely",
        "canary",
        "postgresql://h/db?canary=1",
        "postgresql://ann:canary%zz@h/db",
        "host=h password='canary",
        "host=h\ndbname=canary",
        "",
        "   ",
    ],
)
def test_a_malformed_address_is_refused_without_repeating_it(dsn: str) -> None:
    assert refusal(database_url=dsn).startswith("--database-url: ")


@pytest.mark.parametrize(
    "dsn", [DSN, "host=h dbname=d", "postgres:///shop", "postgresql://a,b:5433/db?target_session_attrs=read-write"]
)
def test_every_address_that_libpq_takes_is_taken(dsn: str) -> None:
    assert settings(database_url=dsn).database_url is not None


def test_the_address_of_another_driver_is_understood() -> None:
    assert settings(database_url="postgresql+psycopg2://h/db").database_url == "postgresql://h/db"


def test_the_own_variable_wins_over_the_general_one() -> None:
    got = load({}, {"DATABASE_URL": "postgresql://general", "REPROQ_DATABASE_URL": DSN})
    assert (got.database_url, got.database_source) == (DSN, "REPROQ_DATABASE_URL")


def test_the_address_may_come_from_a_secret_file(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text(DSN + "\n")
    got = load({}, {"REPROQ_DATABASE_URL_FILE": str(tmp_path / "dsn")})
    assert (got.database_url, got.database_source) == (DSN, "REPROQ_DATABASE_URL_FILE")
    with pytest.raises(SettingsError, match="REPROQ_DATABASE_URL_FILE: can't read"):
        load({}, {"REPROQ_DATABASE_URL_FILE": str(tmp_path / "none")})


def test_the_embedded_server_beside_an_address_of_the_same_layer_is_a_contradiction() -> None:
    assert "contradict" in refusal(embedded=True)
    with pytest.raises(SettingsError, match="contradict"):
        load({}, {"REPROQ_EMBEDDED": "1", "REPROQ_DATABASE_URL": DSN})


def test_the_stronger_layer_chooses_between_address_and_embedded_server() -> None:
    assert load({"embedded": True}, {"REPROQ_DATABASE_URL": DSN}).database_url is None
    assert load({}, {"REPROQ_EMBEDDED": "yes", "DATABASE_URL": DSN}).embedded
    assert not settings({"REPROQ_EMBEDDED": "1"}).embedded
    assert not load({}, {"REPROQ_EMBEDDED": "no", "DATABASE_URL": DSN}).embedded


def test_naming_the_folder_means_the_embedded_server() -> None:
    assert load({"embedded_dir": "data"}, {}).embedded_dir == Path("data").absolute()
    assert load({"embedded_dir": "data"}, {}).embedded


def test_a_senseless_folder_is_refused() -> None:
    with pytest.raises(SettingsError, match="--embedded-dir: not the path of a folder"):
        load({"embedded_dir": "\0"}, {})


def test_settings_never_show_the_address() -> None:
    assert "canary" not in repr(settings())


def test_lists_come_comma_separated_repeated_or_as_a_list(tmp_path: Path) -> None:
    assert settings({"WORKER_TYPE_PREFIXES": "media., email."}).prefixes == ("media.", "email.")
    assert settings(prefixes=("a_%", "b,c", "b")).prefixes == ("a_%", "b", "c")
    assert settings(file=toml(tmp_path, 'type_prefixes = ["x."]')).prefixes == ("x.",)


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        ({"prefixes": ("media.*",)}, "write media."),
        ({"prefixes": ("a b",)}, "type prefix"),
        ({"queues": ("a b",)}, "queue name"),
        ({"queues": ("a\0",)}, "queue name"),
        ({"queues": ("q" * 201,)}, "queue name"),
        ({"app": ("shop/tasks.py",)}, "write shop.tasks"),
        ({"app": ("shop-tasks",)}, "isn't a module name"),
        ({"app": (".tasks",)}, "isn't a module name"),
        ({"processes": "0"}, "from 1 to 4096"),
        ({"processes": "many"}, "from 1 to 4096"),
        ({"processes": "9" * 5000}, "from 1 to 4096"),
        ({"worker_id": "a/b"}, "worker name"),
        ({"worker_id": "a\0"}, "control characters"),
        ({"role_prefix": "Acme-"}, "role prefix"),
        ({"log_level": "loud"}, "debug, info, warning, error"),
        ({"child_env": ("A=1",)}, "a name only"),
        ({"lease_s": "1s"}, "out of range"),
    ],
)
def test_a_senseless_value_is_refused_with_what_to_write(flags: dict[str, Any], hint: str) -> None:
    assert hint in refusal(**flags)


def test_a_missing_app_module_is_refused_before_anything_starts() -> None:
    assert "no module 'shopp' for --app shopp" in refusal(app=("shopp",))


def test_looking_for_the_app_never_imports_it(tmp_path: Path) -> None:
    package = tmp_path / "shop_of_the_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "tasks.py").write_text("raise SystemExit('imported')")
    assert settings(app=("shop_of_the_test.tasks",)).app == ("shop_of_the_test.tasks",)
    assert "no module 'shop_of_the_test.taks'" in refusal(app=("shop_of_the_test.taks",))
    assert not any(name.startswith("shop_of_the_test") for name in sys.modules)


def test_a_namespace_package_and_a_zipped_one_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spaced").mkdir()
    (tmp_path / "spaced" / "inner.py").touch()
    assert settings(app=("spaced.inner",)).app
    assert "no module 'spaced.other'" in refusal(app=("spaced.other",))


def test_a_package_that_moves_its_path_is_left_to_the_child(tmp_path: Path) -> None:
    (tmp_path / "moving").mkdir()
    (tmp_path / "moving" / "__init__.py").write_text("__path__.append('/elsewhere')")
    assert settings(app=("moving.where",)).app == ("moving.where",)


def test_commands_are_tables_of_the_file(tmp_path: Path) -> None:
    program = tmp_path / "thumbnail"
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    text = '[[command]]\nprefix = "media."\ncommand = ["./thumbnail", "-v"]\nprocesses = 2\ncontain = true\ncwd = "."\n'
    got = settings(file=toml(tmp_path, text)).commands
    assert got == (CommandPool("media.", ("./thumbnail", "-v"), 2, True, tmp_path),)


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ('prefix = "a."', "command is missing"),
        ('command = "sh"', "prefix is missing"),
        ('prefix = "a."\ncommand = []', "command is missing"),
        ('prefix = "a."\ncommand = [1]', "isn't a command"),
        ('prefix = "a."\ncommand = "\'"', "quotation"),
        ('prefix = "a."\ncommand = "sh"\nproceses = 1', "did you mean processes?"),
        ('prefix = "a."\ncommand = "no-such-program"', "no executable 'no-such-program'"),
        ('prefix = "a."\ncommand = "./none"', "no executable './none'"),
        ('prefix = "a."\ncommand = "sh"\ncwd = "nowhere"', "no folder"),
        ('prefix = "a."\ncommand = "sh"\n[[command]]\nprefix = "a."\ncommand = "sh"', "two commands"),
    ],
)
def test_a_bad_command_is_refused(tmp_path: Path, table: str, hint: str) -> None:
    assert hint in refusal(file=toml(tmp_path, "[[command]]\n" + table).absolute())


def test_children_get_everything_but_the_secrets() -> None:
    environ = {
        "PATH": "/bin",
        "PYTHONPATH": "/app",
        "SHOP_KEY": "own",
        "REPROQ_DATABASE_URL": DSN,
        "PGPASSWORD": "p",
        "RESEND_API_KEY": "k",
        "TWILIO_AUTH_TOKEN_FILE": "/x",
        "REPROQ_SMTP_URL": "smtp://x",
        "REPROQ_LEASE": "30s",
        "DATABASE_URL": "postgresql://app:other@h/app",
        "NOTIFY_SOCKET": "/run/x",
    }
    got = load({}, environ)
    passed = child_environ(environ, got)
    names = ["DATABASE_URL", "PATH", "PYTHONPATH", "REPROQ_LEASE", "REPROQ_WITHHELD", "SHOP_KEY"]
    assert sorted(passed) == names
    assert passed["REPROQ_WITHHELD"].split(",") == [
        *(
            "NOTIFY_SOCKET",
            "PGPASSWORD",
            "REPROQ_DATABASE_URL",
            "REPROQ_SMTP_URL",
            "RESEND_API_KEY",
            "TWILIO_AUTH_TOKEN_FILE",
        )
    ]
    assert "canary" not in str(passed)


def test_the_variable_that_the_address_came_from_is_kept_back_unless_handed_over() -> None:
    environ = {"DATABASE_URL": DSN}
    assert withheld(environ, load({}, environ)) == ("DATABASE_URL",)
    assert withheld(environ, load({"child_env": ("DATABASE_URL",)}, environ)) == ()


def test_the_same_address_or_password_under_another_name_is_kept_back_too() -> None:
    environ = {
        "SHOP_DB": DSN,
        "SHOP_PASSWORD": "canary-secret",
        "OTHER": "postgresql://x:canary-secret@h2/db",
        "FINE": "x",
    }
    assert withheld(environ, settings(environ)) == ("OTHER", "SHOP_DB", "SHOP_PASSWORD")


def test_strict_mode_is_an_allow_list() -> None:
    environ = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "/a", "AWS_KEY": "x", "SHOP": "y"}
    got = settings(environ, strict_env=True, child_env=("SHOP",))
    assert sorted(child_environ(environ, got)) == ["LC_ALL", "PATH", "PYTHONPATH", "REPROQ_WITHHELD", "SHOP"]


def test_every_secret_is_known_to_the_log() -> None:
    environ = {"RESEND_API_KEY": "key-1", "PGPASSWORD": "pg-1", "REPROQ_SMTP_URL": "smtp://u:mail%2Fpw@h"}
    assert {"key-1", "pg-1", "mail%2Fpw", "mail/pw", "canary-secret"} <= secrets(environ, settings(environ))


def test_a_client_command_does_not_need_the_app() -> None:
    assert load({"database_url": DSN, "app": "missing"}, {}, worker=False).app == ("missing",)


@pytest.mark.parametrize(
    "value",
    [
        "host=h user=u password=s3cret-pw",
        "host=h user=u password = 's3cret-pw' dbname=x",
        "jdbc:postgresql://h/x?user=u&password=s3cret-pw",
        "postgresql://h/x?user=u&password=s3cret%2Dpw",
        "Server=h;Password=s3cret-pw;Database=x",
        "PGPASSWORD=s3cret-pw psql",
    ],
)
def test_the_workers_password_under_another_name_is_kept_from_children(value: str) -> None:
    environ = {"REPROQ_DATABASE_URL": "postgresql://w:s3cret-pw@h/x", "OTHERS": value, "FINE": "password=another"}
    assert withheld(environ, load({}, environ)) == ("OTHERS", "REPROQ_DATABASE_URL")


def test_files_in_which_libpq_finds_passwords_are_kept_from_children() -> None:
    environ = {"PGPASSFILE": "/p", "PGSERVICE": "shop", "PGSERVICEFILE": "/s", "PGHOST": "h"}
    assert withheld(environ, load({}, environ, need_database=False)) == ("PGPASSFILE", "PGSERVICE", "PGSERVICEFILE")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("127.0.0.1:9187", ("127.0.0.1", 9187)),
        ("[::1]:9187", ("::1", 9187)),
        (":9187", ("127.0.0.1", 9187)),
        ("9187", ("127.0.0.1", 9187)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
    ],
)
def test_an_address_to_listen_on_may_be_short(text: str, meant: tuple[str, int]) -> None:
    assert load({"metrics_address": text}, {"DATABASE_URL": "postgresql://x/y"}).metrics_address == meant


@pytest.mark.parametrize("text", ["127.0.0.1", "host:70000", "ho st:1", "host:", "http://host:1", "host:1:x"])
def test_no_address_to_listen_on_is_one_clear_line(text: str) -> None:
    with pytest.raises(SettingsError, match="address to listen on; write 127"):
        load({"metrics_address": text}, {"DATABASE_URL": "postgresql://x/y"})
