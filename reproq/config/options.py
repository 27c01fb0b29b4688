"""One table of every setting: its flag, its environment variable, its key in the file, how it is read.

Order of precedence: flag, environment, file, default. The gateway's names are known here too, so that a worker doesn't
refuse an environment it shares with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reproq.config import address, dispatch, endpoints, gateway_values, values
from reproq.config.providers import EMAIL_PROVIDERS, SMS_PROVIDERS
from reproq.config.values import Parse


@dataclass(frozen=True)
class Option:
    field: str
    parse: Parse
    flag: str = ""
    variables: tuple[str, ...] = ()
    key: str = ""
    secret: bool = False  # never shown in an error, kept from children, redacted in logs

    def from_file(self, variable: str) -> bool:
        """May VARIABLE_FILE name a file that holds the value? What has no flag always: containers mount such files."""
        return not self.flag or (self.secret and variable.startswith("REPROQ_"))


_DAY = 86400.0
_DATABASE = ("REPROQ_DATABASE_URL", "DATABASE_URL")
_system = values.number(0, 4096)

OPTIONS = (
    Option("database_url", address.checked, "--database-url", _DATABASE, "database_url", True),
    Option("embedded", values.boolean, "--embedded", ("REPROQ_EMBEDDED",), "embedded"),
    Option("embedded_dir", address.folder, "--embedded-dir", ("REPROQ_EMBEDDED_DIR",), "embedded_dir"),
    Option("queues", values.words(values.queue_name), "--queue", ("REPROQ_QUEUES",), "queues"),
    Option("prefixes", values.words(values.type_prefix), "--type-prefix", ("WORKER_TYPE_PREFIXES",), "type_prefixes"),
    Option("app", values.words(values.module_name), "--app", ("REPROQ_APP",), "app"),
    Option("processes", values.number(1, 4096), "--processes", ("REPROQ_PROCESSES",), "processes"),
    Option("recycle", values.or_never(values.number(1, 10**12)), "--recycle", ("REPROQ_RECYCLE",), "recycle"),
    Option(
        "max_memory", values.or_never(values.size(2**20, 2**50)), "--max-memory", ("REPROQ_MAX_MEMORY",), "max_memory"
    ),
    Option("lease_s", values.duration(3, _DAY), "--lease", ("REPROQ_LEASE",), "lease"),
    Option("heartbeat_s", values.duration(0.1, _DAY), "--heartbeat", ("REPROQ_HEARTBEAT",), "heartbeat"),
    Option("poll_interval_s", values.duration(0.01, _DAY), "--poll-interval", ("POLL_INTERVAL",), "poll_interval"),
    Option("drain_timeout_s", values.duration(0, _DAY), "--drain-timeout", ("REPROQ_DRAIN_TIMEOUT",), "drain_timeout"),
    Option("kill_grace_s", values.duration(0, 3600), "--kill-grace", ("REPROQ_KILL_GRACE",), "kill_grace"),
    Option("system_processes", _system, "--system-processes", ("REPROQ_SYSTEM_PROCESSES",), "system_processes"),
    Option("worker_id", values.host_part, "--worker-id", ("WORKER_ID",), "worker_id"),
    Option(
        "worker_timeout_s", values.duration(1, 30 * _DAY), "--worker-timeout", ("WORKER_TIMEOUT",), "worker_timeout"
    ),
    Option("until_empty", values.boolean, "--until-empty"),
    Option("no_migrate", values.boolean, "--no-migrate", ("REPROQ_NO_MIGRATE",), "no_migrate"),
    Option("migrate_url", address.checked, "--migrate-url", ("REPROQ_MIGRATE_URL",), "migrate_url", True),
    Option("role_prefix", values.role_prefix, "--role-prefix", ("REPROQ_ROLE_PREFIX",), "role_prefix"),
    Option("child_env", values.words(values.variable_name), "--child-env", ("REPROQ_CHILD_ENV",), "child_env"),
    Option("strict_env", values.boolean, "--child-env-only", ("REPROQ_CHILD_ENV_ONLY",), "child_env_only"),
    Option("leave_unknown", values.boolean, "--leave-unknown", ("REPROQ_LEAVE_UNKNOWN",), "leave_unknown"),
    Option("max_envelope", values.size(1024, 2**28), "--max-envelope", ("REPROQ_MAX_ENVELOPE",), "max_envelope"),
    Option("max_in_flight", values.size(2**20, 2**40), "--max-in-flight", ("REPROQ_MAX_IN_FLIGHT",), "max_in_flight"),
    Option("metrics_address", address.listening, "--metrics-address", ("REPROQ_METRICS_ADDRESS",), "metrics_address"),
    Option("log_payloads", values.boolean, "--log-payloads", ("REPROQ_LOG_PAYLOADS",), "log_payloads"),
    Option("log_level", values.level, "--log-level", ("REPROQ_LOG_LEVEL",), "log_level"),
)

# Without flags: keys don't belong into argv, and the rest goes with them.
PROVIDERS = (
    Option(
        "email_provider", values.one_of(EMAIL_PROVIDERS), variables=("REPROQ_EMAIL_PROVIDER",), key="email_provider"
    ),
    Option("sms_provider", values.one_of(SMS_PROVIDERS), variables=("REPROQ_SMS_PROVIDER",), key="sms_provider"),
    Option("email_from", values.sender, variables=("REPROQ_EMAIL_FROM",), key="email_from"),
    Option("sms_from", values.text, variables=("REPROQ_SMS_FROM", "TWILIO_FROM"), key="sms_from"),
    Option("smtp_url", endpoints.checked_smtp, variables=("REPROQ_SMTP_URL",), secret=True),
    Option("resend_api_key", values.key, variables=("RESEND_API_KEY",), secret=True),
    Option("resend_api_url", endpoints.http, variables=("RESEND_API_URL",), key="resend_api_url"),
    Option("twilio_account_sid", values.account_sid, variables=("TWILIO_ACCOUNT_SID",), key="twilio_account_sid"),
    Option("twilio_auth_token", values.key, variables=("TWILIO_AUTH_TOKEN",), secret=True),
    Option("twilio_api_url", endpoints.http, variables=("TWILIO_API_URL",), key="twilio_api_url"),
    Option("outbox_dir", address.folder, variables=("REPROQ_OUTBOX_DIR",), key="outbox_dir"),
)

# Of `reproq serve`, in the file's table [serve].
GATEWAY = (
    Option("listen", address.listening, "--listen", ("REPROQ_SERVE_LISTEN",), "listen"),
    Option("tls_cert", gateway_values.readable_file, "--tls-cert", ("REPROQ_SERVE_TLS_CERT",), "tls_cert"),
    Option("tls_key", gateway_values.readable_file, "--tls-key", ("REPROQ_SERVE_TLS_KEY",), "tls_key"),
    Option(
        "insecure_plain_http",
        values.boolean,
        "--insecure-plain-http",
        ("REPROQ_SERVE_INSECURE_PLAIN_HTTP",),
        "insecure_plain_http",
    ),
    Option("ticket_keys", gateway_values.ticket_keys, variables=("REPROQ_TICKET_KEY",), secret=True),
    Option(
        "cors_origins",
        values.words(gateway_values.origin),
        "--cors-origin",
        ("REPROQ_CORS_ORIGINS",),
        "cors_origins",
    ),
    Option("max_waiters", values.number(1, 10**6), "--max-waiters", ("REPROQ_SERVE_MAX_WAITERS",), "max_waiters"),
    Option("max_body", values.size(1024, 2**28), "--max-body", ("REPROQ_SERVE_MAX_BODY",), "max_body"),
    Option("keep_alive_s", values.duration(0.05, 300), "--keep-alive", ("REPROQ_SERVE_KEEP_ALIVE",), "keep_alive"),
)

BY_FIELD = {option.field: option for option in OPTIONS}
BY_KEY = {option.key: option for option in (*OPTIONS, *PROVIDERS) if option.key}

PROVIDER_SECRETS = frozenset(name for option in PROVIDERS if option.secret for name in option.variables)
_PROVIDER_NAMES = frozenset(name for option in PROVIDERS for name in option.variables)
_GATEWAY_SECRETS = frozenset(name for option in GATEWAY if option.secret for name in option.variables)
_GATEWAY_NAMES = frozenset(name for option in GATEWAY for name in option.variables)
_OWN_NAMES = frozenset({"REPROQ_CONFIG", "REPROQ_WITHHELD"})
SECRETS = PROVIDER_SECRETS | _GATEWAY_SECRETS | {"REPROQ_DATABASE_URL", "REPROQ_MIGRATE_URL"}
SECRET_FILES = frozenset(f"{name}_FILE" for name in SECRETS)
KNOWN = frozenset(
    {
        *(name for option in OPTIONS for name in option.variables),
        *SECRETS,
        *_PROVIDER_NAMES,
        *_GATEWAY_NAMES,
        *(f"{name}_FILE" for name in SECRETS | _PROVIDER_NAMES | _GATEWAY_NAMES),
        *_OWN_NAMES,
        *dispatch.NAMES,
    }
)
_OTHERS = re.compile(r"REPROQ_(?:TEST|BENCH)_\w+")
# Kubernetes puts these into every pod beside a Service whose name starts with "reproq".
_SERVICE_LINK = re.compile(
    r"REPROQ(?:_[A-Z0-9]+)*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)


def is_known(variable: str) -> bool:
    families = (_OTHERS, _SERVICE_LINK, dispatch.SECRET_VARIABLE)
    return variable in KNOWN or any(family.fullmatch(variable) for family in families)


def is_secret(variable: str) -> bool:
    """Does it hold a secret, or name the file of one?"""
    return variable in SECRETS or variable in SECRET_FILES or bool(dispatch.SECRET_VARIABLE.fullmatch(variable))
