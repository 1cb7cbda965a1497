"""The engine that trains R runs at once, losses, scores, checkpoints.

May not be here: files of data sets, tables, pictures.
"""
