"""The handlers of the routes, by noun: jobs, queues, tokens.

A handler reads the request (`grassq.web.requests`), asks the broker's `service` or `views` through the engine, and
makes the answer (`grassq.web.responses`). It decides nothing itself. `grassq.web.app` has the table of routes.

May import what `grassq.web` may.

When the same request arrives twice, because a connection broke before the answer, its key gives the answer of the
first.
"""
