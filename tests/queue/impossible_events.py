"""Rows of the outbox and of the gateway's tokens that a CHECK refuses: constraint -> a good row, but for one value."""

from __future__ import annotations

_EVENT = {"event_type": "'x'", "subject": "'s'", "ordered": "true", "size": "1", "sinks_open": "1"}
_SINK = {
    "sink_name": "'s'", "url": "'https://a.example/'", "mode": "'binary'", "signed": "true", "allow_private": "false",
    "max_attempts": "1", "max_age": "'1 day'", "timeout_s": "1", "batch_size": "1",
    "backoff_base": "'1 s'", "backoff_cap": "'1 s'",
}  # fmt: skip
_DELIVERY = {"event_id": "1", "sink": "'s'"}
_TOKEN = {"name": "'t'", "hash": "sha256('x')", "scopes": "'{tasks:read}'"}


def _insert(table: str, row: dict[str, str], **changed: str) -> str:
    row = row | changed
    return f"insert into queues.{table} ({', '.join(row)}) values ({', '.join(row.values())})"


EVENTS_AND_TOKENS = {
    "event_type_is_plain": _insert("outbox_event", _EVENT, event_type="'a b'"),
    "subject_is_one_line": _insert("outbox_event", _EVENT, subject="e'a\\nb'"),
    "sinks_are_counted": _insert("outbox_event", _EVENT, sinks_open="-1"),
    "published_is_nobody_waits": _insert("outbox_event", _EVENT, published_at="now()"),
    "order_needs_a_subject": _insert("outbox_event", _EVENT, subject="null"),
    "sink_name_is_plain": _insert("sinks", _SINK, sink_name="'shop_file'"),
    "url_is_http": _insert("sinks", _SINK, url="'ftp://a.example/'", allow_private="true"),
    "mode_is_known": _insert("sinks", _SINK, mode="'loud'"),
    "prefixes_are_few": _insert("sinks", _SINK, type_prefixes="'{}'"),
    "attempts_in_range": _insert("sinks", _SINK, max_attempts="0"),
    "age_in_range": _insert("sinks", _SINK, max_age="'91 days'"),
    "timeout_in_range": _insert("sinks", _SINK, timeout_s="61"),
    "batch_in_range": _insert("sinks", _SINK, batch_size="0"),
    "base_is_positive": _insert("sinks", _SINK, backoff_base="'0'"),
    "cap_in_range": _insert("sinks", _SINK, backoff_cap="'8 days'"),
    "plain_http_stays_inside": _insert("sinks", _SINK, url="'http://a.example/'"),
    "disabled_has_a_time": _insert("sinks", _SINK, enabled="false"),
    "state_is_known": _insert("outbox_delivery", _DELIVERY, state="'lost'", ended_at="now()"),
    "only_waiting_is_leased": _insert(
        "outbox_delivery", _DELIVERY, state="'parked'", ended_at="now()", leased_until="now()"
    ),
    "ended_has_a_time": _insert("outbox_delivery", _DELIVERY, ended_at="now()"),
    "outbox_settings_only_row_check": "update queues.outbox_settings set only_row = false",
    "source_is_a_reference": "update queues.outbox_settings set event_source = 'a b'",
    "outbox_settings_keep_published_check": "update queues.outbox_settings set keep_published = '-1 s'",
    "outbox_settings_keep_parked_check": "update queues.outbox_settings set keep_parked = '-1 s'",
    "token_has_a_name": _insert("api_tokens", _TOKEN, name="'a b'"),
    "hash_is_a_sha256": _insert("api_tokens", _TOKEN, hash="'x'"),
    "scopes_are_words": _insert("api_tokens", _TOKEN, scopes="'{all}'"),
    "queues_name_one": _insert("api_tokens", _TOKEN, queues="'{}'"),
    "prefixes_name_one": _insert("api_tokens", _TOKEN, prefixes="'{}'"),
}
