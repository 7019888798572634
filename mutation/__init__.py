"""Mutation testing of the codec: change the code a little, and see whether a test notices (docs/mutation.md)."""
