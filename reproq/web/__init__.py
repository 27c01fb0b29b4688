"""The gateway: tasks over HTTP, for programs with a token and browsers with a ticket.

One process, one event loop. Whoever waits is a future in watch.py, and one database connection looks for all of them
together. Every door writes by the functions of the schema `queues`; there is no second way to a task row. What may be
asked stands in routes.py.
"""
