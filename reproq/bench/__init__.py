"""Floors and our own figures on one server, and the harness that the checkout's bench/ runs peers with.

A *step* is one thing to run; it answers *figures*, numbers with names. A session runs every step once, then again, up
to three times, so that the repeats of one figure lie minutes apart; each run is one line in a file, which makes a
session resumable. Tables, ratios and the plot are drawn from that file alone.

The children import this package for its tasks (reproq.bench.app), so nothing is imported here.
"""
