"""Conformance: cases as data, and the runner that holds svir to them."""
