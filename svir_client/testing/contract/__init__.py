"""The contract of a transport as a test that anyone can run on their own (30 sections 1 and 7)."""

from svir_client.testing.contract.run import CLAUSES, ContractError, Violation, check_transport

__all__ = ("CLAUSES", "ContractError", "Violation", "check_transport")
