"""svir's codec: bytes in, events out; request in, bytes out. No I/O."""
