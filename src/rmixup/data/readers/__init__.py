"""Readers: one file a source, each turns what its owners distribute into a `Networks`.

May not be here: repair (asked for, in `doctor`), splits, anything fitted over subjects.
"""
