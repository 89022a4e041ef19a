"""The front door: HTTP on the user's own socket."""
