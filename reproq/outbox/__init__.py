"""The dispatcher: takes events out of the database to sinks over HTTP, at least once, in order, signed."""
