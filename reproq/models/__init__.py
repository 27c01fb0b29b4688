"""Values: states, executions, envelopes. No I/O, no clock, no SQL, no environment."""
