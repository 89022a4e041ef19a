"""The HTTP API and the web page: on the user's own unix socket, on loopback for browsers, over TLS for others.

Enter at `app.py`, the table of every route. A request passes the packages from the top to the bottom:

    coming in   `listen` sockets and certificates, `page` files and sessions of the web page, `access` rights of callers
    bodies      `requests.py` what requests bring, `responses.py` how answers and errors are made
    handlers    `routes` by noun, `submit` new jobs and edits, `tables` what the page shows of jobs and sweeps,
                `forecast` when jobs start and end, `timeline` what ran on each device
    streams     `events` changes as lines, `logs` output of jobs, `live` what open pages show
    beside      `workers` connections of workers; `retention.py` chooses old jobs, `removal.py` removes their folders
    described   `answers` the types of answers, `openapi` the document of all routes

May import `broker` and `core`; of `store` the record types only, of `run` only how a program is found, of `machines`
only what a machine is.

When a client goes away, its handler ends and the job does not. When a body, a selector or a header is wrong, the
answer is one sentence with an exit code and nothing is stored; nothing a client sends ends the daemon.
"""
