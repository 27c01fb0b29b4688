"""One table of every setting: its flag, its environment variable, its key in the file, how it is read.

Order of precedence: flag, environment, file, default. Names that later parts read for themselves (providers, gateway)
are known here too, so that a worker doesn't refuse an environment it shares with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reproq.config import address, values
from reproq.config.values import Parse


@dataclass(frozen=True)
class Option:
    field: str
    parse: Parse
    flag: str = ""
    variables: tuple[str, ...] = ()
    key: str = ""
    secret: bool = False  # never shown in an error, kept from children, redacted in logs


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
    Option("log_payloads", values.boolean, "--log-payloads", ("REPROQ_LOG_PAYLOADS",), "log_payloads"),
    Option("log_level", values.level, "--log-level", ("REPROQ_LOG_LEVEL",), "log_level"),
)

BY_FIELD = {option.field: option for option in OPTIONS}
BY_KEY = {option.key: option for option in OPTIONS if option.key}

# Read by providers, gateway, tests and children; each secret also as NAME_FILE.
PROVIDER_SECRETS = frozenset({"RESEND_API_KEY", "TWILIO_AUTH_TOKEN", "REPROQ_SMTP_URL", "REPROQ_TICKET_KEY"})
_PROVIDER_NAMES = frozenset(
    {
        *(
            "REPROQ_EMAIL_PROVIDER",
            "REPROQ_SMS_PROVIDER",
            "REPROQ_EMAIL_FROM",
            "REPROQ_SMS_FROM",
            "REPROQ_CORS_ORIGINS",
        ),
        *("RESEND_API_URL", "TWILIO_ACCOUNT_SID", "TWILIO_FROM", "TWILIO_API_URL"),
    }
)
_OWN_NAMES = frozenset({"REPROQ_CONFIG", "REPROQ_WITHHELD"})
SECRETS = PROVIDER_SECRETS | {"REPROQ_DATABASE_URL", "REPROQ_MIGRATE_URL"}
SECRET_FILES = frozenset(f"{name}_FILE" for name in SECRETS)
KNOWN = frozenset(
    {
        *(name for option in OPTIONS for name in option.variables),
        *SECRETS,
        *_PROVIDER_NAMES,
        *(f"{name}_FILE" for name in SECRETS | _PROVIDER_NAMES),
        *_OWN_NAMES,
    }
)
_OTHERS = re.compile(r"REPROQ_(?:TEST|BENCH)_\w+")
# Kubernetes puts these into every pod beside a Service whose name starts with "reproq".
_SERVICE_LINK = re.compile(
    r"REPROQ(?:_[A-Z0-9]+)*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)


def is_known(variable: str) -> bool:
    return variable in KNOWN or bool(_OTHERS.fullmatch(variable) or _SERVICE_LINK.fullmatch(variable))
