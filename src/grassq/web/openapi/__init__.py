"""The HTTP API described: the OpenAPI document, made of the table of routes.

Enter at `document.py`, which makes the document of what each `Route` says of itself; `types.py` makes the schemas of
the types, with the comments of their fields; `serve.py` answers GET /openapi.json, `page.py` is for people.
`docs/generate.py` writes both into docs/reference, and the types of the web page are made of that file.

May import what `grassq.web` may, and knows no handler.

When a route has no description, it is not in the document, and a test fails. When the sources are not beside the
program, the fields have no meanings, and the document is the same otherwise.
"""
