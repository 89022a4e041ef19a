"""The broker: it owns the store, decides in batches, and tells workers what to do."""
