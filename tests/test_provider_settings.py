"""Which provider, with which keys: refused at a worker's start when wrong, and never repeated anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reproq.config import ProviderSettings, Settings, SettingsError, child_environ, load, secrets
from reproq.config.endpoints import SmtpServer, smtp
from reproq.log import Redactor

BASE = {"REPROQ_DATABASE_URL": "postgresql://localhost/shop"}
SMTP = {"REPROQ_EMAIL_PROVIDER": "smtp", "REPROQ_SMTP_URL": "smtp://ann:canary%2Fpw@mail.example.org"}
SID = "AC" + "0a" * 16
TWILIO = {"REPROQ_SMS_PROVIDER": "twilio", "TWILIO_ACCOUNT_SID": SID, "TWILIO_AUTH_TOKEN": "canary-token"}
RESEND = {"REPROQ_EMAIL_PROVIDER": "resend", "RESEND_API_KEY": "canary-key"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(environ: dict[str, str]) -> Settings:
    return load({}, BASE | environ)


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(environ)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_a_choice_no_channel_is_served() -> None:
    assert settings({}).providers == ProviderSettings()


def test_what_the_child_gets_is_plain_and_holds_only_what_the_chosen_providers_use() -> None:
    given = settings(
        SMTP | TWILIO | {"RESEND_API_KEY": "other", "REPROQ_EMAIL_FROM": "Shop <a@b.org>"}
    ).providers.plain()
    assert json.loads(json.dumps(given)) == given
    assert given["smtp"] == {
        "host": "mail.example.org",
        "port": 587,
        "tls": "starttls",
        "user": "ann",
        "password": "canary/pw",
    }
    assert (given["email_provider"], given["email_from"], given["sms_provider"]) == ("smtp", "Shop <a@b.org>", "twilio")
    assert (given["twilio_account_sid"], given["twilio_auth_token"]) == (SID, "canary-token")
    assert "resend_api_key" not in given
    assert given["outbox_dir"] == str(Path("outbox").absolute())


def test_names_may_stand_in_the_settings_file_and_keys_may_not(tmp_path: Path) -> None:
    text = 'email_provider = "file"\noutbox_dir = "mails"\nsms_provider = "console"\nsms_from = "Shop"\n'
    (tmp_path / "reproq.toml").write_text(text)
    got = settings({}).providers
    assert (got.email_provider, got.outbox_dir, got.sms_from) == ("file", tmp_path / "mails", "Shop")
    for key in ("smtp_url", "resend_api_key", "twilio_auth_token"):
        (tmp_path / "reproq.toml").write_text(f'{key} = "canary"')
        assert f"unknown key '{key}'" in refusal({})


def test_every_value_may_come_from_a_file_of_its_own(tmp_path: Path) -> None:
    environ = {}
    for name, value in (TWILIO | RESEND | {"TWILIO_FROM": "+15550001", "REPROQ_EMAIL_FROM": "a@b.org"}).items():
        (tmp_path / name).write_text(value + "\n")
        environ[f"{name}_FILE"] = str(tmp_path / name)
    got = settings(environ)
    assert (
        got.providers.plain().items()
        >= {
            "email_provider": "resend",
            "resend_api_key": "canary-key",
            "twilio_auth_token": "canary-token",
            "sms_from": "+15550001",
            "email_from": "a@b.org",
        }.items()
    )
    assert secrets(environ, got) >= {"canary-key", "canary-token"}


@pytest.mark.parametrize("sender", ["a@b.org", "Shop <a@b.org>", '"Shop, Inc" <a@b.org>', "Käse <a@b.org>"])
def test_a_sender_may_have_a_name(sender: str) -> None:
    assert settings(RESEND | {"REPROQ_EMAIL_FROM": sender}).providers.email_from == sender


def test_the_own_name_of_the_sms_sender_wins() -> None:
    assert settings(TWILIO | {"TWILIO_FROM": "1111", "REPROQ_SMS_FROM": "2222"}).providers.sms_from == "2222"


@pytest.mark.parametrize(
    ("environ", "hint"),
    [
        ({"REPROQ_EMAIL_PROVIDER": "smpt"}, "did you mean smtp?"),
        ({"REPROQ_EMAIL_PROVIDER": "twilio"}, "isn't one of smtp, resend, console, file"),
        ({"REPROQ_SMS_PROVIDER": "smtp"}, "isn't one of twilio, console, file"),
        ({"REPROQ_EMAIL_PROVIDER": "smtp"}, "smtp is chosen, but REPROQ_SMTP_URL is missing"),
        ({"REPROQ_EMAIL_PROVIDER": "resend"}, "RESEND_API_KEY is missing; set it or RESEND_API_KEY_FILE"),
        (TWILIO | {"TWILIO_ACCOUNT_SID": ""}, "TWILIO_ACCOUNT_SID is missing"),
        (TWILIO | {"TWILIO_AUTH_TOKEN": " "}, "TWILIO_AUTH_TOKEN is missing"),
        (TWILIO | {"TWILIO_ACCOUNT_SID": "canary"}, "TWILIO_ACCOUNT_SID: not an account SID"),
        (RESEND | {"RESEND_API_KEY": "canary key"}, "RESEND_API_KEY: not a key"),
        (RESEND | {"RESEND_API_URL": "https://canary@host"}, "RESEND_API_URL: not the address of an API"),
        (RESEND | {"RESEND_API_URL": "ftp://host"}, "RESEND_API_URL: not the address of an API"),
        (RESEND | {"REPROQ_EMAIL_FROM": "Shop"}, "REPROQ_EMAIL_FROM: 'Shop' isn't an email address"),
        (RESEND | {"REPROQ_EMAIL_FROM": "Shop, Inc <a@b.org>"}, "isn't an email address"),
        (RESEND | {"REPROQ_EMAIL_FROM": "a@b.org, c@d.org"}, "isn't an email address"),
        (RESEND | {"RESEND_API_KEY": "", "RESEND_API_KEY_FILE": "/no/file"}, "RESEND_API_KEY_FILE: can't read"),
        (SMTP | {"REPROQ_SMTP_URL": "", "REPROQ_SMTP_URL_FILE": "/"}, "REPROQ_SMTP_URL_FILE: can't read"),
    ],
)
def test_a_wrong_choice_is_one_clear_line(environ: dict[str, str], hint: str) -> None:
    assert hint in refusal(environ)


@pytest.mark.parametrize(
    "address",
    [
        "canary",
        "http://canary@host",
        "smtp://",
        "smtp://user:canary@",
        "smtp://user:canary@host:99999",
        "smtp://user:canary@host:0",
        "smtp://user:canary@host:x",
        "smtp://user:can/ary@host:587",
        "smtp://user:can#ary@host:587",
        "smtp://user:can?ary@host:587",
        "smtp://user:can ary@host:587",
        "smtp://user:can%0Aary@host",
        "smtp://user:canary@[host",
        "smtp://user@host",
        "smtp://:canary@host",
        "smtp://host?tls=maybe",
        "smtp://host?tls=none&tls=none",
        "smtp://host?canary=1",
        "smtps://user:canary@host?tls=none",
        "smtp://hôte",
    ],
)
def test_a_malformed_smtp_address_is_refused_without_repeating_it(address: str) -> None:
    assert refusal(SMTP | {"REPROQ_SMTP_URL": address}).startswith(
        "REPROQ_SMTP_URL: malformed SMTP address; write smtp:"
    )


@pytest.mark.parametrize(
    ("address", "means"),
    [
        ("smtp://h", SmtpServer("h", 587, "starttls")),
        ("smtp://h:25", SmtpServer("h", 25, "starttls")),
        ("smtp://h:465", SmtpServer("h", 465, "implicit")),
        ("smtps://h", SmtpServer("h", 465, "implicit")),
        ("smtps://h:8465", SmtpServer("h", 8465, "implicit")),
        ("smtp://h?tls=none", SmtpServer("h", 25, "none")),
        ("smtp://h:1025/?tls=none", SmtpServer("h", 1025, "none")),
        ("smtp://h?tls=implicit", SmtpServer("h", 465, "implicit")),
        ("smtp://a%40b:p%3A%2F@[::1]:2525", SmtpServer("::1", 2525, "starttls", "a@b", "p:/")),
    ],
)
def test_what_an_smtp_address_means(address: str, means: SmtpServer) -> None:
    assert smtp(address) == means


def test_other_commands_neither_judge_nor_read_the_providers() -> None:
    environ = BASE | {"REPROQ_EMAIL_PROVIDER": "smtp", "REPROQ_SMTP_URL_FILE": "/no/file"}
    assert load({}, environ, worker=False).providers == ProviderSettings()


def test_a_key_whose_provider_is_not_chosen_is_the_apps_own_business() -> None:
    settings({"TWILIO_AUTH_TOKEN_FILE": "/no/file", "TWILIO_ACCOUNT_SID": "SK1", "RESEND_API_URL": "?"})


def test_no_log_line_holds_a_key_wherever_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(SMTP["REPROQ_SMTP_URL"])
    environ = TWILIO | {"REPROQ_EMAIL_PROVIDER": "smtp", "REPROQ_SMTP_URL_FILE": str(tmp_path / "url")}
    redact = Redactor()
    redact.hide(secrets(environ, settings(environ)))
    for text in ("canary/pw", "canary%2Fpw", SMTP["REPROQ_SMTP_URL"], "canary-token"):
        assert "canary" not in redact(f"the server said {text}!")
    assert "canary" not in repr(settings(environ))


def test_children_get_neither_the_keys_nor_the_files_that_hold_them(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary-token")
    (tmp_path / "url").write_text(SMTP["REPROQ_SMTP_URL"])
    files = {"TWILIO_AUTH_TOKEN_FILE": str(tmp_path / "token"), "REPROQ_SMTP_URL_FILE": str(tmp_path / "url")}
    copies = {"MY_TOKEN": "canary-token", "MY_MAIL": "smtp://ann:canary%2Fpw@elsewhere", "SHOP": "open"}
    environ = TWILIO | RESEND | SMTP | files | copies
    environ.pop("TWILIO_AUTH_TOKEN")
    environ.pop("REPROQ_SMTP_URL")
    seen = child_environ(environ, settings(environ))
    assert "canary" not in json.dumps(seen)
    assert not any(name.endswith("_FILE") for name in seen)
    assert seen["SHOP"] == "open"


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/nix", "/dev/null/below"])
def test_a_folder_for_messages_that_can_not_be_is_refused(folder: str) -> None:
    assert "no folder" in refusal({"REPROQ_EMAIL_PROVIDER": "file", "REPROQ_OUTBOX_DIR": folder})


def test_a_folder_for_messages_may_be_made_later(tmp_path: Path) -> None:
    settings({"REPROQ_EMAIL_PROVIDER": "file", "REPROQ_OUTBOX_DIR": str(tmp_path / "not" / "yet")})


def test_a_value_and_a_file_for_it_contradict_each_other(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("smtp://other")
    both = SMTP | {"REPROQ_SMTP_URL_FILE": str(tmp_path / "url")}
    assert "REPROQ_SMTP_URL and REPROQ_SMTP_URL_FILE are both given" in refusal(both)


def test_a_broken_percent_escape_is_refused() -> None:
    assert "percent-encoded" in refusal(SMTP | {"REPROQ_SMTP_URL": "smtp://ann:canary%zz@mail.example.org"})
