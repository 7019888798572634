"""Measurements that print ratios of one run; nothing here is needed to use svir."""
