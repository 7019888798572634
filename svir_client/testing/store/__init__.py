"""The contract of a store of sessions as a test that anyone can run on their own (50, Session)."""

from svir_client.testing.store.run import STORE_CLAUSES, check_store

__all__ = ("STORE_CLAUSES", "check_store")
